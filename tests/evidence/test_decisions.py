"""What was known before each call of a stored run, and which runs are of one kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hepm import Outcome, ToolCall, Trajectory, Turn
from hepm.evidence.decisions import FactNumbers, LabelledRun, read_run
from hepm.evidence.learning import set_cases
from hepm.graph.delta import request_of, words_of
from hepm.types import END, KEPT_WORDS
from tests.evidence.remembered import decisions_of, filled, sample_of, situation_after, told
from tests.runs import trajectory


def long_run() -> Trajectory:
    """Parallel calls, an error, a tool called again, and a user and an agent who write in between."""
    turns = (
        Turn("user", "My lamp arrived broken\nand it was 40 dollars"),
        Turn("assistant", calls=(ToolCall("look", result='{"status": "shipped", "total": 40, "items": [1, 2]}'),)),
        Turn("assistant", "Which one?"),
        Turn("user", "the red one, urgent"),
        Turn("assistant", calls=(ToolCall("ask", result="no answer"), ToolCall("zoom", result='{"tier": "gold"}'))),
        Turn("assistant", calls=(ToolCall("look", result="no such order", error=True),)),
        Turn("assistant", calls=(ToolCall("look", result='{"status": "lost"}'),)),
        Turn("user", "So what now?"),
        Turn("assistant", calls=(ToolCall("refund", result="done"),)),
        Turn("assistant", calls=(ToolCall("close", result="done"),)),
    )
    return Trajectory("long", turns, Outcome(success=True))


@pytest.mark.parametrize("number", range(6))
def test_what_was_known_before_a_stored_call_is_what_the_agent_knew_then(tmp_path: Path, number: int) -> None:
    run = long_run()
    turns = [at for at, turn in enumerate(run.turns) if turn.calls]
    with filled(tmp_path, [run]) as memory:
        decisions = decisions_of(memory, "long")
        facts = decisions[number].facts(list(sample_of(memory).numbers))
    assert len(decisions) == len(turns)
    lived = situation_after(run.turns[: turns[number]])
    stored = decisions[number]
    assert stored.place == lived.place
    assert list(stored.past) == list(lived.past)
    assert facts == lived.facts
    assert (stored.run.words, stored.again) == (lived.words, lived.again)


def test_of_a_tool_that_is_called_again_and_again_the_latest_words_are_known(tmp_path: Path) -> None:
    letters = "abcdefghij"
    results = [" ".join(f"{letters[n // 10]}{letters[n % 10]}{letter * 3}" for letter in letters) for n in range(60)]
    calls = [Turn("assistant", calls=(ToolCall("bash", result=result),)) for result in results]
    run = Trajectory("shell", (Turn("user", "repair the build"), *calls), Outcome(success=True))
    with filled(tmp_path, [run]) as memory:
        facts = decisions_of(memory, "shell")[-1].facts(list(sample_of(memory).numbers))
    assert facts == situation_after(run.turns[:-1]).facts
    known = facts["results of bash"]
    assert len(known) == KEPT_WORDS
    assert "~fiaaa" in known  # of the last result before it, and none of the first
    assert "~aaaaa" not in known


def labelled(name: str, task: str, request: str) -> LabelledRun:
    return LabelledRun(0, name, True, "", task, "", words_of(request_of(request)), ("look",))


THINGS = ("lamp", "shoes", "chair", "table", "phone", "radio", "plate", "glass", "carpet")


def test_runs_of_one_task_are_a_family() -> None:
    runs = [labelled(f"{thing} {n}", thing, f"my {thing} is {n}") for thing in THINGS for n in "xy"]
    set_cases(runs)
    assert [run.family for run in runs] == [thing for thing in THINGS for _ in "xy"]


def test_where_each_task_has_one_run_the_words_of_the_request_tell_families() -> None:
    runs = [labelled(f"{thing} {n}", f"id {thing} {n}", f"My {thing} 4{n} broke") for thing in THINGS for n in range(2)]
    set_cases(runs)
    assert {run.family for run in runs} == {" ".join(sorted(("broke", thing))) for thing in THINGS}


def test_runs_of_no_task_with_equal_words_are_a_family() -> None:
    runs = [labelled(f"{thing} {n}", "", f"{thing} {n}") for thing in THINGS for n in range(3)]
    set_cases(runs)
    assert len({run.family for run in runs}) == len(THINGS)


@pytest.mark.parametrize("differ", [False, True])
def test_requests_in_one_wording_are_cases_of_their_own_if_their_first_results_differ(
    tmp_path: Path, differ: bool
) -> None:
    runs: list[Trajectory] = []
    for thing in THINGS:
        for n in range(4):
            looked = ("look", {"amount": 10 + n * differ})
            runs.append(told(f"{thing} {n}", looked, ("act", "ok"), goal=f"see to the {thing}"))
    with filled(tmp_path, runs) as memory:
        found = memory.evidence().valued().runs
    assert len({run.case for run in found}) == (len(runs) if differ else len(THINGS))


@pytest.mark.parametrize("sequence", ["{", "[1, 2]", '[["look"]]'])
def test_a_run_whose_steps_cannot_be_read_has_no_decisions(tmp_path: Path, sequence: str) -> None:
    with filled(tmp_path, [trajectory("r", "look", "close")]) as memory:
        (row,) = memory.store.runs_after(0, namespace="default")
    assert len(read_run(row, FactNumbers()).decisions) == 2
    damaged = read_run(row._replace(sequence=sequence), FactNumbers())
    assert (damaged.decisions, damaged.calls) == ([], ())


def test_a_run_that_was_stored_without_its_end_has_the_same_decisions(tmp_path: Path) -> None:
    """As stores hold those of former versions."""
    with filled(tmp_path, [trajectory("r", "look", "close")]) as memory:
        (row,) = memory.store.runs_after(0, namespace="default")
    *steps, (targets, *_) = json.loads(row.sequence)
    assert targets == []
    now = read_run(row, FactNumbers())
    before = read_run(row._replace(sequence=json.dumps(steps)), FactNumbers())
    assert now.end is not None
    assert (now.end.tools, now.end.place.tool, now.end.at) == ((END,), "close", 2)
    assert before.end is None
    assert [decision.tools for decision in before.decisions] == [decision.tools for decision in now.decisions]
    assert before.calls == now.calls
