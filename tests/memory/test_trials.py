"""Experiments: the arms that sessions draw, what each is told, and what follows from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from hepm import Memory
from hepm.errors import InputError
from hepm.experience.prompt import Prompt
from hepm.graph.trials import CONTROL, MEMORY, Trial
from hepm.memory.sessions import HARMED_HOLDOUT
from hepm.types import HINT, TRIAL, Outcome, Trajectory
from tests.memory.test_guard import file  # noqa: F401
from tests.runs import WISH, asked, stored_run, trajectory


def id_in(memory: Memory, arm: str, holdout: float = 0.5) -> str:
    """A session of an arm."""
    some = (f"t{number}" for number in range(1_000))
    of_arm = (name for name in some if memory.sessions.draw_arm(name, holdout) == arm)
    return next(of_arm)


def ended(arm: str, name: str, success: bool, holdout: float = 0.2, **about: tuple[str, ...]) -> Trajectory:
    trial = Trial(arm, holdout, **about)
    return replace(trajectory(name, "look", success=success), task="kind", tags={TRIAL: trial.to_tag()})


def add_world(memory: Memory, *, sessions: int, control: float, memory_rate: float, holdout: float = 0.2) -> None:
    """Store sessions of both arms with these rates of success."""
    dice = Random(1)
    runs: list[Trajectory] = []
    for number in range(sessions):
        arm = CONTROL if dice.random() < holdout else MEMORY
        rate = control if arm == CONTROL else memory_rate
        runs.append(ended(arm, f"w{number}", dice.random() < rate, holdout))
    memory.ingest(runs)


def test_arms_have_their_share_and_depend_on_neither_kind_nor_user_nor_hour(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.hepm") as memory:
        arms = np.array([memory.sessions.draw_arm(f"session-{n}", 0.1) == CONTROL for n in range(20_000)])
        levels = np.array([memory.sessions.dice("level", f"session-{n}").random() for n in range(20_000)])
    # Each test draws a secret: within five standard deviations but for one time in a million.
    assert abs(arms.mean() - 0.1) <= 0.0107
    numbers = np.arange(20_000)
    for about in (numbers % 7, numbers // 840 % 24, numbers % 1_000, numbers, levels):
        assert abs(np.corrcoef(arms, about)[0, 1]) < 0.036


def test_two_doors_and_a_restart_give_the_same_arm_and_other_stores_and_namespaces_do_not(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(200)]

    def arms(memory: Memory, namespace: str = "default") -> list[str]:
        return [memory.sessions.draw_arm(name, 0.5, namespace=namespace) for name in names]

    with Memory.open(tmp_path / "m.hepm") as one, Memory.open(tmp_path / "m.hepm") as two:
        drawn = arms(one)
        assert arms(two) == drawn
        assert arms(one, "team") != drawn
    with Memory.open(tmp_path / "m.hepm") as again, Memory.open(tmp_path / "other.hepm") as other:
        assert arms(again) == drawn
        assert arms(other) != drawn


def test_an_arm_that_is_drawn_while_another_process_goes_on_with_the_session_is_no_failed_write(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.hepm", holdout=0.5) as one, Memory.open(tmp_path / "m.hepm", holdout=0.5) as two:
        left, gone_on = one.session(id="parcel-7"), two.session(id="parcel-7")
        gone_on.hint(asked("get_order"))
        left.hint(asked("get_order"))
        assert left.moved
        assert left.on_disk


def test_a_control_is_told_nothing_and_recorded_and_a_session_with_memory_is_told(file: Path) -> None:  # noqa: F811
    with Memory.open(file, speak="weighed") as memory:
        for arm in (CONTROL, MEMORY):
            with memory.session(id=id_in(memory, arm), holdout=0.5) as session:
                said = session.prompt(asked("get_order"))
                assert (said == Prompt()) == (arm == CONTROL)
                assert (session.search_principles("refund") == []) or arm == MEMORY
                session.finish(success=True)
            stored = stored_run(memory, session.id)
            trial = Trial.of(stored)
            assert trial is not None
            assert (trial.arm, trial.holdout, trial.tokens > 0) == (arm, 0.5, arm == MEMORY)
        assert memory.sessions.uplift().sessions == 2
        assert memory.sessions.uplift().controls == 1


def test_what_a_user_stated_is_told_to_controls(file: Path) -> None:  # noqa: F811
    with Memory.open(file, holdout=0.5) as memory:
        memory.preferences.edit("ann", "short answers")
        session = memory.session(id=id_in(memory, CONTROL), user="ann")
        said = session.hint(asked("get_order"))
        assert "short answers" in said
        assert HINT not in said
        session.discard()


def test_without_a_holdout_no_session_is_in_an_experiment(file: Path) -> None:  # noqa: F811
    with Memory.open(file) as memory:
        with memory.session() as session:
            session.hint(asked("get_order"))
            assert session.trial is None
            session.finish(success=True)
        assert memory.sessions.uplift().sentence.startswith("No session was held out yet")
        with pytest.raises(InputError, match="from 0 to 1"):
            memory.session(holdout=1.5)


def test_a_run_that_was_told_before_the_experiment_stays_outside_of_it(file: Path) -> None:  # noqa: F811
    with Memory.open(file) as memory:
        with memory.session(id="a") as session:
            session.hint(asked("get_order"))
        stored = stored_run(memory, "a")
        later = memory.session(id="a", holdout=0.5)
        later.go_on(stored)
        later.hint(asked("get_order"))
        assert later.trial is None
        later.discard()


def test_another_process_changes_no_arm_and_counts_no_session_twice(file: Path) -> None:  # noqa: F811
    drawn: dict[str, str] = {}
    with Memory.open(file, holdout=0.5) as left, Memory.open(file) as memory:  # this one has no holdout of its own
        names = [id_in(left, CONTROL), id_in(left, MEMORY)]
        for name in names:
            begun = left.session(id=name)
            begun.say("user", WISH)
            begun.hint()
            assert begun.trial is not None
            drawn[name] = begun.trial.arm
        for name in names:
            session = memory.sessions.resume(name)
            assert session is not None
            session.hint()
            assert session.trial is not None
            assert session.trial.arm == drawn[name]
            session.finish(success=True)
            session.finish(success=True)
        assert memory.sessions.uplift().sessions == len(names)
        assert memory.sessions.uplift().controls == sum(arm == CONTROL for arm in drawn.values())


def test_a_shadow_session_is_told_nothing_and_what_it_would_have_been_told_is_compared_with_what_it_did(
    file: Path,  # noqa: F811
) -> None:
    with Memory.open(file, holdout=1) as memory:
        for number, last in enumerate(("refund", "close_ticket")):
            messages = asked("get_order", wish=f"Refund parcel {number}, the glass is broken")
            with memory.session(id=f"x{number}") as session:
                assert session.prompt(messages) == Prompt()
                assert session.level == ""
                messages = asked("get_order", last, wish=f"Refund parcel {number}, the glass is broken")
                session.finish(success=last == "refund", messages=messages)
        found = memory.sessions.uplift()
    assert found.sessions == 0
    assert found.shadow is not None
    assert (found.shadow.sessions, found.shadow.spoken) == (2, 2)
    assert (found.shadow.hints, found.shadow.in_successes, found.shadow.in_failures) == (2, 1.0, 0.0)
    assert found.sentence.startswith("Memory was silent in 2 sessions. It would have spoken in 2, at ")
    assert "100 % of the turns of successful sessions" in found.sentence


def test_where_memory_harms_the_guard_leaves_nearly_all_sessions_alone_and_says_so(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.hepm", holdout=0.2) as memory:
        add_world(memory, sessions=500, control=0.9, memory_rate=0.4)
        state = memory.sessions.guard()
        assert (state.level, state.harm) == ("silent", state.sentence)
        assert state.sentence.startswith("silent, since memory harms here: success was ")
        assert memory.sessions.holdout_now(0.2) == HARMED_HOLDOUT
        assert memory.sessions.holdout_now(1) == 1
        session = memory.session()
        session.hint(asked("look"))
        assert session.trial is not None
        assert session.trial.holdout == HARMED_HOLDOUT
        session.discard()
    with Memory.open(tmp_path / "m.hepm", holdout=0.2, guard=False) as memory:
        assert memory.sessions.holdout_now(0.2) == 0.2


def test_sessions_without_an_outcome_count_for_nothing_until_they_are_labelled(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.hepm") as memory:
        memory.ingest([replace(ended(CONTROL, "a", True), outcome=Outcome()), ended(MEMORY, "b", True)])
        assert memory.sessions.uplift().sessions == 1
        assert memory.sessions.uplift().without_outcome == {MEMORY: 0, CONTROL: 1}
        memory.label("a", success=False)
        assert memory.sessions.uplift().sessions == 2
