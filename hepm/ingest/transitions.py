"""From a trajectory to its transitions, each with what the agent knew at that point."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from hepm import types
from hepm.ingest.facts import facts_of_instructions, facts_of_message, facts_of_result, shorter_result, time_of_message
from hepm.types import (
    NOW,
    SAID,
    SAID_LAST,
    START,
    SUMMARY_TOOL,
    Facts,
    StateSummary,
    ToolName,
    Trajectory,
    Transition,
    Turn,
    with_result,
)

OWN_TOOLS: Final = {
    SUMMARY_TOOL: "", "suggest_next_tools": "", "search_experience": "query", "record_outcome": "session_id",
    "find_tools": "session_id",
    "what_failed_here": "", "remember": "session_id", "forget": "session_id", "my_preferences": "",
}  # fmt: skip
"""Tools of hepm's MCP server; with an argument where another tool may well have the name."""

USER_CHARS: Final = 600

# What hepm says has no second beginning of a block inside; a search that looked past one would take quadratic time.
_SAID: Final = re.compile(
    rf"({types.BLOCK_START}(?:(?!{types.BLOCK_START}).)*?{types.BLOCK_END}|^(?:{'|'.join(types.HINTS)}).*?$)\n?",
    re.DOTALL | re.MULTILINE,
)


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
        self._user_texts: tuple[str, ...] = ()
        self._own_summary = self._result = ""
        self._user_spoke = self._agent_spoke = self._failed = False
        self._time_given = False  # by a system prompt: an email may be older
        self._calls_before_user = 0
        self.history: list[ToolName] = []
        self.last: tuple[ToolName, ...] = (START,)
        self.facts: Facts = {}
        self.learned: Facts = {}

    def state(self) -> StateSummary:
        """What the agent knows now: an extract, and its own summary, if nothing was called and no user wrote since."""
        # Hints are removed before the text is cut: they must not take the place of what happened.
        result = without_hints(self._result)[:400]
        return StateSummary(
            self._own_summary,
            self._user_texts,
            result,
            tuple(self.history[-3:]),
            self._user_spoke,
            self._agent_spoke,
            self._failed or result.lstrip()[:5].lower() == "error",
            self._calls_before_user,
            facts=self.facts,
        )

    def add(self, turn: Turn) -> None:
        """Take one more turn into account."""
        tools = tool_names(turn) if turn.calls else ()
        if turn.text and turn.role == "user":
            user_text = without_hints(turn.text)[:USER_CHARS]
            self._user_texts = (*self._user_texts, user_text)
            self._user_spoke = True
            self._calls_before_user = len(self.history)
            self._own_summary = ""
            self._hear(facts_of_message(user_text))
            if not self._time_given:
                self._set_now(time_of_message(user_text))
        elif turn.text and turn.role == "system":
            now = facts_of_instructions(turn.text)
            self._time_given = self._time_given or bool(now)
            self._set_now(now)
        elif turn.text and turn.role == "assistant":
            # A text beside calls is no message to the user.
            self._agent_spoke = self._agent_spoke or not (tools or turn.refused)
        if tools:
            self.last = tools
            self.history.extend(tools)
            self._own_summary = ""
            self._user_spoke = self._agent_spoke = False
            # What is learned from here on came since this call.
            self.learned = {}
        found: dict[ToolName, Mapping[str, float]] = {}
        for call in turn.ran:
            if call.name == SUMMARY_TOOL:
                # Under its key, else the longest text of the call: models misname the one argument ({"state": "…"}).
                texts = [value for value in call.arguments.values() if isinstance(value, str)]
                summary = call.arguments.get("summary") or max(texts, key=len, default=call.result or "")
                if isinstance(summary, str):
                    self._own_summary = summary or self._own_summary
            elif call.result:
                self._result = shorter_result(call.result)
                self._failed = call.error is True
                found[call.name] = facts_of_result(without_hints(self._result))
        for tool, facts in found.items():
            # The dictionaries are shared with states: none is changed.
            self.facts = with_result(self.facts, tool, facts)
            self.learned = {**self.learned, tool: facts}

    def _set_now(self, now: Mapping[str, float]) -> None:
        if now:
            self.facts, self.learned = {**self.facts, NOW: now}, {**self.learned, NOW: now}

    def _hear(self, words: Mapping[str, float]) -> None:
        """Add words of the user. Messages between two calls count as one."""
        if not words:
            return
        last_words = {**self.learned.get(SAID, {}), **words}
        all_words = {**self.facts.get(SAID, {}), **words}
        self.learned = {**self.learned, SAID: last_words}
        self.facts = {**self.facts, SAID: all_words, SAID_LAST: last_words}


