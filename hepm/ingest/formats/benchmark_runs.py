"""Runs as benchmarks write them: tau-bench, tau2-bench, tau2-bench's training set, and AgentDojo.

https://github.com/sierra-research/tau-bench, https://github.com/sierra-research/tau2-bench,
https://github.com/ethz-spylab/agentdojo
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from hepm.ingest import fields
from hepm.ingest.formats.chat import TurnBuilder, chat_turns
from hepm.ingest.formats.document import Document, Reader, built, record_reader
from hepm.ingest.records import DECODER, SOLVED, Item, Object, ReadOptions, RecordError, graded, identified
from hepm.ingest.tools import listed_tools
from hepm.types import Outcome, Tool, Trajectory, Turn

# run.py: {strategy}-{model}-{temperature}_range_{start}-{end}_user-{user model}-{user strategy}_{time}.json
_RESULT_NAME: Final = re.compile(r"(?:tool-calling|act|react|few-shot)-(?P<model>.+)-[\d.]+_range_")
_FINAL_NAME: Final = re.compile(r"(?P<model>.+)-(?:airline|retail)\.json")

_CRASHES: Final = frozenset({"infrastructure_error", "unexpected_error", "user_error"})
"""Ends that say nothing of the agent; "agent_error" and "too_many_errors" are its own failures."""
_DOMAINS: Final = ("airline", "retail", "telecom", "banking_knowledge", "mock")
_NOISE: Final = re.compile(r"\d+(trials?|tasks)|default|no-user|base", re.IGNORECASE)
_TAU_TOOLS: Final = {"get_order_details": "retail", "get_reservation_details": "airline"}
_SFT_TOOLS: Final = {
    "get_order_details": "retail",
    "book_reservation": "airline",
    "toggle_airplane_mode": "telecom-solo",
    "get_customer_by_phone": "telecom",
}
"""A tool that only one domain has; a domain before the ones that contain it."""


def _tau_run(record: Object, document: Document, options: ReadOptions) -> Trajectory:
    """A record {task_id, reward, info, traj, trial} of the list that run.py and its forks write. It has no id."""
    del options
    turns = chat_turns(fields.as_list(record.get("traj"), "'traj'"))
    info = fields.object_at(record, "info")
    reward = fields.number(record, "reward")
    # Some forks grade more than the solution, and a solved task may have a reward below 1.
    solved = fields.number(fields.object_at(fields.object_at(info, "reward_info"), "components"), "base_success")
    outcome = graded(reward)
    if solved is not None:
        outcome = Outcome(reward, solved >= SOLVED)
    tags: dict[str, str] = {}
    trial = fields.text(record, "trial")
    if trial:
        tags["trial"] = trial
    return identified(
        "",
        turns,
        outcome,
        environment=_tau_environment(turns, document.file_name.lower()),
        task=fields.text(record, "task_id"),
        file_model=model_in_name(document.file_name),
        user=fields.text(fields.object_at(info, "task"), "user_id"),
        tags=tags,
        source=document.name,
    )


def model_in_name(file_name: str) -> str:
    """The agent's model as tau-bench names its result files; "" if the name has none."""
    match = _RESULT_NAME.match(file_name) or _FINAL_NAME.fullmatch(file_name)
    if not match or match["model"] == "none":
        return ""
    return match["model"]


def _tau_environment(turns: tuple[Turn, ...], file_name: str) -> str:
    """No field names it: the policy's heading does, else a tool that only one of them has, else the file's name."""
    heading = ""
    if turns and turns[0].role == "system":
        heading = turns[0].text[:200].lower()
    for environment in ("airline", "retail"):
        if environment in heading:
            return environment
    for turn in turns:
        for call in turn.calls:
            if call.name in _TAU_TOOLS:
                return _TAU_TOOLS[call.name]
    for environment in ("airline", "retail"):
        if environment in file_name:
            return environment
    return ""


def _recognises_tau2(document: Document) -> bool:
    """An object with the runs under "simulations", a list of runs, or one run a file."""
    keys = document.keys
    if "simulations" in keys or ("info" in keys and "tasks" in keys):
        return not document.is_list
    return "messages" in keys and "task_id" in keys and ("termination_reason" in keys or "reward_info" in keys)


