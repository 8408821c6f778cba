"""What a person at a terminal sees while a command works; a program that reads stderr sees none of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.chats import chats, write
from tests.faults.command import HEPM, quick

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are of POSIX")

COMMANDS = {
    "ingest": ("ingest", "runs.jsonl", "--store", "new.hepm"),
    "export": ("export", "out.jsonl", "--store", "s.hepm"),
    "import": ("import", "kept.jsonl", "--store", "other.hepm"),
    "copy": ("copy", "s.hepm", "copied.hepm"),
    "forget": ("forget", "--environment", "shop", "--yes", "--store", "s.hepm"),
    "doctor": ("doctor", "--store", "s.hepm"),
    "reembed": ("reembed", "--store", "s.hepm"),
    "eval": ("eval", "runs.jsonl", "--method", "first-order"),
    "suggest": ("suggest", "--after", "get_order", "--store", "s.hepm"),
}
WORDS = {
    "ingest": "runs read",
    "export": "lines written",
    "import": "runs read",
    "copy": "runs copied and compared",
    "forget": "forgetting 24 runs",
    "doctor": "runs compared",
    "reembed": "texts embedded",
    "eval": "memories asked",
    "suggest": "reading the memory",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "runs.jsonl", chats())
    assert quick("ingest", "runs.jsonl", "--store", "s.hepm", cwd=tmp_path).code == 0
    assert quick("export", "kept.jsonl", "--store", "s.hepm", cwd=tmp_path).code == 0
    return tmp_path


@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=() if name == "copy" else pytest.mark.exhaustive) for name in COMMANDS]
)
def test_a_command_that_may_take_long_says_on_a_terminal_what_it_does(folder: Path, command: str) -> None:
    master, slave = os.openpty()
    with subprocess.Popen(
        [HEPM, *COMMANDS[command]],
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
    assert WORDS[command].encode() in seen
    # Nothing of it stays: the last lines are cleared.
    assert seen.rstrip().endswith((b"\x1b[2K", b"\x1b[?25h"))


@pytest.mark.parametrize("command", ["export", "doctor"])
def test_no_bar_is_drawn_where_stderr_is_no_terminal(folder: Path, command: str) -> None:
    answer = quick(*COMMANDS[command], cwd=folder)
    assert (answer.code, answer.err) == (0, "")
