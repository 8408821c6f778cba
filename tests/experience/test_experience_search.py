"""Experiences are found by their situations: an equal request comes first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from hepm import Memory
from hepm.experience.lessons import Experience
from hepm.graph.lessons.transaction import LessonChange
from tests.runs import trajectory

REQUESTS = (
    "I want red shoes",
    "Cancel my order",
    "My parcel is late",
    "Change my address",
    "Refund, please",
    "Is the blue tent in stock?",
    "I forgot my password",
    "Send me the invoice",
    "Book a table",
    "Stop the newsletter",
)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with Memory.open(tmp_path_factory.mktemp("found")) as opened:
        for at, goal in enumerate(REQUESTS):
            opened.ingest(
                [
                    trajectory(f"won{at}", "look", f"act_{at}", goal=goal, task=f"{at}"),
                    trajectory(f"lost{at}", "look", "leave", goal=goal, task=f"{at}", success=False),
                ]
            )
        opened.experiences.distill()
        yield opened


def test_an_equal_short_request_finds_its_experience_first(memory: Memory) -> None:
    for request in REQUESTS:
        found = memory.experiences.search(request)
        assert found
        assert f'"{request}"' in found[0].experience.situation


def test_an_unlike_request_finds_nothing(memory: Memory) -> None:
    assert memory.experiences.search("zzz qqq") == []


def test_two_lessons_of_one_situation_are_both_found(memory: Memory) -> None:
    found = memory.experiences.search("Cancel my order", k=2)
    assert len({one.experience.lesson for one in found}) == 2


def test_an_experience_with_the_text_of_an_older_version_is_known_again(memory: Memory) -> None:
    """Its text held the action and the lesson; its id did not change since."""
    made = Experience("I want a lamp", "Called buy().", "It succeeded.", "Call buy.", "golden", "exploration", 1.0)
    old = LessonChange(put=[replace(made.row(), text="I want a lamp\nCalled buy().\nCall buy.")], imported=True)
    memory.lessons.change(old)
    changed = memory.lessons.change(LessonChange(put=[made.row()], imported=True))
    assert changed.refused == ()
    known = memory.lessons.lessons("default").get(made.id)
    assert known.row.text == "I want a lamp"
