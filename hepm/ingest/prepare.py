"""From what a user names to runs ready to be stored: read, cut, redacted, with their transitions.

All of it is a function of the sources alone, so `hepm.ingest.workers` prepares files in processes of their own where
that pays, while this one stores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Final, Self, TypeAlias

from hepm.errors import InputError
from hepm.graph.delta import Run
from hepm.graph.rows import no_text
from hepm.ingest.digest import content_digest
from hepm.ingest.hepm import write_run
from hepm.ingest.reading import read_runs, read_value
from hepm.ingest.records import ReadOptions, Rejection, is_list, is_object
from hepm.ingest.redact import Redactor
from hepm.ingest.transitions import transitions, without_hints
from hepm.text import CUT
from hepm.types import DISTRUSTED, OWN_STATES, Outcome, Tool, ToolCall, ToolName, Trajectory, Turn

Source: TypeAlias = str | PathLike[str] | Trajectory | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A file, folder, glob, archive or "-"; a run itself; or a record or all that a file may hold, in Python's values."""

Prepared: TypeAlias = tuple[str | None, Run | Rejection]
"""The format that a run was read in, and the run; None where nothing could be read."""

FROM_PYTHON: Final = "python"

MAX_EDGES: Final = 1 << 16
"""Distinct pairs of tools in one run. Real runs have some tens; a made-up one could fill a store by itself."""


_REMEMBERED_LISTS: Final = 1000


