"""What a person at a terminal sees while a command works; a program that reads stderr sees none of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.chats import chats, write
from tests.faults.command import HEPM, quick

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are of POSIX")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "runs.jsonl", chats())
    assert quick("ingest", "runs.jsonl", "--store", "s.hepm", cwd=tmp_path).code == 0
    return tmp_path


def test_a_command_that_may_take_long_says_on_a_terminal_what_it_does(folder: Path) -> None:
    master, slave = os.openpty()
    with subprocess.Popen(
        [HEPM, "copy", "s.hepm", "copied.hepm"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=slave,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    ) as process:
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
    os.close(master)
    assert process.returncode == 0, seen
    assert b"runs copied and compared" in seen
    # Nothing of it stays: the last lines are cleared.
    assert seen.rstrip().endswith((b"\x1b[2K", b"\x1b[?25h"))


def test_no_bar_is_drawn_where_stderr_is_no_terminal(folder: Path) -> None:
    answer = quick("copy", "s.hepm", "copied.hepm", cwd=folder)
    assert (answer.code, answer.err) == (0, "")
