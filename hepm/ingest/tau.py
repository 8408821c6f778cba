"""tau-bench: a JSON list of {task_id, reward, info, traj, trial}, as its run.py and its forks write it.

https://github.com/sierra-research/tau-bench
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hepm.ingest.digest import identified
from hepm.ingest.document import Document
from hepm.ingest.records import (
    SOLVED,
    Item,
    Object,
    ReadOptions,
    as_list,
    as_object,
    number_at,
    object_at,
    text_at,
)
from hepm.ingest.turns import chat_turns
from hepm.types import Outcome, Trajectory, Turn

NAME = "tau"

_ENVIRONMENTS = ("airline", "retail")
_TELLING_TOOLS = {"get_order_details": "retail", "get_reservation_details": "airline"}
# run.py: {strategy}-{model}-{temperature}_range_{start}-{end}_user-{user model}-{user strategy}_{time}.json
_RESULT_NAME = re.compile(r"(?:tool-calling|act|react|few-shot)-(?P<model>.+)-[\d.]+_range_")
_FINAL_NAME = re.compile(r"(?P<model>.+)-(?:airline|retail)\.json")


def recognises(document: Document) -> bool:
    """Whether the records have the keys of a tau-bench result."""
    return "traj" in document.keys and "task_id" in document.keys


def read(document: Document, options: ReadOptions) -> Iterator[Item]:
    """The runs of one result file. It has no run ids, so the content is always hashed."""
    del options
    file_model = model_in_name(document.file_name)

    def build(value: Any) -> Trajectory:
        return _trajectory(as_object(value, "the record"), document, file_model)

    yield from document.each(build)


def model_in_name(file_name: str) -> str:
    """The agent's model as tau-bench names its result files; "" where the name does not tell."""
    match = _RESULT_NAME.match(file_name) or _FINAL_NAME.fullmatch(file_name)
    return match["model"] if match and match["model"] != "none" else ""


def _trajectory(record: Object, document: Document, file_model: str) -> Trajectory:
    turns = chat_turns(as_list(record.get("traj"), "'traj'"))
    info = object_at(record, "info")
    trial = text_at(record, "trial")
    return identified(
        "",
        turns,
        _outcome(record, info),
        environment=_environment(turns, document),
        task=text_at(record, "task_id"),
        file_model=file_model,
        user=text_at(object_at(info, "task"), "user_id"),
        tags={"trial": trial} if trial else {},
        source=document.name,
    )


def _outcome(record: Object, info: Object) -> Outcome:
    """The reward says how it ended, unless the run was graded on more than solving the task.

    Where components are told, a solved task may have a reward below 1; `base_success` is then the label.
    """
    reward = number_at(record, "reward")
    solved = number_at(object_at(object_at(info, "reward_info"), "components"), "base_success")
    label = reward if solved is None else solved
    return Outcome(reward, None if label is None else label >= SOLVED)


def _environment(turns: tuple[Turn, ...], document: Document) -> str:
    """No field names it: the policy's heading does, else a tool that only one of them has, else the file's name."""
    heading = turns[0].text[:200].lower() if turns and turns[0].role == "system" else ""
    for environment in _ENVIRONMENTS:
        if environment in heading:
            return environment
    for turn in turns:
        for call in turn.calls:
            if call.name in _TELLING_TOOLS:
                return _TELLING_TOOLS[call.name]
    return next((name for name in _ENVIRONMENTS if name in document.file_name.lower()), "")
