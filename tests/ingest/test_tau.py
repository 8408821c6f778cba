from __future__ import annotations

from pathlib import Path

import pytest

from hepm.ingest.formats.tau import model_in_name
from tests.ingest.samples import TAU, read, write


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt-4o-airline.json", "gpt-4o"),
        ("tool-calling-grok-3-0.0_range_0--1_user-grok-3-llm_0921131646.json", "grok-3"),
        ("tool-calling-none-0.1_range_0-100_user-none-llm_06232025.json", ""),
        ("results.json", ""),
    ],
)
def test_the_file_name_tells_the_model(name: str, model: str):
    assert model_in_name(name) == model


def test_a_renamed_file_holds_the_same_runs(tmp_path: Path):
    runs, _ = read(write(tmp_path / "gpt-4o-airline.json", [TAU]), write(tmp_path / "copy.json", [TAU]))
    assert runs[0].id == runs[1].id
    assert [run.model for run in runs] == ["gpt-4o", ""]
