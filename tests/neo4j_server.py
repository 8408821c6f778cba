"""A real Neo4j for the tests: the one that NEO4J_URI names, else one that hepm starts for this session.

It fails where neither can be had; nothing is skipped. HEPM_TEST_NEO4J names the line of Neo4j to start.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from hepm.graph.neo4j_local import LocalServer

# The command line would speak of it where a test's store is not there.
_NAMED = os.environ.pop("NEO4J_URI", None)


@dataclass(frozen=True, slots=True)
class Neo4jServer:
    """Where a test finds Neo4j.

    Attributes:
        local: The server behind it, to be killed and started again by tests of faults; None where NEO4J_URI is set.
    """

    uri: str
    username: str
    password: str = field(repr=False)
    database: str
    local: LocalServer | None


@pytest.fixture(scope="session")
def neo4j_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neo4jServer]:
    """One server for all tests of a session; what a test leaves in it the next one finds."""
    if uri := _NAMED:
        yield Neo4jServer(
            uri,
            os.environ.get("NEO4J_USERNAME", "neo4j"),
            os.environ.get("NEO4J_PASSWORD", ""),
            os.environ.get("NEO4J_DATABASE", "neo4j"),
            None,
        )
        return
    server = LocalServer(tmp_path_factory.mktemp("neo4j"), os.environ.get("HEPM_TEST_NEO4J", "5.26"), say=print)
    try:
        server.start(timeout_s=240)  # an exception is a failure of every test that asked for it
        status = server.status()
        assert status.uri is not None
        yield Neo4jServer(status.uri, status.username, server.password, "neo4j", server)
    finally:
        server.stop()


def emptied(server: Neo4jServer) -> Neo4jServer:
    """The server without the memory that another test left in it; its indexes stay."""
    import neo4j

    with (
        neo4j.GraphDatabase.driver(server.uri, auth=(server.username, server.password)) as driver,
        driver.session(database=server.database) as session,
    ):
        session.run("MATCH (n) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 500 ROWS").consume()
    return server
