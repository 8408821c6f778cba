"""Tests of comparisons: what decides is which of two numbers, or times, is above the other."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from hepm import Outcome, Trajectory, Turn
from hepm.evidence.compared import with_comparisons
from hepm.evidence.facts import KnownFacts
from hepm.evidence.facts import tests_of as alone_of
from hepm.ingest.transitions import agent_state
from tests.evidence.remembered import filled, sample_of, told

DAY = datetime(2026, 11, 24, 12)


def claim(number: int, *, sum: int, limit: int, capped: bool, success: bool = True) -> Trajectory:
    results = ("claim", {"sum": sum, "desk": number % 7}), ("policy", {"limit": limit})
    return told(f"c{number}", *results, ("cap" if capped else "pay", "ok"), success=success)


def claims(count: int) -> list[Trajectory]:
    """Sums are capped where they are above the limit of the policy; a third of the agents forget that, and fail."""
    runs: list[Trajectory] = []
    for number in range(count):
        chance = random.Random(number)
        sum, limit = chance.randrange(100, 900), chance.choice([250, 500, 750])
        forgets = sum > limit and chance.random() < 1 / 3
        runs.append(claim(number, sum=sum, limit=limit, capped=sum > limit and not forgets, success=not forgets))
    return runs


@pytest.mark.parametrize(("sum", "limit", "tool"), [(600, 750, "pay"), (600, 500, "cap"), (300, 250, "cap")])
def test_the_first_suggestion_follows_the_comparison_of_two_results(
    tmp_path: Path, sum: int, limit: int, tool: str
) -> None:
    now = claim(0, sum=sum, limit=limit, capped=False).turns[:-1]
    with filled(tmp_path, claims(150)) as memory:
        first = memory.suggest(after="policy", state=agent_state(now).state())[0]
    said = {"pay": "at most limit of policy", "cap": "above limit of policy"}[tool]
    assert (first.tool, f"claim says sum is {said}" in first.reason) == (tool, True)


def refunded(number: int, *, days: float, refund: bool) -> Trajectory:
    """A run on a day of its own, about a purchase of some days before."""
    now = DAY + timedelta(days=number)
    bought = (now - timedelta(days=days)).isoformat(sep=" ", timespec="minutes")
    run = told(f"r{number}", ("order", {"bought": bought}), ("refund" if refund else "decline", "ok"))
    prompt = f"You answer customers. The time is {now:%Y-%m-%d %H:%M}."
    return Trajectory(run.id, (Turn("system", prompt), *run.turns), Outcome(1.0, True))


@pytest.mark.parametrize(("days", "tool"), [(20, "refund"), (45, "decline")])
def test_how_long_ago_something_was_is_compared_with_the_time_of_the_system_prompt(
    tmp_path: Path, days: float, tool: str
) -> None:
    chance = random.Random(0)
    ago = [chance.uniform(1, 60) for _ in range(120)]
    runs = [refunded(number, days=past, refund=past <= 30) for number, past in enumerate(ago)]
    now = refunded(900, days=days, refund=False).turns[:-1]
    with filled(tmp_path, runs) as memory:
        first = memory.suggest(after="order", state=agent_state(now).state())[0]
    assert (first.tool, "days after bought of order" in first.reason) == (tool, True)


def mail(number: int, chance: random.Random, *, is_claim: bool) -> dict[str, int]:
    """Numbers of which many pairs tell a claim from a letter."""
    sum = chance.randrange(100, 900)
    sign = 1 if is_claim else -1
    return {"sum": sum, **{key: sum + sign * chance.randrange(1, 90) for key in ("fee", "tax", "net", "due")}}


@pytest.mark.parametrize(("limit", "tool"), [(950, "pay"), (50, "cap")])
def test_a_comparison_that_decides_for_one_kind_of_request_is_found_among_many_that_tell_the_kinds_apart(
    tmp_path: Path, limit: int, tool: str
) -> None:
    runs: list[Trajectory] = []
    for number in range(400):
        chance = random.Random(number)
        is_claim, numbers = number % 4 == 0, mail(number, chance, is_claim=number % 4 == 0)
        most = chance.randrange(100, 900)
        over = numbers["sum"] > most
        forgets = is_claim and over and chance.random() < 0.5
        last = ("cap" if over and not forgets else "pay") if is_claim else "file"
        runs.append(
            told(f"m{number}", ("mail", numbers), ("policy", {"limit": most}), (last, "ok"), success=not forgets)
        )
    chance = random.Random(-1)
    now = told("now", ("mail", mail(0, chance, is_claim=True)), ("policy", {"limit": limit}), ("none", "ok")).turns[:-1]
    with filled(tmp_path, runs) as memory:
        first = memory.suggest(after="policy", state=agent_state(now).state())[0]
    assert (first.tool, "limit of policy" in first.reason) == (tool, True)


def test_numbers_that_decide_nothing_are_not_compared(tmp_path: Path) -> None:
    runs = [
        claim(number, sum=number * 37 % 900, limit=number * 53 % 700, capped=number % 2 == 0) for number in range(90)
    ]
    with filled(tmp_path, runs) as memory:
        sample = sample_of(memory)
        rows = [decision for run in sample.runs for decision in run.decisions if decision.place.tool == "policy"]
        labels = [int("cap" in decision.tools) for decision in rows]
        known, each = KnownFacts.of(rows, sample.numbers), np.arange(len(rows))
        alone = alone_of(known, each, fewest=3, keep=lambda test: True)
        found = with_comparisons(alone, known, np.array(labels), each, fewest=3, keep=lambda test: True)
    assert found.tests == alone.tests
