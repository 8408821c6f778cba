"""`hepm eval` as a process: what it counts, and what it says where there is nothing to count."""

from __future__ import annotations

from pathlib import Path

from hepm.ingest.formats.hepm import write_run
from hepm.types import Trajectory
from tests.cli.chats import chats, write
from tests.faults.command import one_sentence, quick
from tests.runs import trajectory


def export(path: Path, *runs: Trajectory) -> Path:
    path.write_text("".join(write_run(run) + "\n" for run in runs), encoding="utf-8")
    return path


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


def test_where_no_run_is_left_the_missing_file_or_the_attacks_are_named(tmp_path: Path) -> None:
    assert "none could be read from missing.jsonl." in one_sentence(quick("eval", "missing.jsonl"))
    attack = trajectory("r1", "a", "b", task="injection_task_1")
    assert "all that were read are attacks" in one_sentence(quick("eval", export(tmp_path / "a.jsonl", attack)))
