"""What threads read while the mirror follows the store, and what it makes of a store that changes as it reads."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from hepm import Memory
from hepm.errors import InputError, StoreError
from hepm.graph.sqlite import SQLiteStore
from hepm.graph.sqlite.connection import load_statements
from tests.runs import trajectory

_READS = ("latest_runs", "marks", "edges", "states_after", "states_at", "runs_after", "changes_since")


class Interrupted(SQLiteStore):
    """A store during one of whose reads something else happens, once: just before it, or just after."""

    before: tuple[str, Callable[[], object]] | None = None
    after: tuple[str, Callable[[], object]] | None = None

    def __getattribute__(self, name: str):
        found = super().__getattribute__(name)
        if name in ("before", "after") or not callable(found):
            return found

        def read(*args: object, **options: object) -> object:
            self._happen("before", name)
            answer = found(*args, **options)
            self._happen("after", name)
            return answer

        return read if name in _READS else found

    def _happen(self, when: str, name: str) -> None:
        planned = getattr(self, when)
        if planned is not None and planned[0] == name:
            setattr(self, when, None)
            planned[1]()


@pytest.fixture
def store(tmp_path: Path) -> Interrupted:
    return Interrupted(tmp_path / "runs.hepm")


@pytest.fixture
def memory(store: Interrupted) -> Iterator[Memory]:
    with Memory(store, poll_s=60, speak="weighed") as opened:
        yield opened


@pytest.fixture
def elsewhere(memory: Memory, tmp_path: Path) -> Iterator[Memory]:
    """Another process' view of the same store."""
    with Memory.open(tmp_path / "runs.hepm", poll_s=60, speak="weighed") as opened:
        yield opened


def next_tools(memory: Memory, after: str, c: float = 1.0) -> dict[str, int]:
    return {found.tool: found.support for found in memory.suggest(after, policy="procedural", k=9, c=c)}


def test_a_suggestion_asked_for_while_everything_is_read_anew_loses_no_tool(store: Interrupted, memory: Memory):
    memory.ingest([trajectory("one", "look", "buy")])
    asked = [next_tools(memory, "look")]
    store.before = ("marks", lambda: asked.append(next_tools(memory, "look")))
    memory.rebuild()
    assert asked == [{"buy": 1}] * 2
    assert next_tools(memory, "look") == {"buy": 1}


def test_a_suggestion_that_began_before_an_ingest_is_not_kept_for_those_after_it(memory: Memory):
    memory.ingest([trajectory("one", "look", "buy")])

    class Meanwhile(float):
        def __mul__(self, other: float) -> float:
            if "two" not in asked:
                asked.append("two")
                memory.ingest([trajectory("two", "look", "ask")])
            return float(self) * other

    asked: list[str] = []
    next_tools(memory, "look", c=Meanwhile(0.5))
    assert asked == ["two"]
    assert next_tools(memory, "look", c=0.5) == {"ask": 1, "buy": 1}


def test_states_read_while_their_run_is_forgotten_are_not_kept(store: Interrupted, memory: Memory):
    memory.ingest([trajectory("one", "look", "buy", goal="blue lamps"), trajectory("two", "look", "buy")])
    store.after = ("states_after", lambda: memory.forget(trajectory="one"))
    memory.suggest("look", state="blue lamps", policy="episodic")
    assert len(memory.mirror().block("look")) == 1


def test_a_run_that_comes_while_another_is_read_keeps_its_state(store: Interrupted, memory: Memory, elsewhere: Memory):
    memory.ingest([trajectory("one", "look", "buy", goal="blue lamps")])
    memory.suggest("look", state="lamps")
    elsewhere.ingest([trajectory("two", "look", "buy", goal="red chairs")])
    new = trajectory("three", "look", "ask", goal="zebra quagga okapi")
    store.after = ("states_at", lambda: elsewhere.ingest([new]))
    memory.refresh()
    memory.refresh()
    mine, theirs = (one.suggest("look", state="zebra quagga okapi") for one in (memory, elsewhere))
    assert [(found.tool, found.score) for found in mine] == [(found.tool, found.score) for found in theirs]


def test_notes_forgotten_while_the_mirror_follows_are_not_told(store: Interrupted, memory: Memory, elsewhere: Memory):
    memory.preferences.edit("ann", "likes short answers", namespace="default")
    assert memory.preferences.notes("ann", namespace="default")
    elsewhere.ingest([trajectory("one", "look", "buy")])
    store.before = ("changes_since", lambda: elsewhere.preferences.forget("ann", namespace="default"))
    memory.refresh()
    memory.refresh()
    assert not memory.preferences.notes("ann", namespace="default")


