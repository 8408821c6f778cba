"""Hostile parties at a shared memory: how many of their runs plant or silence a tool beside 200 honest ones."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.ingest.prepare import IngestOptions

HONEST: Final = 200
MOST: Final = 200  # hostile runs
_DAY_S: Final = 86_400.0
_START: Final = 1_700_000_000.0
_TOKEN: Final = "hepm:token"
_WISH: Final = "Refund my order, it broke."


def _run(
    name: str,
    calls: Sequence[ToolCall],
    token: str,
    day: float,
    *,
    success: bool | None = True,
    ended_at: float | None = None,
    **about: str,
) -> Trajectory:
    turns = (Turn("user", _WISH), *(Turn("assistant", "", (call,)) for call in calls))
    ended = _START + day * _DAY_S if ended_at is None else ended_at
    tags = {_TOKEN: token} if token else {}
    return Trajectory(name, turns, Outcome(None, success), ended_at=ended, tags=tags, **about)


HOSTILE: Final[Mapping[str, Mapping[str, Any]]] = {
    "plant: successes of one token": {"tool": "wire_money", "tokens": ("eve",)},
    "plant: successes of two tokens": {"tool": "wire_money", "tokens": ("eve", "mallory")},
    "plant: successes without tokens": {"tool": "wire_money", "tokens": ("",)},
    "plant: without an outcome": {"tool": "wire_money", "tokens": ("eve",), "success": None},
    "plant: distrusted": {"tool": "wire_money", "tokens": ("eve",), "distrusted": True},
    "silence: failing calls, without an outcome": {"broken": True, "success": None, "tokens": ("eve",)},
    "silence: failing calls, distrusted": {"broken": True, "tokens": ("eve",), "distrusted": True},
    "silence: failing calls, end in 2100": {"broken": True, "tokens": ("eve",), "ended_at": 4_102_444_800.0},
    "silence: failing calls, labelled, one token": {"broken": True, "tokens": ("eve",)},
    "silence: failing calls, labelled, two tokens": {"broken": True, "tokens": ("eve", "mallory")},
    "silence: failing calls, labelled, no tokens": {"broken": True, "tokens": ("",)},
    "silence: reported as failures": {"success": False, "tokens": ("eve",)},
}


def needed() -> dict[str, int | None]:
    """The fewest hostile runs that change the hint; None where `MOST` do not."""
    return {name: _needed(**about) for name, about in HOSTILE.items()}


def _needed(*, distrusted: bool = False, **about: Any) -> int | None:
    options = IngestOptions(distrusted=(f"{_TOKEN}=eve",)) if distrusted else None
    planted = "tool" in about
    with tempfile.TemporaryDirectory() as folder, Memory.open(Path(folder) / "memory.hepm") as memory:
        memory.ingest(list(_honest(about["tokens"] != ("",))))
        for number, run in enumerate(_hostile(**about), 1):
            memory.ingest([run], options=options)
            memory.refresh()
            named = [one.tool for one in memory.suggest(after="get_order", state=_WISH)]
            if ("wire_money" in named) if planted else ("refund" not in named):
                return number
    return None


def _honest(with_tokens: bool) -> Iterator[Trajectory]:
    for number in range(HONEST):
        token = ("ann", "bob")[number % 2] if with_tokens else ""
        yield _run(f"h{number}", _calls(f"h{number}", "refund", broken=False), token, number / 10, model="small")


def _hostile(
    *,
    tokens: tuple[str, ...],
    tool: str = "refund",
    broken: bool = False,
    success: bool | None = True,
    ended_at: float | None = None,
) -> Iterator[Trajectory]:
    for number in range(MOST):
        name, day, model = f"e{number}", (HONEST + number) / 10, f"model {number % 3}"
        calls, token = _calls(name, tool, broken=broken), tokens[number % len(tokens)]
        yield _run(name, calls, token, day, success=success, ended_at=ended_at, model=model)


def _calls(order: str, tool: str, *, broken: bool) -> tuple[ToolCall, ToolCall]:
    result = "503" if broken else "done"
    return ToolCall("get_order", {"order": order}, "delivered", False), ToolCall(tool, {}, result, broken)
