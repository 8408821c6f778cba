"""From a trajectory to its transitions, each with what the agent knew at that point."""

from __future__ import annotations

from typing import Final

from hepm.types import START, USER_SIDE, StateSummary, ToolCall, ToolName, Trajectory, Transition, Turn

SUMMARY_TOOL: Final = "summarize_the_task"
"""The agent's own state-summarisation tool (H-EPM, 4.1): never a node, its text becomes the state of the next transition."""

USER_CHARS: Final = 600
TEXT_CHARS: Final = 400
LAST_TOOLS: Final = 3


class Situation:
    """What is known while a run goes on: fed with turns in order, it tells the state at any moment.

    The same object summarises recorded runs and live conversations, so that both are compared in the same words.
    """

    def __init__(self, *, user_side: bool = False) -> None:
        self._user_side = user_side
        self._goal = self._user = self._assistant = self._result = self._own = ""
        self.history: list[ToolName] = []
        """Names of all calls so far, parallel ones in listed order."""
        self.last: tuple[ToolName, ...] = (START,)
        """Tools of the last tool-bearing turn."""

    def state(self) -> StateSummary:
        """What the agent knows now; extractive but for its own summary, where it wrote one since its last call."""
        return StateSummary(
            own=self._own,
            goal=self._goal,
            user=self._user,
            assistant=self._assistant,
            result=self._result,
            tools=tuple(self.history[-LAST_TOOLS:]),
        )

    def add(self, turn: Turn) -> None:
        """Let one more turn pass."""
        if turn.text and turn.role == "user":
            self._user = turn.text[:USER_CHARS]
            self._goal = self._goal or self._user[:TEXT_CHARS]
        elif turn.text and turn.role == "assistant":
            self._assistant = turn.text[:TEXT_CHARS]
        names = tool_names(turn, user_side=self._user_side)
        if names:
            self.last = names
            self.history.extend(names)
            self._own = ""
        for call in turn.calls:
            if call.name == SUMMARY_TOOL:
                self._own = _own_summary(call) or self._own
            elif call.result:
                self._result = call.result[:TEXT_CHARS]


def transitions(trajectory: Trajectory, *, user_side: bool = False) -> list[Transition]:
    """Each tool-bearing turn with the one before it; the first follows START."""
    now = Situation(user_side=user_side)
    found: list[Transition] = []
    for turn in trajectory.turns:
        targets = tool_names(turn, user_side=user_side)
        if targets:
            found.append(Transition(now.last, targets, len(found), now.state()))
        now.add(turn)
    return found


def tool_names(turn: Turn, *, user_side: bool) -> tuple[ToolName, ...]:
    """Names called in a turn, in listed order; the summary tool is left out, and the user's own calls unless asked for."""
    if turn.role == "user":
        return tuple(USER_SIDE + call.name for call in turn.calls) if user_side else ()
    return tuple(call.name for call in turn.calls if call.name != SUMMARY_TOOL)


def _own_summary(call: ToolCall) -> str:
    texts = [value for value in call.arguments.values() if isinstance(value, str)]
    return max(texts, key=len, default=call.result or "")
