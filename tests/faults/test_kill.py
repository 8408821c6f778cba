"""Processes that die while they write. `HEPM_KILLS=200` makes the long run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.killing import CLI, KINDS, Killer, Tally

KILLS = int(os.environ.get("HEPM_KILLS", "20"))

pytestmark = pytest.mark.timeout(600 + 30 * KILLS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("killing")


def killed(kind: str, folder: Path, *, in_the_middle: int = 0) -> Tally:
    return Killer(kind, folder).kill(KILLS // len(KINDS), in_the_middle=in_the_middle)


def test_what_an_ingest_acknowledged_survives_every_kill_and_is_stored_once(folder: Path) -> None:
    tally = killed("ingest", folder, in_the_middle=1)
    assert tally.faults == []
    assert tally.in_the_middle, "no kill hit the work itself: this test has tested nothing"


def test_a_killed_command_leaves_whole_batches_and_the_next_one_completes_them(folder: Path) -> None:
    assert killed(CLI, folder).faults == []


def test_a_run_that_was_forgotten_does_not_come_back_when_the_process_dies(folder: Path) -> None:
    assert killed("forget", folder).faults == []


def test_a_rebuild_that_dies_leaves_the_graph_as_it_was(folder: Path) -> None:
    assert killed("rebuild", folder).faults == []


def test_a_new_embedding_that_dies_loses_no_state_and_goes_on_where_it_stopped(folder: Path) -> None:
    assert killed("reembed", folder).faults == []
