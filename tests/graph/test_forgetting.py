"""What is asked to be forgotten, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from hepm import Memory
from hepm.errors import InputError
from tests.runs import trajectory


@pytest.mark.parametrize("part", ["trajectory", "task", "user", "environment"])
def test_an_empty_name_forgets_no_run_that_lacks_one(tmp_path: Path, part: str) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest([trajectory("named", "look", task="t", user="ann"), trajectory("r", "look", environment="")])
        with pytest.raises(InputError, match=f"the {part} whose runs are to be forgotten is empty"):
            memory.forget(**{part: ""})
        with pytest.raises(InputError, match="is empty"):
            memory.forget(**{"task": "t"} | {part: ""})
        assert memory.totals().trajectories == 2
