"""Several processes and threads on one store."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import pytest

from hepm import Memory
from tests.faults.command import HEPM, hepm, quick
from tests.faults.content import content_of
from tests.faults.logs import lines, records, write_files
from tests.runs import trajectory

HELD_S = 2.0
"""How long a writer waits for another one that keeps the store's write lock, at least."""


def write_overlapping(folder: Path, writers: int) -> list[list[Path]]:
    """Small files of runs for each writer; every run is given to two of them."""
    files = write_files(folder / "runs", files=6 * writers, runs=10)
    return [
        [path for number, path in enumerate(files) if number % writers in (who, (who + 1) % writers)]
        for who in range(writers)
    ]


def ingest_at_once(store: Path, shares: Sequence[Sequence[Path]]) -> list[dict[str, object]]:
    """One `hepm ingest` a share, all started together; their reports."""
    writers = [
        subprocess.Popen(
            [HEPM, "ingest", *map(str, share), "--store", str(store), "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for share in shares
    ]
    reports: list[dict[str, object]] = []
    for writer in writers:
        out, err = writer.communicate(timeout=240)
        assert writer.returncode == 0, err
        reports.append(json.loads(out))
    return reports


def test_writers_at_once_store_every_run_exactly_once(tmp_path: Path) -> None:
    shares = write_overlapping(tmp_path, 3)
    reports = ingest_at_once(tmp_path / "many.hepm", shares)

    everything = sorted({path for share in shares for path in share})
    assert sum(int(str(report["stored"])) for report in reports) == 10 * len(everything)
    quick("ingest", *everything, "--store", tmp_path / "one.hepm")
    # States keep one wording out of equal ones by time, not by order of arrival: so all of it must be equal.
    assert content_of(tmp_path / "many.hepm") == content_of(tmp_path / "one.hepm")
    assert quick("doctor", "--store", tmp_path / "many.hepm").out == "all is well\n"


OPENER = """
import sys, time
from hepm.memory import Memory
print("ready", flush=True)
for line in sys.stdin:
    moment, path = line.rstrip().split(" ", 1)
    while time.time() < float(moment):
        pass
    try:
        Memory.open(path, speak="weighed").close()
        print("opened", flush=True)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", flush=True)
"""


def test_processes_that_make_the_same_store_at_the_same_moment_all_open_it(tmp_path: Path) -> None:
    openers = [
        subprocess.Popen([sys.executable, "-c", OPENER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said: list[str] = []
    try:
        for opener in openers:
            assert opener.stdout is not None
            assert opener.stdout.readline() == "ready\n"
        for number in range(6):
            moment = time.time() + 0.01
            for opener in openers:
                assert opener.stdin is not None
                opener.stdin.write(f"{moment} {tmp_path / f'{number}.hepm'}\n")
                opener.stdin.flush()
            for opener in openers:
                assert opener.stdout is not None
                said.append(opener.stdout.readline().strip())
    finally:
        for opener in openers:
            opener.kill()
            opener.communicate()
    assert set(said) == {"opened"}


def test_suggestions_never_fail_while_another_thread_ingests(tmp_path: Path) -> None:
    files = write_files(tmp_path / "runs", files=12, runs=20)
    with Memory.open(tmp_path / "busy.hepm", poll_s=0.01, speak="weighed") as memory:
        memory.ingest(files[0])
        failures: list[BaseException] = []
        asked = 0
        done = threading.Event()

        def ask() -> None:
            nonlocal asked
            try:
                while not done.is_set():
                    for policy in ("procedural", "episodic", "adaptive"):
                        found = memory.suggest(f"tool_{asked % 12}", state="see to order 7", policy=policy)
                        assert [one.runs for one in found] or found.abstained
                    asked += 1
            except BaseException as error:
                failures.append(error)

        asking = [threading.Thread(target=ask) for _ in range(2)]
        for thread in asking:
            thread.start()
        for path in files[1:]:
            memory.ingest(path)
        memory.forget(user="user-1")
        done.set()
        for thread in asking:
            thread.join()
        assert failures == []
        assert asked
        assert memory.examine() == []


@dataclass(frozen=True)
class Locked:
    """A store whose write lock another process holds.

    Attributes:
        holder: That process; it lets go when its standard input is closed.
    """

    store: Path
    holder: subprocess.Popen[str]

    def let_go(self) -> None:
        assert self.holder.stdin is not None
        self.holder.stdin.close()


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Locked]:
    store = tmp_path / "locked.hepm"
    (tmp_path / "runs.jsonl").write_bytes(lines(records(60)))
    assert quick("ingest", tmp_path / "runs.jsonl", "--store", store).code == 0
    code = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "db.execute('BEGIN IMMEDIATE'); print('held', flush=True); sys.stdin.read(); db.execute('COMMIT')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield Locked(store, holder)
        holder.kill()


def is_held(store: Path) -> bool:
    try:
        with sqlite3.connect(store, timeout=0, isolation_level=None) as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return True
    return False


def test_an_open_memory_answers_while_another_process_holds_the_write_lock(tmp_path: Path) -> None:
    store = tmp_path / "asked.hepm"
    with Memory.open(store, poll_s=0.0, speak="weighed") as memory:
        memory.ingest(trajectory(f"run {number}", "look", "buy") for number in range(5))
        with sqlite3.connect(store, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            assert [one.tool for one in memory.suggest("look", policy="procedural")] == ["buy"]
            assert memory.suggest("look", state="please help")[0].runs
            assert memory.totals().trajectories == 5
            memory.refresh()
            other.execute("ROLLBACK")


@pytest.mark.parametrize("command", [["suggest", "--after", "tool_1", "--json"], ["doctor"]])
def test_a_command_that_reads_does_not_wait_for_a_writer(locked: Locked, command: list[str]) -> None:
    answer = quick(*command, "--store", locked.store)
    assert answer.code == 0, answer.err
    assert is_held(locked.store), "the lock was let go before the answer came"


def test_a_writer_waits_for_another_and_loses_nothing(locked: Locked, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_bytes(lines(records(10, prefix="more")))
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(hepm, "ingest", tmp_path / "more.jsonl", "--store", locked.store, "--json")
        assert wait([writing], HELD_S).not_done, "it did not wait"
        locked.let_go()
        answer = writing.result(240)
    assert (answer.code, answer.err) == (0, "")
    assert answer.json["stored"] == 10
    assert len(content_of(locked.store).runs) == 70
