"""What `hepm ingest` says to people, of one and of many, and when it is interrupted."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.chats import chat, write
from tests.faults.command import HEPM, interruptible, quick
from tests.faults.logs import lines, records


def test_one_run_and_one_record_are_told_in_the_singular(tmp_path: Path) -> None:
    unlabelled = chat("a", [], task="t", success=None)
    log = write(tmp_path / "runs.jsonl", [unlabelled, {"id": "broken", "messages": 7}])
    answer = quick("ingest", log, "--store", tmp_path / "s.hepm")
    assert answer.out.startswith("1 run stored, 0 known before")
    assert "\n1 of them without a tool call: nothing is learned there\n" in answer.out
    assert "\n1 of them without an outcome, counting for nothing yet: " in answer.out
    assert answer.err.startswith("1 input could not be used:\n")


def test_a_file_that_is_not_there_is_no_record(tmp_path: Path) -> None:
    log = write(tmp_path / "runs.jsonl", [chat("a", [], task="t"), {"id": "broken", "messages": 7}])
    answer = quick("ingest", log, "nothere.json", "--store", tmp_path / "s.hepm")
    assert answer.err.startswith("2 inputs could not be used:\n")
    alone = quick("ingest", "nothere.json", "--store", tmp_path / "s.hepm")
    assert alone.err == "1 input could not be used:\n  nothere.json: there is no such file or folder\n"


def test_the_reward_of_a_success_is_chosen_kept_by_the_store_and_changed_with_a_line_that_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = write(tmp_path / "runs.jsonl", [chat("a", ["book"], task="t", success=None) | {"reward": 0.6}])
    store = tmp_path / "s.hepm"
    changed = f"{store}: a reward of 0.9 or more is a success now, and 1 run was counted again"
    for options, successes, said in (
        (["--success-from", "0.5"], 1, []),
        ([], 1, []),
        (["--success-from", "0.9"], 0, [changed]),
    ):
        quick("ingest", log, "--store", store, *options)
        assert caplog.messages == said
        assert quick("stats", "--store", store, "--json").json["namespaces"]["default"]["successes"] == successes
    assert quick("ingest", log, "--store", store, "--success-from", "0").code == 2
    assert quick("forget", "--store", store, "--token", "eve").code == 1


def stored_in(store: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database:
            return database.execute("SELECT count(*) FROM trajectory").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def test_an_interrupted_ingest_says_how_much_is_stored_and_repeating_it_goes_on(tmp_path: Path) -> None:
    log, store = tmp_path / "runs.jsonl", tmp_path / "store.hepm"
    log.write_bytes(lines(records(3_000)))
    process = subprocess.Popen(
        [HEPM, "ingest", str(log), "--store", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=interruptible,  # noqa: PLW1509
    )
    while not stored_in(store):
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, ""), err
    stored = stored_in(store)
    assert 0 < stored < 3_000
    assert err.strip() == f"hepm: interrupted with {stored:,} runs in the store; repeat the command to go on"


def test_a_key_of_outcomes_that_no_run_has_is_said_and_is_a_failure(tmp_path: Path) -> None:
    log = write(tmp_path / "runs.jsonl", [chat("a", ["find_user"], task="t", success=None) | {"verdict": True}])
    command = ["ingest", log, "--store", tmp_path / "s.hepm", "--success-key"]
    answer = quick(*command, "passed")
    assert (answer.code, answer.err.splitlines()[-1]) == (
        1,
        "hepm: no outcome was found under 'passed' in any run; ingest again with the right key",
    )
    assert quick(*command, "verdict").code == 0
