"""Honest chances, the vote of the nearest runs, and what memory says by them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hepm import Memory
from hepm.errors import InputError
from hepm.graph.delta import request_of, words_of
from hepm.policy.hybrid import fitted, held_out
from hepm.policy.hybrid.chance import Curve, HeldOutHint, HonestChance
from hepm.policy.hybrid.nearest_runs import NearestRuns
from hepm.types import START, StateSummary, Suggestions, Trajectory, Turn
from tests.runs import trajectory

LOOK, REFUND, RESEND, CLOSE = range(1, 5)


def hints(score: float, right: int, wrong: int) -> list[HeldOutHint]:
    return [HeldOutHint(score, True, 0.0)] * right + [HeldOutHint(score, False, 0.0)] * wrong


def test_fewer_than_twenty_hints_measure_nothing_and_no_more_than_a_half_is_stated() -> None:
    curve = Curve.of(hints(0.9, 19, 0))
    assert not curve.measured
    assert (curve.at(0.3), curve.at(0.9)) == (0.3, 0.5)


def test_a_chance_is_the_share_of_right_hints_with_one_right_and_one_wrong_added() -> None:
    curve = Curve.of(hints(0.2, 10, 10) + hints(0.9, 20, 0))
    assert curve.at(0.2) == curve.at(0.8) == pytest.approx(11 / 22)
    assert curve.at(0.9) == curve.at(1.0) == pytest.approx(21 / 22)


def test_below_all_measured_scores_the_chance_falls_in_proportion_to_the_score() -> None:
    curve = Curve.of(hints(0.6, 20, 0))
    assert curve.at(0.6) == pytest.approx(21 / 22)
    assert curve.at(0.1) == pytest.approx(21 / 22 / 6)


def test_a_higher_score_never_has_a_lower_chance() -> None:
    curve = Curve.of(hints(0.2, 18, 2) + hints(0.5, 8, 12) + hints(0.9, 19, 1))
    assert curve.at(0.2) == curve.at(0.5) == pytest.approx(27 / 42)
    assert curve.at(0.9) == pytest.approx(20 / 22)


def test_chances_are_the_same_after_a_file() -> None:
    chance = HonestChance(Curve.of(hints(0.7, 30, 3)), Curve.of([]), 0.4, 0.8)
    again = HonestChance.from_json(json.loads(json.dumps(chance.to_json())))
    assert again.at(0.8, None) == chance.at(0.8, None)
    assert (again.known.at(0.8), again.recognised) == (chance.known.at(0.8), 0.4)


def test_where_no_request_is_stated_the_share_of_returning_tasks_weighs_known_and_new_requests() -> None:
    known, new = Curve.of(hints(0.2, 19, 1)), Curve.of(hints(0.2, 1, 19))
    assert HonestChance(known, new, 0.4, 1.0).at(0.5, None) == pytest.approx(20 / 22)
    assert HonestChance(known, new, 0.4, 0.75).at(0.5, None) == pytest.approx(0.75 * 20 / 22 + 0.25 * 2 / 22)
    assert HonestChance(Curve.of([]), new, 0.4, 1.0).at(0.5, None) == pytest.approx(2 / 22)


def nearest(*runs: tuple[str, list[int]]) -> NearestRuns:
    requests = [request for request, _ in runs]
    return NearestRuns([calls for _, calls in runs], requests, requests, tools=5)


def test_runs_with_the_likeliest_request_vote_for_what_followed_the_longest_match() -> None:
    known = nearest(
        *[("the lamp arrived broken", [LOOK, REFUND, LOOK, CLOSE])] * 5,
        *[("when does my parcel come", [LOOK, RESEND, CLOSE])] * 5,
    )
    words = words_of("my lamp came broken")
    first, second = known.vote(words, [LOOK]), known.vote(words, [LOOK, REFUND, LOOK])
    assert first is not None
    assert second is not None
    assert (first.shares_T.argmax(), second.shares_T.argmax()) == (REFUND, CLOSE)
    assert second.match == 3


def test_a_run_that_ended_here_votes_for_no_tool() -> None:
    vote = nearest(*[("the lamp arrived broken", [LOOK, REFUND])] * 3).vote(words_of("lamp broken"), [LOOK, REFUND])
    assert vote is not None
    assert (vote.ended, vote.shares_T.sum()) == (pytest.approx(1.0), 0.0)


def test_a_request_of_unknown_words_has_no_vote() -> None:
    assert nearest(("the lamp arrived broken", [LOOK])).vote(words_of("weather tomorrow"), [LOOK]) is None


def test_which_of_equal_requests_came_first_does_not_decide_the_vote() -> None:
    runs = [("lamp broken", [LOOK, tool]) for tool in [REFUND] * 6 + [RESEND] * 6]
    one, other = (nearest(*of).vote(words_of("lamp broken"), [LOOK]) for of in (runs, runs[::-1]))
    assert one is not None
    assert other is not None
    assert one.shares_T.tolist() == pytest.approx(other.shares_T.tolist())


def test_a_request_is_its_first_line_in_words_without_digits() -> None:
    assert words_of(request_of("\nRefund order 4711, Ana!\nThanks")) == {"refund", "order", "ana"}


def refunds(count: int, **more: str) -> list[Trajectory]:
    return [
        trajectory(f"r{n}", "look", "refund", "close", goal=f"Refund parcel {n}, it broke", **more)
        for n in range(count)
    ]


def asked(memory: Memory, **options: object) -> Suggestions:
    state = StateSummary(said=("Refund parcel 99, it broke",), tools=("look",))
    return memory.suggest("look", history=["look"], state=state, **options)  # type: ignore[arg-type]


def test_a_young_memory_names_nothing_unless_hints_are_weighed(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest(refunds(4))
        assert "no tool is sure enough (best refund: right in " in str(asked(memory).abstained)
        found = asked(memory, speak="weighed")
        assert (found[0].tool, found[0].score <= 0.5) == ("refund", True)


def test_what_was_always_right_is_named_with_its_chance(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest(refunds(60))
        found = asked(memory)
        assert found[0].tool == "refund"
        assert 0.93 <= found[0].score < 1
        assert found.prompt() == "Suggested next tools: refund (right in 19 of 20 such cases)"


def test_where_like_runs_ended_memory_says_that_they_were_done(tmp_path: Path) -> None:
    with Memory.open(tmp_path, speak="weighed") as memory:
        memory.ingest(refunds(30) + [trajectory(f"o{n}", "close", "resend", goal="Another wish") for n in range(3)])
        state = StateSummary(said=("Refund parcel 99, it broke",), tools=("look", "refund", "close"))
        found = memory.suggest("close", history=["look", "refund", "close"], state=state)
    assert found.abstained == "runs like this one were done here"


def test_parallel_calls_are_matched_in_the_order_in_which_runs_made_them(tmp_path: Path) -> None:
    with Memory.open(tmp_path, speak="weighed") as memory:
        memory.ingest(trajectory(f"r{n}", "zoom+ask", "refund", goal=f"Refund {n}, it broke") for n in range(30))
        state = StateSummary(said=("Refund 99, it broke",), tools=("zoom", "ask"))
        for last in (["ask", "zoom"], ["zoom", "ask"]):
            found = memory.suggest(last, history=["zoom", "ask"], state=state)
            assert found[0].tool == "refund"


def test_the_floor_is_the_chance_of_every_tool_that_is_named(tmp_path: Path) -> None:
    runs = [
        *refunds(40),
        *(trajectory(f"s{n}", "look", "resend", goal=f"Refund parcel {n}, it broke") for n in range(20)),
    ]
    with Memory.open(tmp_path) as memory:
        memory.ingest(runs)
        for floor in (0.05, 0.4, 0.7):
            assert all(one.score >= floor for one in asked(memory, floor=floor, k=4))
        assert {one.tool for one in asked(memory, floor=0.05, k=4)} >= {"refund", "resend"}


@pytest.mark.parametrize("wrong", [{"speak": "loudly"}, {"floor": 1.5}, {"floor": -0.1}, {"floor": float("nan")}])
def test_no_other_way_to_speak_is_taken(tmp_path: Path, wrong: dict[str, object]) -> None:
    with Memory.open(tmp_path) as memory, pytest.raises(InputError):
        memory.suggest("look", **wrong)  # type: ignore[arg-type]


def test_a_second_memory_reads_what_the_first_one_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Memory.open(tmp_path / "m.hepm") as memory:
        memory.ingest(refunds(60))
        first = asked(memory)[0].score
    with monkeypatch.context() as patch, Memory.open(tmp_path / "m.hepm") as memory:
        patch.setattr(held_out, "measure_chance", lambda fitted: pytest.fail("measured again"))
        assert asked(memory)[0].score == pytest.approx(first)
    (note,) = (tmp_path / "m.hepm-fit").rglob("chance.json")
    note.write_text("{", encoding="utf-8")
    with Memory.open(tmp_path / "m.hepm") as memory:
        assert asked(memory)[0].score == pytest.approx(first)


def test_it_is_measured_again_when_the_store_has_grown_by_a_quarter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[int] = []
    real = held_out.measure_chance

    def counted(memory: fitted.FittedMemory) -> HonestChance:
        measured.append(len(memory.calls.run_ids))
        return real(memory)

    monkeypatch.setattr(held_out, "measure_chance", counted)
    with Memory.open(tmp_path / "m.hepm") as memory:
        for runs in (40, 45, 60):
            memory.ingest(refunds(runs))
            memory.follow_now()
            asked(memory)
    assert measured == [40, 60]


def test_the_start_is_a_place_too(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest(refunds(60))
        found = memory.suggest(START, state=StateSummary(said=("Refund parcel 99, it broke",)))
    assert found[0].tool == "look"


def judged(folder: Path, runs: list[Trajectory], run: str) -> list[bool]:
    """Of the calls of a run at which a memory of all runs names a tool: whether it was right."""
    with Memory.open(folder) as memory:
        memory.ingest(runs)
        calls = memory.mirror().fits.of(fitted.FittedMemory).calls
    rows = np.flatnonzero(calls.run_N == list(calls.run_ids).index(run))
    return [hint.right for hint in held_out.held_out_hints(calls, calls, rows[1:2]) if hint]


@pytest.mark.parametrize(
    ("detour", "right"),
    [
        (["note"], True),
        (["note", "note"], True),
        (["note", "note", "note"], False),
        (["note+refund"], True),
    ],
)
def test_a_hint_is_right_if_its_tool_came_after_at_most_two_calls_that_few_runs_make(
    tmp_path: Path, detour: list[str], right: bool
) -> None:
    strays = trajectory("strays", "look", *detour, "refund", "close", goal="Refund parcel 7, it broke")
    assert judged(tmp_path, [*refunds(30), strays], "strays") == [right]


def test_what_is_called_after_the_user_spoke_again_makes_no_hint_right(tmp_path: Path) -> None:
    run = trajectory("strays", "look", "note", "refund", "close", goal="Refund parcel 7, it broke")
    *before, refund, close = run.turns
    run = replace(run, turns=(*before, Turn("user", "So what now?"), refund, close))
    assert judged(tmp_path, [*refunds(30), run], "strays") == [False]


def test_no_common_step_is_skipped_as_a_detour(tmp_path: Path) -> None:
    asks = [
        trajectory(f"asks {n}", "look", "ask", "refund", "close", goal=f"Refund parcel {n}, it broke")
        for n in range(10)
    ]
    assert judged(tmp_path, [*refunds(30), *asks], "asks 3") == [False]


def test_what_is_right_but_for_a_rare_detour_is_named(tmp_path: Path) -> None:
    strays = [
        trajectory(f"s{n}", "look", "note", "refund", "close", goal=f"Refund parcel {n}, it broke") for n in range(14)
    ]
    with Memory.open(tmp_path) as memory:
        memory.ingest([*refunds(60), *strays])
        assert [suggestion.tool for suggestion in asked(memory)] == ["refund"]
