"""Files that commands write and read again: compressed as their names say, whole or not at all."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from hepm import Memory
from hepm.embed import HashingEmbedder
from tests.cli.chats import WAYS, chat, chats, write
from tests.faults.command import hepm, one_sentence, quick
from tests.faults.places import files_limited_to, unwritable
from tests.runs import trajectory


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


# Values that no command can work with


def test_the_broken_address_of_a_server_is_told_in_a_sentence_without_its_password() -> None:
    for address in ("neo4j://neo4j:hunter2@[::1", "bolt://[::1:7687", "neo4j://localhost:port", "neo4j://h:99999"):
        answer = quick("stats", "--store", address)
        assert "the address of the server is broken" in one_sentence(answer)
        assert "hunter2" not in answer.err + answer.out


@pytest.mark.parametrize("name", ["hash-4097", "hash-99999", "hash-" + "9" * 5000])
def test_more_dimensions_than_make_sense_are_refused_before_a_store_is_made(tmp_path: Path, name: str) -> None:
    log = write(tmp_path / "runs.jsonl", chats(1))
    sentence = one_sentence(quick("ingest", log, "--embedder", name, "--store", tmp_path / "s.hepm"))
    assert "4,096 at most" in sentence
    assert quick("ingest", log, "--embedder", "hash-4096", "--store", tmp_path / "s.hepm").code == 0


def test_a_store_of_more_dimensions_is_embedded_anew_with_fewer(tmp_path: Path) -> None:
    """Older versions took any number up to 99,999."""
    with Memory.open(tmp_path / "s.hepm", embedder=HashingEmbedder(5000)) as memory:
        memory.ingest([trajectory("r1", "a", "b")])
    searched = quick("suggest", "--state", "help", "--policy", "adaptive", "--store", tmp_path / "s.hepm")
    assert "hepm reembed" in one_sentence(searched)
    assert quick("stats", "--store", tmp_path / "s.hepm").code == 0
    assert quick("reembed", "--embedder", "hash-512", "--store", tmp_path / "s.hepm").code == 0
    assert quick("suggest", "--state", "help", "--store", tmp_path / "s.hepm").code == 0


# Text that is no UTF-8


@pytest.mark.parametrize(
    "command",
    [
        ["prompt", "--messages", "-"],
        ["lesson", "edit", "alice", "-"],
        ["cypher", "-"],
    ],
    ids=" ".join,
)
def test_what_is_piped_in_and_is_no_utf8_is_refused_in_a_sentence(store: Path, command: list[str]) -> None:
    assert "standard input is not UTF-8" in one_sentence(quick(*command, "--store", store, stdin=b"\xff\xfe["))


def test_a_file_of_messages_that_is_no_utf8_is_named_in_a_sentence(store: Path, tmp_path: Path) -> None:
    (tmp_path / "talk.json").write_bytes('[{"role": "user", "content": "Grüße"}]'.encode("latin-1"))
    sentence = one_sentence(quick("prompt", "--messages", tmp_path / "talk.json", "--store", store))
    assert "talk.json is not UTF-8" in sentence


# Full disks, and folders that nobody may write


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """One run."""
    return write(tmp_path / "runs.jsonl", [chat("a", WAYS["cancel"], task="t")])


def commands(log: Path, folder: Path) -> dict[str, tuple[list[str | Path], Path]]:
    """Each command that writes a file for people, and the file."""
    store = log.with_name("memory.hepm")
    if not store.exists():
        assert quick("ingest", log, "--store", store).code == 0
    return {
        "view": (["view", folder / "page.html", "--store", store], folder / "page.html"),
        "demo": (["demo", "--page", folder / "demo.html"], folder / "demo.html"),
    }


def test_a_full_disk_costs_no_page_that_was_there_and_leaves_no_half_one(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    command, target = commands(log, folder)["view"]
    for before in (None, "the last one\n"):
        if before:
            target.write_text(before)
        # Enough for the store, too little for a page.
        with files_limited_to(400):
            answer = quick(*command)
        assert f"cannot be written to {target}: " in one_sentence(answer)
        assert [path.name for path in folder.iterdir()] == ([target.name] if before else [])
    assert target.read_text() == "the last one\n"


@pytest.mark.parametrize("name", ["view", "demo"])
def test_a_folder_that_nobody_may_write_is_told_before_anything_is_measured(
    name: str, log: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    command, target = commands(log, folder)[name]
    target.write_text("the last one\n")
    with unwritable(folder) as under:
        answer = hepm(*command, under=under)
    assert f"cannot be written to {target}: " in one_sentence(answer)
    assert answer.out == ""
    assert target.read_text() == "the last one\n"


def test_the_demo_shows_a_line_that_its_report_writes_for_agents(tmp_path: Path) -> None:
    answer = quick("demo", "--page", tmp_path / "demo.html")

    assert "\n  When scan_history says kept is here, call issue_credit. (worked in " in answer.out
    assert "says that it is kept elsewhere.\n" in answer.out
