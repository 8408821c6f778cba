"""ATIF, the Agent Trajectory Interchange Format (v1.0 to v1.8), as Harbor and many converters write it.

https://harborframework.com/docs/trajectory-format. The format has no field for an outcome: a Harbor trial keeps it in
result.json beside or above the trajectory, agentpile under extra.agentpile, and we under extra.hepm.

agentpile brings other formats and public datasets into ATIF. A source is spelled ``agentpile:NAME`` for one of its
datasets ("agentpile:tau_bench"), ``agentpile:PATH`` for a file or folder in a format that it recognises (Claude Code
sessions, OTLP traces, ...), or ``agentpile:READER:PATH`` to name the format as well
("agentpile:claude-code-jsonl:sessions").
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from hepm.errors import MissingExtraError
from hepm.ingest.digest import identified
from hepm.ingest.document import Document, built
from hepm.ingest.json_stream import DECODER
from hepm.ingest.records import (
    SOLVED,
    Item,
    Object,
    ReadOptions,
    RecordError,
    Rejection,
    as_number,
    as_object,
    kind_of,
    list_at,
    object_at,
    plain_text,
    text_at,
    unix_time,
)
from hepm.ingest.sources import files_below
from hepm.ingest.tools import ToolLists
from hepm.ingest.turns import OpenCall, TurnBuilder
from hepm.types import Outcome, Role, Trajectory, Turn

NAME = "atif"
AGENTPILE: Final = "agentpile"
PREFIX: Final = "agentpile:"

_KNOWN_MINOR: Final = 8
_ROLES: Final[dict[str, Role]] = {"system": "system", "user": "user", "agent": "assistant"}
_RESULTS_BESIDE: Final = ("result.json", "../result.json")


def recognises(document: Document) -> bool:
    """Whether the records are trajectories with a schema version and steps; also a Harbor result, which is none."""
    keys = document.keys
    return ("schema_version" in keys and "steps" in keys) or _is_trial_result(document)


def read(document: Document, options: ReadOptions) -> Iterator[Item]:
    """One run for each trajectory. What sub-agents did stays theirs and is not read."""
    if _is_trial_result(document):
        return
    reader = AtifReader(document.name, _trial_result(document), options)
    yield from document.each(reader.trajectory)


class AtifReader:
    """Makes trajectories of ATIF records that come from one place.

    Args:
        source: That place, as shown to people.
        trial: Harbor's result.json of this trial; empty where there is none.
    """

    def __init__(self, source: str, trial: Object, options: ReadOptions) -> None:
        self._source = source
        self._trial = trial
        self._options = options
        self._tool_lists = ToolLists()

    def trajectory(self, value: Any) -> Trajectory:
        """One run; RecordError where the record is no trajectory that can be read."""
        record = as_object(value, "the record")
        _check_version(record.get("schema_version"))
        extra = object_at(record, "extra")
        own, pile = object_at(extra, "hepm"), object_at(extra, "agentpile")
        agent = object_at(record, "agent")
        steps = [as_object(step, "a step") for step in list_at(record, "steps")]
        environment, task = self._place(own, pile)
        return identified(
            text_at(record, "trajectory_id", "session_id") if self._options.ids == "own" else "",
            _turns(steps),
            self._outcome(own, pile),
            environment=environment,
            task=task,
            model=text_at(agent, "model_name") or _model_of_steps(steps),
            user=text_at(own, "user"),
            ended_at=next((time for step in reversed(steps) if (time := unix_time(step.get("timestamp")))), None),
            tags=_tags(own, text_at(agent, "name")),
            source=self._source,
            tools=self._tool_lists.read(list_at(agent, "tool_definitions")),
        )

    def _place(self, own: Object, pile: Object) -> tuple[str, str]:
        """Environment and task: ours, agentpile's ("domain/task" in a dataset), or Harbor's."""
        if own:
            return text_at(own, "environment"), text_at(own, "task")
        if pile:
            dataset = text_at(object_at(pile, "source"), "dataset")
            domain, _, task = text_at(object_at(pile, "task"), "id").rpartition("/")
            return "/".join(filter(None, (dataset, domain))), task
        return text_at(self._trial, "source"), text_at(self._trial, "task_name")

    def _outcome(self, own: Object, pile: Object) -> Outcome:
        if own:
            return _graded(own.get("reward"), own.get("success"))
        if pile:
            told = object_at(pile, "outcome")
            return _graded(told.get("score"), told.get("success"))
        # A reward that was computed after the infrastructure broke down says nothing of the agent.
        if self._trial.get("exception_info") is not None:
            return Outcome()
        return _graded(_trial_reward(self._trial), None)


def _check_version(version: Any) -> None:
    if type(version) is not str or not version.startswith("ATIF-v"):
        raise RecordError(f"'schema_version' is {str(version)[:30]!r}, not an ATIF version")
    major, _, minor = version.removeprefix("ATIF-v").partition(".")
    if major != "1" or not minor.isdecimal() or int(minor) > _KNOWN_MINOR:
        raise RecordError(f"it is {version[:30]}, and this hepm reads ATIF up to v1.{_KNOWN_MINOR}: upgrade hepm")


def _is_trial_result(document: Document) -> bool:
    """Harbor's result.json, which is read together with the trajectory it belongs to."""
    return document.file_name == "result.json" and "trial_name" in document.keys and "verifier_result" in document.keys