@pytest.fixture
def large(memory: Memory) -> Memory:
    """A memory of 3,000 calls that was asked for a hybrid suggestion."""
    ways = (("look", "buy", "pay"), ("look", "ask", "wait"))
    memory.ingest(trajectory(f"run {number}", *(ways[number % 2] * 5), task=str(number)) for number in range(200))
    assert memory.suggest("look", state="please help")
    return memory


def test_an_ingest_into_a_large_memory_does_not_wait_until_all_calls_are_read_again(
    store: Interrupted, large: Memory, tmp_path: Path
):
    read: list[threading.Thread] = []
    store.before = ("latest_runs", lambda: read.append(threading.current_thread()))
    large.ingest([trajectory(f"new {number}", "look", "sing") for number in range(50)])
    assert threading.current_thread() not in read
    assert next_tools(large, "look")["sing"] == 50
    large.refresh()
    assert read
    with Memory.open(tmp_path / "runs.hepm", speak="weighed") as afresh:
        mine, theirs = (one.suggest("look", state="please help", k=5) for one in (large, afresh))
    assert [(found.tool, found.score) for found in mine] == [(found.tool, found.score) for found in theirs]
    assert "sing" in [found.tool for found in mine]


def test_threads_that_ask_for_ever_new_weights_stop_no_ingest(memory: Memory):
    tools = [f"tool {number}" for number in range(200)]
    memory.ingest([trajectory(f"run {number}", tool, "done") for number, tool in enumerate(tools)])
    done = threading.Event()

    def ask(seed: int) -> None:
        for number in range(10_000):
            if done.is_set():
                return
            next_tools(memory, tools[number % 200], c=(number * 7 + seed) % 97 / 97)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(30):
            memory.ingest([trajectory(f"more {number}", "tool 1", "done")])
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert next_tools(memory, "tool 1") == {"done": 31}


def test_a_store_that_cannot_be_followed_is_told_of_once(
    store: Interrupted, elsewhere: Memory, caplog: pytest.LogCaptureFixture
):
    def fail() -> None:
        raise StoreError("disk I/O error")

    elsewhere.ingest([trajectory("one", "look", "buy")])
    with Memory(store, poll_s=0.0) as memory, caplog.at_level(logging.WARNING, "hepm"):
        assert next_tools(memory, "look") == {"buy": 1}
        deadline = time.monotonic() + 60
        while not caplog.records and time.monotonic() < deadline:
            with suppress(StoreError):
                elsewhere.ingest([trajectory(f"at {time.monotonic()}", "look", "buy")])
            store.before = ("changes_since", fail)
            next_tools(memory, "look")
            time.sleep(0.01)
        assert "disk I/O error" in caplog.text
        while next_tools(memory, "look")["buy"] < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert next_tools(memory, "look")["buy"] >= 2


@pytest.mark.parametrize("poll_s", [0.0, 60.0])
def test_a_closed_memory_says_that_it_is_closed(memory: Memory, tmp_path: Path, poll_s: float):
    memory.ingest([trajectory("one", "look", "buy")])
    with Memory.open(tmp_path / "runs.hepm", poll_s=poll_s, speak="weighed") as other:
        assert next_tools(other, "look") == {"buy": 1}
    with pytest.raises(StoreError, match="this memory is closed"):
        next_tools(other, "look")


def test_what_came_since_a_row_is_read_by_an_index(tmp_path: Path):
    SQLiteStore(tmp_path / "memory.hepm").close()
    with closing(sqlite3.connect(tmp_path / "memory.hepm")) as database:
        for name in ("states_after", "runs_after"):
            values = {"namespace": "default", "tool": "a", "newer_than": 1, "seq": 1}
            plan = database.execute("EXPLAIN QUERY PLAN " + load_statements()[name], values).fetchall()
            assert ">?" in plan[0][-1]
            assert not any("TEMP B-TREE" in step[-1] for step in plan)


@pytest.mark.parametrize("c", [-1.0, float("nan")])
def test_a_weight_of_efficiency_below_zero_is_refused(memory: Memory, c: float):
    memory.ingest([trajectory("one", "look", "buy")])
    with pytest.raises(InputError, match="c is"):
        memory.suggest("look", policy="procedural", c=c)
