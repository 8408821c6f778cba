from __future__ import annotations

import pytest

from hepm.evals.events import Run
from hepm.evals.partings import Fork, Parting, find_partings
from hepm.evals.rescue import Hints
from tests.evals.logs import run


def good(name: str, *turns: str, task: str = "t") -> Run:
    return run(name, *turns, task=task)


def bad(name: str, *turns: str, task: str = "t") -> Run:
    return run(name, *turns, task=task, success=False)


def fork(better: str, chosen: str) -> Fork:
    return Fork(frozenset(better), frozenset(chosen))


def test_a_parting_is_the_first_turn_that_differs() -> None:
    (found,) = find_partings([good("g", "a", "b", "c"), bad("f", "a", "x", "c")]).found
    assert (found.moment.position, found.moment.next) == (1, "x")
    assert found.forks == [fork("b", "x")]


def test_calls_of_one_turn_have_no_order() -> None:
    (found,) = find_partings([good("g", "a+b", "c"), bad("f", "b+a", "d")]).found
    assert found.forks == [fork("c", "d")]


def test_the_run_that_was_followed_longest_is_the_one_that_is_left() -> None:
    (found,) = find_partings([good("g1", "x", "y"), good("g2", "a", "b"), bad("f", "a", "c")]).found
    assert found.forks == [fork("b", "c")]


def test_runs_followed_equally_long_count_for_equal_parts() -> None:
    (found,) = find_partings([good("g1", "a", "b"), good("g2", "a", "d"), bad("f", "a", "c")]).found
    assert found.forks == [fork("b", "c"), fork("d", "c")]
    assert found.judge(frozenset("bx")).tolist() == [0.5, 0, 0, 0.5]


def test_a_parting_at_the_first_call_counts() -> None:
    (found,) = find_partings([good("g", "a"), bad("f", "x")]).found
    assert found.moment.position == 0


def test_a_run_that_took_the_same_tools_is_no_parting() -> None:
    found = find_partings([good("g", "a", "b"), bad("f", "a", "b"), bad("short", "a"), bad("long", "a", "b", "c")])
    assert (list(found.found), found.no_other_way) == ([], 3)


def test_more_tools_at_once_are_no_other_way() -> None:
    assert not find_partings([good("g", "a", "b"), bad("f", "a", "b+c")]).found


def test_a_task_that_nobody_solved_tells_nothing() -> None:
    found = find_partings([good("g", "a", "b", task="other"), bad("f", "a", "c")])
    assert (list(found.found), found.alone) == ([], 1)


def test_a_run_without_a_label_is_neither_good_nor_bad() -> None:
    found = find_partings([run("u", "a", "c", task="t", success=None), good("g", "a", "b")])
    assert not found.found


@pytest.mark.parametrize(
    ("hints", "expected"),
    [("b", "rescue"), ("x", "misled"), ("bx", "both"), ("yz", "neither"), ("", "neither")],
)
def test_hints_speak_for_one_way_the_other_both_or_neither(hints: str, expected: str) -> None:
    parting = Parting(bad("f", "x").moments[0], [fork("b", "x")])
    shares = dict(zip(("rescue", "misled", "both", "neither"), parting.judge(frozenset(hints)).tolist(), strict=True))
    assert shares == {name: float(name == expected) for name in shares}


def test_shares_and_tools_are_counted_over_partings() -> None:
    moments = [bad(f"f{i}", "x", task=f"t{i}").moments[0] for i in range(4)]
    partings = [Parting(moment, [fork("b", "x")]) for moment in moments]
    rankings = [[("b", 1.0), ("c", 0.5)], [("b", 1.0), ("x", 0.5)], [("c", 1.0), ("x", 0.5)], [("b", 1.0), ("d", 0.5)]]
    found = Hints(at_partings=[*zip(partings, rankings, strict=True)]).measure(k=2)
    assert (found.rescue, found.misled, found.both, found.neither, found.gain) == (0.5, 0.25, 0.25, 0.0, 0.25)
    assert (found.rescued_by, found.misled_by, found.families) == ({"b": 2.0}, {"x": 1.0}, 4)
    # With one tool there is no "both": the second parting is rescued too, the third misses both ways.
    found = Hints(at_partings=[*zip(partings, rankings, strict=True)]).measure(k=1)
    assert (found.rescue, found.misled, found.neither) == (0.75, 0.0, 0.25)


def test_harm_is_the_share_of_hints_that_lack_the_next_tool() -> None:
    one, two, three = good("g", "a", "b", "c", "d").events
    rankings = [(one, [("b", 1.0), ("x", 0.5)]), (two, [("x", 1.0), ("y", 0.5)]), (three, [])]
    found = Hints(in_successes=rankings).measure(k=2)
    assert (found.harm, found.harmed) == (0.5, {"c": 1.0})
    assert found.silent == pytest.approx(1 / 3)
    assert found.partings == 0


def test_failed_runs_that_memory_was_filled_with_are_not_counted_among_the_tested_ones() -> None:
    known, tested = bad("known", "a", "x"), bad("tested", "a", "y")
    found = find_partings([good("g", "a", "b"), known, bad("alone", "a", "z", task="other"), tested], among=[tested])
    assert [parting.moment.run for parting in found.found] == [tested]
    assert (found.alone, found.no_other_way) == (0, 0)
