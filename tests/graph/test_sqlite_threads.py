"""Connections of the embedded store: one for each thread that reads."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hepm.errors import StoreError
from hepm.graph.sqlite import SQLiteStore
from hepm.graph.sqlite.connection import Connections
from tests.runs import Shelf, trajectory

NS = "team"
OPEN_FILES = Path("/proc/self/fd")


@pytest.fixture
def store(tmp_path: Path) -> SQLiteStore:
    opened = SQLiteStore(tmp_path / "runs.hepm")
    runs = Shelf(*(trajectory(f"r{i}", "look", "buy") for i in range(50)))
    opened.add(runs.runs(), {}, namespace=NS, replay=runs.replay)
    return opened


def in_a_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="this system does not list the open files of a process")
def test_a_thread_that_has_ended_leaves_no_file_open(store: SQLiteStore) -> None:
    in_a_thread(lambda: store.totals(namespace=NS))
    before = len(list(OPEN_FILES.iterdir()))
    for _ in range(20):
        in_a_thread(lambda: store.totals(namespace=NS))
    assert len(list(OPEN_FILES.iterdir())) == before
    store.close()


def test_what_an_ended_thread_began_to_read_another_one_reads_to_its_end(store: SQLiteStore) -> None:
    records = store.iter_records(namespace=NS)
    first = in_a_thread(lambda: next(records))
    assert [first[0], *(name for name, *_ in records)] == [f"r{i}" for i in range(50)]
    store.close()


def test_a_store_is_closed_while_threads_that_read_it_end(store: SQLiteStore) -> None:
    unexpected: list[BaseException] = []
    ready, closing = threading.Barrier(9), threading.Event()

    def read_until_closed() -> None:
        store.totals(namespace=NS)
        ready.wait(30)
        try:
            closing.wait(30)
            while True:
                store.totals(namespace=NS)
        except StoreError:
            pass  # it is closed
        except BaseException as error:
            unexpected.append(error)

    threads = [threading.Thread(target=read_until_closed) for _ in range(8)]
    for thread in threads:
        thread.start()
    ready.wait(30)
    closing.set()
    store.close()
    store.close()
    for thread in threads:
        thread.join(30)
    assert unexpected == []


def test_a_process_with_too_many_open_files_is_told_so(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    SQLiteStore(tmp_path / "runs.hepm").close()
    code = """
import os, resource, sys
from pathlib import Path
from hepm.errors import StoreError
from hepm.graph.sqlite import SQLiteStore
from hepm.graph.sqlite.connection import Connections
store = SQLiteStore(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
try:
    while True: os.dup(0)
except OSError:
    pass
import threading
def read():
    try: store.totals(namespace="x")
    except StoreError as error: print(error)
with store._connections.reading():  # another one reads meanwhile
    thread = threading.Thread(target=read); thread.start(); thread.join()
"""
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "runs.hepm")], capture_output=True, text=True, check=True
    )
    assert "too many files open (see `ulimit -n`)" in told.stdout


def test_the_log_of_a_large_write_is_cut_when_the_next_one_begins_it_anew(tmp_path: Path) -> None:
    connections = Connections(tmp_path / "runs.hepm")
    log = tmp_path / "runs.hepm-wal"
    with connections.writing() as db:
        db.execute("INSERT INTO meta (key, value) VALUES ('large', hex(zeroblob(8000000)))")
    assert log.stat().st_size > 16_000_000
    with connections.writing() as db:
        db.execute("INSERT INTO meta (key, value) VALUES ('small', '')")
    assert log.stat().st_size <= 4 * 2**20
    connections.close()
    assert not log.exists()
