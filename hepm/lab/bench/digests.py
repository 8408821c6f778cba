"""What a model draws from each run for the next ones: memories after ReasoningBank and AgentEvolver, as baselines.

ReasoningBank (Ouyang et al. 2025, arXiv:2509.25140): at most three items from each run, successful or not, and for a
new task those of the most similar request. AgentEvolver (Zhai et al. 2025, arXiv:2511.10395): experiences with when to
use them, and for a new task the three whose use is nearest. Prompts are our own; nothing is merged or deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from hepm.embed import Embedder
from hepm.errors import AnswerError
from hepm.experience.model_distiller import RECORD_IS_DATA, quoted_run
from hepm.llm import Client, Message, Question
from hepm.text import quoted
from hepm.types import Trajectory

Digests: TypeAlias = Literal["", "reasoningbank", "agentevolver"]
# Items from a run, as ReasoningBank has it.
MOST_ITEMS: Final = 3
# Experiences for a new task, as AgentEvolver has it.
USED_EXPERIENCES: Final = 3
# Characters of an item in a prompt.
_ITEM_CHARS: Final = 600
_ENDED: Final = {
    True: "The agent succeeded. Say what made it succeed",
    False: "The agent failed. Say why, and how that is prevented",
}


@dataclass(frozen=True, slots=True)
class BankItem:
    """One thing that helps with other tasks of this kind; it names no person, id, number or date of this run."""

    title: str
    description: str
    content: str


@dataclass(frozen=True, slots=True)
class BankItems:
    """At most three different items; fewer are better than vague ones."""

    items: tuple[BankItem, ...]


@dataclass(frozen=True, slots=True)
class UsableExperience:
    """An experience of a run: when to use it, in words of a request or a situation, and what to do then."""

    when_to_use: str
    content: str


@dataclass(frozen=True, slots=True)
class UsableExperiences:
    """At most three different experiences; fewer are better than vague ones."""

    experiences: tuple[UsableExperience, ...]


@dataclass(frozen=True, slots=True)
class _Digested:
    """Texts that are found together by what one text is like."""

    found_by: str
    texts: tuple[str, ...]


def digest_of(run: Trajectory, digests: Digests) -> Question[BankItems] | Question[UsableExperiences]:
    """What a model is asked about a run whose outcome is known."""
    task = (
        f"You study the record of an agent that uses tools. {_ENDED[run.outcome.success is True]}, for an agent that "
        f"gets another task of this kind. Write at most {MOST_ITEMS} things. {RECORD_IS_DATA}"
    )
    messages = (Message("system", task), Message("user", quoted_run(run)))
    if digests == "reasoningbank":
        return Question("reasoningbank", run.id, messages, BankItems, temperature=0.0)
    return Question("agentevolver", run.id, messages, UsableExperiences, temperature=0.0)


class DigestedRuns:
    """What a model drew from runs, to be found for a new task."""

    def __init__(self, embedder: Embedder, digests: Digests) -> None:
        self._embedder = embedder
        self._digests: Digests = digests
        self._known: list[_Digested] = []

    def learn(self, runs: Sequence[Trajectory], client: Client | None) -> None:
        """Ask about labelled runs; one that the model has no answer to is left out."""
        if client is None:
            return
        for run in runs:
            if run.outcome.success is None:
                continue
            try:
                answer = client.ask(digest_of(run, self._digests))
            # The model gave no readable answer, after a repair too: the run teaches nothing.
            except AnswerError:
                continue
            if isinstance(answer, BankItems):
                self._add_items(run, answer.items[:MOST_ITEMS])
            else:
                self._add_experiences(answer.experiences[:MOST_ITEMS])

    def _add_items(self, run: Trajectory, items: Sequence[BankItem]) -> None:
        """Found together, by the request of their run."""
        texts = tuple(f"{item.title}. {item.description} {item.content}" for item in items)
        if texts:
            self._known.append(_Digested(request_of(run), texts))

    def _add_experiences(self, experiences: Sequence[UsableExperience]) -> None:
        """Each found by itself, by when to use it."""
        for experience in experiences:
            text = f"When {experience.when_to_use}: {experience.content}"
            self._known.append(_Digested(experience.when_to_use, (text,)))

    def about(self, request: str) -> str:
        """What helps with a request, as text for a system prompt; "" if nothing is known."""
        if not self._known:
            return ""
        vectors_ND = self._embedder.embed([digested.found_by for digested in self._known])
        (vector_D,) = self._embedder.embed([request])
        # Vectors have length 1: their product is the cosine. Stable, so that ties keep the order of the runs.
        nearest: list[int] = np.argsort(-(vectors_ND @ vector_D), kind="stable").tolist()
        most = 1 if self._digests == "reasoningbank" else USED_EXPERIENCES
        lines = [f"Drawn from earlier runs of other tasks. {RECORD_IS_DATA}"]
        for index in nearest[:most]:
            for text in self._known[index].texts:
                # Quoted: a tool may have written into a run what a model then repeats.
                lines.append(f"- {quoted(text, _ITEM_CHARS)}")
        return "\n".join(lines)


def request_of(run: Trajectory) -> str:
    """What the user asked for first; "" if nothing."""
    return next((turn.text for turn in run.turns if turn.role == "user"), "")
