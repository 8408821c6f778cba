"""From sources to runs ready to be stored: read, cut, redacted, with their transitions.

Child processes prepare files while this one stores, since decoding JSON holds Python's lock. They are plain children
over pipes: `multiprocessing` and `ProcessPoolExecutor` run the user's script again on starting, and one without an
`if __name__ == "__main__"` would ingest for ever.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from operator import is_
from os import PathLike
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Final, Self, TypeAlias, cast

from hepm.errors import InputError
from hepm.graph.delta import Run
from hepm.graph.rows import Aliases, no_text
from hepm.graph.tool_life import with_own_names
from hepm.ingest import fields
from hepm.ingest.hepm import write_run
from hepm.ingest.outcome import OUTCOME_BY_DEFAULT, check_rules, verdict_of
from hepm.ingest.reading import read_runs, read_value
from hepm.ingest.records import ReadOptions, Rejection, content_digest, is_record
from hepm.ingest.redact import Redactor
from hepm.ingest.sources import regular_files
from hepm.ingest.transitions import transitions, without_hints
from hepm.text import CUT
from hepm.types import DISTRUSTED, OWN_STATES, Outcome, Tool, ToolCall, Trajectory, Turn

Source: TypeAlias = str | PathLike[str] | Trajectory | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A file, folder, glob, archive or "-"; a run itself; or a record or all that a file may hold, in Python's values."""

Prepared: TypeAlias = tuple[str | None, Run | Rejection]
"""The format that a run was read in, and the run; None if nothing could be read."""

MAX_EDGES: Final = 1 << 16
"""Most distinct pairs of tools in one run. Real runs have some tens; a made-up one could fill a store by itself."""

SYSTEM_CHARS: Final = 300
TEXT_CHARS: Final = 1000
RESULT_CHARS: Final = 600
ARGUMENT_CHARS: Final = 500
"""Lengths that texts are cut to: of system prompts, other messages, results, and texts in arguments."""

MOST_WORKERS: Final = 4
"""Storing keeps up with about so many."""

WORTH_BYTES: Final = 2_000_000
"""Files together smaller than this are read before the processes have started."""

_REMEMBERED_LISTS: Final = 1000
_FRAME_RUNS: Final = 256
_FRAME_CHARS: Final = 2_000_000
_WAITING_FRAMES: Final = 8
"""Frames of one process that may wait for their turn."""

# Given as code, so that the child finds hepm where this process found it.
_START: Final = "import sys,json;sys.path[:]=json.loads(sys.argv[1]);from hepm.ingest.prepare import serve;serve()"


