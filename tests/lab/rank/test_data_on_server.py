"""The graph of a memory in Neo4j. The other tests of rankers run in a process that has no server."""

from __future__ import annotations

from types import ModuleType

import pytest

from hepm import Memory
from tests.lab.rank.conftest import runs
from tests.lab.rank.test_data import equal
from tests.neo4j_server import Neo4jServer, emptied


@pytest.mark.soak  # it alone would load torch, five seconds, in the process that has the server
def test_the_graph_read_from_neo4j_equals_the_embedded_one(
    of: ModuleType, memory: Memory, neo4j_server: Neo4jServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptied(neo4j_server)
    monkeypatch.setenv("NEO4J_USERNAME", neo4j_server.username)
    monkeypatch.setenv("NEO4J_PASSWORD", neo4j_server.password)
    with Memory.open(neo4j_server.uri) as server:
        server.ingest(runs())
        assert equal(
            of, of.graph_data(server.mirror(), server.embedder), of.graph_data(memory.mirror(), memory.embedder)
        )
