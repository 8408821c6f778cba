from __future__ import annotations

import pytest

from hepm.evals.baselines import Hint
from hepm.evals.domains import DomainRun
from hepm.evals.metrics import DivergencePoint, Hints, find_divergences
from hepm.experience.comparison import RunDivergence
from tests.evals.logs import run


def good(name: str, *turns: str, task: str = "t") -> DomainRun:
    return run(name, *turns, task=task)


def bad(name: str, *turns: str, task: str = "t") -> DomainRun:
    return run(name, *turns, task=task, success=False)


def hints(*tools: str) -> list[Hint]:
    """Hints of tools with one letter."""
    return [Hint(tuple(letters)) for letters in tools]


def fork(better: str, chosen: str, after: str = "a") -> RunDivergence:
    return RunDivergence(1, frozenset(better), frozenset(chosen), after=frozenset(after))


def test_a_divergence_is_the_first_turn_that_differs() -> None:
    (found,) = find_divergences([good("g", "a", "b", "c"), bad("f", "a", "x", "c")])
    assert (found.event.position, found.event.next) == (1, "x")
    assert found.forks == [fork("b", "x")]


def test_calls_of_one_turn_have_no_order() -> None:
    (found,) = find_divergences([good("g", "a+b", "c"), bad("f", "b+a", "d")])
    assert found.forks == [fork("c", "d", "ab")]


def test_the_run_that_was_followed_longest_is_the_one_that_is_left() -> None:
    (found,) = find_divergences([good("g1", "x", "y"), good("g2", "a", "b"), bad("f", "a", "c")])
    assert found.forks == [fork("b", "c")]


def test_runs_followed_equally_long_count_for_equal_parts() -> None:
    (found,) = find_divergences([good("g1", "a", "b"), good("g2", "a", "d"), bad("f", "a", "c")])
    assert found.forks == [fork("b", "c"), fork("d", "c")]
    assert found.judge(Hint(("b", "x"))).tolist() == [0.5, 0, 0, 0]


def test_a_run_that_took_the_same_tools_is_no_divergence() -> None:
    log = [good("g", "a", "b"), bad("f", "a", "b"), bad("short", "a"), bad("long", "a", "b", "c")]
    assert find_divergences(log) == []


def test_a_way_counts_as_successful_from_a_share_of_its_runs_on() -> None:
    """A success with a wrong label hid that the others of its way had failed: their way was "the same"."""
    log = [good(f"g{n}", "a", "b") for n in range(6)] + [bad(f"f{n}", "a", "c") for n in range(9)]
    hidden = [*log, good("mislabelled", "a", "c")]
    assert [len(find_divergences(runs)) for runs in (log, hidden)] == [9, 9]
    # 9 of 18 runs of the task succeeded: a way counts from .25 on, which are 3 of its 12.
    several = [*log, *(good(f"s{n}", "a", "c") for n in range(3))]
    assert find_divergences(several) == []


def test_a_task_that_nobody_solved_tells_nothing() -> None:
    log = [good("g", "a", "b", task="other"), bad("f", "a", "c")]
    assert find_divergences(log) == []


@pytest.mark.parametrize(("tools", "expected"), [("b", [1, 0]), ("x", [0, 1]), ("bx", [0, 0]), ("yz", [0, 0])])
def test_hints_speak_for_the_better_tool_alone_or_for_the_chosen_one_alone(tools: str, expected: list[int]) -> None:
    divergence = DivergencePoint(bad("f", "x").all_events[0], [fork("b", "x")])
    assert divergence.judge(Hint(tuple(tools))).tolist() == [*expected, 0, 0]


def test_shares_and_tools_are_counted_over_divergences() -> None:
    moments = [bad(f"f{i}", "x", task=f"t{i}").all_events[0] for i in range(4)]
    divergences = [DivergencePoint(moment, [fork("b", "x")]) for moment in moments]
    found = Hints(at_divergences=[*zip(divergences, hints("bc", "bx", "cx", "bd"), strict=True)]).measure()
    assert (found.rescue, found.misled, found.gain) == (0.5, 0.25, 0.25)
    assert found.families == 4


def test_warnings_are_right_of_the_chosen_tool_and_wrong_of_the_better_one() -> None:
    forks = [fork("b", "x"), fork("d", "x")]
    divergences = [DivergencePoint(bad(f"f{i}", "x", task=f"t{i}").all_events[0], forks) for i in range(4)]
    warned = [Hint((), frozenset(tools)) for tools in ("x", "b", "xd", "")]
    found = Hints(at_divergences=[*zip(divergences, warned, strict=True)]).measure()
    # The chosen tool in the first and the third, a better one in half of the second's and of the third's forks.
    assert (found.warned, found.warned_better) == (0.5, 0.25)
    assert (found.rescue, found.misled) == (0, 0)


def test_harm_is_the_share_of_hints_that_lack_the_next_tool() -> None:
    one, two, three = good("g", "a", "b", "c", "d").events
    found = Hints(in_successes=[*zip((one, two, three), hints("bx", "xy", ""), strict=True)]).measure()
    assert found.harm == 0.5
    assert found.silent == pytest.approx(1 / 3)
    assert found.divergences == 0
