"""Runs whose results decide what comes next, and what a memory learned from runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.evidence.decisions import Decision, LabelledRun, Situation
from hepm.evidence.engine import Learned
from hepm.evidence.upkeep import RunSample
from hepm.ingest.transitions import agent_state
from tests.runs import trajectory


def told(
    name: str,
    *calls: tuple[str, object],
    success: bool = True,
    goal: str = "please help",
    task: str = "",
    user: str = "",
    environment: str = "",
    last: str = "",
) -> Trajectory:
    """A run that called one tool after another, each with its result: a text, or what is written as JSON.

    Args:
        last: What the agent said then.
    """
    turns = [Turn("user", goal)]
    for tool, result in calls:
        text = result if isinstance(result, str) else json.dumps(result)
        turns.append(Turn("assistant", calls=(ToolCall(tool, result=text),)))
    if last:
        turns.append(Turn("assistant", last))
    return Trajectory(
        name, tuple(turns), Outcome(float(success), success), environment=environment, task=task, user=user
    )


def refunds(count: int, *, first: int = 0) -> list[Trajectory]:
    """Runs that look, refund and close, each for another parcel."""
    return [
        trajectory(f"r{n}", "look", "refund", "close", goal=f"Refund parcel {n}, it broke")
        for n in range(first, first + count)
    ]


def filled(folder: Path, runs: Iterable[Trajectory], **options: Any) -> Memory:
    """A memory of these runs, which were ingested with these options."""
    memory = Memory.open(folder, speak="weighed")
    memory.ingest(runs, **options)
    return memory


def learned(memory: Memory) -> Learned:
    """What it knows now."""
    return memory.evidence().latest()


def sample_of(memory: Memory) -> RunSample:
    """The runs that it learns from."""
    return memory.evidence().runs()


def run_of(memory: Memory, name: str) -> LabelledRun:
    """One of them."""
    (run,) = (run for run in sample_of(memory).runs if run.id == name)
    return run


def decisions_of(memory: Memory, name: str) -> list[Decision]:
    """The decisions of one run, with what they are worth."""
    learned(memory)
    return run_of(memory, name).decisions


def situation_after(turns: Iterable[Turn]) -> Situation:
    """The situation of an agent after these turns."""
    now = agent_state(turns)
    return Situation.of(now.last, now.history, now.state())
