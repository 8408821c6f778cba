"""The guard: what it decides on given outcomes, and the levels that sessions draw."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hepm import Memory, from_messages
from hepm.experience.prompt import PromptOptions
from hepm.memory.guard import HINTED, LEAST, LEVELS, SILENT, GuardState, LevelOutcomes, drawn, in_force
from hepm.types import HINT, LEVEL
from tests.runs import WISH, asked, stored_run, trajectory

NUMBERS = count()


def outcomes(**levels: tuple[int, int]) -> dict[str, LevelOutcomes]:
    """Successes and sessions of levels, such as hinted=(15, 20)."""
    return {level: LevelOutcomes(*levels.get(level, ())) for level in LEVELS}


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
        session.hint(asked("get_order"))
        session.finish(success=success)


def hinted_share(known: dict[str, LevelOutcomes]) -> float:
    return sum(drawn(known, Random(number)) == HINTED for number in range(4_000)) / 4_000


def test_of_the_first_sessions_more_are_hinted_than_silent() -> None:
    # Of two uniform draws the first is higher by more than .05 in .95² / 2 of the cases.
    silent = LEAST + (1 - 2 * LEAST) * 0.95**2 / 2
    assert hinted_share(outcomes()) == pytest.approx(1 - silent, abs=0.03)


@pytest.mark.parametrize(
    ("known", "level", "share"),
    [
        (outcomes(hinted=(500, 500), silent=(0, 500)), HINTED, 1 - LEAST),
        (outcomes(hinted=(250, 500), silent=(260, 500)), HINTED, 0.8),  # better by less than the margin
        (outcomes(hinted=(0, 500), silent=(500, 500)), SILENT, LEAST),
        (outcomes(hinted=(2, 12), silent=(9, 10)), SILENT, LEAST),
    ],
)
def test_sessions_are_silent_where_silence_is_better_by_a_margin_and_a_few_of_each_level_compare(
    known: dict[str, LevelOutcomes], level: str, share: float
) -> None:
    assert in_force(known) == level
    assert hinted_share(known) == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        (outcomes(), "hinted, and no hinted session has an outcome yet"),
        (outcomes(silent=(5, 5)), "silent, and no hinted session has an outcome yet"),
        (
            outcomes(hinted=(10, 20), silent=(15, 20)),
            "silent, since sessions without hints succeeded more often so far: 10 of 20 sessions with them succeeded, "
            "and 15 of 20 silent ones",
        ),
        (
            outcomes(hinted=(0, 10), silent=(0, 2)),
            "silent, to see whether sessions without hints succeed more often: 0 of 10 sessions with them succeeded, "
            "and 0 of 2 silent ones",
        ),
        (
            outcomes(hinted=(1_500, 2_000), silent=(10, 20)),
            "hinted: hints do no harm that is known, 1,500 of 2,000 sessions with them succeeded, "
            "and 10 of 20 silent ones",
        ),
    ],
)
def test_the_guard_says_in_a_sentence_which_level_is_in_force_and_why(
    known: dict[str, LevelOutcomes], sentence: str
) -> None:
    assert GuardState(known).sentence == sentence


def test_a_silent_session_names_no_tool_and_one_with_hints_does(file: Path) -> None:
    with Memory.open(file) as memory:
        quiet, loud = (memory.session(id=id_at(memory, level)) for level in (SILENT, HINTED))
        assert HINT not in quiet.hint(asked("get_order"))
        assert f"{HINT}refund" in loud.hint(asked("get_order"))
        assert (quiet.level, loud.level) == (SILENT, HINTED)
        assert quiet.prompt().suggestions.abstained == "hints of this session name no tool: `hepm stats` says why"


def test_a_session_in_which_memory_has_no_tool_to_name_draws_no_level(file: Path) -> None:
    with Memory.open(file) as memory, memory.session() as session:
        assert HINT not in session.hint(asked("restart_server", wish="The server is down"))
        assert session.level == ""


def test_a_silent_session_is_warned(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.hepm") as memory:
        for number in range(20):
            last = "refund" if number % 2 else "close_ticket"
            messages = asked("get_order", last, wish=f"Refund parcel {number}, the glass is broken")
            memory.ingest(from_messages(messages, id=f"log-{number}", success=last == "refund"))
        with memory.session(id=id_at(memory, SILENT)) as session:
            found = session.prompt(asked("get_order"))
    assert [way.tool for way in found.suggestions.warnings] == ["close_ticket"]
    assert "close_ticket" in found.text
    assert HINT not in found.text


def test_where_speak_is_chosen_or_the_guard_is_off_sessions_draw_nothing(file: Path) -> None:
    ways: list[dict[str, Any]] = [{"speak": "sure"}, {"speak": "weighed"}, {"guard": False}]
    for chosen in ways:
        with Memory.open(file, **chosen) as memory, memory.session() as session:
            session.hint(asked("get_order"))
            assert (memory.sessions.guarded, session.level) == (False, "")
            session.discard()


@pytest.mark.parametrize("options", [PromptOptions(policy="procedural"), PromptOptions(suggestions=0)])
def test_a_session_of_a_policy_of_the_papers_or_without_suggestions_draws_nothing(
    file: Path, options: PromptOptions
) -> None:
    with Memory.open(file) as memory, memory.session(prompt_options=options) as session:
        session.hint(asked("get_order"))
        assert session.level == ""


def test_a_suggestion_and_a_prompt_without_a_session_are_not_guarded(file: Path) -> None:
    with Memory.open(file) as memory:
        for level in LEVELS:
            add_sessions(memory, level, *((30, 0) if level == SILENT else (0, 30)))
        assert memory.sessions.guard().level == SILENT
        assert HINT in memory.prompt(asked("get_order")).text
        assert memory.suggest("get_order", messages=asked("get_order"))


@pytest.mark.parametrize("level", [SILENT, HINTED])
def test_the_level_is_on_disk_before_the_first_hint_and_new_outcomes_do_not_change_it(file: Path, level: str) -> None:
    with Memory.open(file) as left, Memory.open(file) as memory:
        name = id_at(left, level)
        begun = left.session(id=name)
        begun.say("user", WISH)
        begun.hint()
        # Outcomes by which it would draw another level.
        add_sessions(memory, HINTED, *((0, 50) if level != SILENT else (50, 0)))
        add_sessions(memory, SILENT, *((0, 50) if level == SILENT else (50, 0)))
        session = memory.sessions.resume(name)
        assert session is not None
        session.hint()
        assert session.level == begun.level == level
        session.finish(success=True)
        stored = stored_run(memory, name)
        assert stored.tags[LEVEL] == level