@dataclass(frozen=True, slots=True)
class TrustByTags:
    """Trusts every run but those with one of some tags. Unlike a function, it crosses to the processes that read files.

    Attributes:
        distrusted: Keys of tags, each with a value; None for any.
    """

    distrusted: tuple[tuple[str, str | None], ...]

    @classmethod
    def but(cls, tags: Iterable[str]) -> Self:
        """From texts such as "attack", for any value of the tag, or "split=test".

        Raises:
            InputError: a text names no tag.
        """
        found = [text.partition("=") for text in tags]
        if nameless := ["".join(parts) for parts in found if not parts[0].strip()]:
            raise InputError(f"{nameless[0]!r} names no tag of runs to distrust: give KEY, or KEY=VALUE.")
        return cls(tuple((key.strip(), value if equals else None) for key, equals, value in found))

    def __call__(self, run: Trajectory) -> bool:
        """Whether the run has none of the tags."""
        return not any(key in run.tags and value in (None, run.tags[key]) for key, value in self.distrusted)


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How runs are prepared before they are stored.

    Attributes:
        redactor: Takes secrets out of every text; None stores texts as they are.
        assume_success: Take runs of unknown outcome for successes (gold sequences, logs of a system that works).
        processes: How many read files side by side; None takes as many as pay, 1 reads everything in this one.
        trusted: Tells whether a run, as it was read, may count; None trusts all. One that may not is kept without its
            label, which goes into a tag: nothing is suggested or distilled from it. Where it was stored with a label
            before, what it taught is taken back; stored again as trusted, it counts. `TrustByTags`
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
        trusted = trajectory.trusted and (self._options.trusted is None or self._options.trusted(trajectory))
        if self._options.assume_success and trajectory.outcome.success is None and trusted:
            trajectory = replace(trajectory, outcome=Outcome(trajectory.outcome.reward, True))
        trajectory = shorten(trajectory)
        if self._options.redactor is not None:
            trajectory = self._options.redactor(trajectory)
        if trajectory.tools:
            trajectory = replace(trajectory, tools=self._tools(trajectory.tools))
        if not trusted:
            trajectory = exclude(trajectory)
        if self._options.own_states:
            trajectory = replace(trajectory, tags={**trajectory.tags, OWN_STATES: ""})
        # Descriptions of tools are kept once a namespace, not with each run.
        record = write_run(replace(trajectory, tools=()) if trajectory.tools else trajectory)
        record.encode()  # half of a surrogate pair shows here, and among the tools
        run = Run.of(trajectory, transitions(trajectory), digest=content_digest(trajectory), record=record)
        if sum(len(t.sources) * len(t.targets) for t in run.transitions) > MAX_EDGES < len(run.edges):
            raise ValueError(f"its parallel calls make {len(run.edges):,} pairs of tools; {MAX_EDGES:,} are the limit")
        return run

    def _tools(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """The tools without secrets. Runs list the same ones again and again, so each list is looked at once."""
        key = tuple(map(id, tools))
        if key not in self._lists:
            if len(self._lists) > _REMEMBERED_LISTS:
                self._lists.clear()
            clean = tuple(map(self._tool, tools))
            specs = [(tool.name, tool.description, tool.parameters) for tool in clean]
            json.dumps(specs, ensure_ascii=False, default=dict).encode()
            self._lists[key] = tools, clean  # with the tools, so that no other ones get their ids
        return self._lists[key][1]

    def _tool(self, tool: Tool) -> Tool:
        redactor = self._options.redactor
        if redactor is None:
            return tool
        known = self._clean.get(tool.name)
        if known is None or known[0] != tool:
            known = self._clean[tool.name] = tool, redactor.tool(tool)
        return known[1]


def exclude(run: Trajectory) -> Trajectory:
    """The run without its outcome and its tools, so that it counts for nothing; a tag keeps the outcome, as JSON."""
    known = {"reward": run.outcome.reward, "success": run.outcome.success}
    label = json.dumps({name: value for name, value in known.items() if value is not None})
    if run.outcome == Outcome() and DISTRUSTED in run.tags:
        label = run.tags[DISTRUSTED]
    return replace(run, outcome=Outcome(), tags={**run.tags, DISTRUSTED: label}, tools=())


def shorten(
    trajectory: Trajectory,
    *,
    text_chars: int = 1000,
    result_chars: int = 600,
    argument_chars: int = 500,
    system_chars: int = 300,
) -> Trajectory:
    """The trajectory with every text cut to a length; itself where nothing was too long.

    Args:
        text_chars: Longest text of the user or the agent, mark included.
        result_chars: Longest result.
        argument_chars: Longest text among the arguments, however deep inside them.
        system_chars: Longest system prompt, which is the same in every run of an environment.
    """
    turns: list[Turn] | None = None
    for position, turn in enumerate(trajectory.turns):
        text = turn.text
        limit = system_chars if turn.role == "system" else text_chars
        calls = _shorter_calls(turn.calls, result_chars, argument_chars) if turn.calls else turn.calls
        if len(text) > limit or calls is not turn.calls:
            if turns is None:
                turns = list(trajectory.turns)
            turns[position] = Turn(turn.role, _cut(text, limit), calls, turn.reward)
    if turns is None:
        return trajectory
    t = trajectory
    return Trajectory(
        t.id, tuple(turns), t.outcome, t.environment, t.task, t.model, t.user, t.ended_at, t.tags, t.source, t.tools
    )


def _shorter_calls(calls: tuple[ToolCall, ...], result_chars: int, argument_chars: int) -> tuple[ToolCall, ...]:
    shorter: list[ToolCall] | None = None
    for position, call in enumerate(calls):
        result = call.result
        if result is not None and len(result) > result_chars:
            result = _cut(result, result_chars)
        arguments = call.arguments
        for value in arguments.values():
            if len(value) > argument_chars if isinstance(value, str) else is_list(value) or is_object(value):
                arguments = _shorter_value(arguments, argument_chars)
                break
        if result is not call.result or arguments is not call.arguments:
            if shorter is None:
                shorter = list(calls)
            shorter[position] = ToolCall(call.name, arguments, result, call.error, call.latency_s)
    return calls if shorter is None else tuple(shorter)


def _shorter_value(value: Any, limit: int) -> Any:
    """`value` with long texts inside cut; itself where there are none."""
    if isinstance(value, str):
        return _cut(value, limit)
    if is_object(value):
        cut = {key: _shorter_value(member, limit) for key, member in value.items()}
        return cut if any(cut[key] is not member for key, member in value.items()) else value
    if is_list(value):
        shorter = [_shorter_value(element, limit) for element in value]
        return shorter if any(a is not b for a, b in zip(shorter, value, strict=True)) else value
    return value


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    # What memory told goes first, or a long block would leave no room for what was said beside it.
    own = without_hints(text)
    return own if len(own) <= limit else own[: max(limit - 1, 0)] + CUT
