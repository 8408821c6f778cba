"""What a database must do for a store of the tool graph.

All methods see nothing outside their namespace, and are safe to call from several threads; a read never waits for a
write. Every store passes tests/graph/test_store_contract.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from hepm.graph.rows import Float32Array, Header, Row, StateBatch, Vectors
from hepm.graph.transaction import Transaction
from hepm.types import ToolName

if TYPE_CHECKING:
    from hepm.cypher.model import Result

T = TypeVar("T")


class Backend(ABC):
    """The operations that a store on top of a database implements (see `hepm.graph.store.Store`).

    Reads are statements by name, in `sqlite/queries.sql` and `cypher/store/`; both return the same columns.

    Attributes:
        remote: Whether it may become unreachable while a process runs: mirrors then read it whole when they open.
        runs_a_batch: Runs per transaction: enough that its own cost is small.
    """

    remote: ClassVar[bool]
    runs_a_batch: ClassVar[int]

    @property
    @abstractmethod
    def header(self) -> Header:
        """Read from the store on each access."""

    @property
    @abstractmethod
    def secret(self) -> str:
        """A random text of this store that no client knows; made when it is first asked for, and then kept."""

    @property
    @abstractmethod
    def upgraded_from(self) -> int:
        """The schema version that an upgrade began with; 0 if there was none, or it is settled."""

    @abstractmethod
    def settle_upgrade(self) -> None:
        """Note that what derives from the records is right after an upgrade."""

    @abstractmethod
    def write(
        self, namespace: str, work: Callable[[Transaction], T], *, embedder: str | None = None, vectors: Vectors = ()
    ) -> T:
        """Run work in one write transaction: all of it is stored, or nothing. A server may run it again.

        Raises:
            EmbedderMismatchError: the store holds another embedder's vectors by now, or vectors of another size.
        """

    @abstractmethod
    def read(self, name: str, /, *, namespace: str, **values: Any) -> list[Row]:
        """The rows of a named statement."""

    @abstractmethod
    def iterate(self, name: str, /, *, namespace: str, **values: Any) -> Iterator[Sequence[Any]]:
        """The rows of a named statement; lazy."""

    @abstractmethod
    def ask(self, text: str, parameters: Mapping[str, Any], *, timeout_s: float, limit: int) -> Result:
        """Run a user's Cypher query that only reads (see `hepm.cypher.engines`), in the dialect of the backend.

        Raises:
            QueryError: it would write, takes too long, or is no Cypher.
            MissingExtraError: the embedded engine is not installed.
        """

    @abstractmethod
    def write_all(self, work: Callable[[Callable[[str], Transaction]], T]) -> T:
        """Run work on any namespaces in one write transaction, opened by their names. A server may run it again."""

    @abstractmethod
    def states_after(self, tool: ToolName, *, namespace: str, newer_than: int = 0) -> StateBatch:
        """States of successful runs whose sources hold `tool` and whose id is above `newer_than`, by id."""

    def damage(self) -> list[str]:
        """Sentences on what a file holds that its tables refuse; records are left out."""
        return []

    @abstractmethod
    def close(self) -> None:
        """Release the store; safe to call twice."""

    @abstractmethod
    def near(self, vector: Float32Array, namespace: str, limit: int) -> list[Row]:
        """Rows of embedded states by id, with the nearest `limit` among them."""
