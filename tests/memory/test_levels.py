"""The guard: what it decides on given outcomes, and the levels that sessions draw."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hepm import Memory, from_messages
from hepm.experience.prompt import PromptOptions
from hepm.memory.levels import LEVELS, SILENT, GuardState, LevelOutcomes, drawn, in_force, may_be_tried
from hepm.types import HINT, LEVEL
from tests.memory.test_session import asked
from tests.runs import trajectory

WISH = "Refund parcel 7, the glass is broken"
NUMBERS = count()


def outcomes(**levels: tuple[int, int]) -> dict[str, LevelOutcomes]:
    """Successes and sessions of levels, such as at_75=(15, 20)."""
    names = {"silent": SILENT, "at_95": "0.95", "at_9": "0.9", "at_75": "0.75", "at_6": "0.6"}
    return {names[name]: LevelOutcomes(*ended) for name, ended in levels.items()}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A memory of runs from which every hint of some chance is known."""
    with Memory.open(tmp_path / "m.hepm") as memory:
        for number in range(40):
            messages = asked("get_order", "refund", wish=f"Refund parcel {number}, the glass is broken")
            memory.ingest(from_messages(messages, id=f"log-{number}", task=f"broken {number % 8}", success=True))
    return tmp_path / "m.hepm"


def id_at(memory: Memory, level: str) -> str:
    """An id that draws a level now, another one each time."""
    some = (f"s{next(NUMBERS)}" for _ in range(10_000))
    return next(name for name in some if memory.sessions.draw_level(name) == level)


def add_sessions(memory: Memory, level: str, successes: int, failures: int) -> None:
    """Store sessions of a level, as an import does."""
    ended = [True] * successes + [False] * failures
    runs = [trajectory(f"a{next(NUMBERS)}", "look", success=success) for success in ended]
    memory.ingest([replace(run, tags={LEVEL: level}) for run in runs])


def finish(memory: Memory, name: str, *, success: bool | None) -> None:
    with memory.session(id=name) as session:
        session.hint(asked("get_order", wish=WISH))
        session.finish(success=success)


def test_the_probability_of_being_better_is_that_of_the_normal_approximation_by_hand() -> None:
    # Beta(16, 6): mean 16/22, variance .7273 · .2727 / 23 = .008623. Beta(11, 11): .5, .25 / 23 = .010870.
    apart = (16 / 22 - 0.5) / math.sqrt(0.008623 + 0.010870)  # 1.628
    expected = 0.5 * (1 + math.erf(apart / math.sqrt(2)))
    assert LevelOutcomes(15, 20).better_than(LevelOutcomes(10, 20)) == pytest.approx(expected, abs=1e-4)
    assert LevelOutcomes(10, 20).better_than(LevelOutcomes(10, 20)) == 0.5


@pytest.mark.parametrize(
    ("known", "level"),
    [
        ({}, SILENT),
        (outcomes(at_6=(19, 19)), SILENT),  # one session too few
        (outcomes(at_75=(15, 20), silent=(10, 20)), "0.75"),  # .948, see above
        (outcomes(at_75=(12, 20), silent=(10, 20)), SILENT),  # .73
        (outcomes(at_95=(30, 40), at_6=(14, 40), silent=(10, 40)), "0.95"),
    ],
)
def test_a_level_is_in_force_after_twenty_sessions_that_were_better_than_silence(
    known: dict[str, LevelOutcomes], level: str
) -> None:
    assert in_force(known) == level


def test_shares_of_sessions_are_controls_and_explore_and_both_shrink_as_more_is_known() -> None:
    def silent_share(known: dict[str, LevelOutcomes]) -> float:
        return sum(drawn(known, Random(number)) == SILENT for number in range(4_000)) / 4_000

    # A quarter are controls, .6 explore silence and .95 alike, and the rest is silent, as nothing is proven.
    assert silent_share({}) == pytest.approx(0.25 + 0.6 / 2 + 0.15, abs=0.03)
    # All that explores or is in force speaks: what is left are the controls.
    assert silent_share(outcomes(at_6=(500, 500), silent=(0, 500))) == pytest.approx(0.04, abs=0.01)
    # Hints that only harm are drawn by nobody.
    assert silent_share(outcomes(silent=(500, 500), **dict.fromkeys(("at_95", "at_9", "at_75", "at_6"), (0, 99)))) == 1


@pytest.mark.parametrize(
    ("known", "levels"),
    [
        ({}, [SILENT, "0.95"]),
        (outcomes(at_95=(3, 6), silent=(5, 10)), [SILENT, "0.95", "0.9"]),
        (outcomes(at_95=(2, 20), at_9=(6, 6), silent=(10, 20)), [SILENT, "0.95"]),  # it harms: .002
        (outcomes(at_95=(6, 6), at_9=(6, 6), at_75=(6, 6), silent=(5, 10)), list(LEVELS)),
    ],
)
def test_bolder_hints_are_tried_only_once_more_cautious_ones_did_no_harm(
    known: dict[str, LevelOutcomes], levels: list[str]
) -> None:
    assert may_be_tried(known) == levels
    assert {drawn(known, Random(number)) for number in range(500)} <= set(levels)


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        ({}, "silent, since no hinted session has an outcome yet"),
        (
            outcomes(at_9=(8, 12), at_6=(1, 3)),
            "silent, since hints have not yet been shown to help here: 12 of 20 hinted sessions have an outcome",
        ),
        (
            outcomes(at_9=(10, 20), at_6=(1, 3), silent=(15, 20)),
            "silent, since hints are not shown to help here: 10 of 20 sessions with hints from 0.9 on succeeded, "
            "and 15 of 20 silent ones",
        ),
        (
            outcomes(at_75=(1_500, 2_000), silent=(10, 20)),
            "hints from 0.75 on: 1,500 of 2,000 sessions with them succeeded, and 10 of 20 silent ones",
        ),
    ],
)
def test_the_guard_says_in_a_sentence_which_level_is_in_force_and_why(
    known: dict[str, LevelOutcomes], sentence: str
) -> None:
    assert GuardState.of(known).sentence == sentence