@dataclass(frozen=True, slots=True)
class TrustByTags:
    """Trusts every run but those with one of some tags. Unlike a function, worker processes can use it.

    Attributes:
        distrusted: Keys of tags, each with a value; None for any.
    """

    distrusted: tuple[tuple[str, str | None], ...]

    @classmethod
    def but(cls, tags: Iterable[str]) -> Self:
        """From texts such as "attack", for any value of the tag, or "split=test"; else InputError."""
        found = [text.partition("=") for text in tags]
        if nameless := ["".join(parts) for parts in found if not parts[0].strip()]:
            raise InputError(f"{nameless[0]!r} names no tag of runs to distrust: give KEY, or KEY=VALUE.")
        return cls(tuple((key.strip(), value if equals else None) for key, equals, value in found))

    def __call__(self, run: Trajectory) -> bool:
        """Whether the run may count."""
        return not any(key in run.tags and value in (None, run.tags[key]) for key, value in self.distrusted)


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How runs are prepared before they are stored.

    Attributes:
        redactor: Removes secrets from every text; None stores texts as they are.
        assume_success: Take runs of unknown outcome for successes (gold sequences, logs of a system that works).
        processes: Number of processes that read files; None for as many as are useful, 1 for this one alone.
        trusted: Whether a run, as it was read, may count; None trusts all. A run that may not is stored without its
            label, which goes into a tag: nothing is suggested or distilled from it. If it was stored with a label
            before, that is retracted; stored again as trusted, it counts. Worker processes need `TrustByTags`.
        own_states: Keep only the agents' own summaries as states, as H-EPM does; else an extract of the conversation
            replaces a missing one. A run keeps to how it was first stored; a tag records it.
        outcome_by: Rules that label runs without an outcome (see `hepm.ingest.outcome.RULES`); the first one that
            answers counts. They read results uncut, and a tag names the rule.
    """

    redactor: Redactor | None = field(default_factory=Redactor)
    assume_success: bool = False
    processes: int | None = None
    trusted: Callable[[Trajectory], bool] | None = None
    own_states: bool = False
    outcome_by: tuple[str, ...] = OUTCOME_BY_DEFAULT

    def __post_init__(self) -> None:
        check_rules(self.outcome_by)


def source_of(
    source: Source | Iterable[Source] | None,
    messages: Sequence[object] | None,
    about: Mapping[str, object],
    reading: ReadOptions,
) -> Source | Iterable[Source]:
    """What to ingest: `source`, or the run of `messages` with the keys `about` of a chat record; else InputError."""
    about = {key: value for key, value in about.items() if value is not None and value != ""}
    if messages is None:
        if source is None:
            raise InputError("there is nothing to ingest: give files, runs or records, or messages=[...]")
        if about:
            raise InputError(f"{', '.join(about)} describe the run of messages=: each record of a source has its own")
        return source
    if source is not None:
        raise InputError("a source and messages= are two things to ingest: call ingest for each")
    record = {"messages": messages, **about}
    _, run = next(read_value(record, 1, ReadOptions("chat", ids=reading.ids)))
    if isinstance(run, Rejection):
        raise InputError(f"these messages make no run: {run.reason}")
    return run


def prepare(source: Source | Iterable[Source], reading: ReadOptions, options: IngestOptions) -> Iterator[Prepared]:
    """Every run of the sources, in a fixed order; lazy, but several processes read ahead.

    InputError: `source` is a list of messages, or a process ended in the middle of a file; else as `read_runs`.
    """
    sources = _listed(source)
    if isinstance(sources, list | tuple) and any(map(_is_message, sources[:1])):
        raise InputError(
            "these are the messages of one run: pass them as ingest(messages=[...]), or each run as a list"
        )
    files = files_of(sources)
    if files is not None and (count := workers_for(files, options)):
        yield from _prepare_in_processes(files, reading, options, count)
    else:
        yield from prepare_here(sources, reading, options)


def files_of(source: Source | Iterable[Source]) -> list[Path] | None:
    """The files that are to be read; None if anything else is, too."""
    sources = _listed(source)
    return regular_files(sources) if isinstance(sources, list | tuple) else None


def _listed(source: Source | Iterable[Source]) -> Iterable[Source]:
    return cast("Iterable[Source]", [source] if isinstance(source, (str, PathLike)) or is_record(source) else source)


def _is_message(value: object) -> bool:
    if isinstance(value, Mapping):
        record = cast("Mapping[str, object]", value)
        return type(record.get("role")) is str and "messages" not in record
    return is_record(value) and type(getattr(value, "role", None)) is str


def prepare_here(sources: Iterable[Source], reading: ReadOptions, options: IngestOptions) -> Iterator[Prepared]:
    """Every run of the sources, in this process and one at a time."""
    preparer = _Preparer(options)
    for number, source in enumerate(sources, 1):
        if isinstance(source, Trajectory):
            yield preparer.prepare("python", source)
            continue
        named = isinstance(source, str | PathLike)
        for name, item in read_runs([source], reading) if named else read_value(source, number, reading):
            yield (None, item) if isinstance(item, Rejection) else preparer.prepare(name, item)


def run_of(trajectory: Trajectory, record: str, digest: str | None = None, *, aliases: Aliases | None = None) -> Run:
    """A trajectory as stores take it, with its `record` and the digest of its content.

    `aliases` are other names of tools, which become the tools' own.
    """
    digest = content_digest(trajectory) if digest is None else digest
    trajectory = with_own_names(trajectory, aliases or {})
    return Run.of(trajectory, transitions(trajectory), digest=digest, record=record)


class _Preparer:
    def __init__(self, options: IngestOptions) -> None:
        self._options = options
        self._lists: dict[tuple[int, ...], tuple[tuple[Tool, ...], tuple[Tool, ...]]] = {}

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
        options = self._options
        trusted = trajectory.trusted and (options.trusted is None or options.trusted(trajectory))
        if options.assume_success and trajectory.outcome.success is None and trusted:
            trajectory = replace(trajectory, outcome=Outcome(trajectory.outcome.reward, True))
        elif options.outcome_by and trusted:
            found = verdict_of(trajectory, options.outcome_by)
            trajectory = trajectory if found.success is None else found.labelled
        trajectory = shorten(trajectory)
        if options.redactor is not None:
            trajectory = options.redactor(trajectory)
        if trajectory.tools:
            trajectory = replace(trajectory, tools=self._tools(trajectory.tools))
        if not trusted:
            trajectory = exclude(trajectory)
        if options.own_states:
            trajectory = replace(trajectory, tags={**trajectory.tags, OWN_STATES: ""})
        # Descriptions of tools are kept once a namespace, not with each run.
        record = write_run(replace(trajectory, tools=()) if trajectory.tools else trajectory)
        record.encode()  # half of a surrogate pair shows here, and among the tools
        run = run_of(trajectory, record)
        if sum(len(t.sources) * len(t.targets) for t in run.transitions) > MAX_EDGES < len(run.edges):
            raise ValueError(f"its parallel calls make {len(run.edges):,} pairs of tools; {MAX_EDGES:,} are the limit")
        return run

    def _tools(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """The tools without secrets. Runs list the same ones again and again, so each list is cleaned once."""
        key = tuple(map(id, tools))
        if key not in self._lists:
            if len(self._lists) > _REMEMBERED_LISTS:
                self._lists.clear()
            redactor = self._options.redactor
            clean = tools if redactor is None else tuple(map(redactor.tool, tools))
            specs = [(tool.name, tool.description, tool.parameters) for tool in clean]
            json.dumps(specs, ensure_ascii=False, default=dict).encode()
            self._lists[key] = tools, clean  # with the tools, so that no other ones get their ids
        return self._lists[key][1]


def exclude(run: Trajectory) -> Trajectory:
    """The run without its outcome and its tools, so that it does not count; a tag keeps the outcome, as JSON."""
    label = json.dumps({name: value for name, value in asdict(run.outcome).items() if value is not None})
    if run.outcome == Outcome() and DISTRUSTED in run.tags:
        label = run.tags[DISTRUSTED]
    return replace(run, outcome=Outcome(), tags={**run.tags, DISTRUSTED: label}, tools=())


def shorten(trajectory: Trajectory) -> Trajectory:
    """The trajectory with every text cut to its length, the mark included; itself if nothing was too long."""

    def turn_of(turn: Turn) -> Turn:
        text = _cut(turn.text, SYSTEM_CHARS if turn.role == "system" else TEXT_CHARS)
        calls = _changed(turn.calls, shorter_call) if turn.calls else turn.calls
        same = text is turn.text and calls is turn.calls
        return turn if same else Turn(turn.role, text, calls, turn.reward)

    def shorter_call(call: ToolCall) -> ToolCall:
        result = call.result if call.result is None else _cut(call.result, RESULT_CHARS)
        arguments = _shorter(call.arguments) if call.arguments else call.arguments
        same = result is call.result and arguments is call.arguments
        return call if same else ToolCall(call.name, arguments, result, call.error, call.latency_s)

    turns = _changed(trajectory.turns, turn_of)
    return trajectory if turns is trajectory.turns else replace(trajectory, turns=turns)


def _changed(values: tuple[Any, ...], change: Callable[[Any], Any]) -> tuple[Any, ...]:
    changed = tuple(map(change, values))
    return values if all(map(is_, changed, values)) else changed


def _shorter(value: Any) -> Any:
    if isinstance(value, str):
        return _cut(value, ARGUMENT_CHARS)
    if fields.is_object(value):
        members = tuple(value.values())
        cut = _changed(members, _shorter)
        return value if cut is members else dict(zip(value, cut, strict=True))
    if fields.is_list(value):
        elements = tuple(value)
        cut = _changed(elements, _shorter)
        return value if cut is elements else list(cut)
    return value


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    # hepm's own hints go first, or a long block would leave no room for the rest.
    own = without_hints(text)
    return own if len(own) <= limit else own[: limit - 1] + CUT


def workers_for(files: Sequence[Path], options: IngestOptions) -> int:
    """How many processes are worth starting; 0 if this one does as well alone."""
    # A function of the user's is known to this process only.
    own_hook = options.redactor is not None and options.redactor.hook is not None
    if own_hook or not isinstance(options.trusted, TrustByTags | None):
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = cores if options.processes is None else options.processes
    if wanted < 2 or not sys.executable or sum(map(_size, files)) < WORTH_BYTES:
        return 0
    return min(wanted, MOST_WORKERS, len(files))


def _size(file: Path) -> int:
    with suppress(OSError):
        return file.stat().st_size
    return 0


def _prepare_in_processes(
    files: Sequence[Path], reading: ReadOptions, options: IngestOptions, count: int
) -> Iterator[Prepared]:
    """Share the files among child processes; a thread for each collects what it sends."""
    share: list[int] = []
    sizes = [0] * count
    for file in files:
        share.append(sizes.index(min(sizes)))
        sizes[share[-1]] += _size(file)
    children: list[subprocess.Popen[bytes]] = []
    queues = [Queue[bytes | None](_WAITING_FRAMES) for _ in sizes]
    threads: list[threading.Thread] = []
    try:
        for n, queue in enumerate(queues):
            command, pipe = [sys.executable, "-c", _START, json.dumps(sys.path)], subprocess.PIPE
            # In a session of its own: Ctrl-C is for this process, which ends the others.
            children.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True))
            names = [str(file) for file, of in zip(files, share, strict=True) if of == n]
            task = partial(_drive, children[n], queue, (reading, options, names))
            threads.append(threading.Thread(target=task, name="hepm-ingest", daemon=True))
            threads[n].start()
        for file, n in zip(files, share, strict=True):
            while (frame := queues[n].get()) is not None and (found := pickle.loads(frame)) is not None:
                if isinstance(found, Exception):
                    raise found
                yield from cast("list[Prepared]", found)
            if frame is None:
                raise InputError(
                    f"the process that read {file} ended before the file did: too little memory is the likeliest "
                    "reason. What was stored before is whole; pass fewer files at a time, or --processes 1."
                )
    finally:
        for child in children:
            child.kill()
        for thread, queue in zip(threads, queues, strict=False):
            while thread.is_alive():
                with suppress(Empty):  # it may wait for room
                    queue.get(timeout=0.01)
        for child in children:
            child.communicate()


def _drive(child: subprocess.Popen[bytes], queue: Queue[bytes | None], work: tuple[object, ...]) -> None:
    """Give a process its files, and put each of its frames, then None."""
    assert child.stdin is not None
    assert child.stdout is not None
    with suppress(OSError, EOFError, pickle.UnpicklingError):
        pickle.dump(work, child.stdin)
        child.stdin.flush()
        while True:
            queue.put(pickle.load(child.stdout))
    queue.put(None)


def serve() -> None:
    """Worker: read options and paths, and send the runs of each file in frames, then None."""
    # Nothing else may be written between the frames.
    frames = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    gc.disable()  # runs hold no cycles, and walking millions of them again and again costs a seventh of the time

    def send(found: object) -> None:
        # Pickled twice: the other process keeps frames as bytes until it is their turn.
        pickle.dump(pickle.dumps(found, pickle.HIGHEST_PROTOCOL), frames)
        frames.flush()

    with suppress(EOFError, pickle.UnpicklingError, BrokenPipeError):
        reading, options, files = pickle.load(sys.stdin.buffer)
        for file in files:
            try:
                frame: list[Prepared] = []
                chars = 0
                for item in prepare_here([file], reading, options):
                    frame.append(item)
                    chars += len(item[1].record) if isinstance(item[1], Run) else 0
                    if len(frame) == _FRAME_RUNS or chars > _FRAME_CHARS:
                        send(frame)
                        frame, chars = [], 0
                send(frame)
            except BrokenPipeError:
                raise
            except Exception as error:  # the outermost edge of this process: the other one raises it again
                send(error)
            send(None)
    os._exit(0)  # nothing is left to be written out
