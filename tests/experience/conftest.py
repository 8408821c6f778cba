from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hepm.experience.lesson_bank import LessonBank
from tests.experience.shelves import open_bank


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[LessonBank]:
    made = open_bank(tmp_path / "runs.hepm")
    yield made
    made.store.close()
