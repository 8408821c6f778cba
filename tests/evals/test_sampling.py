"""An evaluation of many runs is one of a sample, which says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from hepm.evals.sampling import sample_of
from tests.cli.chats import chats, write
from tests.evals.logs import domain, run
from tests.faults.command import quick


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """1,800 runs of 900 tasks, 2,250 calls of successful ones that can be predicted."""
    return write(tmp_path / "many.jsonl", chats(tasks=900))


def test_many_runs_are_measured_on_a_sample_that_the_verdict_names(many: Path) -> None:
    found = quick("eval", many, "--json", "--method", "first-order").json
    settings, (shop,) = found["settings"], found["domains"].values()
    assert settings["runs"] == 1_800
    assert settings["sampled"] < 1_800
    assert shop["events"] < 2_250
    assert settings["folds"] == 3
    said = (
        f"a sample of {settings['sampled']:,} of 1,800 runs, with {shop['events']:,} calls; --all measures every call."
    )
    assert said in found["verdict"]


def test_all_measures_every_call(many: Path) -> None:
    found = quick("eval", many, "--json", "--method", "first-order", "--all").json
    assert found["domains"]["shop"]["events"] == 2_250
    assert found["rescue"]["first-order"]["divergences"] == 900
    assert "sample" not in found["verdict"]
    assert found["settings"]["sampled"] is None


def test_few_runs_are_measured_whole(tmp_path: Path) -> None:
    few = write(tmp_path / "few.jsonl", chats(tasks=30))
    sample, every = (quick("eval", few, "--json", "--method", "first-order", *more) for more in ([], ["--all"]))
    del sample.json["settings"], every.json["settings"]
    assert sample.json["domains"] == every.json["domains"]
    assert sample.json["verdict"] == every.json["verdict"]


def test_a_sample_holds_whole_families() -> None:
    whole = domain(*(run(f"{task}-{n}", *"abcdefghij", task=f"t{task}") for task in range(800) for n in range(4)))
    (part,) = sample_of([whole])
    assert 100 < len(part.runs) < 400
    kept = {one.family for one in part.runs}
    assert len(part.runs) == 4 * len(kept)
