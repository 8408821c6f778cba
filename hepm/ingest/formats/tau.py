"""Runs of tau-bench: https://github.com/sierra-research/tau-bench."""

from __future__ import annotations

import re
from typing import Final

from hepm.ingest.fields import as_list, number_at, object_at, text_at
from hepm.ingest.formats.document import Document, record_reader
from hepm.ingest.formats.turns import chat_turns
from hepm.ingest.records import SOLVED, filled, graded
from hepm.types import Object, Outcome, Trajectory, Turn


def _run(record: Object, document: Document) -> Trajectory:
    """A record {task_id, reward, info, traj, trial} of the list that run.py and its forks write. It has no id."""
    turns = chat_turns(as_list(record.get("traj"), "'traj'"))
    info = object_at(record, "info")
    reward = number_at(record, "reward")
    # Some forks grade more than the solution, and a solved task may have a reward below 1.
    solved = number_at(object_at(info, "reward_info.components"), "base_success")
    # A reward of 1 is a success, 0 a failure; others wait for the threshold of the store.
    return document.run(
        "",
        turns,
        graded(reward) if solved is None else Outcome(reward, solved >= SOLVED),
        environment=_environment(turns, document.file_name.lower()),
        task=text_at(record, "task_id"),
        file_model=model_in_name(document.file_name),
        user=text_at(info, "task.user_id"),
        tags=filled(trial=text_at(record, "trial")),
    )


def model_in_name(file_name: str) -> str:
    """The agent's model as tau-bench names its result files; "" if the name has none."""
    # run.py: {strategy}-{model}-{temperature}_range_{start}-{end}_user-{user model}-{user strategy}_{time}.json
    match = re.match(r"(?:tool-calling|act|react|few-shot)-(.+)-[\d.]+_range_", file_name)
    match = match or re.fullmatch(r"(.+)-(?:airline|retail)\.json", file_name)
    return match[1] if match and match[1] != "none" else ""


def _environment(turns: tuple[Turn, ...], file_name: str) -> str:
    """No field names it: the policy's heading does, else a tool that only one of them has, else the file's name."""
    texts = [turn.text[:200].lower() for turn in turns[:1] if turn.role == "system"]
    tools = {"get_order_details": "retail", "get_reservation_details": "airline"}
    texts += [tools.get(call.name, "") for turn in turns for call in turn.calls]
    found = (name for text in (*texts, file_name) for name in ("airline", "retail") if name in text)
    return next(found, "")


READER: Final = record_reader("tau", lambda document: {"traj", "task_id"} <= document.keys, _run)
