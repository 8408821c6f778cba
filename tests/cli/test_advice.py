"""`hepm doctor --advice` as a shell runs it: its lines, its exit codes, and the commands that it names."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.graph.trials import CONTROL, MEMORY, Trial
from hepm.ingest.prepare import IngestOptions
from hepm.types import TRIAL
from tests.faults.command import HEPM, quick
from tests.runs import trajectory


def built(number: int) -> Iterator[Trajectory]:
    """Runs without an outcome, which a rule labels by what their tests said."""
    for at in range(number):
        edit = ToolCall("Edit", {"file_path": "a.py"}, "ok")
        tests = ToolCall("Bash", {"command": "pytest -q"}, "12 passed in 0.31s")
        turns = (Turn("user", f"build it {at}"), Turn("assistant", "", (edit,)), Turn("assistant", "", (tests,)))
        yield Trajectory(f"u{at}", turns, Outcome(), environment="shop", task="t")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    file = tmp_path / "a store.hepm"  # a space, as commands are to be pasted
    with Memory.open(file) as memory:
        memory.ingest([trajectory(f"r{at}", "look", "buy", success=True, task="t") for at in range(10)])
        memory.ingest(built(6), options=IngestOptions(outcome_by=()))
    return file


def test_a_line_says_what_is_so_and_ends_with_a_command_that_mends_it_when_it_is_pasted(store: Path) -> None:
    said = quick("doctor", "--advice", "--store", store)
    assert (said.code, said.err) == (0, "")
    [line] = said.out.splitlines()
    assert line.startswith("default: 6 of 16 runs have no outcome and teach nothing. Rules label 6 of 6 runs tried: ")
    command = line.rpartition(": ")[2]
    path = f"{Path(HEPM).parent}{os.pathsep}{os.environ['PATH']}"
    pasted = subprocess.run(command, shell=True, env={**os.environ, "PATH": path}, capture_output=True, check=False)
    assert pasted.returncode == 0, pasted.stderr
    assert quick("doctor", "--advice", "--store", store).out == "nothing that is known keeps memory from helping\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--repair"], "--advice compares and repairs nothing"), (["--namespace", "none"], "nothing is stored in 'none'")],
)
def test_a_mistake_is_said_in_a_sentence(store: Path, arguments: list[str], words: str) -> None:
    said = quick("doctor", "--advice", "--store", store, *arguments)
    assert said.code == 2
    assert words in said.err
    assert "Traceback" not in said.err


def test_names_with_line_breaks_and_quotes_stay_on_one_line_and_can_be_pasted(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.hepm") as memory:
        odd = "it's\nodd; rm -rf x"
        memory.ingest([trajectory(f"r{at}", "a", success=None) for at in range(6)], namespace=odd)
    said = quick("doctor", "--advice", "--store", tmp_path / "m.hepm")
    assert len(said.out.splitlines()) == 1
    assert """--namespace 'it'"'"'s""" in said.out


def test_a_namespace_that_held_out_sessions_show_to_be_harmed_comes_with_the_command_that_shows_it(
    tmp_path: Path,
) -> None:
    with Memory.open(tmp_path / "m.hepm") as memory:
        runs: list[Trajectory] = []
        for at in range(500):
            arm = CONTROL if at % 5 == 0 else MEMORY
            won = at % 10 < 9 if arm == CONTROL else at % 10 < 3
            run = trajectory(f"w{at}", "look", success=won, task="kind")
            runs.append(replace(run, tags={TRIAL: Trial(arm, 0.2).to_tag()}))
        memory.ingest(runs)
    said = quick("doctor", "--advice", "--store", tmp_path / "m.hepm")
    assert "default: memory harms here: success was " in said.out
    assert "hepm uplift --store" in said.out
    found = json.loads(quick("doctor", "--advice", "--json", "--store", tmp_path / "m.hepm").out)["advice"]
    assert [one["kind"] for one in found] == ["hints-hurt"]
