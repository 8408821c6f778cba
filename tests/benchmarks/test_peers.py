"""benchmarks/peers.py on hepm's own part, and the loopback model that it and the peers ask."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hepm.ingest.formats.hepm import write_run
from tests.runs import trajectory

pytestmark = pytest.mark.xdist_group("peers")  # the script runs once
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "peers.py"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """The lines that the script prints of 250 runs, of which it stores 5."""
    folder = tmp_path_factory.mktemp("peers")
    runs = [trajectory(f"run {n}", "find", "buy", goal=f"buy lamp {n}") for n in range(250)]
    (folder / "runs.jsonl").write_text("".join(write_run(run) + "\n" for run in runs), encoding="utf-8")
    options = ("--sizes", "5", "--delays", "0", "--sides", "hepm-embedder", "--kills", "1")
    done = subprocess.run(
        [sys.executable, SCRIPT, folder, *options], check=True, capture_output=True, text=True, timeout=600
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.exhaustive  # some thirty processes
def test_hepm_asks_no_model_and_the_embedder_that_is_named_once_a_run(measured: list[dict[str, object]]) -> None:
    (found,) = (found for found in measured if "size" in found)
    assert (found["model_calls"], found["prompt_tokens"]) == (0, 0)
    assert found["embedding_calls"] == pytest.approx(1, abs=0.25)


@pytest.mark.exhaustive
def test_a_kill_loses_nothing_acknowledged_and_forgetting_leaves_nothing(measured: list[dict[str, object]]) -> None:
    for found in [found for found in measured if "kills" in found]:
        assert found["acknowledged"]
        assert (found["lost"], found["torn"], found["unusable"]) == (0, 0, 0)
        assert found["rows_before"]
        assert (found["rows_left"], found["times_left_in_files"]) == (0, 0)
