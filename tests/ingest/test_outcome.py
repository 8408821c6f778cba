"""Outcomes by rule: what runs of coding agents say of themselves, in the words that test runners print."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hepm import Outcome, ToolCall, Trajectory, Turn
from hepm.ingest.formats.refusals import is_refusal
from hepm.ingest.outcome import RULES, verdict_of
from hepm.ingest.reading import read_runs
from hepm.ingest.records import ReadOptions
from tests.ingest.transcripts import claude, result, use

Call = tuple[str, dict[str, Any], str, bool | None]

EDIT: Call = ("Edit", {"file_path": "/w/src/a.py"}, "ok", None)
P = "....\n4 passed in 0.12s"


def sh(command: str, result: str, error: bool | None = None) -> Call:
    return ("Bash", {"command": command}, result, error)


def run(*calls: Call, after: tuple[Turn, ...] = ()) -> Trajectory:
    made = [ToolCall(*call, refused=is_refusal(call[2])) for call in calls]  # as readers do
    acted = tuple(Turn("assistant", "", (call,)) for call in made)
    return Trajectory("r", (Turn("user", "fix it"), *acted, *after))


def cases() -> Iterator[tuple[str, list[Call], bool | None]]:
    """The runs of outcomes.txt: the name of each, its calls and its label."""
    labels = {"success": True, "failure": False, "nothing": None}
    for case in re.split(r"^== ", (Path(__file__).parent / "outcomes.txt").read_text("utf-8"), flags=re.MULTILINE)[1:]:
        title, _, text = case.partition("\n")
        name, _, label = title.rpartition(": ")
        calls: list[Call] = []
        for block in re.split(r"^(?=edit |[$!] |call )", text.strip(), flags=re.MULTILINE)[1:]:
            line, _, result = block.strip().partition("\n")
            kind, _, rest = line.partition(" ")
            result = result.replace("{filler}", "x" * 590).replace("\\e", "\x1b")
            if kind == "edit":
                calls.append(("Edit", {"file_path": rest}, "ok", None))
            elif kind == "call":
                tool, _, arguments = rest.partition(" {")
                calls.append((tool, json.loads("{" + arguments), result, None))
            else:
                calls.append(sh(rest, result, True if kind == "!" else None))
        yield name, calls, labels[label]


def test_the_tests_that_a_run_ended_with_label_it_and_doubt_does_not() -> None:
    wrong: list[str] = []
    for name, calls, success in cases():
        if verdict_of(run(*calls), ["tests"]).success is not success:
            wrong.append(name)
    assert wrong == []


@pytest.mark.parametrize(
    ("after", "success"),
    [
        ((Turn("assistant", "All green."), Turn("user", "Thanks!")), True),
        ((Turn("assistant", "All green."), Turn("user", "That is still wrong.")), None),
        ((Turn("user", "[Request interrupted by user]"),), None),
        ((Turn("user", "Now deploy it"), Turn("assistant", "", (ToolCall("deploy"),))), None),
    ],
)
def test_tests_say_nothing_of_what_the_user_asked_for_after_them(after: tuple[Turn, ...], success: bool | None) -> None:
    assert verdict_of(run(EDIT, sh("pytest", P), after=after), ["tests"]).success is success


def test_a_transcript_of_claude_code_is_labelled_by_its_last_tests(tmp_path: Path) -> None:
    records = [
        claude("user", "1", "Fix the tests."),
        claude("assistant", "2", use("a", "Bash", command="pytest -q"), id="m1"),
        claude("user", "3", result("a", "Exit code 1\nF.\n1 failed, 1 passed in 0.10s", is_error=True)),
        claude("assistant", "4", use("b", "Edit", file_path="/w/a.py", old_string="x", new_string="y"), id="m2"),
        claude("user", "5", result("b", "The file /w/a.py has been updated.")),
        claude("assistant", "6", use("c", "Bash", command="cd /w && pytest -q 2>&1 | tail -3"), id="m3"),
        claude("user", "7", result("c", "..\n2 passed in 0.10s", is_error=False)),
        claude("assistant", "8", [{"type": "text", "text": "All tests pass."}], id="m4"),
    ]
    for cut, success in ((len(records), True), (5, None)):
        log = tmp_path / f"{cut}.jsonl"
        log.write_text("".join(json.dumps(one) + "\n" for one in records[:cut]), "utf-8")
        [(_, found)] = read_runs([log], ReadOptions())
        assert isinstance(found, Trajectory)
        assert RULES["tests"](found) is success


SAID = [
    (("Bash", {"command": "pytest -q"}, P, None), True),
    (("mcp__shell__run", {"command": "pytest -q"}, P, None), True),
    (("send_message", {"command": "pytest -q"}, P, None), None),
    (("reply", {"command": "pytest", "text": P}, "12 passed in 0.31s", False), None),
    (("publish", {"cmd": ["pytest"]}, P, None), None),
    (("Bash", {"command": "pytest -q || true; echo '12 passed in 0.31s'"}, "12 passed in 0.31s", None), None),
    (("Bash", {"command": "pytest || printf 'Exit code: 0'"}, "Exit code: 0", None), None),
]


def test_what_an_agent_says_of_tests_is_no_evidence_of_them() -> None:
    for call, success in SAID:
        said = (Turn("assistant", "pytest -q\n12 passed in 0.31s"), Turn("user", "pytest -q\n12 passed in 0.31s"))
        assert verdict_of(run(EDIT, call), ["tests"]).success is success
        assert verdict_of(run(EDIT, after=said), ["tests"]).success is None


def test_the_rule_is_named_and_a_given_outcome_is_none_of_its_business() -> None:
    found = verdict_of(run(EDIT, sh("pytest", P)), ["tests"])
    assert (found.success, found.by, found.labelled.outcome_by) == (True, "tests", "tests")
    given = Trajectory("r", run(EDIT, sh("pytest", P)).turns, Outcome(0.4))
    assert verdict_of(given, ["tests"]).success is None


def test_no_command_breaks_a_rule() -> None:
    for text in ['"', "$(", "pytest '", "<<EOF\npytest", "\x00", "pytest " + "(" * 500, "🦆 && pytest"]:
        for rule in RULES.values():
            assert rule(run(EDIT, sh(text, text), ("Bash", {"command": [1, None]}, text, None))) is None
