"""Terminals, pipes, locales and signals that a command line meets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.command import HEPM, one_sentence, quick
from tests.faults.logs import lines, records, run


@pytest.fixture
def store(tmp_path: Path) -> Path:
    odd = [run(f"é {number}", "look", "søk 🛫", "buy") for number in range(3)]
    (tmp_path / "runs.jsonl").write_bytes(lines([*odd, *records(50)]))
    assert quick("ingest", tmp_path / "runs.jsonl", "--store", tmp_path / "store.hepm").code == 0
    return tmp_path / "store.hepm"


def test_the_module_runs_like_the_script() -> None:
    done = subprocess.run([sys.executable, "-m", "hepm", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:5]) == (0, "hepm "), done.stderr


def test_a_target_that_cannot_be_written_is_told(store: Path) -> None:
    (store.parent / "folder").mkdir()
    for command in ("export", "view"):
        for target in ("missing/out.jsonl", "folder"):
            sentence = one_sentence(quick(command, store.parent / target, "--store", store))
            assert str(store.parent / target) in sentence
    assert sorted(path.name for path in store.parent.iterdir()) == ["folder", "runs.jsonl", "store.hepm"]


def test_a_reader_that_goes_away_early_is_no_error(store: Path) -> None:
    (store.parent / "more.jsonl").write_bytes(lines(records(300, prefix="more")))  # more than a pipe holds
    quick("ingest", store.parent / "more.jsonl", "--store", store)
    shell = f'"{HEPM}" export --store "{store}" | head -n 1 > /dev/null; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.strip() in ("0", "141")


@pytest.mark.parametrize("command", ["ingest - <&-", "export >&-", "stats --store missing.hepm <&- >&- 2>&-"])
def test_a_closed_stream_is_no_traceback(store: Path, command: str) -> None:
    shell = f'"{HEPM}" {command}'
    done = subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, check=False, env={**os.environ, "HEPM_STORE": str(store)}
    )
    assert "Traceback" not in done.stderr, done.stderr[-1500:]
    assert done.returncode in (0, 1, 2)