def _read_tau2(document: Document, options: ReadOptions) -> Iterator[Item]:
    try:
        about = _about(_info_beside(document), document)
    except RecordError:  # the header beside this file is rejected with that file
        about = _about({}, document)

    def build(record: Object) -> Trajectory:
        return _simulation(record, about, document, options)

    if "messages" in document.keys and "simulations" not in document.keys:
        yield from document.each(build)
        return
    for path, number, value in document.walk(("simulations",), ()):
        if isinstance(value, RecordError):
            yield document.rejected(number, str(value))
        # The header comes before the runs, as tau2-bench writes it.
        elif path == ("info",) and fields.is_object(value):
            try:
                about = _about(value, document)
            except RecordError as error:
                yield document.rejected("info", str(error))
        elif path == ("simulations",) or (path == () and number):
            yield built(document.name, number, value, build)


def _info_beside(document: Document) -> Object:
    """A result folder keeps one file a run under simulations/ and the rest in results.json above."""
    content = None
    if not document.is_list and "messages" in document.keys:
        content = document.source.sibling("../results.json")
    try:
        value = DECODER.decode((content or b"{}").decode())
    except (ValueError, RecursionError):
        return {}
    if not fields.is_object(value) or not fields.is_object(value.get("info")):
        return {}
    return value["info"]


def _about(info: Object, document: Document) -> tuple[str, str, str, dict[str, str]]:
    """Environment, model, model by the file's name, and tags of all runs of a file."""
    file_name = document.file_name
    agent = fields.object_at(info, "agent_info")
    implementation = fields.text(agent, "implementation")
    environment = fields.text(fields.object_at(info, "environment_info"), "domain_name")
    if not environment:
        environment = _domain_in_name(file_name)
    # Without a user the agent also holds the user's tools: another environment, though the domain's name is the same.
    if environment and ("solo" in implementation or "_no-user_" in file_name.lower()):
        environment += "-solo"
    # "gpt-4.1_airline_4trials.json": what is left beside the domain and the settings names the model.
    model_parts: list[str] = []
    for part in file_name.rsplit(".json", 1)[0].split("_"):
        if part.lower() not in _DOMAINS and not _NOISE.fullmatch(part):
            model_parts.append(part)
    tags: dict[str, str] = {}
    if implementation:
        tags["agent"] = implementation
    return environment, fields.text(agent, "llm"), "_".join(model_parts), tags


def _domain_in_name(file_name: str) -> str:
    for domain in _DOMAINS:
        if domain in file_name.lower():
            return domain
    return ""


def _simulation(
    record: Object, about: tuple[str, str, str, dict[str, str]], document: Document, options: ReadOptions
) -> Trajectory:
    environment, model, file_model, tags = about
    ended = fields.text(record, "termination_reason")
    messages = fields.list_at(record, "messages")
    if not messages:
        raise RecordError(f"the run holds no messages (termination reason: {ended or 'unknown'})")
    if not model:
        model = _model_that_answered(messages)
    if model:
        file_model = ""
    trial = fields.text(record, "trial")
    if trial:
        tags = {**tags, "trial": trial}
    reward = None
    if ended not in _CRASHES:
        reward = fields.number(fields.object_at(record, "reward_info"), "reward")
    own_id = ""
    if options.ids == "own":
        own_id = fields.text(record, "id")
    return identified(
        own_id,
        chat_turns(messages, _add_results, user_calls=True),
        graded(reward),
        environment=environment,
        task=fields.text(record, "task_id"),
        model=model,
        file_model=file_model,
        ended_at=fields.unix_time(record.get("end_time") or record.get("timestamp")),
        tags=tags,
        source=document.name,
    )


def _model_that_answered(messages: list[Any]) -> str:
    """The model in the provider's raw answers, for a file without header."""
    for message in messages:
        if fields.is_object(message) and message.get("role") == "assistant":
            answer = message.get("raw_data")
            if fields.is_object(answer) and type(answer.get("model")) is str:
                return answer["model"]
    return ""


