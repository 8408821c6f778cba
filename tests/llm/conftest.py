"""A client at the played endpoint, and questions to ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from hepm.llm import Client, Endpoint, Message, Question
from tests.loopback import Loopback, loopback  # noqa: F401

KEY = "sk-secret-0123456789"


@dataclass(frozen=True)
class Lesson:
    """What a run taught."""

    text: str
    kind: Literal["guiding", "cautionary"]
    score: float = 0.5

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("the text is empty")


LESSON = '{"text": "look before you cancel", "kind": "guiding", "score": 0.9}'


def lesson_question(about: str = "run-1", **more: Any) -> Question[Lesson]:
    return Question(
        "distill", about, (Message("system", "Be brief."), Message("user", f"Learn from {about}.")), Lesson, **more
    )


def text_question(about: str = "run-1", step: str = "reflect", **more: Any) -> Question[str]:
    return Question(step, about, (Message("user", f"Say something on {about}."),), str, **more)


@pytest.fixture
def server(loopback: Loopback) -> Loopback:  # noqa: F811
    return loopback


@pytest.fixture
def open_client(server: Loopback) -> Iterator[Callable[..., Client]]:
    """Opens clients at the server; they are closed with the test."""
    with ExitStack() as opened:
        yield lambda **more: opened.enter_context(Client(Endpoint("small", server.url, KEY), **more))


@pytest.fixture
def client(open_client: Callable[..., Client]) -> Client:
    return open_client()
