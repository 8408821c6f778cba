"""When a lesson fades: no run supports it any more, or its tools have changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hepm import Memory, Outcome, Tool, Trajectory
from hepm.experience.age import CHANGE_DAYS, FADING_DAYS, GONE_DAYS, Age
from hepm.experience.conditions import Conditions
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import FAILS_AFTER, FOLLOWED_BY, Principle
from hepm.experience.prompt import PromptOptions
from hepm.graph.lessons.rows import Source, Triple
from hepm.graph.lessons.transaction import LessonChange
from tests.experience.shelves import NS, remember
from tests.runs import Shelf, trajectory

START_S = 1_700_000_000.0
DAY_S = 86_400.0


def ended(name: str, day: float | None, *turns: str) -> Trajectory:
    return trajectory(name, *(turns or ("look", "buy")), ended_at=None if day is None else START_S + day * DAY_S)


def rule(text: str, *runs: str) -> Principle:
    sources = tuple(Source(run, 1.0) for run in runs)
    return Principle(
        "guiding", text, (Triple("look", FOLLOWED_BY, "buy"),), sources, ("buy", "look"), Conditions(("shop",))
    )


def age_of(bank: LessonBank, *runs: str) -> Age:
    (age,) = bank.ages(NS).of([rule("Look, then buy.", *runs).row()])
    return age


def described(run: Trajectory, description: str) -> Trajectory:
    return replace(run, tools=(Tool("buy", description),))


@pytest.mark.parametrize(
    ("days", "weight"), [(0, 1.0), (FADING_DAYS, 1.0), ((FADING_DAYS + GONE_DAYS) / 2, 0.5), (GONE_DAYS, 0.0), (999, 0)]
)
def test_a_lesson_fades_between_two_ages(days: float, weight: float) -> None:
    assert Age(START_S, days).weight == pytest.approx(weight)


def test_a_changed_tool_counts_as_half_a_year_and_with_a_failing_one_the_lesson_is_out() -> None:
    changed = Age(START_S, 0.0, changed=("buy",))
    assert changed.weight == Age(START_S, CHANGE_DAYS).weight == 0.5
    assert replace(changed, failing=("buy",)).weight == 0


def test_the_clock_is_the_latest_run_of_the_memory(bank: LessonBank) -> None:
    remember(bank, ended("old", 0), ended("new", 150, "sing"))
    age = age_of(bank, "old")
    assert (age.supported_at, age.idle_days) == (START_S, 150)
    assert age.note == "no run has supported it for 5 months"


def test_a_lesson_is_as_young_as_the_latest_run_behind_it(bank: LessonBank) -> None:
    remember(bank, ended("old", 0), ended("new", 150, "sing"))
    age = age_of(bank, "old", "new")
    assert (age.idle_days, age.note, age.supported_on) == (0, "", "2024-04-12")


def test_advice_stays_young_while_runs_follow_it_and_succeed(bank: LessonBank) -> None:
    lost = replace(ended("lost", 200), outcome=Outcome(0.0, False))
    remember(bank, ended("old", 0), ended("followed", 150), lost)
    assert age_of(bank, "old").idle_days == 50


def test_a_warning_stays_young_while_runs_come_to_its_place(bank: LessonBank) -> None:
    remember(bank, ended("old", 0), ended("heeded", 150, "look", "leave"), ended("new", 200, "sing"))
    warning = Principle("cautionary", "Do not.", (Triple("buy", FAILS_AFTER, "look"),), (Source("old"),), ("buy",))
    (age,) = bank.ages(NS).of([warning.row()])
    assert age.idle_days == 50


def test_a_lesson_whose_runs_are_gone_or_undated_does_not_fade(bank: LessonBank) -> None:
    remember(bank, ended("undated", None), ended("new", 900, "sing"))
    assert age_of(bank, "undated") == age_of(bank, "gone") == Age()


def test_a_tool_that_was_described_anew_after_the_latest_supporting_run_is_named(bank: LessonBank) -> None:
    remember(bank, described(ended("old", 0), "Buys."), described(ended("new", 10, "sing"), "Buys one thing."))
    assert age_of(bank, "old").note == "buy changed since"
    assert age_of(bank, "old", "new").note == ""


def test_a_tool_that_changed_is_found_by_its_former_name(bank: LessonBank) -> None:
    remember(bank, described(ended("old", 0), "Buys."))
    bank.store.add_alias("buy", "order", namespace=NS, replay=Shelf().replay, rename=True)
    new = ended("new", 10, "order")
    remember(bank, replace(new, tools=(Tool("order", "Buys one thing."),)))
    assert age_of(bank, "old").changed == ("order",)


def failing(run: Trajectory) -> Trajectory:
    turns = [
        replace(turn, calls=tuple(replace(call, error=call.name == "buy") for call in turn.calls)) for turn in run.turns
    ]
    return replace(run, turns=tuple(turns))


def test_an_advised_tool_that_fails_now_is_named(bank: LessonBank) -> None:
    fine = [_without_error(ended(f"fine{at:03}", at / 10)) for at in range(100)]
    broken = [replace(failing(ended(f"broken{at}", 10 + at)), model=f"m{at}") for at in range(6)]
    remember(bank, *fine, *broken)
    assert age_of(bank, "broken5").note == "buy fails now"


def _without_error(run: Trajectory) -> Trajectory:
    turns = [replace(turn, calls=tuple(replace(call, error=False) for call in turn.calls)) for turn in run.turns]
    return replace(run, turns=tuple(turns))


def test_fading_lessons_come_last_and_old_ones_not_at_all(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.hepm") as memory:
        memory.ingest([ended("a", 0, "a"), ended("b", 200, "b"), ended("c", 400, "c")])
        words = {"a": "Please send gifts wrapped.", "b": "Please send gifts on time.", "c": "Please send gifts early."}
        rules = [replace(rule(text, run), distilled_by="hand") for run, text in words.items()]
        memory.lessons.change(LessonChange(put=[one.row() for one in rules]))
        prompt = memory.prompt(state="Please send gifts on time.", options=PromptOptions(suggestions=0))
        assert prompt.lessons == (rules[2].id, rules[1].id)


def test_a_prompt_says_why_a_lesson_fades_and_leaves_out_an_old_one(tmp_path: Path) -> None:
    said = rule("After look, calling buy rather than leave led to success.", "old").row()
    for days, shown in ((0, True), (150, True), (400, False)):
        with Memory.open(tmp_path / f"{days}.hepm") as memory:
            memory.ingest([ended("old", 0), ended("new", days, "sing")])
            memory.lessons.change(LessonChange(put=[said]))
            prompt = memory.prompt(after="look", state="please help")
            assert (said.id in prompt.lessons) is shown
            assert ("no run has supported it for 5 months" in prompt.text) is (days == 150)
