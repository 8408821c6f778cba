"""What an ingest reports, and what becomes of it while the store is away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hepm import Memory, Outcome, Tool
from hepm.errors import StoreUnavailableError
from hepm.graph.sqlite import SQLiteStore
from tests.runs import trajectory

TOLD = [Tool("look", "looks, with password=hunter22", {"type": "object"})]


class Distant(SQLiteStore):
    """A store that may be out of reach."""

    away = False

    def __getattribute__(self, name: str):
        if name in ("header", "find_known", "add", "describe") and self.away:
            raise StoreUnavailableError("no answer")
        return super().__getattribute__(name)


def test_a_run_that_comes_twice_in_one_batch_is_counted_once(tmp_path: Path) -> None:
    runs = [trajectory("silent"), trajectory("open", "look", success=None), trajectory("won", "look")]
    with Memory.open(tmp_path) as memory:
        report = memory.ingest([*runs, *runs])
    assert (report.read, report.stored, report.duplicates) == (6, 3, 3)
    assert (report.without_calls, report.unlabelled) == (1, 1)


@pytest.mark.parametrize("order", [[None, True], [True, None], [None, True, None]])
def test_a_run_that_comes_again_with_its_label_is_not_reported_as_unlabelled(
    tmp_path: Path, order: list[bool | None]
) -> None:
    run = trajectory("r", "look")
    with Memory.open(tmp_path) as memory:
        report = memory.ingest([replace(run, outcome=Outcome(None, success)) for success in order])
        assert (report.stored, report.unlabelled, memory.totals().unlabelled) == (1, 0, 0)


def test_descriptions_for_a_store_that_is_away_are_an_error(tmp_path: Path) -> None:
    store = Distant(tmp_path / "runs.hepm")
    with Memory(store) as memory:
        memory.ingest([trajectory("before", "look")])
        store.away = True
        with pytest.raises(StoreUnavailableError):
            memory.ingest([], tools=TOLD)
        store.away = False