def _trial_result(document: Document) -> Object:
    for path in _RESULTS_BESIDE:
        content = document.source.sibling(path)
        if content is None:
            continue
        try:
            value = DECODER.decode(content.decode())
        except (ValueError, RecursionError):
            continue
        if type(value) is dict and "verifier_result" in value:
            return as_object(value, "the result")
    return {}


def _trial_reward(trial: Object) -> float | None:
    """The verifier's reward; the mean of its criteria where it names several, so that 1 means all were met."""
    rewards = object_at(object_at(trial, "verifier_result"), "rewards")
    if not rewards:
        return None
    if "reward" in rewards:
        return as_number(rewards["reward"], "the verifier's reward")
    values = [as_number(value, f"the verifier's reward {name!r}") for name, value in rewards.items()]
    return sum(values) / len(values)


def _graded(reward: Any, success: Any) -> Outcome:
    score = None if reward is None else as_number(reward, "the reward")
    if success is None:
        return Outcome(score, None if score is None else score >= SOLVED)
    if type(success) is not bool:
        raise RecordError(f"'success' is {kind_of(success)}, not a boolean")
    return Outcome(score, success)


def _tags(own: Object, agent: str) -> dict[str, str]:
    told = object_at(own, "tags")
    tags = {key: text_at(told, key) for key in told}
    if agent:
        tags.setdefault("agent", agent)
    return tags


def _model_of_steps(steps: list[Object]) -> str:
    return next((name for step in steps if step.get("source") == "agent" and (name := text_at(step, "model_name"))), "")


def _turns(steps: list[Object]) -> tuple[Turn, ...]:
    builder = TurnBuilder()
    for step in steps:
        # After a compaction of its context an agent's log repeats earlier steps.
        if not step.get("is_copied_context"):
            _add_step(builder, step)
    return builder.build()


def _add_step(builder: TurnBuilder, step: Object) -> None:
    source = step.get("source")
    role = _ROLES.get(source) if type(source) is str else None
    if role is None:
        raise RecordError(f"a step has the unknown source {str(source)[:40]!r}")
    pile = object_at(object_at(step, "extra"), "agentpile")
    # ATIF allows calls on steps of the agent only; agentpile says whose they were where a simulated user has tools.
    if pile.get("actor") == "user":
        role = "user"
    calls = [_call(as_object(call, "a tool call")) for call in list_at(step, "tool_calls")]
    text = plain_text(step.get("message"))
    results = list_at(object_at(step, "observation"), "results")
    # A step that only brings results back is no message of its own.
    if text or calls or not results:
        builder.add(role, text, calls)
    fields = list_at(pile, "result_fields")
    errors = object_at(pile, "calls")
    for position, value in enumerate(results):
        result = as_object(value, "a result")
        call_id = result.get("source_call_id")
        told = fields[position] if position < len(fields) else None
        failed = _failed(object_at(result, "extra"), told, errors.get(call_id) if type(call_id) is str else None)
        builder.add_result(call_id, plain_text(result.get("content")), failed)


def _call(record: Object) -> OpenCall:
    return OpenCall(record.get("tool_call_id"), record.get("function_name"), record.get("arguments"))


def _failed(*told: Any) -> bool | None:
    """Whether a call failed, as any of the extra fields tells; None where none does."""
    for fields in told:
        if type(fields) is not dict:
            continue
        record = as_object(fields, "extra")
        if type(record.get("is_error")) is bool:
            return record["is_error"]
        if record.get("error"):
            return True
    return None


def is_dataset(source: str) -> bool:
    """Whether a source is spelled as one that agentpile reads."""
    return source.startswith(PREFIX)


def read_dataset(source: str, options: ReadOptions) -> Iterator[Item]:
    """The runs behind an ``agentpile:...`` source.

    Raises:
        MissingExtraError: agentpile is not installed, or lacks what downloads a dataset.
    """
    agentpile = _agentpile()
    reader, name = _split(source.removeprefix(PREFIX), agentpile)
    for place in _places(name):
        yield from _read_place(agentpile, place, reader, options)


def _agentpile() -> Any:
    try:
        return import_module("agentpile")
    except ImportError:
        raise MissingExtraError(
            "other formats and datasets are read by agentpile: pip install 'hepm[datasets]'"
        ) from None


def _split(name: str, agentpile: Any) -> tuple[str | None, str]:
    reader, colon, rest = name.partition(":")
    return (reader, rest) if colon and reader in agentpile.readers.names() else (None, name)


def _places(name: str) -> Iterator[str]:
    if os.path.isdir(name):
        yield from map(str, files_below(Path(name)))
    else:
        yield name


def _read_place(agentpile: Any, place: str, reader: str | None, options: ReadOptions) -> Iterator[Item]:
    source = PREFIX + place
    converter = AtifReader(source, {}, options)
    number = 0
    try:
        for number, run in enumerate(agentpile.load(place, reader=reader), 1):
            if run.kind == "trajectory":
                yield built(source, number, run.record, converter.trajectory)
            else:
                yield Rejection(source, number, "it describes tools and holds no run")
    except ImportError as error:
        raise MissingExtraError(f"agentpile cannot read {place!r}: {error}") from error
    except Exception as error:  # whatever goes wrong in there, other sources are still to be read
        yield Rejection(
            source, number + 1 if number else None, f"agentpile cannot read it: {error or type(error).__name__}"
        )
