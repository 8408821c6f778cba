"""Is the graph what its records say? Everything that can be made again can be compared with what is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Literal, TypeAlias, cast

from hepm.graph.delta import Delta, Run, sequence_of
from hepm.graph.lessons.changes import recount
from hepm.graph.lessons.rows import UNUSED
from hepm.graph.namespace import NamespaceMirror
from hepm.graph.store import Replay, Store
from hepm.types import ToolName
from hepm.wording import count_of

Values: TypeAlias = tuple[object, ...]

_BATCH = 500
_SHOWN = 3
_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be.

    Attributes:
        repair: What mends it; "" where nothing can.
    """

    what: str
    repair: Literal["rebuild", "reembed", ""] = "rebuild"


def examine(store: Store, mirror: NamespaceMirror, *, namespace: str, replay: Replay) -> list[Finding]:
    """Compare a namespace with its own records; [] when all is well. Reads every record: O(stored calls)."""
    found = [Finding(sentence) for sentence in store.orphans(namespace=namespace)]
    fresh = _recount(store, namespace, replay)
    found.extend(fresh.damaged)
    found.extend(_EDGES.compare(_edges_of(fresh.counts), _edges_in(store, namespace)))
    found.extend(_TOOLS.compare(_tools_of(fresh.counts), _tools_in(store, namespace)))
    found.extend(_STATES.compare(_states_of(fresh.counts, store.header.states_per_move), _states_in(store, namespace)))
    found.extend(_RUNS.compare(fresh.runs, _runs_in(store, namespace)))
    missing = sum(1 for _ in store.iter_states(namespace=namespace, without_vector=True))
    found.extend(_without_vector(missing, "state", "compared"))
    found.extend(_without_vector(len(store.runs_without_vector(namespace=namespace)), "run", "compared"))
    found.extend(_lesson_findings(store, namespace))
    found.extend(_mirror_findings(store, mirror, namespace))
    return found


@dataclass(slots=True)
class _Recount:
    """What the records say."""

    counts: Delta = field(default_factory=Delta)
    runs: dict[object, Values] = field(default_factory=dict[object, Values])
    damaged: list[Finding] = field(default_factory=list[Finding])


def _recount(store: Store, namespace: str, replay: Replay) -> _Recount:
    fresh = _Recount()
    records = ((name, record) for name, record, counted in store.iter_records(namespace=namespace) if counted)
    while batch := list(islice(records, _BATCH)):
        try:
            runs, _ = replay([record for _, record in batch])
        except ValueError:
            runs = [run for name, record in batch for run in _replay_one(name, record, replay, fresh.damaged)]
        fresh.counts = fresh.counts.merge(Delta.of(runs))
        fresh.runs.update((run.id, (run.success, sequence_of(run))) for run in runs if run.success is not None)
    return fresh


def _replay_one(name: str, record: str, replay: Replay, damaged: list[Finding]) -> Sequence[Run]:
    try:
        return replay([record])[0]
    except ValueError as error:
        damaged.append(
            Finding(
                f"the record of the run {name!r} cannot be read ({error}); `hepm forget --trajectory` removes it", ""
            )
        )
        return ()


def _edges_of(delta: Delta) -> dict[object, Values]:
    return {
        edge: (counts.support, counts.inverse_steps, counts.failures, counts.unlabelled, len(delta.passages[edge]))
        for edge, counts in delta.edges.items()
    }


def _edges_in(store: Store, namespace: str) -> dict[object, Values]:
    took = cast("Mapping[object, int]", store.passages(namespace=namespace))
    rows = store.edges(namespace=namespace)
    return {(row[0], row[1]): (*row[2:], took.get((row[0], row[1]), 0)) for row in rows}


def _tools_of(delta: Delta) -> dict[object, Values]:
    return {name: (tool.calls, tool.errors) for name, tool in delta.tools.items() if tool.calls}


def _tools_in(store: Store, namespace: str) -> dict[object, Values]:
    return {row.name: (row.calls, row.errors) for row in store.tools(namespace=namespace) if row.calls}


