from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hepm import Memory


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """An empty one that names whatever has some chance; modules that need another have one of their own."""
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as memory:
        yield memory
