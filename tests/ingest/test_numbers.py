"""Numbers that runs from Python carry, of any size and kind."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hepm import Memory, Outcome, ToolCall, Trajectory
from hepm.ingest.formats.hepm import write_run
from tests.faults.command import quick
from tests.runs import trajectory


@pytest.mark.parametrize("number", [10**30, np.float32(0.5), np.int64(7), True])
def test_a_run_of_any_number_is_stored_with_those_beside_it(tmp_path: Path, number: Any) -> None:
    whole = trajectory("odd", "a", "b", "c")
    odd = Trajectory("odd", whole.turns, Outcome(number, True), ended_at=number)
    with Memory.open(tmp_path / "s.hepm") as memory:
        assert memory.ingest([trajectory("r1", "a", "b"), odd, trajectory("r2", "a", "b")]).stored == 3
    exported = map(json.loads, quick("export", "--store", tmp_path / "s.hepm").out.splitlines())
    (odd_run,) = (run for run in exported if run["id"] == "odd")
    # No run has ended later than it came.
    assert odd_run["reward"] == float(number)
    assert odd_run["ended_at"] == (float(number) if number < 1e9 else pytest.approx(time.time(), abs=60))
    assert quick("doctor", "--store", tmp_path / "s.hepm").out == "all is well\n"


def test_a_latency_and_a_label_of_numpy_are_written_like_pythons() -> None:
    call = ToolCall("look", latency_s=np.float32(0.5))  # type: ignore[arg-type]  # as users hand it over
    outcome = Outcome(success=np.bool_(True))  # type: ignore[arg-type]
    record = json.loads(write_run(Trajectory("r", trajectory("r", "a").turns, outcome)))
    assert (call.latency_s, record["success"]) == (0.5, True)
    assert type(outcome.success) is bool


@pytest.mark.parametrize("number", [10**400, -(10**400)])
def test_a_number_beyond_all_floats_is_a_value_error_in_words(number: int) -> None:
    for make in (lambda: Outcome(number), lambda: ToolCall("a", latency_s=number)):
        with pytest.raises(ValueError, match="is too large a number"):
            make()
    with pytest.raises(ValueError, match="the end of the run is too large a number"):
        Trajectory("r", (), ended_at=number)


@pytest.mark.parametrize("label", ["no", 0.7, 2])
def test_a_label_that_is_neither_true_nor_false_is_refused(label: Any) -> None:
    with pytest.raises(ValueError, match="neither true nor false"):
        Outcome(success=label)
