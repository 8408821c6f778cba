"""What a large store costs to read: statements and memory that do not grow with what need not be read."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import networkx as nx
import pytest

from hepm import Memory
from hepm.graph.sqlite import SQLiteStore
from hepm.graph.sqlite.connection import load_statements
from hepm.web.graph_page import read_graph
from tests.runs import trajectory


def fill(path: Path, runs: int, tools: int) -> Memory:
    """A memory of runs that walk through the tools in steps of different length."""
    memory = Memory(SQLiteStore(path / "memory.hepm"))
    memory.ingest(
        trajectory(f"{at:05}", *(f"t{(at + step * (1 + at % 5)) % tools}" for step in range(4)), success=at % 3 > 0)
        for at in range(runs)
    )
    return memory


def statements_of(memory: Memory) -> list[str]:
    """The statements that the page sends."""
    store = memory.mirror().store
    assert isinstance(store, SQLiteStore)
    with store._connections.reading() as connection:
        sent: list[str] = []
        connection.set_trace_callback(sent.append)
        read_graph(memory.graph(), evidence=memory.mirror().evidence_of, outcomes=(0, 0))
        connection.set_trace_callback(None)
    return sent


def test_a_page_of_many_edges_takes_as_many_statements_as_one_of_few(tmp_path: Path) -> None:
    few, many = (tmp_path / name for name in ("few", "many"))
    few.mkdir()
    many.mkdir()
    with fill(few, 20, 10) as small, fill(many, 400, 60) as large:
        assert len(statements_of(large)) == len(statements_of(small))
        assert len(large.graph().edges) > 5 * len(small.graph().edges)


def test_of_too_many_edges_each_tool_keeps_its_strongest_and_the_page_says_how_many_are_left_out(
    tmp_path: Path,
) -> None:
    with fill(tmp_path, 300, 60) as memory:
        graph = nx.DiGraph(memory.graph())
        content = read_graph(graph, evidence=None, outcomes=(0, 0), most=15)
        among = {tool["name"] for tool in content["tools"]}
        assert content["counts"].endswith("(45 more tools left out)")
        graph.add_weighted_edges_from(
            [(a, b, 0.0) for a in among for b in among if not graph.has_edge(a, b)], support=0, failures=0
        )
        for *_, edge in graph.edges(data=True):
            edge.setdefault("failure_share", 0.0)
        full = read_graph(graph, evidence=None, outcomes=(0, 0), most=15)
        assert len(full["edges"]) == 240  # fifteen of each tool
        assert full["counts"].endswith(f" (45 more tools and {len(among) ** 2 - 240} weaker edges left out)")
        assert {edge["source"] for edge in full["edges"]} == {edge["target"] for edge in full["edges"]} == {*range(16)}


@pytest.mark.exhaustive  # counting its memory takes long
def test_the_memory_of_an_examination_does_not_grow_with_the_runs(tmp_path: Path) -> None:
    peaks: list[int] = []
    for runs in (600, 2_000):
        folder = tmp_path / str(runs)
        folder.mkdir()
        with fill(folder, runs, 12) as memory:
            tracemalloc.start()
            assert memory.examine() == []
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (
            "UPDATE state SET summary = summary || 'x' WHERE id = (SELECT max(id) FROM state WHERE summary > '')",
            "1 state differs",
        ),
        ("UPDATE state SET count = count + 1 WHERE summary IS NULL", "states differ"),
    ],
)
def test_of_a_move_with_many_states_the_texts_of_the_latest_and_the_counts_of_all_are_compared(
    tmp_path: Path, damage: str, named: str
) -> None:
    store = SQLiteStore(tmp_path / "memory.hepm", states_per_move=3)
    words = [first + second * 3 for first in "abcdef" for second in "ghijkl"]
    with Memory(store) as memory:
        memory.ingest(trajectory(word, "a", "b", goal=f"a {word}", ended_at=float(ord(word[0]))) for word in words)
        assert memory.examine() == []
        with store._connections.writing() as database:
            database.execute(damage)
        assert any(named in finding.what for finding in memory.examine())


def test_counts_of_a_store_are_read_from_indexes_alone(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "memory.hepm")
    with store._connections.reading() as database:
        plan = database.execute(
            "EXPLAIN QUERY PLAN " + load_statements()["totals"], {"namespace": "default"}
        ).fetchall()
    steps = [step[-1] for step in plan]
    assert any("trajectory USING COVERING INDEX trajectory_outcome" in step for step in steps)
    assert any("state USING INDEX state_kept" in step for step in steps)
    store.close()
