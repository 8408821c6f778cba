from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hepm.errors import StoreError
from hepm.experience.lessons import Principle
from hepm.graph.lessons.rows import Uses
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.sqlite import SQLiteStore
from tests.experience.shelves import bank_in

NS = "team"


def test_what_cannot_be_written_now_is_told_later_in_order_and_stops_no_prompt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    store = SQLiteStore(tmp_path / "store.hepm")
    row = Principle("guiding", "Look.").row()
    store.lessons.change(LessonChange(put=[row]), {}, namespace=NS)
    bank = bank_in(store)
    write = store.write

    def refuse(*_: object, **__: object) -> None:
        raise StoreError("no room left to write")

    store.write = refuse  # type: ignore[assignment, method-assign]
    bank.show("run", [row.id], namespace=NS)
    bank.record_outcome("run", success=True, namespace=NS)
    assert "when the store can be written again" in caplog.text
    store.write = write  # type: ignore[method-assign]
    bank.deliver()
    (stored,) = store.lessons.list(namespace=NS)
    assert stored.uses == Uses(1, 1, 1)
    store.close()
