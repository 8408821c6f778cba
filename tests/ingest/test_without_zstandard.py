"""A base install cannot read Zstandard: it says so of those files, and reads the others."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest
import zstandard

from tests.faults.command import Answer, quick
from tests.ingest.samples import AGENTDOJO, CHAT, TAU, write

SENTENCE = "it is compressed with Zstandard, which needs an extra: pip install 'hepm[zstd]'"


@pytest.fixture
def base_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process without the package, as in a base install."""
    monkeypatch.setitem(sys.modules, "zstandard", None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files, the second one compressed with Zstandard."""
    folder = tmp_path / "folder"
    write(folder / "a.json", AGENTDOJO)
    write(folder / "b.json", CHAT)
    write(folder / "c.json", [TAU])
    (folder / "b.json.zst").write_bytes(zstandard.ZstdCompressor().compress((folder / "b.json").read_bytes()))
    (folder / "b.json").unlink()
    return folder


@pytest.mark.usefixtures("base_install")
def test_a_zstandard_file_in_an_archive_keeps_no_other_file_of_it_out(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "runs.tar", "w") as archive:
        archive.add(folder, "runs")
    answer = quick("ingest", tmp_path / "runs.tar", "--store", tmp_path / "store.hepm", "--json")
    assert said(answer) == (0, 2, [SENTENCE])


def said(answer: Answer) -> tuple[int, int, list[str]]:
    """Exit code, how many runs were stored, and what is said of the files that were not read."""
    return answer.code, answer.json["stored"], [one["reason"] for one in answer.json["rejected"]]


@pytest.mark.usefixtures("base_install")
def test_one_zstandard_file_keeps_no_other_file_of_a_folder_out(folder: Path, tmp_path: Path) -> None:
    answer = quick("ingest", folder, "--store", tmp_path / "store.hepm", "--json")
    assert said(answer) == (0, 2, [SENTENCE])
    assert list(answer.reasons()) == ["b.json.zst"]
