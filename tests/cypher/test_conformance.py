"""Both engines against a plain Python reference, on 200 random graphs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import neo4j
import pytest

from hepm.cypher.projection import open_projection
from tests.cypher.engines import Both, as_set, clear_server, fresh, load_server
from tests.cypher.random_graphs import QUERIES, Graph, random_graph, tables_of
from tests.neo4j_server import Neo4jServer

GRAPHS = 200


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    prefix = fresh("random")
    return [random_graph(f"{prefix}-{seed}", seed) for seed in range(GRAPHS)]


@pytest.fixture(scope="module")
def both(
    graphs: list[Graph], driver: neo4j.Driver, neo4j_server: Neo4jServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    tables = tables_of(graphs)
    folder: Path = tmp_path_factory.mktemp("copies")
    load_server(driver, neo4j_server.database, tables)
    with open_projection([folder], lambda: "random graphs", lambda: tables) as copy:
        yield Both(copy, driver, neo4j_server.database)
    clear_server(driver, neo4j_server.database, [graph.namespace for graph in graphs])


def without_order(rows: Any) -> list[str]:
    """Lists that were collected have no order of their own; ways have, and begin with a tool."""
    return as_set(
        [sorted(v, key=repr) if isinstance(v, list) and not str(v[:1]).startswith("['t") else v for v in row]
        for row in rows
    )  # fmt: skip


@pytest.mark.parametrize("reference", QUERIES, ids=lambda function: function.__name__)
def test_both_engines_answer_as_the_reference_does(reference: Any, both: Both, graphs: list[Graph]):
    collected = reference.__name__ == "optional"
    for graph in graphs:
        expected = [_sorted(row) if collected else row for row in reference(graph)]
        for answer in both.ask(QUERIES[reference], {"namespace": graph.namespace}):
            rows = [_sorted(row) if collected else row for row in answer.rows]
            assert without_order(rows) == without_order(expected), (graph, answer.columns)


def _sorted(row: Any) -> list[Any]:
    return [sorted(value) if isinstance(value, list) else value for value in row]


def test_the_random_graphs_hold_what_tells_the_engines_apart(graphs: list[Graph]):
    assert sum(any(e.source == e.target for e in graph.edges) for graph in graphs) > 50
    assert sum(len(list(graph.trails(next(iter(graph.calls)), 3, 3))) > 10 for graph in graphs) > 5
    assert sum(not graph.edges for graph in graphs) > 5
    assert sum(any(len(one.parents) > 1 for one in graph.lessons) for graph in graphs) > 20
    assert sum(not graph.lessons for graph in graphs) > 5