def test_sessions_of_a_memory_of_logs_alone_explore_at_once(file: Path) -> None:
    with Memory.open(file) as memory:
        levels = Counter(memory.sessions.draw_level(f"s{number}") for number in range(400))
        assert memory.sessions.guard().level == SILENT
    assert set(levels) == {SILENT, "0.95"}
    assert levels["0.95"] / 400 == pytest.approx(0.6 / 2, abs=0.08)


def test_a_silent_session_names_no_tool_and_one_with_hints_does(file: Path) -> None:
    with Memory.open(file) as memory:
        quiet, loud = (memory.session(id=id_at(memory, level)) for level in (SILENT, "0.95"))
        assert HINT not in quiet.hint(asked("get_order", wish=WISH))
        assert f"{HINT}refund" in loud.hint(asked("get_order", wish=WISH))
        assert (quiet.level, loud.level) == (SILENT, "0.95")
        assert quiet.prompt().suggestions.abstained == "hints of this session name no tool: `hepm stats` says why"


def test_a_silent_session_is_warned(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.hepm") as memory:
        for number in range(20):
            last = "refund" if number % 2 else "close_ticket"
            messages = asked("get_order", last, wish=f"Refund parcel {number}, the glass is broken")
            memory.ingest(from_messages(messages, id=f"log-{number}", success=last == "refund"))
        with memory.session(id=id_at(memory, SILENT)) as session:
            found = session.prompt(asked("get_order", wish=WISH))
    assert [way.tool for way in found.suggestions.warnings] == ["close_ticket"]
    assert "close_ticket" in found.text
    assert HINT not in found.text


def test_where_speak_is_chosen_or_the_guard_is_off_sessions_draw_nothing(file: Path) -> None:
    ways: list[dict[str, Any]] = [{"speak": "sure"}, {"speak": "weighed"}, {"guard": False}]
    for chosen in ways:
        with Memory.open(file, **chosen) as memory, memory.session() as session:
            session.hint(asked("get_order", wish=WISH))
            assert (memory.sessions.guarded, session.level) == (False, "")
            session.discard()


@pytest.mark.parametrize("options", [PromptOptions(policy="procedural"), PromptOptions(suggestions=0)])
def test_a_session_of_a_policy_of_the_papers_or_without_suggestions_draws_nothing(
    file: Path, options: PromptOptions
) -> None:
    with Memory.open(file) as memory, memory.session(prompt_options=options) as session:
        session.hint(asked("get_order", wish=WISH))
        assert session.level == ""


def test_a_suggestion_and_a_prompt_without_a_session_are_not_guarded(file: Path) -> None:
    with Memory.open(file) as memory:
        for level in LEVELS:
            add_sessions(memory, level, *((30, 0) if level == SILENT else (0, 30)))
        assert memory.sessions.guard().level == SILENT
        assert HINT in memory.prompt(asked("get_order", wish=WISH)).text
        assert memory.suggest("get_order", messages=asked("get_order", wish=WISH))


@pytest.mark.parametrize("level", [SILENT, "0.95"])
def test_the_level_is_on_disk_before_the_first_hint_and_new_outcomes_do_not_change_it(file: Path, level: str) -> None:
    with Memory.open(file) as left, Memory.open(file) as memory:
        name = id_at(left, level)
        begun = left.session(id=name)
        begun.say("user", WISH)
        begun.hint()
        # Outcomes by which it would draw another level.
        add_sessions(memory, "0.95", *((0, 50) if level != SILENT else (50, 0)))
        add_sessions(memory, SILENT, *((0, 50) if level == SILENT else (50, 0)))
        session = memory.sessions.resume(name)
        assert session is not None
        session.hint()
        assert session.level == begun.level == level
        session.finish(success=True)
        stored = memory.run(name)
        assert stored is not None
        assert stored.tags[LEVEL] == level


def test_stats_and_the_page_say_nothing_of_outcomes_of_distrusted_sessions(file: Path) -> None:
    from hepm.ingest.prepare import IngestOptions, TrustByTags

    distrust = IngestOptions(trusted=TrustByTags(((LEVEL, "0.95"),)))
    with Memory.open(file) as memory:
        session = memory.session(id=id_at(memory, "0.95"), ingest_options=distrust)
        session.hint(asked("get_order", wish=WISH))
        session.finish(success=True)
        assert memory.sessions.outcomes()["0.95"] == (0, 0)
        assert memory.sessions.guard().sentence == "silent, since no hinted session has an outcome yet"
