"""`Memory.graph`: what Cypher says of the same memory, as a graph of NetworkX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from hepm import START, Memory, Tool
from tests.runs import trajectory

NOT_HERE = {"namespace", "record", "states", "summaries"}
"""Properties of the graph model that the graph leaves out."""


def taught(memory: Memory) -> Memory:
    """With a tool of two names, a retired and an uncalled one."""
    memory.ingest(
        [
            trajectory("won", "look", "look", "buy", user="ann", goal="I know what I want"),
            trajectory("also", "look", "buy", user="bob", goal="something else"),
            trajectory("lost", "see", "drop", success=False, user="ann"),
            trajectory("open", "look", success=None),
        ]
    )
    described = [Tool("look", "Looks.", {"type": "object"}), Tool("unused", "Nobody calls it.")]
    memory.mirror().store.describe(described, namespace="default")
    memory.tools.add_alias("see", "look")
    memory.tools.retire("drop")
    memory.refresh()
    return memory


def told(properties: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in properties.items() if name not in NOT_HERE}


def test_nodes_and_edges_are_those_that_cypher_finds_in_the_same_memory(memory: Memory) -> None:
    graph = taught(memory).graph()
    nodes: dict[str, dict[str, Any]] = {}
    for (node,) in memory.cypher("MATCH (n:Tool {namespace: $namespace}) RETURN n").rows:
        properties = told(node["properties"])  # type: ignore[index]
        nodes[properties["name"]] = {"label": "Tool", **properties}
    del nodes["unused"]
    edges: dict[tuple[str, str], dict[str, Any]] = {}
    found = memory.cypher("MATCH (a:Tool {namespace: $namespace})-[r:NEXT]->(b) RETURN a.name, r, b.name")
    for source, edge, target in found.rows:
        edges[source, target] = {"type": "NEXT", **told(edge["properties"])}  # type: ignore[index]
    for known in nodes.values():
        if "aliases" in known:
            known["aliases"] = tuple(known["aliases"])
    assert {node: dict(known) for node, known in graph.nodes(data=True)} == nodes
    assert {(a, b): dict(known) for a, b, known in graph.edges(data=True)} == edges


def test_a_graph_is_its_caller_s_own_and_the_next_one_has_what_came_also_of_another_process(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory, Memory.open(tmp_path) as another:
        memory.ingest([trajectory("r1", "look", "buy"), trajectory("r2", "sell", "count")])
        former = memory.graph()
        former.remove_edge("sell", "count")
        another.ingest([trajectory("r3", "look", "leave")])
        memory.refresh()
        now = memory.graph()
        assert not former.has_node("leave")
        assert now.edges["look", "leave"]["support"] == 1
        assert now.edges["look", "buy"]["weight"] == pytest.approx(0.5)
        assert now.has_edge("sell", "count")
        another.forget(trajectory="r3")
        another.forget(trajectory="r2")
        memory.refresh()
        fresh = memory.graph()
        assert set(fresh) == {START, "look", "buy"}
        assert nx.utils.graphs_equal(fresh, another.graph())
        assert memory.graph(c=0).edges["look", "buy"]["weight"] == 1


def test_a_graph_of_tools_is_written_as_graphml_and_read_back(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest([trajectory("r1", "look", "buy")])
        nx.write_graphml_xml(memory.graph(), tmp_path / "graph.xml")
        read = nx.read_graphml(tmp_path / "graph.xml")
        assert (dict(read.nodes(data=True)), dict(read.adj)) == (
            dict(memory.graph().nodes(data=True)),
            dict(memory.graph().adj),
        )
