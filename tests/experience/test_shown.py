from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hepm.errors import StoreError
from hepm.experience.lessons import Principle
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.sqlite import SQLiteStore
from tests.experience.shelves import bank_in

NS = "team"


def test_lessons_that_cannot_be_counted_as_shown_stop_no_prompt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    store = SQLiteStore(tmp_path / "store.hepm")
    row = Principle("guiding", "Look.").row()
    store.lessons.change(LessonChange(put=[row]), {}, namespace=NS)
    bank = bank_in(store)

    def refuse(*_: object, **__: object) -> None:
        raise StoreError("no room left to write")

    store.write = refuse  # type: ignore[assignment, method-assign]
    bank.show("run", [row.id], namespace=NS)
    assert "is not counted as a use of the lessons it was shown: no room left" in caplog.text
    store.close()
