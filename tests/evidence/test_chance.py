"""How often a hint would be right, and what memory says by it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hepm import Memory
from hepm.errors import InputError
from hepm.evidence.chance import (
    FEWEST_ASKED,
    MOST_DETOURS,
    RARE,
    SHIPPED,
    UNMEASURED,
    Chance,
    HeldOutHint,
    Signs,
    is_right,
)
from hepm.types import StateSummary, Suggestions, Trajectory, Turn
from tests.evidence.remembered import decisions_of, filled, learned, refunds
from tests.runs import trajectory

SURE = Signs(share=1.0, by_request=1.0, nearest=1.0, again=False, named=0.0, likeness=1.0, few=0.02, followed=1.0)


def after_look(folder: Path, run: Trajectory, tool: str, **share: float) -> bool:
    """Whether a hint of a tool after the first call of a run would be right."""
    with filled(folder, [run]) as memory:
        decision = decisions_of(memory, run.id)[1]
    return is_right(decision, tool, share)


@pytest.mark.parametrize(
    ("detour", "right"), [(["note", "note"], True), (["note", "note", "note"], False), (["note+sing+hum"], False)]
)
def test_a_hint_is_right_if_its_tool_came_after_at_most_two_rare_calls(
    tmp_path: Path, detour: list[str], right: bool
) -> None:
    run = trajectory("r", "look", *detour, "refund", "close")
    assert MOST_DETOURS == 2
    assert after_look(tmp_path, run, "refund", note=RARE / 2) is right


@pytest.mark.parametrize(("share", "right"), [(RARE - 0.01, True), (RARE, False)])
def test_no_common_step_is_skipped_as_a_detour(tmp_path: Path, share: float, right: bool) -> None:
    run = trajectory("r", "look", "ask", "refund", "close")
    assert after_look(tmp_path, run, "refund", ask=share) is right


def test_what_is_called_after_the_user_spoke_again_makes_no_hint_right(tmp_path: Path) -> None:
    run = trajectory("r", "look", "note", "refund", "close")
    *before, refund, close = run.turns
    spoken = replace(run, turns=(*before, Turn("user", "So what now?"), refund, close))
    assert not after_look(tmp_path / "spoken", spoken, "refund")
    assert after_look(tmp_path / "silent", run, "refund")


def test_where_the_user_just_spoke_the_next_call_makes_a_hint_right(tmp_path: Path) -> None:
    run = trajectory("r", "look", "refund")
    look, refund = run.turns[1:]
    run = replace(run, turns=(run.turns[0], look, Turn("user", "So what now?"), refund))
    assert after_look(tmp_path, run, "refund")


def test_a_tool_that_was_not_called_again_is_not_right(tmp_path: Path) -> None:
    assert not after_look(tmp_path, trajectory("r", "refund", "look", "close"), "refund")


def test_a_chance_that_was_not_measured_is_at_most_below_a_half() -> None:
    signs = {"refund": SURE, "close": SURE._replace(share=0.0, by_request=0.0, nearest=0.0)}
    unmeasured, measured = Chance().of(signs), Chance(measured=True).of(signs)
    assert measured["refund"] > 0.9
    assert unmeasured == {"refund": UNMEASURED, "close": pytest.approx(measured["close"])}
    assert UNMEASURED < 0.5


def test_the_chance_of_the_likeliest_tool_is_how_often_it_is_right_whatever_is_true_of_others() -> None:
    hints: list[HeldOutHint] = []
    for question in range(200):
        # Of the others, what has more of what worked is hardly righter.
        for share, wrong_in in ((0.75, 50), (0.25, 1.4), (0.05, 1.2)):
            signs = SURE._replace(share=share, by_request=share, nearest=share, likeness=0.0)
            hints.append(HeldOutHint(signs, True, question % wrong_in >= 1, 1.0, share == 0.75))
    measured = Chance.measure(hints, [], [0.0] * 200, measured=True)
    assert measured.of({"refund": hints[0][0]})["refund"] == pytest.approx(0.98, abs=0.02)


def test_of_ways_that_work_equally_each_has_about_its_share_as_its_chance(tmp_path: Path) -> None:
    runs = [trajectory(f"r{n}", "look", f"way{n % 4}", "close", goal="Mend it", task="mend") for n in range(80)]
    with filled(tmp_path, runs) as memory:
        state = StateSummary(said=("Mend it",), tools=("look",))
        found = memory.suggest("look", history=["look"], state=state, speak="weighed")
    assert 0.15 < found[0].score < 0.4


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_chances_lie_between_0_and_1_and_rise_with_what_worked(share: float) -> None:
    signs = {
        "one": SURE._replace(share=share, by_request=share, nearest=share),
        "less": SURE._replace(share=share / 2, by_request=share / 2, nearest=share / 2),
    }
    found = Chance(SHIPPED, measured=True).of(signs)
    assert 0 < found["less"] <= found["one"] < 1


def test_a_request_is_known_the_surer_the_more_alike_it_is() -> None:
    chance = Chance(usual=0.6)
    found = [chance.known(likeness) for likeness in (0.0, 0.6, 0.7, 0.8, 1.0)]
    assert found == [0, 0, pytest.approx(0.5), pytest.approx(1), 1]


@pytest.mark.parametrize("usual", [0.0, 0.5, 1.0])
def test_an_equal_request_is_never_unlike(usual: float) -> None:
    assert 0 <= Chance(usual=usual).known(1.0) <= 1
    assert np.isfinite([*Chance(usual=usual).of({"refund": SURE}).values()]).all()


def test_fewer_than_the_fewest_decisions_measure_nothing(tmp_path: Path) -> None:
    runs = refunds(FEWEST_ASKED // 3 + 1)
    with filled(tmp_path / "many", runs) as memory:
        assert learned(memory).chance.measured
    with filled(tmp_path / "few", runs[:-2]) as memory:
        assert not learned(memory).chance.measured


def asked(memory: Memory, *, parcel: int = 99, **options: object) -> Suggestions:
    state = StateSummary(said=(f"Refund parcel {parcel}, it broke",), tools=("look",))
    return memory.suggest("look", history=["look"], state=state, **options)  # type: ignore[arg-type]


def test_a_young_memory_names_only_what_all_runs_of_the_same_request_did_unless_hints_are_weighed(
    tmp_path: Path,
) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest(refunds(4))
        known = asked(memory, parcel=1)
        assert ([one.tool for one in known], known[0].measured) == (["refund"], False)
        assert known.prompt() == "Suggested next tools: refund (4 of 4 such runs succeeded)"
        assert str(asked(memory).abstained) == "no tool is sure enough (best refund, whose chance is not measured yet)"
        other = StateSummary(said=("My parcel is late, refund it",), tools=("look",))
        found = memory.suggest("look", history=["look"], state=other)
        assert "whose chance is not measured yet" in str(found.abstained)
        found = memory.suggest("look", history=["look"], state=other, speak="weighed")
        assert (found[0].tool, found[0].score <= UNMEASURED) == ("refund", True)


def test_what_was_always_right_is_named_with_its_chance(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest(refunds(60))
        found = asked(memory)
        assert [one.tool for one in found] == ["refund"]
        assert 0.93 <= found[0].score < 1
        assert found.prompt().startswith("Suggested next tools: refund (")


def test_of_what_was_not_right_often_enough_it_is_said_how_often_and_what_is_needed(tmp_path: Path) -> None:
    runs = [trajectory(f"r{n}", "look", "close" if n % 6 == 0 else "refund", goal=f"parcel {n}") for n in range(60)]
    with Memory.open(tmp_path) as memory:
        memory.ingest(runs)
        why = str(asked(memory).abstained)
    assert why == "no tool is sure enough (best refund: 92 % of such successful runs did so, and 93 % are needed)"


def test_the_floor_is_the_chance_of_every_tool_that_is_named(tmp_path: Path) -> None:
    both = [
        trajectory(f"s{n}", "look", ("refund", "resend")[n % 2], goal=f"Refund parcel {n}, it broke") for n in range(60)
    ]
    with Memory.open(tmp_path) as memory:
        memory.ingest(both)
        for floor in (0.05, 0.4, 0.7):
            assert all(one.score >= floor for one in asked(memory, floor=floor, k=4))
        assert {one.tool for one in asked(memory, floor=0.05, k=4)} == {"refund", "resend"}


@pytest.mark.parametrize("wrong", [{"speak": "loudly"}, {"floor": 1.5}, {"floor": -0.1}, {"floor": float("nan")}])
def test_no_other_way_to_speak_is_taken(tmp_path: Path, wrong: dict[str, object]) -> None:
    with Memory.open(tmp_path) as memory, pytest.raises(InputError):
        memory.suggest("look", **wrong)  # type: ignore[arg-type]


def test_what_is_right_but_for_a_rare_detour_is_named(tmp_path: Path) -> None:
    strays = [
        trajectory(f"s{n}", "look", "note", "refund", "close", goal=f"Refund parcel {n}, it broke") for n in range(10)
    ]
    with Memory.open(tmp_path) as memory:
        memory.ingest([*refunds(60), *strays])
        assert [suggestion.tool for suggestion in asked(memory)] == ["refund"]
