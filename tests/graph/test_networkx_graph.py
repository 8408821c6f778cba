"""`Memory.graph`: what Cypher says of the same memory, as a graph of NetworkX."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from hepm import START, Memory, Tool
from hepm.cypher.model import TABLES
from hepm.errors import InputError
from hepm.experience.lessons import Notes
from hepm.graph.lessons.rows import Parent, Uses
from hepm.graph.mirror.networkx_graph import GRAPH_LABELS
from tests.graph.test_lesson_contract import experience, principle, put
from tests.runs import trajectory

NOT_HERE = {"namespace", "record", "states", "summaries"}
"""Properties of the graph model that the graph leaves out."""


def taught(memory: Memory) -> Memory:
    """With a tool of two names, a retired and an uncalled one, and lessons of each kind with their parents."""
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
    first = replace(experience("ask first", "won").row(), prior=Uses(3, 2, 1))
    evolved = replace(experience("ask first, and wait", "won").row(), parents=(Parent(first.id, "mutation"),))
    notes = [Notes("ann", "- short answers").row(), Notes("ann", "- long answers", version=2).row()]
    about_an_alias = replace(principle("Look before you buy.", "won").row(), tools=("see", "gone"))
    put(memory.mirror().store, first, evolved, about_an_alias, *notes, namespace="default")
    memory.refresh()
    return memory


def key_of(node: Any) -> Any:
    (label,), properties = node["labels"], node["properties"]
    return properties["name"] if label == "Tool" else (label, properties["id"])


def told(properties: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in properties.items() if name not in NOT_HERE}


def plain(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in attributes.items()}


def test_nodes_and_edges_are_those_that_cypher_finds_in_the_same_memory(memory: Memory) -> None:
    graph = taught(memory).graph(labels=GRAPH_LABELS)
    nodes: dict[Any, Any] = {}
    edges: dict[Any, dict[str, Any]] = {}
    for label in GRAPH_LABELS:
        for (node,) in memory.cypher(f"MATCH (n:{label} {{namespace: $namespace}}) RETURN n").rows:
            nodes[key_of(node)] = {"label": label, **told(node["properties"])}  # type: ignore[index]
    del nodes["unused"]
    for type in ("NEXT", "AFTER", "BEFORE", "ABOUT", "EVOLVED_FROM", "REVISES"):
        sources = "|".join(dict.fromkeys(table.ends[0] for table in TABLES if table.name == type and table.ends))
        found = memory.cypher(f"MATCH (a:{sources} {{namespace: $namespace}})-[r:{type}]->(b) RETURN a, r, b")
        for a, r, b in found.rows:
            edge = edges.setdefault((key_of(a), key_of(b)), told(r["properties"]))  # type: ignore[index]
            edge["type"] = f"{edge['type']}|{type}" if "type" in edge else type
    assert {node: plain(known) for node, known in graph.nodes(data=True)} == nodes
    assert {(a, b): dict(known) for a, b, known in graph.edges(data=True)} == edges
    assert {known["type"] for known in edges.values()} >= {"NEXT", "AFTER|BEFORE", "ABOUT", "EVOLVED_FROM", "REVISES"}


def test_networkx_finds_the_way_that_runs_succeeded_on(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        graph = taught(memory).graph()
        succeeded = nx.shortest_path(graph, START, "buy", lambda a, b, edge: 1 if edge["support"] else None)
        assert succeeded == [START, "look", "buy"]
        with pytest.raises(nx.NetworkXNoPath):
            nx.shortest_path(graph, START, "drop", lambda a, b, edge: 1 if edge["support"] else None)


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


@pytest.mark.parametrize("labels", ["Tool", ["Tol"], ["Tool", "Trajectory"]])
def test_labels_that_no_node_has_are_refused_with_those_that_nodes_have(tmp_path: Path, labels: Any) -> None:
    with Memory.open(tmp_path) as memory, pytest.raises(InputError, match="Tool, State, Experience, Principle, Notes"):
        memory.graph(labels=labels)


def test_a_graph_of_tools_is_written_as_graphml_and_read_back(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest([trajectory("r1", "look", "buy")])
        nx.write_graphml_xml(memory.graph(), tmp_path / "graph.xml")
        read = nx.read_graphml(tmp_path / "graph.xml")
        assert (dict(read.nodes(data=True)), dict(read.adj)) == (
            dict(memory.graph().nodes(data=True)),
            dict(memory.graph().adj),
        )
