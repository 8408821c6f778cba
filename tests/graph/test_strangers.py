"""What few runs of one party can do to the tools of all others, on every store: break none of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.graph.rows import Selection
from hepm.graph.store import Store
from hepm.ingest.prepare import IngestOptions
from hepm.types import RECORDED_BY

_DAY_S = 86_400.0
_START = 1_700_000_000.0
DISTRUST = IngestOptions(distrusted=(f"{RECORDED_BY}=eve",))


def refund(
    name: str, *, broken: bool = False, day: float = 0.0, token: str = "", success: bool | None = True, **more: Any
) -> Trajectory:
    calls = ToolCall("get_order", {"order": name}, "delivered", False), ToolCall("refund", {}, "503", broken)
    turns = (Turn("user", "Refund my order, it broke."), *(Turn("assistant", "", (one,)) for one in calls))
    run = Trajectory(name, turns, Outcome(None, success), ended_at=_START + day * _DAY_S)
    return replace(run, **{"tags": {RECORDED_BY: token} if token else {}, **more})


def honest(count: int = 60) -> list[Trajectory]:
    return [refund(f"h{n}", day=n / 10, token=("ann", "bob")[n % 2], model=f"m{n % 2}") for n in range(count)]


def hint(memory: Memory) -> str:
    memory.refresh()
    return memory.suggest(after="get_order", state="Refund my order, it broke.").prompt()


@pytest.mark.above_stores
@pytest.mark.parametrize(
    "hostile", [{"success": None, "model": "m0"}, {"token": "eve"}, {"ended_at": 4_102_444_800.0, "token": "eve"}]
)
def test_a_few_runs_of_one_party_silence_no_tool(memory: Memory, hostile: dict[str, object]) -> None:
    memory.ingest(honest())
    assert hint(memory) == "Suggested next tools: refund (19 of 20 such successful runs did so)"
    about = {"day": 7.0, **hostile}
    memory.ingest([refund(f"e{n}", broken=True, **about) for n in range(6)])  # type: ignore[arg-type]
    assert hint(memory) == "Suggested next tools: refund (19 of 20 such successful runs did so)"
    assert memory.examine() == []


@pytest.mark.above_stores
def test_distrusted_runs_say_nothing_of_a_tool_and_those_of_several_parties_do(memory: Memory, store: Store) -> None:
    memory.ingest(honest())
    broken = [refund(f"e{n}", broken=True, day=7 + n, token="eve", model=f"m{n}") for n in range(9)]
    memory.ingest(broken, options=DISTRUST)
    assert store.latest_outcomes(["refund"], namespace="default") == {"refund": "0" * 60}
    assert hint(memory) == "Suggested next tools: refund (19 of 20 such successful runs did so)"
    assert memory.examine() == []
    memory.ingest([refund(f"f{n}", broken=True, day=20, token=("ann", "bob")[n % 2]) for n in range(6)])
    assert hint(memory) == "Ways that failed from here: refund (fails now, in 6 of its last 6 runs)"


def test_the_runs_of_a_token_are_forgotten_together(memory: Memory, store: Store) -> None:
    memory.ingest(honest())
    before = hint(memory), memory.totals()
    memory.ingest([refund(f"e{n}", token="eve", user="u") for n in range(3)])
    memory.ingest([refund(f"d{n}", token="eve") for n in range(3)], options=DISTRUST)
    about = {"namespace": "default"}
    assert store.selected(Selection(token="eve", user="u"), **about) == ["e0", "e1", "e2"]
    assert memory.forget(token="eve") == ["d0", "d1", "d2", "e0", "e1", "e2"]
    assert (hint(memory), memory.totals()) == before
    assert memory.forget(token="mallory") == []
    memory.rebuild()
    assert memory.examine() == []
    assert len(memory.forget(token="bob")) == 30


@pytest.mark.above_stores
def test_the_token_of_a_run_is_exported_and_makes_no_other_run_of_it(memory: Memory) -> None:
    memory.ingest(refund("r", token="eve"))
    assert memory.ingest(refund("r", token="ann")).duplicates == 1
    (line,) = memory.export()
    assert f'"tags":{{"{RECORDED_BY}":"eve"}}' in line
