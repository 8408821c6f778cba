"""From sources to runs ready to be stored: read, cut, redacted, with their transitions."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from hepm.errors import InputError
from hepm.graph.delta import RunRecord
from hepm.graph.rows import Aliases, no_text
from hepm.graph.tool_life import with_own_names
from hepm.ingest.facts import shorter_result
from hepm.ingest.files import regular_files
from hepm.ingest.formats.hepm import write_run
from hepm.ingest.outcome import OUTCOME_BY_DEFAULT, check_rules, verdict_of
from hepm.ingest.reading import read_runs, read_value
from hepm.ingest.records import (
    MAX_LABEL,
    MAX_NAME,
    ReadOptions,
    RecordError,
    Rejection,
    content_digest,
    is_record,
    mapped,
    with_texts,
)
from hepm.ingest.redact import Redactor
from hepm.ingest.side_by_side import answers_in_order
from hepm.ingest.tools import Tools
from hepm.ingest.transitions import transitions, without_hints
from hepm.text import cut_off
from hepm.types import DISTRUSTED, OWN_STATES, Outcome, Trajectory, Turn

RunSource: TypeAlias = str | PathLike[str] | Trajectory | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A file, folder, glob, tar archive or "-"; a run itself; or a record or all that a file may hold, as Python values."""


Prepared: TypeAlias = tuple[str | None, RunRecord | Rejection]
"""The format that a run was read in, and the run; None if nothing could be read."""

MAX_EDGES: Final = 1 << 16
"""Most distinct pairs of tools in one run. Real runs have some tens; a made-up one could fill a store by itself."""

