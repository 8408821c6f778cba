"""From what a user names to runs ready to be stored: read, cut, redacted, with their transitions.

All of it is a function of the sources alone, so files are prepared in processes of their own where that pays (see
`hepm.ingest.workers`), while this one stores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from typing import Any, Final, TypeAlias, cast

from hepm.errors import InputError
from hepm.graph.delta import Run
from hepm.graph.store import no_text
from hepm.ingest.digest import content_digest
from hepm.ingest.hepm import write_run
from hepm.ingest.objects import is_message, is_record
from hepm.ingest.reading import read_runs, read_value
from hepm.ingest.records import ReadOptions
from hepm.ingest.redact import Redactor
from hepm.ingest.rejection import Rejection
from hepm.ingest.shorten import shorten
from hepm.ingest.sources import regular_files
from hepm.ingest.transitions import transitions
from hepm.ingest.trust import set_label_aside
from hepm.ingest.workers import prepare_in_workers, workers_for
from hepm.types import OWN_STATES, Outcome, Tool, ToolName, Trajectory

Source: TypeAlias = str | PathLike[str] | Trajectory | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A file, folder, glob, archive or "-"; a run itself; or a record or all that a file may hold, in Python's values."""

Prepared: TypeAlias = tuple[str | None, Run | Rejection]
"""The format that a run was read in, and the run; None where nothing could be read."""

FROM_PYTHON: Final = "python"

