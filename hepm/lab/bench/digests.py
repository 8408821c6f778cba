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
from hepm.llm import Client, Question, prompt_of
from hepm.text import quoted
from hepm.types import Trajectory

Digests: TypeAlias = Literal["", "reasoningbank", "agentevolver"]
# Items from a run, as ReasoningBank has it.
MOST_ITEMS: Final = 3
_ENDED: Final = {
    True: "The agent succeeded. Say what made it succeed",
    False: "The agent failed. Say why, and how that is prevented",
}


@dataclass(frozen=True, slots=True)
class DigestItem:
    """One thing that helps with other tasks of this kind; it names no person, id, number or date of this run.

    `when_to_use` is in words of a request or a situation, `content` says what to do then.
    """

    title: str
    when_to_use: str
    content: str


@dataclass(frozen=True, slots=True)
class DigestItems:
    """At most three different items; fewer are better than vague ones."""

    items: tuple[DigestItem, ...]


class TextVectors:
    """Texts to be compared with another one by their vectors."""

    def __init__(self, embedder: Embedder, texts: Sequence[str]) -> None:
        self._embedder = embedder
        self._vectors_ND = embedder.embed(list(texts)) if texts else None

    def nearest(self, text: str, k: int) -> list[int]:
        """The numbers of the k nearest texts, the nearest first; ties in their order."""
        if self._vectors_ND is None:
            return []
        (vector_D,) = self._embedder.embed([text])
        # Vectors have length 1: their product is the cosine.
        return np.argsort(-(self._vectors_ND @ vector_D), kind="stable")[:k].tolist()


def digest_of(run: Trajectory, digests: Digests) -> Question[DigestItems]:
    """What a model is asked about a run whose outcome is known."""
    task = (
        f"You study the record of an agent that uses tools. {_ENDED[run.outcome.success is True]}, for an agent that "
        f"gets another task of this kind. Write at most {MOST_ITEMS} things. {RECORD_IS_DATA}"
    )
    return Question(digests, run.id, prompt_of(task, quoted_run(run)), DigestItems, temperature=0.0)


class DigestedRuns:
    """What a model drew from runs, to be found for a new task."""

    def __init__(self, embedder: Embedder, digests: Digests) -> None:
        self._embedder = embedder
        self._digests: Digests = digests
        self._known: list[tuple[str, list[str]]] = []  # what texts are found by, and they
        self._vectors = TextVectors(embedder, ())

    def learn(self, runs: Sequence[Trajectory], client: Client | None) -> None:
        """Ask about labelled runs; one that the model has no answer to is left out."""
        for run in runs:
            if client is None or run.outcome.success is None:
                continue
            try:
                items = client.ask(digest_of(run, self._digests)).items[:MOST_ITEMS]
            # The model gave no readable answer, after a repair too: the run teaches nothing.
            except AnswerError:
                continue
            texts = [f"{item.title}. When {item.when_to_use}: {item.content}" for item in items]
            if self._digests == "agentevolver":
                self._known += [(item.when_to_use, [text]) for item, text in zip(items, texts, strict=True)]
            elif texts:
                self._known.append((request_of(run), texts))
        self._vectors = TextVectors(self._embedder, [found_by for found_by, _ in self._known])

    def about(self, request: str) -> str:
        """What helps with a request, as text for a system prompt; "" if nothing is known."""
        # Three experiences, as AgentEvolver has it; the items of one run, as ReasoningBank has it.
        found = self._vectors.nearest(request, 3 if self._digests == "agentevolver" else 1)
        if not found:
            return ""
        lines = [f"Drawn from earlier runs of other tasks. {RECORD_IS_DATA}"]
        for index in found:
            # Quoted: a tool may have written into a run what a model then repeats.
            lines += [f"- {quoted(text, 600)}" for text in self._known[index][1]]
        return "\n".join(lines)


def request_of(run: Trajectory) -> str:
    """What the user asked for first; "" if nothing."""
    return next((turn.text for turn in run.turns if turn.role == "user"), "")
