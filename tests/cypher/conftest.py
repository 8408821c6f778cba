"""A driver to the session's Neo4j."""

from __future__ import annotations

from collections.abc import Iterator

import neo4j
import pytest

from tests.neo4j_server import Neo4jServer


@pytest.fixture(scope="session")
def driver(neo4j_server: Neo4jServer) -> Iterator[neo4j.Driver]:
    """Open for all tests of this room."""
    login = (neo4j_server.username, neo4j_server.password)
    with neo4j.GraphDatabase.driver(neo4j_server.uri, auth=login, notifications_min_severity="OFF") as opened:
        yield opened