MAX_EDGES: Final = 1 << 16
"""Distinct pairs of tools in one run. Real runs have some tens; a made-up one could fill a store by itself."""


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How runs are prepared before they are stored.

    Attributes:
        redactor: Takes secrets out of every text; None stores texts as they are.
        assume_success: Take runs of unknown outcome for successes (gold sequences, logs of a system that works).
        processes: How many read files side by side; None takes as many as pay, 1 reads everything in this one.
        trusted: Tells whether a run, as it was read, may count; None trusts all. One that may not is kept without its
            label, which goes into a tag: nothing is suggested or distilled from it. Where it was stored with a label
            before, what it taught is taken back; stored again as trusted, it counts. `hepm.ingest.trust.TrustByTags`
            tells by tags, and files are then still read by several processes.
        own_states: Keep only the agents' own summaries as states, as H-EPM does; else an extract of the conversation
            stands in where an agent wrote none. A run keeps to how it was first stored; a tag says so.
    """

    redactor: Redactor | None = field(default_factory=Redactor)
    assume_success: bool = False
    processes: int | None = None
    trusted: Callable[[Trajectory], bool] | None = None
    own_states: bool = False


def source_of(
    source: Source | Iterable[Source] | None,
    messages: Sequence[object] | None,
    about: Mapping[str, object],
    reading: ReadOptions,
) -> Source | Iterable[Source]:
    """What is to be ingested: `source`, or the run that `messages` are.

    Args:
        about: What else is told of that run, under the keys of a chat record; None and "" tell nothing.
    Raises:
        InputError: there are both or none of the two, or the messages make no run.
    """
    about = {key: value for key, value in about.items() if value is not None and value != ""}
    if messages is None:
        if source is None:
            raise InputError("there is nothing to ingest: give files, runs or records, or messages=[...]")
        if about:
            raise InputError(f"{', '.join(about)} describe the run of messages=: each record of a source tells its own")
        return source
    if source is not None:
        raise InputError("a source and messages= are two things to ingest: call ingest for each")
    record = {"messages": messages, **about}
    _, run = next(read_value(record, 1, ReadOptions("chat", ids=reading.ids)))
    if isinstance(run, Rejection):
        raise InputError(f"these messages make no run: {run.reason}")
    return run


def prepare(source: Source | Iterable[Source], reading: ReadOptions, options: IngestOptions) -> Iterator[Prepared]:
    """Every run of the sources, in a fixed order; lazy, but for several processes reading a few files ahead."""
    sources = cast("Iterable[Source]", [source] if isinstance(source, (str, PathLike)) or is_record(source) else source)
    if isinstance(sources, list | tuple) and any(map(is_message, sources[:1])):
        raise InputError(
            "these are the messages of one run: pass them as ingest(messages=[...]), or each run as a list"
        )
    files = regular_files(sources) if isinstance(sources, list | tuple) else None
    if files is not None and (count := workers_for(files, options)) > 0:
        yield from prepare_in_workers(files, reading, options, count)
    else:
        yield from prepare_here(sources, reading, options)


def prepare_here(sources: Iterable[Source], reading: ReadOptions, options: IngestOptions) -> Iterator[Prepared]:
    """The same in this process: one run at a time, so that what waits to be stored is cut already."""
    preparer = _Preparer(options)
    for number, source in enumerate(sources, 1):
        if isinstance(source, Trajectory):
            yield preparer.prepare(FROM_PYTHON, source)
            continue
        named = isinstance(source, (str, PathLike))
        for name, item in read_runs([source], reading) if named else read_value(source, number, reading):
            yield (None, item) if isinstance(item, Rejection) else preparer.prepare(name, item)


class _Preparer:
    def __init__(self, options: IngestOptions) -> None:
        self._options = options
        self._clean: dict[ToolName, tuple[Tool, Tool]] = {}
        self._lists: dict[tuple[int, ...], tuple[Tool, ...]] = {}
        self._encoded: tuple[Tool, ...] = ()

    def prepare(self, name: str, trajectory: Trajectory) -> Prepared:
        try:
            return name, self._run(trajectory)
        except UnicodeEncodeError as error:
            return name, Rejection(trajectory.source, trajectory.id, str(no_text(error)))
        except (ValueError, RecursionError) as error:
            # What readers let through from Python or another version's export, and JSON cannot hold.
            redactor = self._options.redactor
            known = trajectory.id if redactor is None else redactor.without_secrets(trajectory.id)
            return name, Rejection(trajectory.source, known, f"it cannot be stored: {error}")

    def _run(self, trajectory: Trajectory) -> Run:
        trusted = trajectory.trusted and (self._options.trusted is None or self._options.trusted(trajectory))
        if self._options.assume_success and trajectory.outcome.success is None and trusted:
            trajectory = replace(trajectory, outcome=Outcome(trajectory.outcome.reward, True))
        trajectory = shorten(trajectory)
        if self._options.redactor is not None:
            trajectory = self._options.redactor(trajectory)
            if trajectory.tools:
                trajectory = replace(trajectory, tools=self._tools(trajectory.tools, self._options.redactor))
        if not trusted:
            trajectory = set_label_aside(trajectory)
        if self._options.own_states:
            trajectory = replace(trajectory, tags={**trajectory.tags, OWN_STATES: ""})
        # Descriptions of tools are kept once a namespace, not with each run.
        record = write_run(replace(trajectory, tools=()) if trajectory.tools else trajectory)
        record.encode()  # half of a surrogate pair shows here, and in what is told of tools
        if trajectory.tools is not self._encoded:
            json.dumps([asdict(tool) for tool in trajectory.tools], ensure_ascii=False).encode()
            self._encoded = trajectory.tools
        run = Run.of(trajectory, transitions(trajectory), digest=content_digest(trajectory), record=record)
        if sum(len(t.sources) * len(t.targets) for t in run.transitions) > MAX_EDGES < len(run.edges):
            raise ValueError(f"its parallel calls make {len(run.edges):,} pairs of tools; {MAX_EDGES:,} are the limit")
        return run

    def _tools(self, told: tuple[Tool, ...], redactor: Redactor) -> tuple[Tool, ...]:
        """The tools without secrets. Runs tell the same of them again and again: equal lists become one."""
        clean: list[Tool] = []
        for tool in told:
            known = self._clean.get(tool.name)
            if known is None or known[0] != tool:
                known = self._clean[tool.name] = tool, redactor.tool(tool)
                self._lists.clear()
            clean.append(known[1])
        return self._lists.setdefault(tuple(map(id, clean)), tuple(clean))
