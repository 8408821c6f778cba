"""Runs whose task ids do not repeat: grouped by what the user asked, and compared inside of a group."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from hepm import Memory, Trajectory
from hepm.experience.likeness import group_by_request, group_requests
from hepm.types import HINT
from tests.runs import trajectory

NS = "default"

KINDS = (
    "I want a refund for parcel {n}, the glass arrived broken",
    "please change the address of order {n} before it ships",
    "my password does not work and I cannot log in to account {n}",
)
NAMES = ("Mia Li", "Bob Ek", "Ann Fox", "Tom Ray", "Eve Cole", "Sam Ng", "Kim Diaz", "Lee Roth")


def desk(count: int) -> dict[str, str]:
    """Requests of three kinds in turn, each with its own number, and all with somebody's name."""
    draw = random.Random(7)
    return {
        f"r{at:04}": f"Hi, I'm {draw.choice(NAMES)}. {KINDS[at % 3].format(n=draw.randint(1, 9_999))}"
        for at in range(count)
    }


def kinds_of(groups: dict[str, str]) -> set[tuple[str, int]]:
    return {(group, int(run[1:]) % 3) for run, group in groups.items()}


def test_requests_of_a_kind_are_one_group_whatever_numbers_and_names_they_hold() -> None:
    groups = group_requests(desk(90))
    assert (len(set(groups.values())), len(kinds_of(groups))) == (3, 3)


LIKE = [
    ("Refund parcel 77, broken glass", "refund parcel 12: broken glass!", True),
    ("I want to cancel my order", "I want to return my order", False),
    ("Refund my parcel", "Close the ticket", False),
    ("", "", False),
    ("12345", "67890", False),
    (f"Refund parcel 7\n{HINT}refund", "Refund parcel 8", True),
    ("Ich möchte meine Bestellung stornieren", "Ich möchte meine Bestellung ändern", False),
]


def test_two_requests_are_like_when_their_words_are() -> None:
    for one, other, alike in LIKE:
        runs = [trajectory("a", "look", goal=one), trajectory("b", "look", goal=other)]
        groups = group_by_request(runs)
        assert (groups["a"] == groups["b"]) is alike


def test_the_order_in_which_requests_come_makes_no_difference() -> None:
    requests = desk(60)
    mixed = list(requests.items())
    random.Random(3).shuffle(mixed)
    assert group_requests(dict(mixed)) == group_requests(requests)


def test_many_requests_are_grouped_as_few_are() -> None:
    """More than one block of leaders and of requests."""
    draw = random.Random(1)
    words = [f"{a}{b}x" for a in "bcdfghjklmnp" for b in "aeiouy"]
    alone = {f"s{at:04}": " ".join(draw.sample(words, 8)) for at in range(600)}
    groups = group_requests(alone | desk(600))
    assert len(kinds_of({run: group for run, group in groups.items() if run[0] == "r"})) == 3


# Lessons


def refund(name: str, tool: str, *, success: bool, task: str = "", environment: str = "desk") -> Trajectory:
    goal = f"Refund parcel {sum(map(ord, name))}, broken glass"
    return trajectory(name, "get_order", tool, goal=goal, task=task, success=success, environment=environment)


def other(name: str) -> Trajectory:
    return trajectory(name, "get_order", "close_ticket", goal=f"Where is my invoice of May? {name}", environment="desk")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path) as opened:
        yield opened


def distill(memory: Memory, *runs: Trajectory) -> dict[str, set[str]]:
    """What experiences say after some runs more, with the runs behind it."""
    memory.ingest(runs)
    memory.experiences.distill(namespace=NS)
    behind: dict[str, set[str]] = {}
    for one in memory.lessons.list("experience", namespace=NS):
        behind.setdefault(str(one.row.properties["lesson"]), set()).update(one.row.run_ids)
    return behind


RIGHT = (
    "After get_order, this run, which succeeded, called refund; "
    "runs with like requests that failed called close_ticket."
)
WRONG = (
    "After get_order, runs with like requests that succeeded called refund; "
    "this one, which failed, called close_ticket."
)


@pytest.mark.parametrize("task", ["", "its own"])
def test_runs_whose_tasks_do_not_repeat_are_compared_with_runs_of_like_requests(memory: Memory, task: str) -> None:
    good = [refund(f"g{n}", "refund", success=True, task=task and f"{task} g{n}") for n in range(3)]
    bad = [refund(f"b{n}", "close_ticket", success=False, task=task and f"{task} b{n}") for n in range(3)]
    found = distill(memory, *good, *bad, other("o1"), other("o2"))
    assert found[RIGHT] == {"g0", "g1", "g2"}
    assert found[WRONG] == {"b0", "b1", "b2"}


def test_runs_of_one_task_are_not_compared_with_like_requests_of_another(memory: Memory) -> None:
    good = [refund(f"g{n}", "refund", success=True, task="one") for n in range(2)]
    bad = [refund(f"b{n}", "close_ticket", success=False, task="two") for n in range(2)]
    assert RIGHT not in distill(memory, *good, *bad)


def test_like_requests_of_two_environments_are_not_compared(memory: Memory) -> None:
    found = distill(
        memory, refund("g", "refund", success=True), refund("b", "leave", success=False, environment="shop")
    )
    assert not any("with like requests" in text for text in found)


def test_a_run_that_comes_later_joins_the_group_it_is_most_like(memory: Memory) -> None:
    distill(memory, *(refund(f"g{n}", "refund", success=True) for n in range(3)), other("o1"))
    found = distill(memory, refund("a later one", "close_ticket", success=False))
    assert found[WRONG] == {"a later one"}
    found = distill(memory, refund("the last one", "refund", success=True))
    assert found[RIGHT] == {"the last one"}


def test_a_group_outlives_the_run_that_it_is_called_by(memory: Memory) -> None:
    distill(memory, *(refund(f"g{n}", "refund", success=True) for n in range(3)))
    memory.forget(trajectory="g0")
    assert distill(memory, refund("late", "close_ticket", success=False))[WRONG] == {"late"}


def test_of_a_large_group_every_run_is_looked_at_beside_some_of_the_others(memory: Memory) -> None:
    good = [refund(f"g{n:03}", "refund", success=True) for n in range(70)]
    bad = [refund(f"b{n:03}", "close_ticket", success=False) for n in range(70)]
    found = distill(memory, *good, *bad)
    assert (len(found[RIGHT]), len(found[WRONG])) == (70, 70)


def test_the_report_says_how_many_runs_were_compared_with_like_requests(memory: Memory) -> None:
    memory.ingest([refund("g", "refund", success=True), refund("b", "close_ticket", success=False), other("o")])
    assert memory.experiences.distill(namespace=NS).alike == 2
    memory.ingest(
        [refund("late", "refund", success=True), *(refund(f"t{n}", "x", success=True, task="t") for n in "ab")]
    )
    assert memory.experiences.distill(namespace=NS).alike == 1


def test_an_estimate_stores_nothing_about_groups(memory: Memory) -> None:
    memory.ingest([refund("g", "refund", success=True), refund("b", "close_ticket", success=False)])
    revision = memory.header.revision
    (task,) = list(memory.lessons.tasks("experience/a model", namespace=NS))
    assert (task.alike, task.wanted, memory.header.revision) == (True, {"g", "b"}, revision)
