"""A small memory of a shop: two models, three months, a loop, a retry, parallel calls, a run without an outcome."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from hepm import Tool, ToolCall, Trajectory, Turn
from tests.runs import trajectory

WAYS = {
    "return": ("find_user", "get_order", "return_items"),
    "detour": ("find_user", "get_order", "get_product", "get_order", "get_order", "return_items"),
    "both": ("find_user+get_order", "return_items"),
    "lost": ("find_user", "get_order", "cancel_order", "give_up"),
    "short": ("find_user", "give_up"),
    "mail": ("find_user", "send_mail"),
}


def _ended(month: int, day: int) -> float:
    return datetime(2026, month, day, tzinfo=UTC).timestamp()


def _run(name: str, way: str, *, success: bool | None, model: str, month: int | None, task: str) -> Trajectory:
    made = trajectory(name, *WAYS[way], success=success, task=task, goal=f"Please {way} order {task}.")
    ended_at = None if month is None else _ended(month, 1 + len(name))
    return replace(made, model=model, ended_at=ended_at, source="runs.json")


def shop() -> list[Trajectory]:
    """Runs in order of arrival; `failing` holds a call that the record says failed."""
    runs = [
        _run("r1", "return", success=True, model="one", month=9, task="a"),
        _run("r2", "return", success=True, model="other", month=10, task="a"),
        _run("r3", "detour", success=True, model="one", month=10, task="a"),
        _run("r4", "both", success=True, model="other", month=11, task="b"),
        _run("r5", "lost", success=False, model="other", month=10, task="b"),
        _run("r6", "lost", success=False, model="one", month=11, task="c"),
        _run("r7", "short", success=False, model="one", month=None, task="c"),
        _run("r8", "mail", success=None, model="one", month=None, task=""),
        _run("r'9`\n$x", "mail", success=True, model="one", month=9, task="d"),
    ]
    failed = Turn("assistant", "", (ToolCall("get_order", result="error: no such order", error=True),))
    runs[4] = replace(runs[4], turns=(*runs[4].turns[:2], failed, *runs[4].turns[2:]))
    runs[0] = replace(runs[0], tools=(Tool("never_called", "Nobody calls this."), Tool("get_order", "Looks it up.")))
    return runs


VALUES = {
    "tool": "get_order",
    "after": "find_user",
    "from": "find_user",
    "to": "return_items",
    "trajectory": "r3",
    "task": "a",
    "runs": 1,
    "calls": 1,
    "support": 1,
    "least": 1,
}
"""What the library's questions are asked about, so that each has an answer in the shop."""

BY_QUESTION = {
    "models_after_tool": {"one": "one", "other": "other", "tool": "get_order"},
    "months_after_tool": {"one": "2026-10", "other": "2026-11", "tool": "get_order"},
    "known_before_failure": {"after": "find_user", "tool": "get_order"},
    "known_on_edge": {"after": "find_user", "tool": "get_order"},
    "runs_through_edge": {"after": "find_user", "tool": "get_order"},
}
