"""Processes that die while they write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.killing import CLI, Killer, Tally

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.parametrize("kills", [2, pytest.param(40, marks=pytest.mark.soak)]),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("killing")


def killed(kind: str, folder: Path, kills: int, *, in_the_middle: int = 0) -> Tally:
    return Killer(kind, folder).kill(kills, in_the_middle=in_the_middle)


def test_what_an_ingest_acknowledged_survives_every_kill_and_is_stored_once(folder: Path, kills: int) -> None:
    tally = killed("ingest", folder, kills, in_the_middle=1)
    assert tally.faults == []
    assert tally.in_the_middle, "no kill hit the work itself: this test has tested nothing"


def test_a_killed_command_leaves_whole_batches_and_the_next_one_completes_them(folder: Path, kills: int) -> None:
    assert killed(CLI, folder, kills).faults == []


def test_a_run_that_was_forgotten_does_not_come_back_when_the_process_dies(folder: Path, kills: int) -> None:
    assert killed("forget", folder, kills).faults == []


def test_a_rebuild_that_dies_leaves_the_graph_as_it_was(folder: Path, kills: int) -> None:
    assert killed("rebuild", folder, kills).faults == []


def test_a_new_embedding_that_dies_loses_no_state_and_goes_on_where_it_stopped(folder: Path, kills: int) -> None:
    assert killed("reembed", folder, kills).faults == []
