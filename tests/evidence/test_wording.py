"""Tests of wordings: what decides is what the user wants, which people say in many words."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from hepm import Outcome, Trajectory, Turn
from hepm.evidence.facts import FactTest, KnownFacts, Questions
from hepm.evidence.facts import tests_of as alone_of
from hepm.evidence.wording import with_wordings
from hepm.ingest.transitions import agent_state
from hepm.types import SAID_LAST
from tests.evidence.remembered import filled, sample_of, told

BEREAVED = (
    "my father passed away, and the contract was his",
    "the holder is deceased, I am the executor of the estate",
    "the funeral was on Monday, now I sort out what she left",
    "I write for my late husband, whose line this was",
    "we lost our grandmother and nobody calls from there",
    "after the death of my aunt the heirs want it closed",
)
LEAVING = (
    "found a cheaper offer elsewhere, so I want out",
    "we move abroad next month and take nothing along",
    "coverage at home is bad, I never have a signal",
    "my company pays for a phone, mine lies in a drawer",
    "the plan costs too much for what I use of it",
    "my son has his own card now, one is enough for us",
)
CHAT = (
    "Hello there.",
    "Good morning!",
    "Sorry to bother you.",
    "Thanks in advance.",
    "It is not urgent.",
    "Best wishes.",
)


def ending(number: int, text: str, *, escalated: bool, success: bool = True) -> Trajectory:
    run = told(f"e{number}", ("look_up", {"plan": number % 5}), ("escalate" if escalated else "cancel", "ok"))
    return Trajectory(run.id, (Turn("user", text), *run.turns), Outcome(float(success), success))


def endings(count: int) -> list[Trajectory]:
    """Of bereaved customers a third are cancelled, and lost."""
    runs: list[Trajectory] = []
    for number in range(count):
        chance = random.Random(number)
        bereaved = chance.random() < 0.4
        forgets = bereaved and chance.random() < 1 / 3
        text = f"{chance.choice(CHAT)} {chance.choice(BEREAVED if bereaved else LEAVING)}. {chance.choice(CHAT)}"
        runs.append(ending(number, text, escalated=bereaved and not forgets, success=not forgets))
    return runs


@pytest.mark.parametrize(
    ("text", "tool", "words"),
    [
        (
            "Since the funeral the heirs ask me, the executor, to close the line of the deceased.",
            "escalate",
            'words such as "funeral"',
        ),
        ("My company pays now, and the plan is not cheaper, so I want out next month.", "cancel", "words such as"),
    ],
)
def test_a_request_in_a_new_mix_of_words_gets_the_call_that_goes_with_them(
    tmp_path: Path, text: str, tool: str, words: str
) -> None:
    now = ending(0, text, escalated=False).turns[:-1]
    with filled(tmp_path, endings(150)) as memory:
        first = memory.suggest(after="look_up", state=agent_state(now).state())[0]
    assert first.tool == tool
    assert words in first.reason


def test_words_that_go_with_no_call_are_no_wording(tmp_path: Path) -> None:
    runs = [ending(number, text, escalated=number % 2 == 0) for number, text in enumerate([*BEREAVED, *LEAVING] * 10)]
    with filled(tmp_path, runs) as memory:
        sample = sample_of(memory)
        rows = [decision for run in sample.runs for decision in run.decisions if decision.place.tool == "look_up"]
        labels = np.array([2 * (random.Random(number).random() < 0.4) + 1 for number in range(len(rows))])
        known, each = KnownFacts.of(rows, sample.numbers), np.arange(len(rows))
        alone = alone_of(known, each, fewest=3, keep=lambda test: True)
        assert with_wordings(alone, known, labels, each).tests == alone.tests


def test_a_wording_names_the_words_that_are_there_and_is_asked_as_it_reads() -> None:
    test = FactTest(SAID_LAST, "~", 1.5, weights=(("~funeral", 2.0), ("~estate", 1.0), ("~offer", -2.0)))
    for words, holds in ((("~funeral",), True), (("~estate",), False), (("~funeral", "~estate", "~offer"), False)):
        facts = {SAID_LAST: dict.fromkeys(words, 1.0)}
        assert (test.holds(facts), Questions([test]).answers(facts).tolist()) == (holds, [holds])
    assert not test.holds({})
    for words, said in ((("~funeral", "~monday"), '"funeral"'), (("~offer", "~now"), '"offer"')):
        sentence = test.sentence({SAID_LAST: dict.fromkeys(words, 1.0)})
        assert sentence == f"the user's last message says {said}"
    assert not test.asks_about_called({SAID_LAST: {"~monday": 1.0}})  # so that no reason names words of others
    assert 'does not say words such as "funeral", "estate"' in test.sentence({SAID_LAST: {"~monday": 1.0}})
