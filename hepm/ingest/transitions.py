"""From a trajectory to its transitions, each with what the agent knew at that point."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from functools import lru_cache
from typing import Final

from hepm import types
from hepm.ingest.facts import facts_of_message, facts_of_result
from hepm.types import SAID, SAID_LAST, START, SUMMARY_TOOL, Facts, StateSummary, ToolName, Trajectory, Transition, Turn

OWN_TOOLS: Final = {
    SUMMARY_TOOL: "", "suggest_next_tools": "", "search_experience": "query", "record_outcome": "session_id",
}  # fmt: skip
"""Tools of hepm's MCP server; with an argument where another tool may well have the name."""

USER_CHARS: Final = 600
ASSISTANT_CHARS: Final = 1000
RESULT_CHARS: Final = 400
LAST_TOOLS: Final = 3

# The block's end may be gone from a text that was cut.
_BLOCK: Final = re.compile(rf"{re.escape(types.BLOCK_START)}.*?(?:{re.escape(types.BLOCK_END)}\n?|\Z)", re.DOTALL)
# What hepm says has no second beginning of a block inside; a search that looked past one would take quadratic time.
_SAID: Final = re.compile(
    rf"({types.BLOCK_START}(?:(?!{types.BLOCK_START}).)*?{types.BLOCK_END}|^(?:{types.HINT}|{types.FAILED_HINT}).*?$)\n?",
    re.DOTALL | re.MULTILINE,
)
# MCP clients put the server's name before a tool's: mcp__hepm__record_outcome, mcp_hepm_…, hepm.…, hepm-….
_OWN_TOOL: Final = re.compile(rf"(.*hepm.*[\W_])?({'|'.join(OWN_TOOLS)})")


class AgentState:
    """What an agent knows while its run goes on, from its turns in order.

    Recorded runs and live conversations are summarised by the same code, so that both compare in the same words.

    Attributes:
        history: Names of all calls so far, parallel ones in listed order.
        last: Tools of the last turn with calls; (START,) before.
        facts: What is known, taken apart.
        learned: The part of it that came since the last call.
    """

    def __init__(self) -> None:
        self._said: tuple[str, ...] = ()
        self._own = self._assistant = self._result = ""
        self._user_spoke = self._agent_spoke = self._failed = False
        self._earlier = 0
        self.history: list[ToolName] = []
        self.last: tuple[ToolName, ...] = (START,)
        self.facts: Facts = {}
        self.learned: Facts = {}

    def state(self) -> StateSummary:
        """What the agent knows now: an extract, and its own summary, if nothing was called and no user wrote since."""
        tools = tuple(self.history[-LAST_TOOLS:])
        result = without_hints(self._result)[:RESULT_CHARS]
        failed = self._failed or result.lstrip()[:5].lower() == "error"
        assistant = without_hints(self._assistant)[:ASSISTANT_CHARS]
        happened = self._user_spoke, self._agent_spoke, failed, self._earlier
        return StateSummary(self._own, self._said, assistant, result, tools, *happened, facts=self.facts)

    def add(self, turn: Turn) -> None:
        """Take one more turn into account."""
        names = tool_names(turn) if turn.calls else ()
        if turn.text and turn.role == "user":
            said = without_hints(turn.text)[:USER_CHARS]
            self._said = (*self._said, said)
            self._user_spoke, self._earlier, self._own = True, len(self.history), ""
            self._hear(facts_of_message(said))
        elif turn.text and turn.role == "assistant":
            self._assistant = turn.text
            self._agent_spoke = self._agent_spoke or not names
        if names:
            self.last = names
            self.history.extend(names)
            self._own = ""
            self._user_spoke = self._agent_spoke = False
            self.learned = {}
        for call in turn.calls:
            if call.name == SUMMARY_TOOL:
                texts = [value for value in call.arguments.values() if isinstance(value, str)]
                summary = call.arguments.get("summary") or max(texts, key=len, default=call.result or "")
                self._own = summary if isinstance(summary, str) and summary else self._own
            elif call.result:
                self._result, self._failed = call.result, call.error is True
                self._learn(call.name, facts_of_result(without_hints(call.result)))

    def _hear(self, words: Mapping[str, float]) -> None:
        """Add words of the user. Messages between two calls count as one."""
        if words:
            last = {**self.learned.get(SAID, {}), **words}
            self.learned = {**self.learned, SAID: last}
            self.facts = {**self.facts, SAID: {**self.facts.get(SAID, {}), **words}, SAID_LAST: last}

    def _learn(self, tool: ToolName, facts: Mapping[str, float]) -> None:
        """Replace what is known of a tool's result. The dictionaries are shared with states: none is changed."""
        self.facts = {**self.facts, tool: facts}
        self.learned = {**self.learned, tool: facts}


def transitions(trajectory: Trajectory) -> list[Transition]:
    """Each turn with calls and the one before it; the first follows START."""
    state = AgentState()
    found: list[Transition] = []
    for turn in trajectory.turns:
        targets = tool_names(turn) if turn.calls else ()
        if targets:
            about = state.state(), state.learned, turn.hinted
            found.append(Transition(state.last, targets, len(found), *about))
        state.add(turn)
    return found


def tool_names(turn: Turn, *, user_side: bool = False) -> tuple[ToolName, ...]:
    """Names called in a turn, in listed order, without the summary tool; the user's calls only with `user_side`."""
    if turn.role == "user":
        return tuple(types.USER_SIDE + call.name for call in turn.calls) if user_side else ()
    return tuple(call.name for call in turn.calls if call.name != SUMMARY_TOOL)


def own_tool(name: ToolName, arguments: Iterable[str] = ()) -> ToolName:
    """Which of hepm's own tools a name stands for, by its name in `OWN_TOOLS`; "" if none.

    An agent with hepm's MCP server calls them as its own, while another door records its run. What they answer must not
    be learned back, and they are never suggested.

    Args:
        arguments: Names of its arguments.
    """
    prefix, own = _own_tool(name)
    return own if own and (prefix or OWN_TOOLS[own] in ("", *arguments)) else ""


@lru_cache(maxsize=4096)
def _own_tool(name: ToolName) -> tuple[str, ToolName]:
    match = _OWN_TOOL.fullmatch(name)
    return (match[1] or "", match[2]) if match else ("", "")


def agent_state(turns: Iterable[Turn]) -> AgentState:
    """What the agent knows after these turns."""
    state = AgentState()
    for turn in turns:
        state.add(turn)
    return state


def hints_in(text: str) -> list[str]:
    """The blocks and lines in a text that have the form of hepm's, a line in a block of its own without the block."""
    return [_unframed(match[1]) for match in _SAID.finditer(text)]


def without_said(text: str, said: Container[str]) -> str:
    """A text without the blocks and lines that hepm `said`. Those of others are part of what happened."""
    rest = _SAID.sub(lambda match: "" if _unframed(match[1]) in said else match[0], text)
    return text if rest == text else rest.rstrip("\n")


def _unframed(hint: str) -> str:
    inner = hint.removeprefix(types.BLOCK_START).removesuffix(types.BLOCK_END).strip()
    return inner if inner.startswith((types.HINT, types.FAILED_HINT)) else hint


def without_hints(text: str) -> str:
    """A text without anything in the form of hepm's hints: for what is learned, where who said it is not known."""
    if types.BLOCK_START in text:
        text = _BLOCK.sub("", text)
    hints = (types.HINT, types.FAILED_HINT)
    if not any(hint in text for hint in hints):
        return text
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(hints))