def transitions(trajectory: Trajectory) -> list[Transition]:
    """Each turn with calls and the one before it; the first follows START.

    The last one has no targets: it is how the run ended, as known before a text followed the last call, and whether one
    did. There is none where a call was refused since: the agent did not stop.
    """
    agent = AgentState()
    moves: list[Transition] = []
    ended: list[Transition] = []
    for turn in trajectory.turns:
        targets = tool_names(turn) if turn.calls else ()
        if targets:
            moves.append(Transition(agent.last, targets, len(moves), agent.state(), agent.learned, turn.hinted))
        agent.add(turn)
        if targets:
            ended = [Transition(agent.last, (), len(moves), agent.state(), agent.learned)]
        elif turn.refused:
            ended = []
    if ended and agent.state().agent_spoke:
        ended = [replace(ended[0], state=replace(ended[0].state, agent_spoke=True))]
    return moves + ended


def tool_names(turn: Turn, *, user_side: bool = False) -> tuple[ToolName, ...]:
    """Names of the calls of a turn that ran, in listed order, without the summary tool; the user's calls only with
    `user_side`."""
    if turn.role == "user":
        return tuple([types.USER_SIDE + call.name for call in turn.ran]) if user_side else ()
    return tuple([call.name for call in turn.ran if call.name != SUMMARY_TOOL])


def own_tool(name: ToolName, arguments: Iterable[str] = ()) -> ToolName:
    """Which of hepm's own tools a name stands for, by its name in `OWN_TOOLS`; "" if none.

    An agent with hepm's MCP server calls them as its own, while another door records its run. What they answer must not
    be learned back, and they are never suggested.

    Args:
        arguments: Names of its arguments.
    """
    match = _own_tool(name)
    if match is not None and (match[1] or OWN_TOOLS[match[2]] in ("", *arguments)):
        return match[2]
    return ""


# MCP clients put the server's name before a tool's: mcp__hepm__record_outcome, mcp_hepm_…, hepm.…, hepm-….
_own_tool: Final = lru_cache(maxsize=4096)(re.compile(rf"(.*hepm.*[\W_])?({'|'.join(OWN_TOOLS)})").fullmatch)
"""Groups: what a client put before the name, and the name itself: "mcp__hepm__" and "record_outcome"."""


def agent_state(turns: Iterable[Turn]) -> AgentState:
    """What the agent knows after these turns."""
    state = AgentState()
    for turn in turns:
        state.add(turn)
    return state


def hints_in(text: str) -> list[str]:
    """The blocks and lines in a text that have the form of hepm's, a line in a block of its own without the block."""
    return [_unframed(match[1]) for match in _SAID.finditer(text)]


def without_own_hints(text: str, own_hints: Container[str] | None) -> str:
    """A text without the blocks and lines that hepm wrote; those of others are part of what happened.

    Args:
        own_hints: Those that hepm wrote; None if no one else could.
    """
    if not any(mark in text for mark in (types.BLOCK_START, *types.HINTS)):  # as in hardly any text
        return text
    rest = _SAID.sub(lambda match: "" if own_hints is None or _unframed(match[1]) in own_hints else match[0], text)
    return text if rest == text else rest.rstrip("\n")


def _unframed(hint: str) -> str:
    """A line of a hint without the block around it; a block with anything else inside as it is."""
    inner = hint.removeprefix(types.BLOCK_START).removesuffix(types.BLOCK_END).strip()
    return inner if inner.startswith(types.HINTS) else hint


def request_of(run: Trajectory) -> str:
    """What the user asked for first, cut; "" where no user spoke."""
    texts = (without_hints(turn.text).strip() for turn in run.turns if turn.role == "user")
    return next(filter(None, texts), "")[:USER_CHARS]


def without_hints(text: str) -> str:
    """A text without anything in the form of hepm's hints: for what is learned, where who said it is not known."""
    # A fixed text is found faster than a pattern, and hardly any text holds one.
    if types.BLOCK_START in text:
        # The block's end may be gone from a text that was cut.
        block = rf"(?s){re.escape(types.BLOCK_START)}.*?(?:{re.escape(types.BLOCK_END)}\n?|\Z)"
        text = re.sub(block, "", text)
    if not any(hint in text for hint in types.HINTS):
        return text
    return "\n".join([line for line in text.splitlines() if not line.lstrip().startswith(types.HINTS)])
