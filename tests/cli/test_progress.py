"""What a person at a terminal sees while a command works; a program that reads stderr sees none of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.chats import write
from tests.cli.test_label import PASSED, worked
from tests.faults.command import HEPM, quick

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are of POSIX")


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
    store.with_name("hepm.toml").write_text("outcome_by = []\n", "utf-8")
    write(store.with_name("open.jsonl"), [worked("good", PASSED)])
    assert quick("ingest", "open.jsonl", "--store", "store.hepm", cwd=store.parent).code == 0
    out, seen = at_a_terminal(store.parent, "label", "--by", "tests", "--dry-run", "--store", "store.hepm")
    assert out.startswith("good: success by tests\n1 run would be labelled")
    assert b"runs looked at" in seen


def test_no_bar_is_drawn_where_stderr_is_no_terminal(store: Path) -> None:
    answer = quick("copy", "store.hepm", "copied.hepm", cwd=store.parent)
    assert (answer.code, answer.err) == (0, "")
