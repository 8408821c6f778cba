"""A failed run is charged where it leaves what successful runs in like states did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from hepm import Memory, Outcome, Suggestions, ToolCall, Trajectory, Turn
from hepm.policy.hybrid.fitted import FittedMemory
from tests.runs import trajectory

PENDING, SHIPPED = '{"status": "pending", "items": 2}', '{"status": "shipped", "items": 2}'


def cancel_run(name: str, ordered: str, *calls: str, success: bool) -> Trajectory:
    """A customer wants an order cancelled; the order says whether that is still possible."""
    results = (ordered, *("done" for _ in calls))
    turns = [Turn("user", f"I do not want number {name} any more")]
    turns += [
        Turn("assistant", calls=(ToolCall(tool, result=result),))
        for tool, result in zip(("get_order", *calls), results, strict=True)
    ]
    return Trajectory(name, tuple(turns), Outcome(float(success), success), environment="shop")


def cancel_log(runs: int) -> list[Trajectory]:
    """Half of the orders are shipped; half of their runs make the mistake one call after the branch."""
    random = Random(runs)
    found: list[Trajectory] = []
    for number in range(runs):
        name = f"{random.randrange(10_000)}-{number}"
        shipped, errs = random.random() < 0.5, random.random() < 0.5
        if not shipped:
            found.append(cancel_run(name, PENDING, "cancel_order", success=True))
        elif errs:
            found.append(cancel_run(name, SHIPPED, "get_shipment", "cancel_order", success=False))
        else:
            found.append(cancel_run(name, SHIPPED, "get_shipment", "escalate", success=True))
    return found


def asked(memory: Memory, *calls: tuple[str, str]) -> Suggestions:
    messages: list[dict[str, object]] = [{"role": "user", "content": "I do not want number 4711 any more"}]
    for number, (tool, result) in enumerate(calls):
        call = {"id": f"c{number}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    return memory.suggest(messages=messages)


def charges(memory: Memory, run: str) -> list[float]:
    """What the calls of a failed run are charged, in order."""
    fitted = memory.mirror().fits.of(FittedMemory)
    rows = np.flatnonzero(fitted.calls.run_N == list(fitted.calls.run_ids).index(run))
    return fitted.odds.blame.at(fitted.calls, rows).tolist()


def remembered(folder: Path, runs: Sequence[Trajectory]) -> Memory:
    memory = Memory.open(folder)
    memory.ingest(runs)
    return memory


@pytest.mark.parametrize("runs", [150, 600])
def test_a_mistake_one_call_later_does_not_turn_memory_against_the_call_before(tmp_path: Path, runs: int) -> None:
    with remembered(tmp_path, cancel_log(runs)) as memory:
        at_branch = asked(memory, ("get_order", SHIPPED))
        after = asked(memory, ("get_order", SHIPPED), ("get_shipment", "done"))
    assert "get_shipment" not in {way.tool for way in at_branch.warnings}
    assert [way.tool for way in after.warnings] == ["cancel_order"]


@pytest.mark.parametrize("runs", [150, 600])
def test_a_failed_run_is_charged_where_it_left_the_successful_ones(tmp_path: Path, runs: int) -> None:
    log = cancel_log(runs)
    with remembered(tmp_path, log) as memory:
        for run in log:
            if run.outcome.success:
                assert charges(memory, run.id) == [0.0] * len(list(run.calls()))
            else:
                found = charges(memory, run.id)
                assert sum(found) == pytest.approx(1, abs=1e-5)
                assert found[2] > 0.8


def test_calls_after_the_mistake_are_not_charged(tmp_path: Path) -> None:
    runs = [trajectory(f"won {n}", "find", "book", "pay", "mail") for n in range(6)]
    runs += [trajectory(f"lost {n}", "find", "guess", "pay", "excuse", success=False) for n in range(3)]
    with remembered(tmp_path, runs) as memory:
        found = charges(memory, "lost 0")
    assert found[1] > 0.5
    assert found[1] == max(found)
    assert found[0] < 0.1


def test_without_a_successful_twin_the_charge_is_spread_evenly(tmp_path: Path) -> None:
    runs = [trajectory(f"lost {n}", "look", "read", "write", "test", success=False) for n in range(3)]
    with remembered(tmp_path, runs) as memory:
        assert charges(memory, "lost 1") == pytest.approx([0.25] * 4, abs=1e-6)


def test_three_runs_that_failed_alike_are_no_warning_where_no_like_run_succeeded_with_something_else(
    tmp_path: Path,
) -> None:
    runs = [trajectory(f"lost {n}", "Grep", "Read", "Edit", success=False) for n in range(3)]
    runs += [trajectory(f"won {n}", "Bash", "Write") for n in range(3)]
    with remembered(tmp_path, runs) as memory:
        assert memory.suggest("Grep", state="please help").prompt() == ""


def test_where_successful_runs_ended_here_not_every_way_is_said_to_have_failed(tmp_path: Path) -> None:
    runs = [trajectory(f"lost {n}", "get_order", "refund", success=False) for n in range(5)]
    assert "every known way" in str(abstained(tmp_path / "failed", runs))
    runs += [trajectory(f"won {n}", "get_order") for n in range(5)]
    assert "every known way" not in str(abstained(tmp_path / "ended", runs))


def abstained(folder: Path, runs: Sequence[Trajectory]) -> str | None:
    with remembered(folder, runs) as memory:
        return memory.suggest("get_order", state="please help").abstained


def test_charges_of_ten_thousand_calls_take_well_under_a_second(tmp_path: Path) -> None:
    """Counted in compared calls, not in seconds: each failed call is compared with a bounded number."""
    from hepm.policy.hybrid import blame

    tools = [f"tool {n}" for n in range(6)]
    random = Random(0)
    runs = [
        trajectory(f"{n}", *(random.choice(tools) for _ in range(20)), success=random.random() < 0.5, goal=f"wish {n}")
        for n in range(150)
    ]
    with remembered(tmp_path, runs) as memory:
        calls = memory.mirror().fits.of(FittedMemory).calls
        rows = np.flatnonzero(~calls.success_R[calls.run_N] & (calls.before_NK[:, 0] == 1))
        place = blame._FailedCallsAfter.of(calls, rows, np.ones(calls.states_SD.shape[1], dtype=np.float32))
        assert len(calls.by_last[1]) > blame.MOST_COMPARED
        assert place.weight_FL.shape[1] <= blame.MOST_COMPARED
