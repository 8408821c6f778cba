"""A run as lessons see it: what the agent called in each turn, and what it knew before."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hepm.experience.distilling.partings import Tools
from hepm.ingest.transitions import SUMMARY_TOOL, AgentState
from hepm.text import CUT, on_one_line
from hepm.types import StateSummary, ToolCall, ToolName, Trajectory

TOOL_CHARS: Final = 64

_SPACE: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Move:
    """One tool-bearing turn of the agent.

    Attributes:
        turn: Which of the agent's turns it is, from 1.
        calls: In listed order, without the agent's own summary.
        before: Tools of the move before; empty at the first.
        known: What the agent knew when it made it.
    """

    turn: int
    calls: tuple[ToolCall, ...]
    before: tuple[ToolName, ...]
    known: StateSummary

    @property
    def tools(self) -> Tools:
        """What was called."""
        return Tools(call.name for call in self.calls)


def moves_of(run: Trajectory) -> list[Move]:
    """The moves of a run, in order."""
    found: list[Move] = []
    now = AgentState()
    turns = 0
    for turn in run.turns:
        if turn.role == "assistant":
            turns += 1
        calls = tuple(call for call in turn.calls if call.name != SUMMARY_TOOL) if turn.role != "user" else ()
        if calls:
            before = tuple(dict.fromkeys(now.last)) if found else ()
            found.append(Move(max(turns, 1), calls, before, now.state()))
        now.add(turn)
    return found


def went_wrong(call: ToolCall) -> bool:
    """Whether a call failed, by its record or by how its result begins."""
    return call.error is True or (call.result or "").lstrip()[:5].lower() == "error"


def plain(text: str, limit: int) -> str:
    """A text on one line, without control characters, cut to a length."""
    # Cut before and after: escapes are longer than what they stand for, and a text may have megabytes.
    line = on_one_line(_SPACE.sub(" ", text[: 8 * limit]).strip())
    cut = len(text) > 8 * limit or len(line) > limit
    return line[: limit - 1].rstrip() + CUT if cut else line


def listed(tools: Iterable[ToolName], *, limit: int = 4) -> str:
    """Tools by name: "a, b and c"; of more than the limit the first ones."""
    names = [plain(tool, TOOL_CHARS) for tool in tools]
    if len(names) > limit:
        names = [*names[:limit], "others"]
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)


def sequence(way: Iterable[Tools], *, limit: int = 8) -> str:
    """A way in words, repeats in a row told once: "a, then b and c, then a"; of a long one both ends."""
    steps: list[str] = []
    for tools in way:
        step = listed(sorted(tools))
        if steps[-1:] != [step]:
            steps.append(step)
    if len(steps) > limit:
        half = limit // 2
        steps = [*steps[:half], CUT, *steps[-half:]]
    return ", then ".join(steps)
