from __future__ import annotations

from pathlib import Path

from hepm.ingest.records import ReadOptions
from tests.ingest.samples import TAU2, read_one, read_reason, write


def test_ids_by_content_ignore_the_records_own(tmp_path: Path):
    path = write(tmp_path / "results.json", TAU2)
    assert read_one(path, ReadOptions(ids="content")).id.startswith("sha-")


def test_nan_as_a_reward_is_rejected_with_what_it_is(tmp_path: Path):
    path = tmp_path / "results.json"
    text = write(path, TAU2).read_text().replace('"reward": 1.0', '"reward": NaN')
    path.write_text(text)
    assert read_reason(path) == "'reward' is \"NaN\", not a number"
