"""The paper's policy switches on the agent's own summary, and the paper's graph holds nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hepm import START, Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.ingest.prepare import IngestOptions
from hepm.types import SUMMARY_TOOL
from tests.runs import messages_after

LAMP, SHOES = "The lamp is broken, money back", "Wants the red shoes"
OWN = IngestOptions(own_states=True)


def run(name: str, tool: str, summary: str, goal: str = "please help") -> Trajectory:
    calls = [ToolCall("look", result="found"), ToolCall(tool, result="done")]
    summaries = [ToolCall(SUMMARY_TOOL, {"summary": summary})] if summary else []
    calls[1:1] = summaries
    turns = (Turn("user", goal), *(Turn("assistant", "", (call,), 0.5) for call in calls))
    return Trajectory(name, turns, Outcome(1.0, True), environment="shop")


RUNS = [*(run(f"buy{n}", "buy", SHOES) for n in range(3)), run("back", "refund", LAMP), run("none", "leave", "")]


def conversation(*called: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": LAMP}]
    for name, arguments in called:
        _, made, result = messages_after("", name)
        made["tool_calls"][0]["function"]["arguments"] = arguments
        messages += [made, result]
    return messages


def first(memory: Memory, *called: tuple[str, dict[str, Any]], policy: str = "adaptive") -> str:
    return memory.suggest(messages=conversation(*called), policy=policy)[0].tool


def test_an_agent_that_did_not_summarise_is_answered_by_weights_though_an_extract_is_there(memory: Memory) -> None:
    memory.ingest(RUNS)
    assert first(memory, ("look", {})) == "buy"
    assert memory.suggest("look", policy="adaptive")[0].similarity is None


def test_an_agent_that_summarised_since_its_last_call_is_answered_from_episodes(memory: Memory) -> None:
    memory.ingest(RUNS)
    summary = (SUMMARY_TOOL, {"summary": LAMP})
    assert first(memory, ("look", {}), summary) == "refund"
    assert memory.suggest("look", state=LAMP, policy="adaptive")[0].tool == "refund"
    # A call after the summary: what it said is no longer the present state.
    assert first(memory, summary, ("look", {})) == "buy"


def test_a_graph_of_own_summaries_holds_no_extract(memory: Memory) -> None:
    memory.ingest(RUNS, options=OWN)
    assert memory.totals().states == 2
    found = memory.suggest("look", state=LAMP, policy="episodic", k=5)
    assert (found[0].tool, "leave" in {s.tool for s in found}) == ("refund", False)
    assert found[0].summaries == (LAMP,)
    assert "no remembered state" in (memory.suggest(START, state=LAMP, policy="episodic").abstained or "")
    assert [s.tool for s in memory.suggest("look", policy="procedural", k=3)] == ["buy", "leave", "refund"]
    assert memory.suggest("look", state=LAMP)  # the hybrid answers all the same
    assert memory.examine() == []


def test_a_run_keeps_to_how_its_states_were_first_stored(memory: Memory, tmp_path: Path) -> None:
    memory.ingest(RUNS, options=OWN)
    assert memory.ingest(RUNS).duplicates == len(RUNS)
    memory.rebuild()
    assert memory.totals().states == 2
    with Memory.open(tmp_path / "other", speak="weighed") as other:
        (tmp_path / "export.jsonl").write_text("\n".join(memory.export()))
        other.ingest(tmp_path / "export.jsonl")
        assert other.totals() == memory.totals()
        assert list(other.export()) == list(memory.export())
