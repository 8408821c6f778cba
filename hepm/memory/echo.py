"""Which calls of a session follow a hint that named them: memory must not learn from its own echo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hepm.ingest.transitions import tool_names
from hepm.types import ToolName, Turn


class HintedCalls:
    """The tools that hints of a run named, by how many calls it had made then.

    The agent's own summaries are no calls here. Turns of an earlier process bring their marks with them.
    """

    def __init__(self, turns: Sequence[Turn] = ()) -> None:
        self._named: dict[int, tuple[ToolName, ...]] = {}
        made = 0
        for turn in turns:
            self.note(turn.hinted, calls=made)
            made += len(tool_names(turn))

    def note(self, tools: Sequence[ToolName], *, calls: int) -> None:
        """Note that a hint named tools after so many calls."""
        if tools:
            # {2: ("book",)}: after two calls a hint named book.
            self._named[calls] = tuple(dict.fromkeys((*self._named.get(calls, ()), *tools)))

    def marked(self, turns: Sequence[Turn]) -> tuple[Turn, ...]:
        """The turns, each with what hints named since the turn with calls before it began."""
        if not self._named:
            return tuple(turns)
        marked: list[Turn] = []
        since = made = 0
        for turn in turns:
            calls = len(tool_names(turn))
            if not calls:
                marked.append(turn)
                continue
            # A hint may also have come between parallel calls, or more than once before one turn.
            named: dict[ToolName, None] = {}
            for number in range(since, made + 1):
                named.update(dict.fromkeys(self._named.get(number, ())))
            marked.append(replace(turn, hinted=tuple(named)) if named else turn)
            # Hints of this turn's own calls belong to the next one.
            since = made + 1
            made += calls
        return tuple(marked)


def calls_in(turns: Sequence[Turn]) -> int:
    """How many calls the turns hold, without the agent's own summaries."""
    return sum(len(tool_names(turn)) for turn in turns)
