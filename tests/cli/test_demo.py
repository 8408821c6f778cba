"""What `hepm demo` shows of its own desk, and says of runs that are few, many, or not there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.chats import WAYS, chat, write
from tests.faults.command import Answer, one_sentence, quick


def demo(tmp_path: Path, *runs: Path | str) -> Answer:
    return quick("demo", *runs, "--page", tmp_path / "demo.html")


def words(answer: Answer) -> str:
    assert answer.code == 0, answer.err
    return " ".join(answer.out.split())


def test_without_runs_it_shows_a_hint_a_warning_a_silence_and_an_agent_before_and_after(tmp_path: Path) -> None:
    """Everything that is shown is true of the desk: its agent solves more cases with hints, and the hint is right."""
    answer = demo(tmp_path)
    assert answer.code == 0, answer.err
    remembered = re.search(r"Remembered 300 runs .*: (\d+) succeeded, (\d+) failed", answer.out)
    assert remembered is not None
    assert sum(map(int, remembered.groups())) == 300
    hint, warning, silence = (answer.out.partition(f"A {kind}\n")[2] for kind in ("right hint", "warning", "silence"))
    suggested, right = re.search(r"Suggested next tools: (\w+)", hint), re.search(r"what works here: ([\w, ]+)", hint)
    assert suggested is not None
    assert right is not None
    assert suggested[1] in right[1].split(", ")
    assert "Ways that failed from here: " in warning.partition("A silence")[0]
    assert "No suggestion: " in silence
    solved = re.search(r"on (\d+) new cases: it solves (\d+) without memory, (\d+) with hints", answer.out)
    assert solved is not None
    assert int(solved[2]) < int(solved[3]) <= int(solved[1])
    assert (tmp_path / "demo.html").stat().st_size > 10_000


def test_a_file_that_is_not_there_is_told_as_such(tmp_path: Path) -> None:
    assert "nofile: there is no such file" in one_sentence(demo(tmp_path, "nofile"))
    one = write(tmp_path / "one.jsonl", [chat("a", WAYS["cancel"], task="t")])
    answer = demo(tmp_path, one, "nofile")
    assert "1. Remembered" in words(answer)
    assert answer.err == "hepm: 1 file could not be read: nofile: there is no such file or folder\n"


def test_runs_that_all_failed_are_no_missing_file(tmp_path: Path) -> None:
    log = write(tmp_path / "bad.jsonl", [chat("a", WAYS["return"], task="t", success=False)])
    assert one_sentence(demo(tmp_path, log)) == f"hepm: no run with a known good outcome in {log}"


def test_where_nothing_can_be_asked_the_demo_says_why(tmp_path: Path) -> None:
    one = words(demo(tmp_path, write(tmp_path / "one.jsonl", [chat("a", WAYS["cancel"], task="t")])))
    assert one.startswith("1 run read, of shop 1. Remembered 1 run. ")
    assert "2. Asked nothing: all runs are of one task" in one
    assert "(4 tools, 4 edges)" in one
    short = [chat(task, WAYS["return"], task=task) for task in ("t", "u")]
    two = words(demo(tmp_path, write(tmp_path / "short.jsonl", short)))
    assert "2. Asked nothing: no run with a good outcome has more than 3 calls." in two


def test_the_runs_shown_are_called_all_only_where_they_are(tmp_path: Path) -> None:
    short = [chat(task, WAYS["return"], task=task) for task in "tuv"]  # of which nothing can be asked: that takes long
    log = write(tmp_path / "runs.jsonl", short)
    assert words(demo(tmp_path, log)).startswith("3 runs read, all of shop 1. ")
    other = write(tmp_path / "other.jsonl", [{**chat("x", WAYS["cancel"], task="x"), "environment": "bank"}])
    assert words(demo(tmp_path, log, other)).startswith("4 runs read, 3 of them of shop 1. ")


def test_a_long_wish_of_a_user_ends_with_the_sign_that_it_was_cut(tmp_path: Path) -> None:
    wish = "cancel " + "x" * 300
    runs = [chat(f"r{n}", WAYS["cancel"], task=f"t{n}", wish=wish) for n in range(8)]
    out = demo(tmp_path, write(tmp_path / "runs.jsonl", runs)).out
    cut = f"I want to {wish}"[:159] + "…\n  Calls so far: none"
    assert "".join(cut.split()) in "".join(out.split())
