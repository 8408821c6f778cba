"""From a trajectory to its transitions, each with what the agent knew at that point."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from hepm.types import (
    BLOCK_END,
    BLOCK_START,
    FAILED_HINT,
    HINT,
    START,
    USER_SIDE,
    StateSummary,
    ToolCall,
    ToolName,
    Trajectory,
    Transition,
    Turn,
)

SUMMARY_TOOL: Final = "summarize_the_task"
"""The agent's own summary tool (H-EPM, 4.1): never a node, its text becomes the state of the next transition."""

USER_CHARS: Final = 600
ASSISTANT_CHARS: Final = 1000
RESULT_CHARS: Final = 400
LAST_TOOLS: Final = 3

# Of a text that was cut the block's end may be gone.
_BLOCK: Final = re.compile(rf"{re.escape(BLOCK_START)}.*?(?:{re.escape(BLOCK_END)}\n?|\Z)", re.DOTALL)


class AgentState:
    """What is known while a run goes on: fed with turns in order, it tells the state at any moment.

    The same object summarises recorded runs and live conversations, so that both are compared in the same words.
    """

    def __init__(self, *, user_side: bool = False) -> None:
        self._user_side = user_side
        self._said: tuple[str, ...] = ()
        self._own = self._assistant = self._result = ""
        self._user_spoke = self._agent_spoke = self._failed = False
        self.history: list[ToolName] = []
        """Names of all calls so far, parallel ones in listed order."""
        self.last: tuple[ToolName, ...] = (START,)
        """Tools of the last tool-bearing turn."""

    def state(self) -> StateSummary:
        """What the agent knows now; extractive but for its own summary, where it wrote one since its last call."""
        return StateSummary(
            self._own,
            self._said,
            self._assistant,
            self._result,
            tuple(self.history[-LAST_TOOLS:]),
            self._user_spoke,
            self._agent_spoke,
            self._failed,
        )

    def add(self, turn: Turn) -> None:
        """Let one more turn pass."""
        names = tool_names(turn, user_side=self._user_side) if turn.calls else ()
        if turn.text:
            self._hear(turn, calls=bool(names))
        if names:
            self.last = names
            self.history.extend(names)
            self._own = ""
            self._user_spoke = self._agent_spoke = False
        for call in turn.calls:
            if call.name == SUMMARY_TOOL:
                self._own = _own_summary(call) or self._own
            elif call.result:
                self._result = without_hints(call.result)[:RESULT_CHARS]
                self._failed = call.error is True or self._result.lstrip()[:5].lower() == "error"

    def _hear(self, turn: Turn, *, calls: bool) -> None:
        if turn.role == "user":
            self._said = (*self._said, without_hints(turn.text)[:USER_CHARS])
            self._user_spoke = True
        elif turn.role == "assistant":
            self._assistant = without_hints(turn.text)[:ASSISTANT_CHARS]
            self._agent_spoke = self._agent_spoke or not calls


def transitions(trajectory: Trajectory, *, user_side: bool = False) -> list[Transition]:
    """Each tool-bearing turn with the one before it; the first follows START."""
    now = AgentState(user_side=user_side)
    found: list[Transition] = []
    for turn in trajectory.turns:
        targets = tool_names(turn, user_side=user_side) if turn.calls else ()
        if targets:
            found.append(Transition(now.last, targets, len(found), now.state()))
        now.add(turn)
    return found


def tool_names(turn: Turn, *, user_side: bool) -> tuple[ToolName, ...]:
    """Names called in a turn, in listed order, without the summary tool, and without the user's calls unless asked."""
    if turn.role == "user":
        return tuple(USER_SIDE + call.name for call in turn.calls) if user_side else ()
    return tuple(call.name for call in turn.calls if call.name != SUMMARY_TOOL)


def agent_state(turns: Iterable[Turn]) -> AgentState:
    """What is known after these turns."""
    now = AgentState()
    for turn in turns:
        now.add(turn)
    return now


def without_hints(text: str) -> str:
    """A text without what memory told in it."""
    # Wherever an agent's builder put what we said, it must not be learned back as if the agent had known it.
    if BLOCK_START in text:
        text = _BLOCK.sub("", text)
    if HINT not in text and FAILED_HINT not in text:
        return text
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith((HINT, FAILED_HINT)))


def _own_summary(call: ToolCall) -> str:
    texts = [value for value in call.arguments.values() if isinstance(value, str)]
    return max(texts, key=len, default=call.result or "")
