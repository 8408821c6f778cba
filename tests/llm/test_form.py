"""Forms: their schema, and questions that are equal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import pytest

from hepm.llm import Message, Question
from tests.llm.conftest import Lesson, lesson_question, text_question
from tests.loopback.requests import complaint_of


class Kind(Enum):
    GUIDING = "guiding"
    CAUTIONARY = "cautionary"


@dataclass(frozen=True)
class Triple:
    subject: str
    title: str
    default: str


@dataclass(frozen=True)
class Principle:
    """A rule."""

    kind: Kind
    triples: tuple[Triple, ...]
    first: Triple | None = None
    note: str | None = None
    number: int = 3


@pytest.mark.parametrize("form", [Lesson, Principle])
def test_the_schema_of_a_form_is_one_for_strict_output(form: type):
    schema = Question("s", "u", (Message("user", "x"),), form).schema
    assert schema is not None
    assert complaint_of(schema) == ""
    assert schema["type"] == "object"


def test_equal_questions_have_equal_keys_and_step_subject_and_limit_make_no_difference():
    key = lesson_question().key("small")
    assert key == lesson_question().key("small")
    assert key == replace(lesson_question(), step="learn", subject="run-9", max_output_tokens=9).key("small")


def test_whatever_shapes_the_answer_makes_another_key():
    question = lesson_question()
    others = [
        replace(question, messages=(Message("user", "x"),)),
        replace(question, messages=(Message("user", "Be brief."), *question.messages[1:])),
        replace(question, temperature=0.0),
        replace(question, temperature=0.5),
        Question("distill", "run-1", question.messages, str),
        Question("distill", "run-1", question.messages, Principle),
    ]
    keys = {question.key("small"), question.key("large"), *(other.key("small") for other in others)}
    assert len(keys) == 2 + len(others)


def test_the_key_of_a_question_stays_what_it_is():
    # Answers that were paid for lie under such keys: one that changes makes people pay again.
    assert text_question("überall 你好 \ud800").key("small") == "949698fbd4dbfb874ff791e1412d27bd"
    assert lesson_question(temperature=0.0).key("small") == "a31c574fd87916e19802e5c2a8714659"
