from __future__ import annotations

from pathlib import Path

from hepm.ingest import ReadOptions
from tests.ingest.samples import SIMULATION, TAU2, read, read_one, read_reason, write


def test_ids_by_content_ignore_the_records_own(tmp_path: Path):
    path = write(tmp_path / "results.json", TAU2)
    assert read_one(path, ReadOptions(ids="content")).id.startswith("sha-")


def test_nan_as_a_reward_is_rejected_with_what_it_is(tmp_path: Path):
    path = tmp_path / "results.json"
    text = write(path, TAU2).read_text().replace('"reward": 1.0', '"reward": NaN')
    path.write_text(text)
    assert read_reason(path) == "'reward' is \"NaN\", not a number"


def test_a_single_run_that_was_cut_off_is_rejected_and_other_files_are_read(tmp_path: Path):
    text = write(tmp_path / "a.json", SIMULATION).read_text()
    (tmp_path / "a.json").write_text(text[: len(text) // 2])
    write(tmp_path / "b.json", TAU2)
    runs, rejected = read(tmp_path)
    assert ([run.id for run in runs], [r.reason for r in rejected]) == (
        ["sim-1"], ["it ends in the middle: it was cut off"],
    )  # fmt: skip
