"""Files that commands write and read again: compressed as their names say, whole or not at all."""

from __future__ import annotations

import gzip
import lzma
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.chats import chats, write
from tests.faults.command import one_sentence, quick
from tests.faults.places import files_limited_to

UNPACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".xz": lzma.decompress}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    store = tmp_path / "in" / "store.hepm"
    assert quick("ingest", write(tmp_path / "in" / "runs.jsonl", chats()), "--store", store).code == 0
    return store


@pytest.mark.parametrize("suffix", UNPACK)
def test_an_export_is_compressed_as_its_name_says_and_read_back_the_same(
    store: Path, tmp_path: Path, suffix: str
) -> None:
    out, back = tmp_path / f"out.jsonl{suffix}", tmp_path / "back.hepm"
    answer = quick("export", out, "--store", store)
    assert answer.code == 0, answer.err
    text = quick("export", "--store", store).out
    assert UNPACK[suffix](out.read_bytes()).decode() == text
    assert quick("import", out, "--store", back).code == 0
    assert quick("export", "--store", back).out == text


def test_a_copy_to_or_from_an_export_names_the_commands_for_it(store: Path, tmp_path: Path) -> None:
    sentence = one_sentence(quick("copy", store, tmp_path / "out.jsonl.gz"))
    assert "`hepm export` writes and `hepm import` reads" in sentence


def test_two_exports_of_one_memory_are_the_same_compressed_file(store: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl.gz", tmp_path / "other.jsonl.gz"
    for out in (one, other):
        assert quick("export", out, "--store", store).code == 0
        os.utime(out, (0, 0))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("name", ["out.tgz", "out.tar", "out.zip", "out.jsonl.zst"])
def test_an_export_under_the_name_of_an_archive_is_refused(store: Path, tmp_path: Path, name: str) -> None:
    assert "the name of a" in one_sentence(quick("export", tmp_path / name, "--store", store))
    assert list(tmp_path.glob("out*")) == []


@pytest.mark.parametrize("suffix", UNPACK)
def test_a_compressed_export_to_a_full_disk_leaves_no_half_file_behind(
    store: Path, tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"out.jsonl{suffix}"
    out.write_bytes(b"the last export")
    with files_limited_to(0):
        one_sentence(quick("export", out, "--store", store))
    assert out.read_bytes() == b"the last export"
    assert [path.name for path in tmp_path.glob("out*")] == [out.name]


def test_an_export_into_a_pipe_is_compressed_too(store: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl.gz"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        assert quick("export", pipe, "--store", store).code == 0
        told, _ = reader.communicate(timeout=60)
    assert gzip.decompress(told).decode() == quick("export", "--store", store).out


# Lessons


@pytest.fixture
def taught(store: Path) -> Path:
    assert quick("lesson", "distill", "--kind", "experience", "--kind", "principle", "--store", store).code == 0
    return store


@pytest.mark.parametrize("name", ["lessons.jsonl.gz", "lessons.md.xz"])
def test_a_compressed_library_is_written_and_as_json_lines_read_again(taught: Path, tmp_path: Path, name: str) -> None:
    out, back = tmp_path / name, tmp_path / "back.hepm"
    more = ["--all"] if ".md" in name else []
    assert quick("export", "--kind", "experience", "--kind", "principle", *more, out, "--store", taught).code == 0
    text = UNPACK[out.suffix](out.read_bytes()).decode()
    if ".md" in name:
        assert text.startswith('<!-- hepm lessons of "default"')
        return
    answer = quick("import", out, "--store", back)
    assert (answer.code, answer.err) == (0, "26 lessons are pending, and told to no agent: `hepm lesson review`\n")
    assert quick("lesson", "review", "--approve", "all", "--store", back).code == 0
    assert quick("export", "--form", "lessons", "--store", back).out == text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("lessons.md", b"no lesson\n"),
        ("lessons.jsonl", b'{"hepm": "lesson", broken\n'),
    ],
)
def test_lessons_that_cannot_be_read_leave_no_new_store_behind(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    before = sorted(tmp_path.iterdir())
    assert name in one_sentence(quick("import", tmp_path / name, "--store", tmp_path / "new.hepm"))
    assert sorted(tmp_path.iterdir()) == before


def test_lessons_alone_make_a_store_that_stays(taught: Path, tmp_path: Path) -> None:
    lessons = quick("export", "--form", "lessons", "--store", taught).out
    assert quick("import", "-", "--store", tmp_path / "new.hepm", stdin=lessons.encode()).code == 0
    assert quick("lesson", "list", "--store", tmp_path / "new.hepm", "--json").json["total"] > 0
