"""`hepm eval` as a process: what it counts, and what it says where there is nothing to count."""

from __future__ import annotations

from pathlib import Path

import pytest

from hepm.evals.domains import domains_of
from hepm.evals.evaluate import evaluate
from hepm.evals.methods import find_methods
from hepm.ingest.formats.hepm import write_run
from hepm.types import Outcome, ToolCall, Trajectory, Turn
from tests.cli.chats import chats, write
from tests.faults.command import one_sentence, quick
from tests.runs import trajectory


def both_sides(number: int) -> Trajectory:
    """A run of two calls by the agent, with one by its user between them."""
    turns = (
        Turn("user", "my phone is dead"),
        Turn("assistant", "", (ToolCall("find_line", result="found"),)),
        Turn("user", "", (ToolCall("restart", result="restarted"),)),
        Turn("assistant", "", (ToolCall("close_case", result="closed"),)),
    )
    return Trajectory(f"r{number}", turns, Outcome(1.0, True), "tele", f"t{number}")


def export(path: Path, *runs: Trajectory) -> Path:
    path.write_text("".join(write_run(run) + "\n" for run in runs), encoding="utf-8")
    return path


@pytest.fixture
def tele(tmp_path: Path) -> Path:
    """Runs of 20 calls that can be predicted, or of 40 where the user's count too."""
    return export(tmp_path / "tele.jsonl", *map(both_sides, range(20)))


def test_the_calls_of_a_run_that_is_measured_in_two_ways_are_added_once(tele: Path) -> None:
    found = quick("eval", tele, "--json", "--method", "first-order").json
    assert {name: domain["events"] for name, domain in found["domains"].items()} == {"tele": 20, "tele+user": 40}
    assert "20 calls of 20 task families could be predicted" in found["verdict"]


def test_calls_of_the_users_view_count_where_it_alone_is_measured() -> None:
    domains = domains_of([("hepm", both_sides(number)) for number in range(20)])
    view = [domain for domain in domains if domain.name == "tele+user"]
    report = evaluate(view, find_methods(["first-order"]))
    assert not report.verdict.startswith("Too few runs")
    assert report.to_json()["settings"]["runs"] == 20


def test_a_file_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    log = write(tmp_path / "runs.jsonl", chats())
    once = quick("eval", log, "--json", "--method", "first-order")
    twice = quick("eval", log, log, "--json", "--method", "first-order")
    assert twice.json == once.json
    assert once.err == twice.err == ""


def test_runs_of_one_id_that_hold_something_else_all_count(tmp_path: Path) -> None:
    runs = [trajectory("1", "a", "b", "c", task=task) for task in ("t1", "t2")]
    logs = [export(tmp_path / f"{run.task}.jsonl", run) for run in runs]
    answer = quick("eval", *logs, "--json", "--method", "first-order")
    assert (answer.json["settings"]["runs"], answer.err) == (2, "")


def test_a_run_that_comes_again_with_a_label_is_labelled(tmp_path: Path) -> None:
    tasks = ("t1", "t2")
    unlabelled = [trajectory(task, "a", "b", "c", task=task, success=None) for task in tasks]
    labelled = [trajectory(task, "a", "b", "c", task=task) for task in tasks]
    log = export(tmp_path / "runs.jsonl", *unlabelled, *labelled)
    settings = quick("eval", log, "--json", "--method", "first-order").json["settings"]
    assert (settings["runs"], settings["unlabelled"]) == (2, 0)


def test_a_file_that_is_missing_is_named_as_the_reason_that_there_are_no_runs() -> None:
    assert one_sentence(quick("eval", "missing.jsonl")).endswith(
        "hepm: there are no runs to evaluate: none could be read from missing.jsonl."
    )


def test_runs_that_are_all_attacks_are_told_as_such(tmp_path: Path) -> None:
    attack = trajectory("r1", "a", "b", task="injection_task_1")
    assert "all that were read are attacks" in one_sentence(quick("eval", export(tmp_path / "a.jsonl", attack)))
