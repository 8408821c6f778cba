"""An evaluation of many runs is one of a sample, which says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from hepm.evals.domains import Split
from hepm.evals.sampling import Sample
from tests.cli.chats import chats, write
from tests.evals.logs import domain, run
from tests.faults.command import quick


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """600 runs of 300 tasks, 750 calls of successful ones that can be predicted."""
    return write(tmp_path / "many.jsonl", chats(tasks=300))


def test_many_runs_are_measured_on_a_sample_that_the_verdict_names(many: Path) -> None:
    found = quick("eval", many, "--json", "--method", "first-order").json
    assert (found["settings"]["runs"], found["settings"]["sampled"]) == (600, 600)
    (shop,) = found["domains"].values()
    assert shop["events"] < 400
    assert found["settings"]["folds"] == 3
    assert f"a sample: {shop['events']} calls were predicted, from memories of all 600 runs" in found["verdict"]


def test_all_measures_every_call(many: Path) -> None:
    found = quick("eval", many, "--json", "--method", "first-order", "--all").json
    assert found["domains"]["shop"]["events"] == 750
    assert found["domains"]["shop"]["failures"]["diverged"] == 300
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
    (part,) = Sample.of([whole]).domains
    assert 600 < len(part.runs) < 1_300
    kept = {one.family for one in part.runs}
    assert len(part.runs) == 4 * len(kept)


def test_the_fold_with_most_divergences_is_measured() -> None:
    runs = [run(f"r{n}", *"abcdefghij", task=f"t{n}", success=n < 900) for n in range(1_000)]
    sample = Sample.of([domain(*runs)])
    assert not sample.whole
    splits = [Split([], runs[:100]), Split([], runs[900:]), Split([], runs[100:200])]
    assert sample.some_splits(splits, [one for one in runs if not one.success]) == [splits[1]]
