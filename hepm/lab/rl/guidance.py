"""Which rollouts of a group are guided, and what memory says in them (H-EPM 4.3, "H-EPM Enhanced RL")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from hepm.agents.wire import tagged
from hepm.errors import InputError
from hepm.ingest.transitions import agent_state
from hepm.memory import Memory
from hepm.policy import Policy
from hepm.types import DEFAULT_NAMESPACE, Speak, ToolName, Turn


@dataclass(frozen=True, slots=True)
class Guided:
    """What memory says at one turn, "" if nothing, and the tools that it names."""

    text: str = ""
    tools: tuple[ToolName, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Guidance:
    """Hints for rollouts. Threads and processes may have one each: equal arguments give equal hints.

    Attributes:
        policy: "adaptive" is the paper's, "hybrid" the default of `Memory.suggest`.
        p_skip: Share of the procedural hints that are left out, whole, in [0, 1] (.8 to 1 in the paper, by domain). A
            hint is procedural where the agent has not summarised since its last call; others are always shown.
        share: Guide all rollouts of a group, or those with an even index (H-EPM table 5).
        speak: As for `Memory.suggest`; the hybrid policy alone. "weighed" by default, since training wants guesses.
        seed: Of the draws, which depend on nothing but it, the task, the rollout's index in its group, and the turn.
    """

    memory: Memory
    policy: str | Policy = "adaptive"
    p_skip: float = 0.8
    share: Literal["all", "half"] = "all"
    k: int = 2
    speak: Speak = "weighed"
    seed: int = 0
    namespace: str = DEFAULT_NAMESPACE

    def __post_init__(self) -> None:
        if not 0 <= self.p_skip <= 1:
            raise InputError(f"p_skip is {self.p_skip}: give a probability from 0 to 1")

    def guides(self, index: int) -> bool:
        """Whether the rollout with this index in its group is guided."""
        return self.share == "all" or index % 2 == 0

    def skips(self, task: str, index: int, turn: int) -> bool:
        """Whether a procedural hint is left out at this turn."""
        # Seeded by a string: its hash does not change from process to process, that of a tuple would.
        return Random(f"{self.seed}/{task}/{index}/{turn}").random() < self.p_skip

    def hint(self, turns: Sequence[Turn], tools: Iterable[ToolName], task: str, index: int) -> Guided:
        """What memory says after these turns of a guided rollout."""
        now = agent_state(turns)
        state = now.state()
        procedural = not state.own.strip()
        turn = sum(turn.is_step for turn in turns)
        if procedural and self.skips(task, index, turn):
            return Guided()
        suggestions = self.memory.suggest(
            now.last,
            history=now.history,
            state=state,
            tools=tools,
            k=self.k,
            policy=self.policy,
            speak=self.speak,
            namespace=self.namespace,
        )
        named = tuple(suggestion.tool for suggestion in suggestions)
        text = suggestions.prompt()
        return Guided(tagged(text) if text else "", named)
