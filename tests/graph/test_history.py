"""A memory too large to be read whole: the part that is read, and what is kept of it in files."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from hepm import Memory
from hepm.graph.calls import call_history, fits
from hepm.graph.calls.artifacts import Artifacts
from hepm.graph.calls.call_history import CallHistory, all_calls
from hepm.graph.calls.call_matrix import PARTS, CallMatrix
from hepm.graph.store import Store
from hepm.policy.hybrid.fitted import FittedMemory
from hepm.types import START
from tests.runs import Shelf, trajectory

NS = "default"
WORDS = ["lamp", "shoes", "refund", "order", "broken", "red", "late", "parcel", "blue", "invoice"]


def runs(count: int, first: int = 0) -> Iterator[object]:
    """Runs in which shoes are bought and lamps refunded; every fifth failed."""
    for number in range(first, first + count):
        thing, way = [("shoes", ("look", "buy", "pay")), ("lamp", ("look", "refund", "pay+thank"))][number % 2]
        goal = f"{thing} {WORDS[number % 10]} {WORDS[number // 10 % 10]}"
        yield trajectory(f"r{number:04d}", *way, success=number % 5 != 4, goal=goal, task=f"t{number % 40}")


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a small memory goes over."""
    monkeypatch.setattr(call_history, "MOST_CALLS", 200)
    monkeypatch.setattr(call_history, "FEWEST_KEPT", 4)


@pytest.fixture
def memory(small_parts: None, tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "runs.hepm", poll_s=60, speak="weighed") as opened:
        opened.ingest(runs(300))
        yield opened


def ranked(memory: Memory, state: str = "about the lamp", after: str = "look") -> list[tuple[str, float]]:
    return [(found.tool, round(found.score, 4)) for found in memory.suggest(after, state=state, k=4)]


def after_look(memory: Memory) -> list[str]:
    """The calls that came right after a look, as a fresh process reads them."""
    fitted = memory.mirrors.namespace(NS).fits.of(FittedMemory)
    found = fitted.calls.after
    assert found is not None
    calls = found(["look"])
    return [calls.names[tool] for tool in calls.next_N]


def parts(folder: Path) -> dict[Path, int]:
    """The files of calls after a tool, and when each was written, in nanoseconds."""
    return {file: file.stat().st_mtime_ns for file in (folder / "runs.hepm-fit").rglob("*.part")}


def test_the_calls_after_a_tool_are_those_of_a_memory_that_is_read_whole(store: Store, small_parts: None) -> None:
    shelf = Shelf(*runs(120))
    store.add(shelf.runs(), shelf.vectors(shelf.runs()), namespace=NS, replay=shelf.replay)
    whole, part = all_calls(store, NS), CallHistory(store, NS).latest()
    assert len(part.next_N) < len(whole.next_N) == 420
    assert part.after is not None
    for tool in (START, "look", "buy"):
        found = part.after([tool])
        assert rows_after(found, tool) == rows_after(whole, tool)


