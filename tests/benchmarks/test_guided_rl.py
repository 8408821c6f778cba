"""benchmarks/guided_rl.py: what a training on memory's runs is worth beside rollouts alone."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.soak
def test_training_on_the_runs_in_memory_beats_rollouts_alone_where_a_model_finds_almost_nothing() -> None:
    command = [sys.executable, "benchmarks/guided_rl.py", "--arms", "sft,plain", "--seeds", "0,1", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
