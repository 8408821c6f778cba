"""A log of chats, a store of it and one with what it teaches: made once, and copied for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.chats import chats, write
from tests.faults.command import quick


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    log = write(folder / "runs.jsonl", chats())
    for name in ("store.hepm", "taught.hepm"):
        assert quick("ingest", log, "--store", folder / name).code == 0
    kinds = ("--kind", "experience", "--kind", "principle")
    assert quick("lesson", "distill", *kinds, "--store", folder / "taught.hepm").code == 0
    return folder


@pytest.fixture
def log(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made / "runs.jsonl", tmp_path))


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made / "store.hepm", tmp_path))


@pytest.fixture
def taught(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made / "taught.hepm", tmp_path))