WORTH_BYTES: Final = 2_000_000
"""Files together smaller than this are read before a process has started."""
PART_BYTES: Final = 1 << 20
"""Of the JSON that a process is given at a time."""
MOST_BYTES: Final = 64 << 20
"""Of a file that a process may read: it gives all of its runs back at once."""


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How runs are prepared before they are stored.

    Attributes:
        redactor: Removes secrets from every text; None stores texts as they are.
        assume_success: Take runs of unknown outcome for successes (gold sequences, logs of a system that works).
        processes: How many processes read files, on Linux, where together these are worth it.
        distrusted: Tags of runs that may not count: "attack" for any value of it, or "split=test". Such a run is stored
            without its label, which goes into a tag: nothing is suggested or distilled from it. If it was stored with
            a label before, that is retracted; stored again as trusted, it counts.
        own_states: Keep only the agents' own summaries as states, as H-EPM does; else an extract of the conversation
            replaces a missing one. A run keeps to how it was first stored; a tag records it.
        outcome_by: Rules that label runs without an outcome (see `hepm.ingest.outcome.RULES`); the first one that
            answers counts. They read results uncut, and a tag names the rule.
        vectors: Whether state summaries get vectors now; `Memory.reembed` adds missing ones later.
    """

    redactor: Redactor | None = field(default_factory=Redactor)
    assume_success: bool = False
    processes: int = 1
    distrusted: tuple[str, ...] = ()
    own_states: bool = False
    outcome_by: tuple[str, ...] = OUTCOME_BY_DEFAULT
    vectors: bool = True

    def __post_init__(self) -> None:
        check_rules(self.outcome_by)
        for text in self.distrusted:
            if not text.partition("=")[0].strip():
                raise InputError(f"{text!r} names no tag of runs to distrust: give KEY, or KEY=VALUE.")

    def trusts(self, run: Trajectory) -> bool:
        """Whether a run may count."""
        for text in self.distrusted:
            key, equals, value = text.partition("=")
            # "split=" is for runs with an empty value, "split" for all that have the tag.
            if key.strip() in run.tags and (not equals or run.tags[key.strip()] == value):
                return False
        return run.trusted


def prepare(
    source: RunSource | Iterable[RunSource], reading: ReadOptions, options: IngestOptions
) -> Iterator[Prepared]:
    """Every run of the sources, in a fixed order and one at a time.

    Raises:
        InputError: `source` is a list of messages; else as `read_runs`.
    """
    sources = _listed(source)
    if isinstance(sources, list | tuple) and any(map(_is_message, sources[:1])):
        raise InputError(
            "these are the messages of one run: call ingest(from_messages(...)), or pass each run as a list"
        )
    parts = _parts(sources, options)
    if not parts:
        yield from _prepared(sources, reading, options)
        return
    processes = min(options.processes, 4)  # storing keeps up with about so many
    for items in answers_in_order(lambda part: [*_prepared(part, reading, options)], parts, processes=processes):
        yield from items


def _parts(sources: Iterable[RunSource], options: IngestOptions) -> list[list[str]]:
    """The files behind the sources, some at a time, for several processes; none if this one is to read them."""
    # What a function of the user's notes must be noted here.
    hook = options.redactor and options.redactor.hook
    if options.processes < 2 or hook:
        return []
    parts: dict[int, list[str]] = {}
    total = 0
    for file in _regular(sources) or ():
        size = file.stat().st_size
        if file.suffix not in (".json", ".jsonl", ".ndjson"):
            size *= 16  # a compressed byte of recorded runs holds about so many
        if size > MOST_BYTES:
            return []
        parts.setdefault(total // PART_BYTES, []).append(str(file))
        total += size
    return [*parts.values()] if total >= WORTH_BYTES else []


def _prepared(sources: Iterable[RunSource], reading: ReadOptions, options: IngestOptions) -> Iterator[Prepared]:
    preparer = _Preparer(options)
    for number, one in enumerate(sources, 1):
        if isinstance(one, Trajectory):
            yield preparer.prepare("python", one)
            continue
        if isinstance(one, str | PathLike):
            items = read_runs([one], reading)
        else:
            items = read_value(one, number, reading)
        for format_name, item in items:
            if isinstance(item, Rejection):
                yield None, item
            else:
                yield preparer.prepare(format_name, item)


def files_of(source: RunSource | Iterable[RunSource]) -> list[Path] | None:
    """The files that are to be read; None if anything else is, too."""
    return _regular(_listed(source))


def _regular(sources: Iterable[RunSource]) -> list[Path] | None:
    # An iterator can be gone through only once.
    return regular_files(sources) if isinstance(sources, list | tuple) else None


def _listed(source: RunSource | Iterable[RunSource]) -> Iterable[RunSource]:
    if isinstance(source, (str, PathLike)) or is_record(source):
        return [cast("RunSource", source)]
    return cast("Iterable[RunSource]", source)


def _is_message(value: object) -> bool:
    if isinstance(value, Mapping):
        record = cast("Mapping[str, object]", value)
        return type(record.get("role")) is str and "messages" not in record
    return is_record(value) and type(getattr(value, "role", None)) is str


def run_of(trajectory: Trajectory, record: str, *, aliases: Aliases | None = None) -> RunRecord:
    """A trajectory as stores take it, with its `record` and the digest of its content.

    `aliases` are other names of tools, which become the tools' own.
    """
    digest = content_digest(trajectory)
    trajectory = with_own_names(trajectory, aliases or {})
    return RunRecord.of(trajectory, transitions(trajectory), digest=digest, record=record)


class _Preparer:
    def __init__(self, options: IngestOptions) -> None:
        self._options = options
        self._listed: Tools = ()  # the tools of the latest run that has any, and the same without secrets
        self._clean: Tools = ()

    def prepare(self, format_name: str, trajectory: Trajectory) -> Prepared:
        try:
            return format_name, self._run(trajectory)
        except (RecordError, ValueError, RecursionError) as error:
            # What readers let through from Python or another version's export, and JSON cannot hold.
            is_text = isinstance(error, UnicodeEncodeError)
            reason = str(no_text(error)) if is_text else f"it cannot be stored: {error}"
            shown_id = trajectory.id[:MAX_LABEL]
            if self._options.redactor is not None:
                shown_id = self._options.redactor.without_secrets(shown_id)
            return format_name, Rejection(trajectory.source, shown_id, reason)

    def _run(self, trajectory: Trajectory) -> RunRecord:
        _check_names(trajectory)
        options = self._options
        trusted = options.trusts(trajectory)
        if (trajectory.ended_at or 0) > time.time():
            trajectory = replace(trajectory, ended_at=time.time())  # else it would be the latest one for ever
        # Rules read the whole results, so before they are cut. A run that is not trusted gets no label to take away.
        if options.assume_success and trajectory.outcome == Outcome() and trusted:
            trajectory = replace(trajectory, outcome=Outcome(None, True))
        elif trusted:
            trajectory = verdict_of(trajectory, options.outcome_by).labelled
        trajectory = shorten(trajectory)
        if options.redactor is not None:
            trajectory = options.redactor(trajectory)
        if trajectory.tools:
            trajectory = replace(trajectory, tools=self._clean_tools(trajectory.tools))
        if not trusted:
            trajectory = exclude(trajectory)
        if options.own_states:
            trajectory = replace(trajectory, tags={**trajectory.tags, OWN_STATES: ""})
        # Descriptions of tools are kept once a namespace, not with each run.
        record = write_run(replace(trajectory, tools=()))
        record.encode()  # half of a surrogate pair shows here, and among the tools
        run = run_of(trajectory, record)
        # Pairs are cheap to count with repetitions; only where those are too many are the distinct ones counted.
        pair_count = sum([len(transition.sources) * len(transition.targets) for transition in run.transitions])
        if pair_count > MAX_EDGES and len(run.edges) > MAX_EDGES:
            raise ValueError(f"its parallel calls make {len(run.edges):,} pairs of tools; {MAX_EDGES:,} are the limit")
        return run

    def _clean_tools(self, tools: Tools) -> Tools:
        """The tools without secrets, and without those whose names are too long to be called."""
        # Runs list the same ones again and again.
        if tools is not self._listed:
            clean = [tool for tool in tools if len(tool.name) <= MAX_NAME]
            if self._options.redactor is not None:
                clean = list(map(self._options.redactor.tool, clean))
            # Only for its errors: half a surrogate pair, or what JSON cannot hold.
            specs = [(tool.name, tool.description, tool.parameters) for tool in clean]
            json.dumps(specs, ensure_ascii=False, default=dict).encode()
            self._listed = tools
            self._clean = tuple(clean)
        return self._clean


def _check_names(run: Trajectory) -> None:
    """Raise a ValueError for a name that is no name: it would stand in every prompt and on every page."""
    for what in ("id", "user", "environment", "model"):
        length = len(getattr(run, what))
        if length > MAX_LABEL:
            raise ValueError(f"its {what} has {length:,} characters; {MAX_LABEL:,} are the limit")
    for call in run.calls(user_side=True):
        if len(call.name) > MAX_NAME:
            raise ValueError(f"the name of a tool has {len(call.name):,} characters; {MAX_NAME} are the limit")


def exclude(run: Trajectory) -> Trajectory:
    """The run without its outcome and its tools, so that it does not count; a tag keeps the outcome, as JSON."""
    # {"reward": 1.0, "success": true}, without what is unknown.
    label = json.dumps({key: value for key, value in asdict(run.outcome).items() if value is not None})
    # A run that was excluded before keeps the label of then: its outcome was taken away.
    if run.outcome == Outcome() and DISTRUSTED in run.tags:
        label = run.tags[DISTRUSTED]
    return replace(run, outcome=Outcome(), tags={**run.tags, DISTRUSTED: label}, tools=())


def shorten(trajectory: Trajectory) -> Trajectory:
    """The trajectory with every text cut to its length, the mark included; itself if nothing was too long.

    Of system prompts 300 characters are kept, of other messages 1,000, of texts in arguments 500.
    """
    return with_texts(trajectory, _shorter_texts, shorter_result, lambda arguments: mapped(arguments, _shorter))


def _shorter_texts(turn: Turn) -> tuple[str, str]:
    limit = 300 if turn.role == "system" else 1_000
    if len(turn.text) <= limit:
        return turn.text, turn.read
    # Hints go first, or a long block would leave no room for the rest.
    return cut_off(without_hints(turn.text), limit), turn.read


def _shorter(value: Any) -> Any:
    """A part of a call's arguments with every text cut."""
    if isinstance(value, str):
        return cut_off(value, 500)
    if isinstance(value, float) and not math.isfinite(value):  # of a run made by hand: JSON has no such number
        return str(value)
    return value
