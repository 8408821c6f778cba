from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from hepm.embed import CachedEmbedder, HashingEmbedder
from hepm.ingest import ReadOptions
from hepm.ingest.pipeline import embed_texts
from hepm.ingest.prepare import FileLines, IngestOptions, Prepared, prepare_in_process
from hepm.ingest.workers.parallel import prepare
from hepm.ingest.workers.parts import PART_BYTES, Work, frames, plan, received

READING = ReadOptions()
LONG = "the customer wants the parcel back " * 80


def chat(number: int) -> str:
    said = {"role": "user", "content": f"{LONG} {number}"}
    call = {"id": "1", "type": "function", "function": {"name": f"do_{number % 7}", "arguments": "{}"}}
    return json.dumps({"id": f"run-{number}", "messages": [said, {"role": "assistant", "tool_calls": [call]}]})


def long_lines() -> list[str]:
    """More than two parts, with empty, damaged and foreign lines everywhere."""
    lines: list[str] = []
    for number in range(950):
        lines.append(chat(number))
        lines += {0: ["", "{damaged"], 3: ["   "], 5: ["[1]"]}.get(number % 100, [])
    return lines


def in_parts(file: Path) -> list[Prepared]:
    work = Work(READING, IngestOptions())
    parts = list(plan([str(file)], READING))
    assert len(parts) > 2, "the file is too short for this test"
    return [item for part in parts for frame in frames(part, work) for item in received(frame, None)]


@pytest.mark.parametrize("start", ["", "\ufeff", "\n\n"], ids=["plain", "byte order mark", "empty lines first"])
def test_the_parts_of_a_long_file_give_its_runs_and_rejections_with_the_same_line_numbers(start: str, tmp_path: Path):
    file = tmp_path / "long.jsonl"
    file.write_text(start + "\n".join(long_lines()), "utf-8")
    whole = list(prepare_in_process([str(file)], READING, IngestOptions()))
    assert in_parts(file) == whole
    assert len(whole) > 950


def test_a_file_whose_lines_are_not_runs_by_themselves_stays_whole(tmp_path: Path):
    record = {"type": "user", "sessionId": "s", "uuid": "u", "message": {"role": "user", "content": LONG}}
    transcript, listed = tmp_path / "transcript.jsonl", tmp_path / "list.json"
    transcript.write_text(f"{json.dumps(record)}\n" * 1_000)
    listed.write_text("[" + ",\n".join(map(chat, range(900))) + "]")
    for file in (transcript, listed):
        assert file.stat().st_size > 2 * PART_BYTES
        [part] = plan([str(file)], READING)
        assert part.files == (str(file),)


def test_small_files_share_a_part_and_compressed_ones_count_as_what_they_hold(tmp_path: Path):
    small = [tmp_path / f"{number}.jsonl" for number in range(5)]
    for number, file in enumerate(small):
        file.write_text(chat(number))
    packed = tmp_path / "packed.jsonl.gz"
    with gzip.open(packed, "wt", compresslevel=0) as stream:
        stream.write("\n".join(map(chat, range(40))))
    names = [*map(str, small), str(packed)]
    assert [part.files for part in plan(names, READING)] == [tuple(names[:5]), (names[5],)]
    assert str(next(plan(names, READING))) == f"{names[0]} and 4 more files"


def test_workers_make_the_vectors_that_the_embedder_would_make(tmp_path: Path):
    file = tmp_path / "long.jsonl"
    file.write_text("\n".join(long_lines()))
    inner = HashingEmbedder()
    cached = CachedEmbedder(inner)
    runs = [
        item
        for _, item in prepare([str(file)], READING, IngestOptions(processes=2, assume_success=True), cached)
        if hasattr(item, "digest")
    ]
    made = len(cached)
    expected = embed_texts(runs, inner)
    found = embed_texts(runs, cached)
    assert made == len(expected) == len(cached), "some vectors were made by the process that stores"
    assert all((found[text] == vector).all() for text, vector in expected.items())


def test_an_address_is_read_like_the_path_behind_it(tmp_path: Path):
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "a.jsonl").write_text("\n".join(map(chat, range(3))))
    (runs / "b.jsonl").write_text("{damaged\n" + chat(9))
    shutil.copy(runs / "a.jsonl", runs / ".hidden.jsonl")
    by_path = list(prepare([str(runs)], READING, IngestOptions()))
    for address in (runs.as_uri(), f"{runs.as_uri()}/*.jsonl"):
        found = list(prepare([address], READING, IngestOptions()))
        assert [getattr(item, "id", None) for _, item in found] == [getattr(item, "id", None) for _, item in by_path]
        assert getattr(found[3][1], "file", "").endswith("/runs/b.jsonl")
    [(_, missing)] = prepare([f"{runs.as_uri()}/none.jsonl"], READING, IngestOptions())
    assert "no such file" in getattr(missing, "reason", "")


def test_a_part_names_the_lines_that_it_holds(tmp_path: Path):
    file = tmp_path / "long.jsonl"
    file.write_text("\n".join(long_lines()))
    second = list(plan([str(file)], READING))[1]
    [lines] = second.files
    assert isinstance(lines, FileLines)
    assert str(second) == f"{file} from line {lines.lines.first:,} on"
