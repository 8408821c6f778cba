"""Answers that were paid for, kept in the store and forgotten with what they are about."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Literal, TypeAlias

from hepm.graph.lessons.rows import Answer
from hepm.graph.writes import LessonStore
from hepm.llm import PaidAnswer, Usage

Subject: TypeAlias = Literal["run", "user", "lesson"]


class StoreLedger:
    """A ledger for `hepm.llm.Client` in a namespace of a store.

    Args:
        about: What the subjects of the questions are: stored runs, users who have notes, or lessons. An answer about a
            run or user that is not there is not kept.
    """

    def __init__(self, lessons: LessonStore, namespace: str, about: Subject) -> None:
        self._lessons = lessons
        self._namespace = namespace
        self._about = about

    def get(self, key: str) -> PaidAnswer | None:
        """See `hepm.llm.Ledger.get`."""
        for answer in self._lessons.answers([key], namespace=self._namespace):
            return PaidAnswer(answer.run or answer.user, answer.step, answer.text, Usage(**json.loads(answer.usage)))
        return None

    def put(self, key: str, answer: PaidAnswer) -> None:
        """See `hepm.llm.Ledger.put`."""
        kept = Answer(
            key,
            answer.step,
            run=answer.subject if self._about == "run" else "",
            text=answer.text,
            usage=json.dumps(asdict(answer.usage)),
            user=answer.subject if self._about == "user" else "",
        )
        self._lessons.put_answers([kept], namespace=self._namespace)
