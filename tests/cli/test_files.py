"""Files that commands write and read again: compressed as their names say, whole or not at all."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from tests.faults.command import one_sentence, quick
from tests.faults.places import files_limited_to


def test_an_export_is_compressed_as_its_name_says_and_read_back_the_same(store: Path, tmp_path: Path) -> None:
    out, back = tmp_path / "out.jsonl.gz", tmp_path / "back.hepm"
    answer = quick("export", out, "--store", store)
    assert answer.code == 0, answer.err
    text = quick("export", "--store", store).out
    assert gzip.decompress(out.read_bytes()).decode() == text
    assert quick("import", out, "--store", back).code == 0
    assert quick("export", "--store", back).out == text


def test_two_exports_of_one_memory_are_the_same_compressed_file(store: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl.gz", tmp_path / "other.jsonl.gz"
    for out in (one, other):
        assert quick("export", out, "--store", store).code == 0
        os.utime(out, (0, 0))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_an_export_to_a_full_disk_leaves_no_half_file_behind(store: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    out.write_bytes(b"the last export")
    with files_limited_to(0):
        one_sentence(quick("export", out, "--store", store))
    assert out.read_bytes() == b"the last export"
    assert [path.name for path in tmp_path.glob("out*")] == [out.name]


def test_lessons_alone_make_a_store_that_stays(store: Path, tmp_path: Path) -> None:
    assert quick("lesson", "distill", "--kind", "experience", "--store", store).code == 0
    exported = quick("export", "--store", store).out.splitlines(keepends=True)
    lessons = "".join(line for line in exported if line.startswith('{"hepm":2,"lesson"'))
    assert quick("import", "-", "--store", tmp_path / "new.hepm", stdin=lessons.encode()).code == 0
    assert quick("lesson", "list", "--store", tmp_path / "new.hepm", "--json").json["total"] > 0
