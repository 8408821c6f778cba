"""The agent of benchmarks/README.md, held to what STATE-Bench's harness asks of one. The harness is no dependency.

`benchmarks/state_bench_agent.py try` plays the same source in the real harness.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn

BENCH = Path(__file__).parents[2] / "benchmarks" / "README.md"
SOURCE = re.compile(r"^```py\n(# agents/hepm_agent\.py\n.*?)^```$", re.MULTILINE | re.DOTALL)


class Harness:
    """What the harness does with an agent: it gives it the domain, and checks what it returns."""

    def __init__(self, domain: str) -> None:
        self.runtime_context = SimpleNamespace(domain=domain)

    def ask(self, query: str, top_k: int = 3) -> list[str]:
        given = self.retrieve_learnings(query, top_k=top_k)  # type: ignore[attr-defined]
        assert isinstance(given, list)
        assert all(isinstance(one, str) for one in given)  # pyright: ignore[reportUnknownVariableType]
        return given  # pyright: ignore[reportUnknownVariableType]


def support_run(number: int, *, asked: str, checked: bool, tool: str) -> Trajectory:
    """A run that succeeds if the policy was read before a tool that changes something."""
    read = [ToolCall("get_policies", {"topic": tool}, "ok")] if checked else []
    calls = [*read, ToolCall(tool, {"order_id": f"ORD-{number}"}, "done")]
    turns = (Turn("user", f"{asked} ORD-{number}"), *(Turn("assistant", "", (call,)) for call in calls))
    place = "state-bench-customer_support"
    return Trajectory(f"{tool}-{number}", turns, Outcome(float(checked), checked), place, f"{tool}-{number}")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Twelve refunds and twelve exchanges; of each half read the policy, and succeeded."""
    with Memory.open(tmp_path / "train.hepm") as memory:
        wishes = {
            "process_refund": "Please refund the broken lamp of",
            "process_exchange": "Exchange the shoes for size 9:",
        }
        runs = [
            support_run(n, asked=asked, checked=n % 2 == 0, tool=tool)
            for tool, asked in wishes.items()
            for n in range(12)
        ]
        memory.ingest(runs)
        memory.principles.distill()
    return tmp_path / "train.hepm"


@pytest.fixture
def agent(store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Harness]]:
    module = ModuleType("state_bench.agents.state_bench")
    module.__dict__["StateBenchAgent"] = Harness
    for name in ("state_bench", "state_bench.agents"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "state_bench.agents.state_bench", module)
    monkeypatch.setenv("HEPM_STORE", str(store))
    found = SOURCE.search(BENCH.read_text("utf-8"))
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[1], names)
    yield names["HepmAgent"]
    names["MEMORY"].close()


def test_the_agent_of_the_page_gives_what_runs_with_like_requests_bear_out(agent: type[Harness]) -> None:
    learnings = agent("customer_support").ask("I want a refund of the lamp in ORD-99, it is broken.")
    # The rule of the evidence says what to call before: no lesson of its own does.
    rule = "At the start, call get_policies rather than process_exchange and process_refund. (12 of 12 runs)"
    assert rule in learnings
    assert any(one.endswith("call process_refund. (6 of 6 runs)") for one in learnings)
    assert not any(one.endswith("call process_exchange. (6 of 6 runs)") for one in learnings)


def test_no_more_are_given_than_asked_for_and_none_of_another_domain(agent: type[Harness]) -> None:
    assert len(agent("customer_support").ask("Exchange the shoes for another size", top_k=1)) == 1
    assert agent("travel").ask("Exchange the shoes for another size") == []


def test_the_page_shows_the_agent_in_at_most_ten_lines_of_code() -> None:
    found = SOURCE.search(BENCH.read_text("utf-8"))
    assert found is not None
    lines = [line for line in found[1].splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) <= 10
