"""benchmarks/gpu.py on a machine without a GPU: all of it, a little of each."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from notebooks.sample_runs import bfcl


@pytest.mark.soak
def test_it_trains_a_ranker_and_a_model_within_its_time_and_adds_a_row_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "LOG.md"
    log.write_text("# What was measured\n")
    command = [sys.executable, "benchmarks/gpu.py", bfcl(), "--toy", "--minutes", "2", "--log", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    *stages, row = done.stdout.splitlines()
    assert [json.loads(stage)["stage"] for stage in stages] == ["read", "ranker", "GRPO"]
    assert all(json.loads(stage)["seconds"] > 0 for stage in stages)
    assert 1 <= json.loads(stages[2])["steps"] <= 2  # a busy machine ends it after the first
    assert float(row.split("|")[-2]) < 120
    assert log.read_text().splitlines()[-1] == row
