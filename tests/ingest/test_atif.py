from __future__ import annotations

import tarfile
from pathlib import Path

from hepm.types import Outcome
from tests.ingest.golden import source
from tests.ingest.samples import read_one


def test_a_trial_in_an_archive_gives_its_reward(tmp_path: Path):
    archive = tmp_path / "trials.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(source("atif", "trial"), "job/trial")
    run = read_one(archive)
    assert run.outcome == Outcome(1.0, True)
    assert run.source == f"{archive}!job/trial/agent/trajectory.json"
