"""Edges painted for Neo4j Browser: a picture beside the graph, that nothing else reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hepm.cypher.statements import statement
from hepm.graph.login import Login
from hepm.graph.neo4j.connection import Connection, rows_of

if TYPE_CHECKING:
    import neo4j


def paint(login: Login, *, namespace: str) -> int:
    """Paint the edges of a namespace anew, in one transaction; how many there are.

    See `hepm/cypher/browser/paint.cypher` for the types and what they mean.
    """
    return _run(login, namespace, "clear_paint", "paint")


def clear_paint(login: Login, *, namespace: str) -> int:
    """Remove what was painted of a namespace; how many edges there were."""
    return _run(login, namespace, "clear_paint")


def _run(login: Login, namespace: str, *names: str) -> int:
    def work(tx: neo4j.ManagedTransaction) -> int:
        tx.run(statement("lock")).consume()  # else it and a writer could wait for each other
        rows = [rows_of(tx.run(statement(name, "browser"), namespace=namespace)) for name in names]
        return rows[-1][0][0]

    connection = Connection(login)
    try:
        return connection.write(work)
    finally:
        connection.close()
