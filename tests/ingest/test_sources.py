from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import threading
from pathlib import Path

import pytest

from hepm.errors import FormatError
from hepm.ingest.formats.document import HEAD
from hepm.ingest.reading import READERS, read_runs
from hepm.ingest.records import ReadOptions
from hepm.types import Trajectory
from tests.ingest.samples import AGENTDOJO, CHAT, ONE_DOCUMENT, SIMULATION, TAU, read, read_one, read_reason, write


@pytest.mark.parametrize("name", ONE_DOCUMENT)
def test_each_format_is_recognised_by_its_content(tmp_path: Path, name: str):
    path = write(tmp_path / "anything.json", ONE_DOCUMENT[name])
    assert [found for found, _ in read_runs([path])] == [name]
    # One source alone is no list of letters.
    assert [found for found, _ in read_runs(str(path))] == [found for found, _ in read_runs(path)] == [name]


@pytest.mark.parametrize(
    ("name", "shown"), [("../../run.json", True), ("./.run.json", False), ("a/.git/run.json", False)]
)
def test_only_a_part_that_begins_with_a_point_hides_a_member(tmp_path: Path, name: str, shown: bool):
    plain = write(tmp_path / "run.json", AGENTDOJO)
    with tarfile.open(tmp_path / "runs.tar", "w") as tar:
        tar.add(plain, name)
    found = [item.source for _, item in read_runs([tmp_path / "runs.tar"]) if isinstance(item, Trajectory)]
    assert found == [f"{tmp_path / 'runs.tar'}!{name}"] * shown


def test_a_folder_gives_its_data_files_in_a_fixed_order(tmp_path: Path):
    for name in ("b/two.json", "a/one.json", "c.jsonl", ".git/x.json", "readme.txt"):
        write(tmp_path / name, CHAT)
    runs, rejected = read(tmp_path)
    assert [Path(run.source).relative_to(tmp_path).as_posix() for run in runs] == [
        "c.jsonl",
        "a/one.json",
        "b/two.json",
    ]
    assert rejected == []


def test_globs_are_expanded(tmp_path: Path):
    for name in ("x/a.json", "x/y/b.json", "c.txt"):
        write(tmp_path / name, CHAT)
    assert len(read(str(tmp_path / "**" / "*.json"))[0]) == 2
    assert len(read(str(tmp_path / "*"))[0]) == 3


def test_stdin_is_a_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    content = write(tmp_path / "log.jsonl", CHAT, CHAT).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    runs, _ = read("-")
    assert [run.source for run in runs] == ["<stdin>", "<stdin>"]


def test_a_name_that_leads_nowhere_is_rejected(tmp_path: Path):
    assert read_reason(str(tmp_path / "missing.json")) == "there is no such file or folder"
    assert read_reason(str(tmp_path / "none-*.json")) == "no file matches this pattern"


def test_an_unknown_format_is_refused_before_anything_is_read():
    with pytest.raises(FormatError, match="known are auto, agentdojo, atif, bfcl, chat, claude-code, cline, codex"):
        read_runs(["missing"], ReadOptions(format="csv"))


def test_a_folder_or_archive_of_nothing_to_read_says_so(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    notes = write(tmp_path / "notes" / "readme.txt", "nothing")
    with tarfile.open(tmp_path / "notes.tar", "w") as tar:
        tar.add(notes)
    for name in ("empty", "notes", "notes.tar"):
        assert "holds no file to read" in read_reason(tmp_path / name)


@pytest.mark.parametrize("content", ["[]", "{}"])
def test_an_empty_document_says_so(tmp_path: Path, content: str):
    (tmp_path / "run.json").write_text(content)
    assert "that is empty" in read_reason(tmp_path / "run.json")


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes there")
def test_a_pipe_is_read_where_it_is_named_and_not_where_it_is_found(tmp_path: Path):
    pipe = tmp_path / "folder" / "pipe.json"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    for source in (pipe.parent, tmp_path / "*" / "*"):
        assert read_reason(source).startswith(("the folder holds no file", "no file matches"))
    content = json.dumps(CHAT)
    writer = threading.Thread(target=lambda: pipe.write_text(content))
    writer.start()
    assert read_one(pipe).id == "chat-1"
    writer.join()


def test_what_no_reader_knows_is_described(tmp_path: Path):
    reason = read_reason(write(tmp_path / "settings.json", {"colour": "red", "size": 4}))
    assert reason.startswith("no reader knows it: it is JSON with the keys colour, size.")


@pytest.mark.parametrize("name", ONE_DOCUMENT)
def test_a_header_line_before_the_runs_is_the_only_thing_rejected(tmp_path: Path, name: str):
    content = [{"note": "header"}, ONE_DOCUMENT[name][0] if name == "tau" else ONE_DOCUMENT[name]]
    runs, rejected = read(write(tmp_path / "log.jsonl", *content))
    assert [rejection.record for rejection in rejected] == [1]
    assert len(runs) == len(read(write(tmp_path / "alone.json", content[1]))[0]) > 0


def test_runs_behind_a_header_are_found_in_a_list_too_long_to_decode_at_once(tmp_path: Path):
    runs = [CHAT, {**CHAT, "id": "long", "notes": "x" * HEAD}]
    runs, rejected = read(write(tmp_path / "log.json", [{"note": "header"}, *runs]))
    assert ([run.id for run in runs], [rejection.record for rejection in rejected]) == (["chat-1", "long"], [1])


def test_the_format_that_is_named_reads_what_another_reader_would_recognise(tmp_path: Path):
    path = write(tmp_path / "run.json", SIMULATION)
    assert [found for found, _ in read_runs([path])] == ["tau2"]
    assert [found for found, _ in read_runs([path], ReadOptions(format="chat"))] == ["chat"]


def test_the_format_that_is_named_rejects_foreign_records_one_by_one(tmp_path: Path):
    path = write(tmp_path / "log.jsonl", {"note": "header"}, TAU, {"role": "user", "content": "alone"})
    found, rejected = read(path, options=ReadOptions(format="chat"))
    assert (found, [rejection.record for rejection in rejected]) == ([], [1, 2, 3])
    assert "it is one message, and a run is a record with a list of them" in rejected[2].reason


@pytest.mark.parametrize("name", [reader.name for reader in READERS])
def test_no_reader_takes_a_file_of_settings_for_runs(tmp_path: Path, name: str):
    for content in ({"colour": "red"}, [{"colour": "red"}], [3, [], None]):
        path = write(tmp_path / "settings.json", content)
        assert read(path)[0] == read(path, options=ReadOptions(format=name))[0] == []
        assert read(path, options=ReadOptions(format=name))[1]
