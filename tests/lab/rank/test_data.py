from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from hepm import Memory
from hepm.errors import InputError
from hepm.graph.rows import EdgeRow
from tests.lab.rank.conftest import runs
from tests.runs import trajectory

pytestmark = pytest.mark.xdist_group("torch")  # torch is loaded once


def equal(of: ModuleType, one: Any, other: Any) -> bool:
    """Whether two graphs hold the same in the same order."""
    pairs = list(zip(one.stores, other.stores, strict=True))
    return all(
        list(a) == list(b) and all(of.torch.equal(a[k], b[k]) if of.torch.is_tensor(a[k]) else a[k] == b[k] for k in a)
        for a, b in pairs
    )


def test_edges_are_those_of_the_mirror_and_calls_of_one_turn_have_none_between_them(of: ModuleType) -> None:
    with Memory.open() as desk:
        desk.ingest(trajectory(f"r{i}", "look", "pay+thank", "close", success=bool(i % 3)) for i in range(6))
        data, mirror = of.graph_data(desk.mirror(), desk.embedder), desk.mirror()
        edges = [EdgeRow(*row) for _, rows in sorted(mirror.all_rows().items()) for row in rows]
    names = data["tool"].name
    found = {(names[a], names[b]) for a, b in data[of.NEXT].edge_index.T.tolist()}
    assert found == {(edge.source, edge.target) for edge in edges}
    assert ("look", "thank") in found
    assert ("pay", "thank") not in found
    # Each edge was taken by 4 runs that succeeded, and by 2 that failed.
    assert data[of.NEXT].edge_attr.tolist() == [pytest.approx([np.log1p(4), 2 / 6])] * len(found)


def test_states_lie_between_the_tools_called_before_and_after_them(of: ModuleType, memory: Memory) -> None:
    data = of.graph_data(memory.mirror(), memory.embedder)
    names, states = data["tool"].name, len(data["state"].x)
    called = {(int(s), names[t]) for s, t in data[of.BEFORE].edge_index.T}
    after = {(int(s), names[t]) for s, t in data[of.AFTER].edge_index.T}
    assert {s for s, _ in called} == {s for s, _ in after} == set(range(states))
    assert {t for s, t in after if (s, "send_refund") in called} == {"look_up"}


def facts(of: ModuleType, data: Any, names: list[str]) -> dict[Any, Any]:
    """What a graph says, by names of tools, of.without runs and calls."""
    ends = data[of.NEXT].edge_index.T.tolist()
    edges = {(names[a], names[b]): about.tolist() for (a, b), about in zip(ends, data[of.NEXT].edge_attr, strict=True)}
    stats = {name: row.tolist() for name, row in zip(names, data["tool"].stats, strict=True)}
    won = data["run"].success[data["call"].run] if "call" in data.node_types else None
    states = set(range(len(data["state"].x))) if won is None else set(data["call"].state[won].tolist())
    known = {at: tuple(vector.tolist()) for at, vector in enumerate(data["state"].x) if at in states}
    pairs = [
        sorted((known[int(s)], names[t]) for s, t in data[kind].edge_index.T if int(s) in known)
        for kind in (of.BEFORE, of.AFTER)
    ]
    return {"edges": edges, "stats": stats, "states": sorted(known.values()), "pairs": pairs}


def test_a_graph_without_some_runs_is_that_of_a_memory_that_never_had_them(
    of: ModuleType, memory: Memory, tmp_path: Path
) -> None:
    data = of.graph_data(memory.mirror(), memory.embedder)
    held = of.torch.tensor([int(name.split()[1]) >= 15 for name in data["run"].id])
    with Memory.open(tmp_path / "smaller.hepm") as smaller:
        smaller.ingest(run for run in runs() if int(run.id.split()[1]) < 15)
        expected = of.graph_data(smaller.mirror(), smaller.embedder)
        assert sorted(expected["tool"].name) == sorted(data["tool"].name)
        assert facts(of, of.without(data, held), data["tool"].name) == facts(of, expected, expected["tool"].name)


def test_edges_are_drawn_evenly_where_there_are_more_than_asked_for(of: ModuleType, memory: Memory) -> None:
    data = of.graph_data(memory.mirror(), memory.embedder)
    none_held = of.torch.zeros(len(data["run"].id), dtype=of.torch.bool)
    whole, drawn = of.without(data, none_held), of.without(data, none_held, most_edges=5 * len(data["tool"].name))
    for kind in (of.NEXT, of.BEFORE, of.AFTER):
        before, after = (of.torch.bincount(graph[kind].edge_index[1], minlength=5) for graph in (whole, drawn))
        assert (after <= 5).all()
        assert (after[before > 0] > 0).all()
        assert len(drawn[kind].edge_index.unique(dim=1)[0]) == len(drawn[kind].edge_index[0])
    known = {tuple(vector.tolist()) for vector in data["state"].x}
    assert 0 < len(drawn["state"].x) < len(whole["state"].x) == len(known)
    other = of.without(data, none_held, most_edges=5 * len(data["tool"].name), seed=1)
    assert not equal(of, drawn, other)


def test_a_graph_of_few_tasks_is_not_trained_on(of: ModuleType, tmp_path: Path) -> None:

    with Memory.open(tmp_path / "few.hepm") as few:
        few.ingest([trajectory("a", "x", "y", task="1", goal="one"), trajectory("b", "x", "y", task="2", goal="two")])
        with pytest.raises(InputError, match="runs are of 2 tasks"):
            of.train(of.graph_data(few.mirror(), few.embedder))
