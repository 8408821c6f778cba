"""Each reader gives the runs and rejections that stand beside its golden files, and survives wrong values in them."""

from __future__ import annotations

import json
import random
import shutil
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.ingest.records import ReadOptions
from tests.ingest.golden import CASES, expected, lines_of, reading, source
from tests.ingest.test_faults import check, mutate, scratch


@pytest.mark.parametrize("case", CASES)
def test_golden_files_give_the_runs_and_rejections_that_are_expected(case: str):
    assert reading(case) == expected(case)


@cache
def _copied(case: str, scratch_folder: Path) -> Path:
    return shutil.copytree(source(case), scratch_folder / "golden" / case)


@pytest.mark.parametrize("case", CASES)
@given(seed=st.integers(0, 2**32))
def test_golden_files_with_wrong_values_are_read_or_rejected(
    tmp_path_factory: pytest.TempPathFactory, case: str, seed: int
):
    chance = random.Random(seed)
    folder = _copied(case, scratch(tmp_path_factory))
    file = chance.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    text = file.read_text("utf-8")
    spoilt = [mutate(value, chance) if chance.random() < 0.5 else value for value in lines_of(file)]
    file.write_text("\n".join(map(json.dumps, spoilt)), "utf-8")
    try:
        check(folder)
        for reader in {item["reader"] for item in expected(case) if "reader" in item}:
            check(file, ReadOptions(format=reader))
    finally:
        file.write_text(text, "utf-8")
