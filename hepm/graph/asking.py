"""Cypher on a Neo4j server, for somebody who asks; `hepm.graph.cypher_copy` does it for an embedded store."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from hepm.graph.login import Login

if TYPE_CHECKING:
    from hepm.cypher.model import Result
    from hepm.graph.neo4j.connection import Connection


class Ask(Protocol):
    """Runs a query and takes so many rows of it."""

    def __call__(
        self, text: str, parameters: Mapping[str, Any], *, timeout_s: float = 30.0, limit: int = 10_000
    ) -> Result:
        """See `hepm.cypher.projection.Projection.ask` and `hepm.cypher.guard`."""
        ...


class Server:
    """A Neo4j server, for a user who asks."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def ask(self, text: str, parameters: Mapping[str, Any], *, timeout_s: float = 30.0, limit: int = 10_000) -> Result:
        """Run a query that only reads."""
        from hepm.cypher.guard import ask_server

        with self._connection.guarded():
            return ask_server(*self._where, text, parameters, timeout_s=timeout_s, limit=limit)

    def change(
        self, text: str, parameters: Mapping[str, Any], *, timeout_s: float = 30.0, limit: int = 10_000
    ) -> Result:
        """Run any statement."""
        from hepm.cypher.guard import ask_server

        with self._connection.guarded():
            return ask_server(*self._where, text, parameters, timeout_s=timeout_s, limit=limit, write=True)

    @property
    def _where(self) -> tuple[Any, str]:
        return self._connection.driver, self._connection.login.database


@contextlib.contextmanager
def open_server(address: str) -> Generator[Server]:
    """The server at an address; NEO4J_USERNAME, NEO4J_PASSWORD and NEO4J_DATABASE say who asks."""
    from hepm.graph.neo4j.connection import Connection

    connection = Connection(Login.from_environment(address))
    try:
        yield Server(connection)
    finally:
        connection.close()