def _add_results(builder: TurnBuilder, message: Object) -> None:
    """A result, or the results of parallel calls under "tool_messages"."""
    results: list[Object] = []
    if "tool_messages" not in message or "content" in message:
        results.append(message)
    for value in fields.list_at(message, "tool_messages"):
        results.append(fields.as_object(value, "a tool message"))
    for result in results:
        builder.add_result(result.get("id"), fields.plain_text(result.get("content")), result.get("error"))


def _read_sft(document: Document, options: ReadOptions) -> Iterator[Item]:
    """{"splits": {"train": [run, ...], "test": [...]}}: chat messages as the agent saw them, of all domains.

    A record is named by its split and its number there.
    """
    split = ""

    def build(record: Object) -> Trajectory:
        tools = listed_tools(fields.list_at(record, "tools"))
        own_id = ""
        if options.ids == "own":
            own_id = fields.text(record, "simulation_id")
        return identified(
            own_id,
            chat_turns(fields.list_at(record, "messages")),
            graded(fields.number(record, "reward")),
            environment=_domain_with(tools),
            task=fields.text(record, "task_id"),
            file_model=PurePosixPath(document.file_name).stem,
            tags={"split": split},
            source=document.name,
            tools=tools,
        )

    for path, number, value in document.walk(("splits", "*")):
        # "train 3"; "splits 1" where the document breaks before its first split.
        record_name = f"{'/'.join(path[1:]) or 'splits'} {number}"
        if isinstance(value, RecordError):
            yield document.rejected(record_name, str(value))
        elif len(path) == 2 and number:
            split = path[1]
            yield built(document.name, record_name, value, build)
        elif not path:
            yield document.rejected(number, "it has no 'splits'")


def _domain_with(tools: Sequence[Tool]) -> str:
    names = [tool.name for tool in tools]
    for tool_name, domain in _SFT_TOOLS.items():
        if tool_name in names:
            return domain
    return ""


def _recognises_agentdojo(document: Document) -> bool:
    keys = document.keys
    return "suite_name" in keys and "messages" in keys and ("user_task_id" in keys or "pipeline_name" in keys)


def _agentdojo_run(record: Object, document: Document, options: ReadOptions) -> Trajectory:
    """One object a file, under runs/. It has no id. `utility` is whether the user's task was solved."""
    del options
    utility = record.get("utility")
    # So the benchmark reports that a model's provider failed; a context too long for the model is a failure.
    if utility is not None and "internal server error" in fields.text(record, "error"):
        utility = None
    if utility is not None and type(utility) is not bool:
        raise RecordError(f"'utility' is {fields.kind_of(utility)}, not a boolean")
    user_task = fields.text(record, "user_task_id")
    injection = fields.text(record, "injection_task_id")
    tags: dict[str, str] = {}
    attack = fields.text(record, "attack_type")
    if attack:
        tags["attack"] = attack
    if user_task and injection:
        tags["injection"] = injection
    reward = None
    if utility is not None:
        reward = float(utility)
    return identified(
        "",
        chat_turns(fields.as_list(record.get("messages"), "'messages'"), _add_agentdojo_result),
        graded(reward),
        environment="agentdojo-" + fields.text(record, "suite_name"),
        # The attackers' goals are also run as tasks of their own, without a user task.
        task=user_task or injection,
        model=fields.text(record, "pipeline_name"),
        ended_at=fields.unix_time(record.get("evaluation_timestamp")),
        tags=tags,
        source=document.name,
    )


def _add_agentdojo_result(builder: TurnBuilder, message: Object) -> None:
    text = fields.plain_text(message.get("content"))
    failed = None  # unknown, where the key is missing; null means that the call went well
    if "error" in message:
        failed = bool(message["error"])
        if failed and not text:
            text = fields.plain_text(message["error"])
    builder.add_result(message.get("tool_call_id"), text, failed)


TAU: Final = record_reader("tau", lambda document: {"traj", "task_id"} <= document.keys, _tau_run)
TAU2: Final = Reader("tau2", _recognises_tau2, _read_tau2)
TAU2_SFT: Final = Reader("tau2-sft", lambda document: "splits" in document.keys and not document.is_list, _read_sft)
AGENTDOJO: Final = record_reader("agentdojo", _recognises_agentdojo, _agentdojo_run)
