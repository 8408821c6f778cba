"""Lessons of many runs as people list them: each sentence once, with its condition, its runs and its evidence."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hepm import Memory
from hepm.experience.equal_lessons import UNTOLD, EqualLessons, equal_lessons
from hepm.experience.lessons import Principle
from hepm.graph.lessons.transaction import LessonChange
from tests.evidence.test_rules import STATES, WISHES, office_run, right_tool

CASES = [(wish, status) for wish in WISHES for status in STATES]


@pytest.fixture(scope="module")
def distilled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty runs, of which half did what is right for their wish and what they read."""
    tools, folder = ("cancel_order", "get_shipment", "get_stock"), tmp_path_factory.mktemp("distilled")
    with Memory.open(folder) as opened:
        for number in range(60):
            wish, status = CASES[number % len(CASES)]
            tool = right_tool(wish, status) if number % 2 else tools[number // 7 % 3]
            opened.ingest([office_run(number, wish, status, tool)])
        opened.experiences.distill()
        opened.principles.distill()
    return folder


@pytest.fixture
def memory(distilled: Path, tmp_path: Path) -> Iterator[Memory]:
    shutil.copytree(distilled, tmp_path, dirs_exist_ok=True)
    with Memory.open(tmp_path) as opened:
        yield opened


def listed(memory: Memory, kind: str = "experience") -> list[EqualLessons]:
    return equal_lessons(memory.lessons.list(kind))  # type: ignore[arg-type]


def test_experiences_of_different_runs_that_say_the_same_are_one_with_all_their_runs(memory: Memory) -> None:
    stored = memory.lessons.list("experience")
    equal = listed(memory)
    assert len(equal) < len(stored) / 4
    assert sum(len(one.lessons) for one in equal) == len(stored)
    assert len({one.text for one in equal}) == len(equal)
    most = max(equal, key=lambda one: len(one.sources))
    assert len(most.sources) == len({source.run for one in most.lessons for source in one.row.sources}) > 5


def test_what_sets_one_run_apart_is_listed_as_told_to_no_agent_and_a_rule_with_its_runs(memory: Memory) -> None:
    assert {one.held_back for one in listed(memory)} == {UNTOLD}
    rules = [one for one in listed(memory, "principle") if "call get_stock" in one.text]
    assert rules
    assert all(one.line.endswith(" runs)") and not one.held_back for one in rules)


def test_a_lesson_that_a_person_wrote_stands_in_its_own_words_beside_what_was_counted(memory: Memory) -> None:
    rule = next(one.row for one in memory.lessons.list("principle") if one.row.triples)
    mine = replace(Principle.of(rule), text="Never guess.", distilled_by="hand")
    memory.lessons.change(LessonChange(put=[mine.row()]))
    assert "Never guess." in {one.text.rpartition(": ")[2] for one in listed(memory, "principle")}


def test_retired_lessons_and_live_ones_are_listed_apart(memory: Memory) -> None:
    first = next(one for one in listed(memory) if len(one.lessons) > 1)
    memory.lessons.retire("experience", [first.first.row.id])
    equal = equal_lessons(memory.lessons.list("experience", retired=True))
    same = [one for one in equal if one.text == first.text]
    assert [len(one.lessons) for one in same if one.first.row.retired] == [1]
    assert sum(len(one.lessons) for one in same) == len(first.lessons)