def _states_of(delta: Delta, bound: int) -> dict[object, Values]:
    kept: dict[object, Values] = {}
    for move, states in delta.states.items():
        latest = sorted(states.items(), key=lambda pair: (pair[1].seen, pair[0]))[-bound:]
        kept.update({(*move, state.summary): (state.count,) for _, state in latest})
    return kept


def _states_in(store: Store, namespace: str) -> dict[object, Values]:
    return {
        (row.sources, row.targets, row.success, row.summary): (row.count,)
        for row in store.iter_states(namespace=namespace)
    }


def _runs_in(store: Store, namespace: str) -> dict[object, Values]:
    return {run.id: (run.success, run.sequence) for run in store.runs_after(0, namespace=namespace)}


def _lesson_findings(store: Store, namespace: str) -> Iterator[Finding]:
    lessons = store.lessons.list(namespace=namespace)
    counted = recount(store.lessons.showings(namespace=namespace))
    wrong = [one.row.id for one in lessons if counted.get(one.row.id, UNUSED).plus(one.row.prior) != one.uses]
    if wrong:
        yield Finding(f"the uses of {len(wrong)} lessons differ from what was shown ({', '.join(wrong[:_SHOWN])})")
    yield from _without_vector(sum(one.vector is None for one in lessons), "lesson", "found")


def _without_vector(number: int, what: str, lost: str) -> Iterator[Finding]:
    if number:
        have, are = ("has", "is") if number == 1 else ("have", "are")
        yield Finding(f"{count_of(number, what)} {have} no vector and {are} not {lost}", "reembed")


@dataclass(frozen=True, slots=True)
class _Counted:
    """What is compared with a recount: how it is called, what of it, and how one is told from another."""

    what: str
    fields: tuple[str, ...]
    label: Callable[[Any], str] = str

    def compare(self, expected: Mapping[object, Values], stored: Mapping[object, Values]) -> Iterator[Finding]:
        """One finding for all that differ, with the first few."""
        wrong = sorted((k for k in expected.keys() | stored.keys() if expected.get(k) != stored.get(k)), key=str)
        if wrong:
            shown = "; ".join(self._difference(key, expected.get(key), stored.get(key)) for key in wrong[:_SHOWN])
            number = count_of(len(wrong), self.what)
            yield Finding(f"{number} {'differs' if len(wrong) == 1 else 'differ'} from the stored records: {shown}")

    def _difference(self, key: object, expected: Values | None, stored: Values | None) -> str:
        if expected is None or stored is None:
            return f"{self.label(key)} {'is missing' if stored is None else 'is in no record'}"
        differ = [
            f"{name} {_short(have)} for {_short(want)}"
            for name, want, have in zip(self.fields, expected, stored, strict=True)
            if want != have
        ]
        return f"{self.label(key)} has {', '.join(differ)}"


def _state_label(key: tuple[tuple[ToolName, ...], tuple[ToolName, ...], bool, str]) -> str:
    sources, targets, success, summary = key
    how = "" if success else " in failed runs"
    return f"{', '.join(sources)} -> {', '.join(targets)}{how}, {_short(summary)!r},"


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"


_EDGES: Final = _Counted(
    "edge",
    ("successes", "inverse steps", "failures", "unlabelled", "known runs"),
    lambda edge: f"{edge[0]} -> {edge[1]}",
)
_TOOLS: Final = _Counted("tool", ("calls", "errors"))
_STATES: Final = _Counted("state", ("count",), _state_label)
_RUNS: Final = _Counted("run", ("success", "steps"), repr)


def _mirror_findings(store: Store, mirror: NamespaceMirror, namespace: str) -> Iterator[Finding]:
    apart = 0
    for source in mirror.sources():
        following = mirror.successors(source)
        if following and abs(sum(tool.weight for tool in following) - 1.0) > 1e-9:
            yield Finding(f"the weights after {source!r} do not sum to 1")
        mirrored = {row.tool: (row.support, row.failures) for row in following}
        stored = {row[1]: (row[2], row[4]) for row in store.edges(namespace=namespace, sources=[source]) if row[2]}
        apart += mirrored != stored
    if apart:
        yield Finding(f"the mirror differs from the store after {apart} tools")