def test_all_calls_are_the_same_where_no_file_can_hold_the_vectors(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = Shelf(*runs(40))
    store.add(shelf.runs(), shelf.vectors(shelf.runs()), namespace=NS, replay=shelf.replay)
    mapped = all_calls(store, NS)
    assert mapped.states_SD.any()
    caplog.set_level("INFO", logger="hepm")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    held = all_calls(store, NS)
    assert "vectors of 120 states are held in memory" in caplog.text
    assert mapped.states_SD.tobytes() == held.states_SD.tobytes()
    assert mapped.next_N.tolist() == held.next_N.tolist()


def rows_after(calls: CallMatrix, tool: str) -> set[tuple[int, str, bytes]]:
    """The run, the next call and the state of each call after a tool; of vectors what 1,000 parts of 1 hold."""
    parts = 1_000 / (PARTS if calls.states_SD.dtype == np.int16 else 1)
    return {
        (int(calls.arrival_R[calls.run_N[row]]), calls.names[calls.next_N[row]], vector.tobytes())
        for row in calls.by_last[calls.names.index(tool)]
        for vector in [np.rint(calls.states_SD[calls.state_N[row]] * parts).astype(np.int32)]
    }


def test_of_many_runs_the_latest_on_each_edge_are_read(
    store: Store, small_parts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_history, "MOST_AFTER", 30)
    shelf = Shelf(*runs(200), *(trajectory(f"odd {i}", "look", "sing") for i in range(3)), *runs(40, first=200))
    store.add(shelf.runs(), shelf.vectors(shelf.runs()), namespace=NS, replay=shelf.replay)
    after = CallHistory(store, NS).latest().after
    assert after is not None
    found = after(["look"])
    arrivals = found.arrival_R[found.run_N[found.by_last[found.names.index("look")]]].tolist()
    read = [run.id for run in store.runs_at(arrivals, namespace=NS)]
    assert {"odd 0", "odd 1", "odd 2", "r0238", "r0239"} <= set(read)
    assert len(read) <= 40
    assert "r0100" not in read


def test_counts_are_of_all_runs_where_only_the_latest_are_read(memory: Memory) -> None:
    (found, *_) = memory.suggest("look", state="about the shoes", k=1)
    assert (found.tool, found.support) == ("buy", 120)
    assert found.runs


def test_a_memory_read_in_part_tells_the_situations_of_its_runs_apart(memory: Memory) -> None:
    assert ranked(memory, "about the lamp")[0][0] == "refund"
    assert ranked(memory, "about the shoes")[0][0] == "buy"


def test_a_fresh_process_takes_what_another_computed(memory: Memory, tmp_path: Path, monkeypatch) -> None:
    first = ranked(memory), ranked(memory, "about the shoes")
    monkeypatch.setattr(CallHistory, "latest", lambda self: pytest.fail("it read the latest runs"))
    with Memory.open(tmp_path / "runs.hepm", poll_s=60, speak="weighed") as fresh:
        assert (ranked(fresh), ranked(fresh, "about the shoes")) == first


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY nonsense", None])
def test_damaged_files_are_computed_again(memory: Memory, tmp_path: Path, damage: bytes | None) -> None:
    expected = ranked(memory)
    kept = sorted((tmp_path / "runs.hepm-fit").rglob("*.*p*"))
    assert any(file.suffix == ".part" for file in kept)
    for file in kept:
        if damage is None:
            file.write_bytes(file.read_bytes()[:-8])
        else:
            file.write_bytes(damage)
    with Memory.open(tmp_path / "runs.hepm", poll_s=60, speak="weighed") as fresh:
        assert ranked(fresh) == expected


def test_files_of_another_store_in_the_same_place_are_not_used(memory: Memory, tmp_path: Path) -> None:
    assert ranked(memory)
    memory.close()
    for file in tmp_path.glob("runs.hepm*"):
        if file.is_file():
            file.unlink()
    with Memory.open(tmp_path / "runs.hepm", poll_s=60, speak="weighed") as other:
        other.ingest(trajectory(f"new {number}", "look", "sing", goal="sing a song") for number in range(300))
        assert [tool for tool, _ in ranked(other, "sing a song")] == ["sing"]


def test_runs_that_came_since_are_suggested_after_the_next_look(memory: Memory, tmp_path: Path) -> None:
    assert "sing" not in dict(ranked(memory, "sing a song"))
    with Memory.open(tmp_path / "runs.hepm", poll_s=60, speak="weighed") as elsewhere:
        elsewhere.ingest(trajectory(f"new {number}", "look", "sing", goal="sing a song") for number in range(30))
    memory.refresh()
    assert ranked(memory, "sing a song")[0][0] == "sing"


def test_what_was_forgotten_is_neither_suggested_nor_left_in_a_file(memory: Memory, tmp_path: Path) -> None:
    memory.ingest([trajectory("odd", "look", "sing", task="odd", goal="sing a song")])
    memory.refresh()
    assert "sing" in dict(ranked(memory, "sing a song"))
    before = set((tmp_path / "runs.hepm-fit").rglob("*.*p*"))
    memory.forget(task="odd")
    assert not any(file.exists() for file in before)
    assert "sing" not in dict(ranked(memory, "sing a song"))
    with Memory.open(tmp_path / "runs.hepm", poll_s=60, speak="weighed") as fresh:
        assert "sing" not in dict(ranked(fresh, "sing a song"))


def test_a_memory_that_was_read_whole_and_outgrows_it_goes_on(small_parts: None, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "runs.hepm", poll_s=60, speak="weighed") as memory:
        memory.ingest(runs(30))
        assert ranked(memory)[0][0] == "refund"
        for start in range(30, 230, 50):
            memory.ingest(runs(50, first=start))
            memory.refresh()
            assert ranked(memory)[0][0] == "refund"
        assert not memory.mirror().fits.of(Whole)


class Whole:
    """Whether all calls are read."""

    def __new__(cls, calls, former):  # type: ignore[misc]
        return calls.reached is None


@pytest.mark.parametrize("damaged", ["ridge_TX.npy", "successes_T.npy", "*.part", "about.json"])
def test_doctor_finds_damaged_files_and_repairs_them(memory: Memory, tmp_path: Path, damaged: str) -> None:
    expected = ranked(memory)
    assert memory.examine() == []
    (file, *_) = (tmp_path / "runs.hepm-fit").rglob(damaged)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    content[-1] ^= 1
    file.write_bytes(content)
    assert [finding.repair for finding in memory.examine(parts=["fit"])] == ["prepare"]
    assert memory.examine(parts=["links", "lessons"]) == []
    memory.rebuild()
    with Memory.open(tmp_path / "runs.hepm", poll_s=60, speak="weighed") as fresh:
        assert ranked(fresh) == expected
        assert fresh.examine() == []


def test_of_memories_that_open_together_one_computes_and_the_others_wait(
    small_parts: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fits, "MANY_RUNS", 100)
    with Memory.open(tmp_path / "runs.hepm", speak="weighed") as memory:
        memory.ingest(runs(300))
    read: list[int] = []
    latest = CallHistory.latest

    def slow(self: CallHistory) -> CallMatrix:
        read.append(threading.get_ident())
        time.sleep(0.2)
        return latest(self)

    monkeypatch.setattr(CallHistory, "latest", slow)
    with ExitStack() as stack, ThreadPoolExecutor(4) as pool:
        opened = [
            stack.enter_context(Memory.open(tmp_path / "runs.hepm", poll_s=60, speak="weighed")) for _ in range(4)
        ]
        first, *others = pool.map(ranked, opened)
    assert len(read) == 1
    assert others == [first] * 3


def test_files_of_calls_after_a_tool_outlive_what_else_is_computed_again(memory: Memory, tmp_path: Path) -> None:
    assert ranked(memory)
    before = parts(tmp_path)
    assert before
    memory.ingest(runs(3, first=300))
    memory.refresh()
    with Memory.open(tmp_path / "runs.hepm", poll_s=60, speak="weighed") as fresh:
        fresh.prepare()
        fresh.refresh()
        assert ranked(fresh)[0][0] == "refund"
    assert before.items() <= parts(tmp_path).items()


def test_prepare_writes_the_files_that_the_first_questions_after_each_tool_need(memory: Memory, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    memory.prepare(on_progress=lambda done, total: steps.append((done, total)))
    assert steps == [(done, len(steps)) for done in range(1, len(steps) + 1)]
    written = parts(tmp_path)
    assert len(written) > 2
    with Memory.open(tmp_path / "runs.hepm", poll_s=60, speak="weighed") as fresh:
        assert fresh.suggest(state="about the lamp")
        assert ranked(fresh)
        assert fresh.suggest("buy", state="paid")
    assert parts(tmp_path) == written


def test_runs_newer_than_a_file_are_added_to_it(memory: Memory, tmp_path: Path) -> None:
    assert "sing" not in dict(ranked(memory, "sing a song"))
    memory.close()
    with Memory.open(tmp_path / "runs.hepm", poll_s=60, speak="weighed") as elsewhere:
        elsewhere.ingest(trajectory(f"new {number}", "look", "sing", goal="sing a song") for number in range(12))
    with Memory.open(tmp_path / "runs.hepm", poll_s=60, speak="weighed") as fresh:
        fresh.prepare()
        fresh.refresh()
        assert ranked(fresh, "sing a song")[0][0] == "sing"


def test_a_run_with_the_row_number_of_a_forgotten_one_is_added_to_a_file(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert memory.suggest("buy", state="paid")
    memory.close()
    file = tmp_path / "runs.hepm"
    with Memory.open(file, poll_s=60, speak="weighed") as other:
        other.ingest(trajectory("old", "hum", "whistle", goal="hum"))
    with Memory.open(file, poll_s=60, speak="weighed") as other:
        assert "sing" not in after_look(other)
    monkeypatch.setattr(Artifacts, "drop", lambda self: None)  # as if killed right after the write
    with Memory.open(file, poll_s=60, speak="weighed") as other:
        other.forget(trajectory="old")
        other.ingest(trajectory("new", "look", "sing", goal="sing a song"))
    with Memory.open(file, poll_s=60, speak="weighed") as other:
        assert "sing" in after_look(other)


def test_a_file_loses_the_runs_of_a_tool_whose_outcome_was_corrected(memory: Memory, tmp_path: Path) -> None:
    assert ranked(memory)[0][0] == "refund"
    assert parts(tmp_path)
    memory.close()
    with Memory.open(tmp_path / "runs.hepm", poll_s=60, speak="weighed") as elsewhere:
        for number in range(1, 299, 2):
            elsewhere.label(f"r{number:04d}", success=False)
    with Memory.open(tmp_path / "runs.hepm", poll_s=60, speak="weighed") as fresh:
        assert "refund" not in dict(ranked(fresh))
