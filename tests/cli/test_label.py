"""`hepm label` on runs of unknown outcome: by hand, by rule, by a model, one by one."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.chats import write
from tests.cli.test_lessons import asked
from tests.faults.command import HEPM, one_sentence, quick
from tests.loopback import Loopback, Request, completion, error

PASSED = "............\n12 passed in 0.31s"


def worked(name: str, *results: str, command: str = "pytest -q") -> dict[str, Any]:
    """A run of a coding agent: an edit, and its tests."""
    calls = [("Edit", {"file_path": "a.py"}, "ok"), *(("Bash", {"command": command}, result) for result in results)]
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Fix the parser, says {name}."}]
    for number, (tool, arguments, result) in enumerate(calls):
        use = {"id": f"c{number}", "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [use]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    return {"id": name, "task": f"t-{name}", "environment": "repo", "messages": messages}


def without_rules(folder: Path) -> Path:
    """A folder whose `hepm.toml` turns the rules of outcomes off."""
    work = folder / "without-rules"
    work.mkdir()
    (work / "hepm.toml").write_text("outcome_by = []\n", "utf-8")
    return work


@pytest.fixture
def store(tmp_path: Path) -> Path:
    runs = [worked("good", PASSED), worked("bad", "Exit code 1\n1 failed in 0.1s"), worked("odd", "no tests ran")]
    made = tmp_path / "store.hepm"
    report = quick("ingest", write(tmp_path / "runs.jsonl", runs), "--store", made, cwd=without_rules(tmp_path))
    assert report.code == 0, report.err
    return made


def labels(store: Path) -> dict[str, tuple[bool | None, str]]:
    lines = map(json.loads, quick("export", "-", "--store", store).out.splitlines())
    runs = [record for record in lines if "turns" in record]
    return {run["id"]: (run.get("success"), run.get("tags", {}).get("hepm:outcome-by", "")) for run in runs}


def test_rules_label_at_ingest_read_whole_results_and_say_so(tmp_path: Path) -> None:
    log = write(tmp_path / "runs.jsonl", [worked("long", "." * 5_000 + "\n" + PASSED)])
    store = tmp_path / "store.hepm"
    assert "1 of them without an outcome" in quick("ingest", log, "--store", store, cwd=without_rules(tmp_path)).out
    late = quick("label", "--by", "tests", "--store", store)
    assert "0 runs labelled" in late.out
    assert "ingest the files again" in late.err
    assert "1 of them labelled by the rule 'tests'" in quick("ingest", log, "--store", store).out
    assert labels(store) == {"long": (True, "tests")}


def test_rules_label_stored_runs_and_a_dry_run_changes_nothing(store: Path) -> None:
    before = labels(store)
    dry = quick("label", "--by", "tests", "--dry-run", "--store", store)
    assert dry.out.splitlines() == [
        "bad: failure by tests",
        "good: success by tests",
        "2 runs would be labelled: 1 succeeded, 1 failed; 1 without a label",
    ]
    assert labels(store) == before
    done = quick("label", "--by", "tests", "--store", store).out
    assert done == "2 runs labelled: 1 succeeded, 1 failed; 1 without a label\n"
    assert labels(store) == {"good": (True, "tests"), "bad": (False, "tests"), "odd": (None, "")}
    listed = quick("label", "--remove", "tests", "--dry-run", "--store", store).out
    assert "bad: failure by tests, task t-bad\n" in listed
    assert quick("label", "--remove", "tests", "--store", store).out == "2 labels by tests removed\n"
    assert labels(store) == before


def test_one_run_is_labelled_corrected_and_unlabelled(store: Path) -> None:
    def said(*options: str) -> str:
        return quick("label", "good", *options, "--store", store).out

    assert said("success") == "good: success, was unlabelled\n"
    assert said("0.4") == "good: failure, was success\n"
    assert said("none") == "good: unlabelled, was failure\n"
    assert labels(store)["good"] == (None, "removed")
    assert "good: unlabelled, task t-good\n" in quick("label", "--dry-run", "--store", store).out


@pytest.mark.parametrize(
    "options",
    [
        ["good", "well"],
        ["good", "--by", "tests"],
        ["--by", "luck"],
        ["--by", "judge"],
        [],
    ],
)
def test_a_wrong_use_of_label_is_one_sentence(store: Path, options: list[str]) -> None:
    answer = quick("label", *options, "--store", store)
    assert answer.code == 2
    assert re.fullmatch(r"hepm: .+\.\nTry `hepm label --help`.\n", answer.err), answer.err


def test_an_unknown_run_is_one_sentence(store: Path) -> None:
    one_sentence(quick("label", "nobody", "success", "--store", store))


def test_a_model_labels_by_yes_and_no_and_no_answer_is_paid_for_twice(store: Path, loopback: Loopback) -> None:
    def answer(request: Request) -> Any:
        name = request.said.split("says ")[1].split(".")[0]
        return completion({"good": "Yes.", "bad": "<think>hm, yes?</think>\n**No**", "odd": "It is unclear."}[name])

    loopback.script = answer
    dry = asked(store, loopback, "label", "--by", "judge", "--dry-run")
    assert dry.out.splitlines()[0] == "3 runs would be looked at"
    assert loopback.requests == []
    first = asked(store, loopback, "label", "--by", "judge")
    assert first.out == "2 runs labelled: 1 succeeded, 1 failed; 1 without a label\n"
    assert "asked small: 3 calls" in first.err
    assert labels(store) == {"good": (True, "judge:small"), "bad": (False, "judge:small"), "odd": (None, "")}
    again = asked(store, loopback, "label", "--by", "judge")
    assert "1 without a label" in again.out
    assert len(loopback.requests) == 3
    sent = loopback.requests[0].said
    assert '"Fix the parser, says' in sent
    assert "pytest -q" in sent


SAID: dict[bool | None, tuple[str, ...]] = {
    True: ('"Yes"', "Yes, all of it was done.", "Final verdict: **yes**"),
    False: ("The answer is: no", '{"answer": "no"}'),
    None: ('"Yes" and "no" both fit.', "Yesterday"),
}


def test_a_judge_may_quote_its_word_or_say_that_it_is_the_answer(store: Path, loopback: Loopback) -> None:
    for label, texts in SAID.items():
        for said in texts:
            loopback.script = lambda request: completion(said)  # noqa: B023
            place = Path(shutil.copy(store, store.with_name("asked.hepm")))
            assert asked(place, loopback, "label", "--by", "judge", "--budget", "1 calls").code == 0
            assert [found for found, by in labels(place).values() if by] == ([] if label is None else [label]), said


def test_a_spent_budget_keeps_what_was_labelled_and_says_how_to_go_on(store: Path, loopback: Loopback) -> None:
    loopback.script = lambda request: completion("yes")
    answer = asked(store, loopback, "label", "--by", "judge", "--budget", "2 calls")
    assert answer.code == 0
    assert "2 runs labelled" in answer.out
    assert "the budget of 2 calls is spent; repeat the command to go on" in answer.err
    assert sum(how is True for how, _ in labels(store).values()) == 2


def test_a_model_that_refuses_everything_is_one_sentence_and_labels_nothing(store: Path, loopback: Loopback) -> None:
    loopback.script = lambda request: error(401, "no entry")
    answer = asked(store, loopback, "label", "--by", "judge")
    assert answer.code == 1
    assert "no entry" in answer.err
    assert {how for how, _ in labels(store).values()} == {None}


def test_runs_are_labelled_by_hand_in_a_terminal_and_quitting_keeps_them(store: Path) -> None:
    ours, theirs = pty.openpty()
    command = subprocess.Popen([HEPM, "label", "--store", store], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    try:
        for number, key in enumerate((b"n\n", b"s\n", b"q\n"), 1):
            while seen.count(b"q: quit") < number:
                seen += _read(ours)
            os.write(ours, key)
        while chunk := _read(ours):
            seen += chunk
        command.wait(20)
    finally:
        command.kill()
        os.close(ours)
    text = seen.decode()
    assert command.returncode == 0, text
    assert "run odd, task t-odd, in repo\r\n" in text
    assert 'user said "Fix the parser, says odd."' in text
    assert "pytest -q" in text
    assert "1 run labelled" in text
    assert labels(store) == {"odd": (False, ""), "bad": (None, ""), "good": (None, "")}


def _read(terminal: int) -> bytes:
    """What it shows next; b"" at its end."""
    assert select.select([terminal], [], [], 20)[0], "the terminal shows nothing more"
    try:
        return os.read(terminal, 4_096)
    except OSError:  # the other side is closed
        return b""


# What a person at a terminal sees


def at_a_terminal(folder: Path, *arguments: str) -> tuple[str, bytes]:
    """What a command writes to a pipe, and what a person sees of its stderr."""
    master, slave = os.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen([HEPM, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=slave, env=env) as process:
        os.close(slave)
        seen = b""
        while True:
            try:
                read = os.read(master, 65536)
            except OSError:  # Linux: the other side is closed
                break
            if not read:
                break
            seen += read
        assert process.stdout is not None
        out = process.stdout.read().decode()
    os.close(master)
    assert process.returncode == 0, seen
    return out, seen


def test_a_command_that_may_take_long_says_on_a_terminal_what_it_does(store: Path) -> None:
    _, seen = at_a_terminal(store.parent, "copy", "store.hepm", "copied.hepm")
    assert b"runs copied and compared" in seen
    # Nothing of it stays: the last lines are cleared.
    assert seen.rstrip().endswith((b"\x1b[2K", b"\x1b[?25h"))


def test_results_that_are_printed_while_a_bar_is_drawn_go_into_the_pipe(store: Path) -> None:
    out, seen = at_a_terminal(store.parent, "label", "--by", "tests", "--dry-run", "--store", "store.hepm")
    assert out.startswith("bad: failure by tests\ngood: success by tests\n2 runs would be labelled")
    assert b"runs looked at" in seen


def test_no_bar_is_drawn_where_stderr_is_no_terminal(store: Path) -> None:
    answer = quick("copy", "store.hepm", "copied.hepm", cwd=store.parent)
    assert (answer.code, answer.err) == (0, "")
