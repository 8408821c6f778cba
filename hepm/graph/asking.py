"""Cypher on a Neo4j server, for somebody who asks; `hepm.graph.cypher_copy` does it for an embedded store."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from hepm.errors import MissingExtraError, QueryError
from hepm.graph.login import Login

if TYPE_CHECKING:
    import neo4j

    from hepm.cypher.result import Result


class Ask(Protocol):
    """Runs a query and takes so many rows of it."""

    def __call__(
        self, text: str, parameters: Mapping[str, Any], *, timeout_s: float = 30.0, limit: int = 10_000
    ) -> Result:
        """See `hepm.cypher.projection.Projection.ask` and `hepm.cypher.guard`."""
        ...


class Server:
    """A Neo4j server, for a user who asks."""

    def __init__(self, driver: neo4j.Driver, login: Login) -> None:
        self._driver = driver
        self._login = login

    def ask(self, text: str, parameters: Mapping[str, Any], *, timeout_s: float = 30.0, limit: int = 10_000) -> Result:
        """Run a query that only reads."""
        from hepm.cypher.guard import ask_server

        with _guarded(self._login):
            return ask_server(self._driver, self._login.database, text, parameters, timeout_s=timeout_s, limit=limit)

    def change(
        self, text: str, parameters: Mapping[str, Any], *, timeout_s: float = 30.0, limit: int = 10_000
    ) -> Result:
        """Run any statement."""
        from hepm.cypher.guard import change_server

        with _guarded(self._login):
            return change_server(self._driver, self._login.database, text, parameters, timeout_s=timeout_s, limit=limit)


@contextlib.contextmanager
def open_server(address: str) -> Generator[Server]:
    """The server at an address; NEO4J_USERNAME, NEO4J_PASSWORD and NEO4J_DATABASE say who asks."""
    try:
        import neo4j
    except ImportError as error:
        raise MissingExtraError("a store in Neo4j needs its driver: pip install 'hepm[neo4j]'") from error
    login = Login.from_environment(address)
    with _guarded(login):
        driver = neo4j.GraphDatabase.driver(  # pyright: ignore[reportUnknownMemberType]
            login.uri,
            auth=(login.username, login.password),
            connection_timeout=4.0,
            notifications_min_severity="OFF",
            user_agent="hepm",
        )
    with driver:
        with _guarded(login):
            driver.verify_connectivity()  # pyright: ignore[reportUnknownMemberType]
        yield Server(driver, login)


@contextlib.contextmanager
def _guarded(login: Login) -> Generator[None]:
    from neo4j.exceptions import DriverError, Neo4jError

    from hepm.graph.neo4j.connection import explain

    try:
        yield
    except QueryError:
        raise
    except (DriverError, Neo4jError, OSError, ValueError) as error:
        raise explain(error, login) from error
