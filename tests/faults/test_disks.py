"""Stores that cannot be written, cannot be read, or are not stores."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx2
import pytest

from hepm.errors import StoreError
from hepm.memory import Memory
from tests.faults.command import Answer, hepm, one_sentence, quick
from tests.faults.content import Content, content_of
from tests.faults.killing_servers import Served
from tests.faults.logs import lines, records, write_files
from tests.faults.places import can_mount, files_limited_to, limited_to, small_disk, unwritable

READING = (["stats"], ["suggest", "--after", "tool_1"], ["doctor"], ["export"])
WRITING = (["forget", "--user", "user-1"], ["reembed", "--embedder", "hash-64"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 120 runs, closed; never changed."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "runs.jsonl").write_bytes(lines(records(120)))
    assert quick("ingest", folder / "runs.jsonl", "--store", folder / "store.hepm").code == 0
    return folder / "store.hepm"


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    """A copy of it in a folder of its own, to be spoilt."""
    (tmp_path / "kept").mkdir()
    return Path(shutil.copy(whole, tmp_path / "kept" / "store.hepm"))


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """More runs than fit on the small disk."""
    return write_files(tmp_path / "many", files=1, runs=400, prefix="many")[0]


# Full disks


@pytest.fixture
def full_disk(tmp_path: Path, store: Path) -> Iterator[tuple[Path, Sequence[str]]]:
    """A store on a disk of 2 MB, and the command that brings us there."""
    if not can_mount():
        yield store, limited_to(2000)
        return
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, 1000) as under:
        subprocess.run([*under, "cp", str(store), str(disk / "store.hepm")], check=True)
        yield disk / "store.hepm", under


def exported(store: Path, under: Sequence[str]) -> str:
    return hepm("export", "--store", store, under=under).out


def test_a_full_disk_stops_an_ingest_with_a_sentence_and_what_was_stored_stays(
    full_disk: tuple[Path, Sequence[str]], many: Path
) -> None:
    store, under = full_disk
    before = exported(store, under)
    sentence = one_sentence(hepm("ingest", many, "--store", store, under=under))
    assert "no room" in sentence
    assert exported(store, under).startswith(before)
    assert hepm("doctor", "--store", store, under=under).out == "all is well\n"


def test_a_memory_goes_on_when_the_disk_has_room_again(store: Path, many: Path) -> None:
    with Memory.open(store, speak="weighed") as memory:
        before = memory.suggest("tool_1").prompt()
        with files_limited_to(500), pytest.raises(StoreError, match="no room"):
            memory.ingest(many)
        assert memory.suggest("tool_1").prompt() == before
        assert memory.ingest(many).stored == 400
        assert memory.examine() == []


def test_a_full_output_is_told_in_a_sentence(store: Path) -> None:
    one_sentence(hepm("export", "--store", store, under=["sh", "-c", 'exec "$@" > /dev/full', "sh"]))


# Folders and files that can only be read


def test_a_store_in_a_folder_that_nobody_may_write_can_still_be_asked(store: Path) -> None:
    command = READING[0]
    expected = quick(*command, "--store", store)
    with unwritable(store.parent) as under:
        answer = hepm(*command, "--store", store, under=under)
    assert (answer.code, answer.out) == (0, expected.out), answer.err


def test_writing_into_a_folder_that_nobody_may_write_is_refused(store: Path, many: Path) -> None:
    before = store.read_bytes()
    with unwritable(store.parent) as under:
        assert "permission" in one_sentence(hepm(*WRITING[0], "--store", store, under=under))
        sentence = one_sentence(hepm("ingest", many, "--store", store.with_name("new.hepm"), under=under))
        assert "permission" in sentence or "closed to this user" in sentence
    assert store.read_bytes() == before


def test_a_server_whose_store_can_only_be_read_says_so_at_its_start_in_its_health_and_at_an_outcome(
    store: Path,
) -> None:
    with unwritable(store) as under:  # the file alone
        served = Served(store, "http://127.0.0.1:1/v1", under=under)
        try:
            said = {"session": "s", "messages": [{"role": "user", "content": "hello"}]}
            assert httpx2.post(f"{served.url}/api/hint", json=said).status_code == 200
            health = httpx2.get(f"{served.url}/health").json()
            answer = httpx2.post(f"{served.url}/outcome", json={"session": "s", "success": True})
        finally:
            served.kill(signal.SIGTERM)
    assert health["status"] == "degraded"
    assert "give its file and folder write permission" in health["sessions"]
    assert (answer.status_code, "Give the file and its folder write permission" in answer.text) == (503, True)
    first, *_, last = served.said
    assert "runs are not stored: the store can only be read" in first
    assert "/outcome is answered with 503: " in last


def test_a_store_with_a_log_that_is_not_written_back_is_read_whole_where_nobody_may_write(
    store: Path, tmp_path: Path
) -> None:
    """The last runs of a process that was killed lie in the -wal file beside the store."""
    kept = tmp_path / "copied"
    kept.mkdir()
    with Memory.open(store, speak="weighed") as memory:
        memory.ingest(write_files(tmp_path / "late", files=1, runs=10, prefix="late"))
        for path in store.parent.iterdir():
            if not path.name.endswith("-shm"):
                shutil.copy(path, kept)
    assert (kept / "store.hepm-wal").stat().st_size
    with unwritable(kept) as under:
        answer = hepm("stats", "--json", "--store", kept / "store.hepm", under=under)
    # Reading it without its log would be an old state, told as if it were the last one: then rather a sentence.
    if answer.code:
        one_sentence(answer)
    else:
        assert answer.json["namespaces"]["default"]["trajectories"] == 130


# Names that lead nowhere


def test_a_store_in_a_folder_that_is_missing_is_refused(many: Path, tmp_path: Path) -> None:
    sentence = one_sentence(quick("ingest", many, "--store", tmp_path / "no" / "such" / "store.hepm"))
    assert str(tmp_path / "no" / "such") in sentence
    assert not (tmp_path / "no").exists()


def test_asking_a_store_that_is_not_there_makes_none(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for command in (*READING, *WRITING):
        for name in (tmp_path / "missing.hepm", tmp_path / "folder"):
            assert "hepm ingest" in one_sentence(quick(*command, "--store", name))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_folder_stands_for_the_store_inside_it(store: Path, tmp_path: Path) -> None:
    shutil.copy(store, tmp_path / "memory.hepm")
    assert quick("export", "--store", tmp_path).out == quick("export", "--store", store).out


# Files that are no store, or no longer one


def foreign_database(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE trajectory (id)")
        database.execute("INSERT INTO trajectory VALUES ('theirs')")
    database.close()


@pytest.mark.parametrize("kind", ["text", "database", "binary"])
def test_a_file_of_another_program_is_refused_and_not_touched(tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    if kind == "text":
        other.write_text("my notes\n" * 200)
    elif kind == "binary":
        other.write_bytes(os.urandom(20_000))
    else:
        foreign_database(other)
    before = other.read_bytes()
    for command in (*READING, *WRITING):
        assert "other" in one_sentence(quick(*command, "--store", other))
    one_sentence(quick("ingest", tmp_path / "nothing.jsonl", "--store", other))
    assert other.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def answers(store: Path) -> list[Answer]:
    return [quick(*command, "--store", store) for command in (*READING, *WRITING)]


def assert_told_or_right(answer: Answer) -> None:
    """A damaged store gives a sentence, or an answer where the damage does not matter; never a traceback."""
    assert "Traceback" not in answer.err, answer.err[-2000:]
    assert answer.code in (0, 1, 2)
    if answer.code:
        assert (answer.err or answer.out).strip()


@pytest.mark.parametrize("share", [0.0, 0.7])
def test_a_truncated_store_is_told_in_a_sentence(store: Path, share: float) -> None:
    os.truncate(store, int(store.stat().st_size * share))
    for answer in answers(store):
        assert_told_or_right(answer)


def test_random_bytes_in_the_middle_of_a_store_give_sentences(store: Path) -> None:
    draw = random.Random(0)
    content = bytearray(store.read_bytes())
    for _ in range(2000):
        content[draw.randrange(200, len(content))] = draw.randrange(256)
    store.write_bytes(content)
    for answer in answers(store):
        assert_told_or_right(answer)


def test_a_torn_log_costs_only_what_was_never_acknowledged_whole(store: Path, tmp_path: Path) -> None:
    before = content_of(store)
    copies = tmp_path / "copies"
    copies.mkdir()
    with Memory.open(store, speak="weighed") as memory:
        for path in write_files(tmp_path / "late", files=4, runs=5, prefix="late"):
            memory.ingest(path)
        log = Path(f"{store}-wal").read_bytes()
        base = store.read_bytes()
    kept: set[int] = set()
    for number, share in enumerate((0.0, 0.5, 0.97, 1.0)):
        copy = copies / f"{number}.hepm"
        copy.write_bytes(base)
        Path(f"{copy}-wal").write_bytes(log[: int(len(log) * share)])
        assert quick("doctor", "--store", copy).out == "all is well\n"
        left = content_of(copy)
        assert_holds(left, before)
        kept.add(len(left.runs))
    # Each batch of five is there or not there.
    assert kept <= {120, 125, 130, 135, 140}
    assert max(kept) == 140


def assert_holds(left: Content, before: Content) -> None:
    assert set(before.records) <= set(left.records)
