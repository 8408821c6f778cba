"""What an ingest reports, and what becomes of it while the store is away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hepm import Memory, Outcome
from hepm.ingest.prepare import IngestOptions
from tests.runs import trajectory


def test_a_run_that_comes_twice_in_one_batch_is_counted_once(tmp_path: Path) -> None:
    runs = [trajectory("silent"), trajectory("open", "look", success=None), trajectory("won", "look")]
    with Memory.open(tmp_path) as memory:
        report = memory.ingest([*runs, *runs])
    assert (report.read, report.stored, report.duplicates) == (6, 3, 3)
    assert (report.without_calls, report.unlabelled) == (1, 1)


def test_runs_that_are_not_trusted_are_counted_once_though_they_come_twice(tmp_path: Path) -> None:
    runs = [trajectory("one", "look"), trajectory("two", "look")]
    with Memory.open(tmp_path) as memory:
        report = memory.ingest([*runs, *runs], options=IngestOptions(trusted=lambda run: run.id != "two"))
    assert (report.stored, report.distrusted, report.unlabelled) == (2, 1, 0)


@pytest.mark.parametrize("order", [[None, True], [True, None], [None, True, None]])
def test_a_run_that_comes_again_with_its_label_is_not_reported_as_unlabelled(
    tmp_path: Path, order: list[bool | None]
) -> None:
    run = trajectory("r", "look")
    with Memory.open(tmp_path) as memory:
        report = memory.ingest([replace(run, outcome=Outcome(None, success)) for success in order])
        assert (report.stored, report.unlabelled, memory.totals().unlabelled) == (1, 0, 0)
