"""Training of reflections with TRL (MultiSessionCollab 4.2, appendix D): rows, the judge's reward, the settings.

A reflection is one answer to one question, so that TRL's own generation makes the rollouts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hepm.errors import AnswerError, BudgetSpentError
from hepm.experience.notes import lines_of
from hepm.experience.reflection import reflection_question
from hepm.ingest.redact import Redactor
from hepm.lab.rl.rewards import reflection_reward
from hepm.llm import Client
from hepm.llm.client import schema_note
from hepm.types import Object

if TYPE_CHECKING:
    from hepm.lab.collaboration.play import PlayedSession

REFLECTION_SFT: Final[Mapping[str, Any]] = {
    "max_length": 32_768,
    "num_train_epochs": 4,
    "learning_rate": 1e-6,
    "per_device_train_batch_size": 64,
}
"""The cold start of table 5, as arguments of TRL's `SFTConfig`."""
REFLECTION_GRPO: Final[Mapping[str, Any]] = {
    "max_steps": 200,
    "learning_rate": 1e-6,
    "beta": 0.003,
    "num_generations": 8,
    "max_completion_length": 1_024,
    # 64 prompts a step, of 8 rollouts each.
    "per_device_train_batch_size": 64,
    "gradient_accumulation_steps": 8,
}
"""GRPO of table 5, as arguments of TRL's `GRPOConfig`; its 2,048 tokens of a prompt are no argument there."""


def reflection_rows(sessions: Iterable[PlayedSession], author: Client) -> Iterator[Object]:
    """A row of each session in which the user enforced a preference, for TRL's `SFTTrainer` and `GRPOTrainer`.

    `prompt` asks for the reflection as `Preferences.reflect` does; `completion` is the author's, `gold` its text;
    `enforced` has the user's messages that enforce (ε). A session is left out if the author's reflection cannot be
    read or notes nothing, or its budget has no room for it.

    Args:
        author: Writes the gold reflections, a strong model. What its ledger has is not asked again.
    """
    redact = Redactor().text
    for session in sessions:
        turns = [replace(turn, text=redact(turn.text)) for turn in session.messages]
        said = [turn.text for turn in turns if turn.role == "user"]
        # The last message of a session that ended with its turns is in no conversation.
        enforced = [wish for wish in map(redact, session.wishes) if wish in said]
        if not enforced:
            continue
        question = reflection_question(session.user, lines_of(session.notes), turns)
        try:
            answer = author.ask(question)
        except (AnswerError, BudgetSpentError):
            continue
        # Notes of nothing are no gold.
        if not any(note.text.strip() for note in answer.notes):
            continue
        gold = json.dumps(asdict(answer), ensure_ascii=False)
        prompt = [{"role": message.role, "content": message.text} for message in question.messages]
        prompt[-1]["content"] += f"\n\n{schema_note(question)}"
        yield {
            "prompt": prompt,
            "completion": [{"role": "assistant", "content": gold}],
            "enforced": enforced,
            "gold": gold,
        }


def reflection_judge(judge: Client) -> Callable[..., list[float | None]]:
    """`reflection_reward` on such rows, for `reward_funcs` of a `GRPOTrainer`; None for an unreadable judgement."""

    def reflection(
        completions: Sequence[Any], *, enforced: Sequence[Sequence[str]], gold: Sequence[str], **other: Any
    ) -> list[float | None]:
        del other
        texts = [completion[-1]["content"] for completion in completions]
        with ThreadPoolExecutor(8) as pool:
            return [*pool.map(partial(_reward, judge), texts, enforced, gold)]

    return reflection


def _reward(judge: Client, text: str, enforced: Sequence[str], gold: str) -> float | None:
    try:
        return reflection_reward(judge, text, enforced, gold)
    except AnswerError:
        return None
