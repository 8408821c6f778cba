"""A write transaction of a server: the store's lock, its books, and statements in parts of a bearable size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hepm.cypher.statements import statement
from hepm.graph.neo4j.connection import rows_of
from hepm.graph.neo4j.names import uid
from hepm.graph.store import Counting

if TYPE_CHECKING:
    import neo4j

T = TypeVar("T")

ROWS: Final = 2_000
VECTOR_ROWS: Final = 500
"""Rows a statement: a thousand vectors of 512 floats are 4.7 MB on the wire."""


@dataclass(frozen=True, slots=True)
class Books:
    """What a transaction has to know of the memory, read under its lock."""

    embedder: str
    dimensions: int
    counting: Counting
    states_per_move: int
    revision: int


class Sender:
    """Sends statements about one namespace. Taking it takes the memory's write lock until the transaction ends."""

    def __init__(self, tx: neo4j.ManagedTransaction, namespace: str) -> None:
        self._tx = tx
        self.namespace = namespace
        self.space = uid(namespace)
        self.send("lock")
        ((embedder, dimensions, revision, counting, bound, *_),) = self.run("memory")
        self.books = Books(embedder, dimensions, "shortest" if counting == "shortest" else "all", bound, revision)

    def send(self, name: str, /, **values: object) -> neo4j.Result:
        """Send a named statement, and go on while the server is at it: errors come with its rows or the commit."""
        return self._tx.run(statement(name), values)

    def run(self, name: str, /, **values: object) -> list[tuple[Any, ...]]:
        """The rows of a named statement."""
        return rows_of(self.send(name, **values))

    def put(self, name: str, rows: Sequence[Any], /, *, size: int = ROWS, key: str = "rows", **values: object) -> None:
        """Send a named statement for some rows at a time."""
        for part in parts(rows, size):
            self.send(name, **{key: part}, **values)

    def ask(self, name: str, rows: Sequence[Any], /, *, size: int = ROWS, **values: object) -> list[tuple[Any, ...]]:
        """The rows that it gives for all of them."""
        # All are sent before the first answer is read: the server works while the next part is packed.
        asked = [self.send(name, rows=part, **values) for part in parts(rows, size)]
        return [row for result in asked for row in rows_of(result)]


def parts(rows: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Rows in statements of a bearable size."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
