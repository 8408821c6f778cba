"""Runs whose task ids do not repeat, grouped by what the user asked."""

from __future__ import annotations

import random

from hepm.types import HINT
from hepm.uplift.likeness import group_by_request, group_requests
from tests.runs import trajectory

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
