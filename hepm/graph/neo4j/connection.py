"""One driver a store: sessions that see what they wrote, managed transactions, and errors turned into ours."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hepm.cypher.statements import statement
from hepm.errors import (
    HepmError,
    MissingExtraError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
    StoreVersionError,
)
from hepm.graph.login import Login
from hepm.graph.store import no_text

if TYPE_CHECKING:
    import neo4j

T = TypeVar("T")

OLDEST: Final = (5, 23)
"""The first server whose Cypher has all that the statements use."""

PROBE_S: Final = 4.0
RETRY_S: Final = 30.0
"""How long a transaction is tried again after errors that pass: deadlocks, a leader that moved."""


class Connection:
    """The way to one database of a server. It may be shared between threads.

    Raises:
        StoreUnavailableError, StoreAccessError, StoreVersionError: one sentence each, within five seconds.
        MissingExtraError: the driver is not installed.
    """

    def __init__(self, login: Login) -> None:
        try:
            import neo4j
        except ImportError as error:
            raise MissingExtraError(
                "a memory in Neo4j needs its driver: pip install 'hepm[neo4j-fast]', or 'hepm[neo4j]' in plain Python"
            ) from error
        self.login = login
        with self._reaching():
            self.driver: neo4j.Driver = neo4j.GraphDatabase.driver(  # pyright: ignore[reportUnknownMemberType]
                login.uri,
                auth=(login.username, login.password),
                connection_timeout=PROBE_S,
                connection_acquisition_timeout=PROBE_S,
                max_transaction_retry_time=RETRY_S,
                notifications_min_severity="OFF",
                user_agent="hepm",
            )
            # Shared by all sessions: what one wrote the next one reads, on any member of a cluster.
            self._bookmarks = neo4j.GraphDatabase.bookmark_manager()
            try:
                self._probe()
            except BaseException:
                self.driver.close()
                raise

    def _probe(self) -> None:
        # Without it a dead server is noticed only after the whole time of retrying.
        self.driver.verify_connectivity()  # pyright: ignore[reportUnknownMemberType]
        info = self.driver.get_server_info()  # pyright: ignore[reportUnknownMemberType]
        check_version(info.agent, self.login.uri)

    @contextlib.contextmanager
    def guarded(self) -> Generator[None]:
        """The driver's errors leave as ours, each with what to do."""
        from neo4j.exceptions import DriverError, Neo4jError

        try:
            yield
        except HepmError:
            raise
        except UnicodeEncodeError as error:
            raise no_text(error) from error
        except (DriverError, Neo4jError) as error:
            raise explain(error, self.login) from error

    @contextlib.contextmanager
    def _reaching(self) -> Generator[None]:
        try:
            with self.guarded():
                yield
        except HepmError:
            raise
        except (OSError, ValueError) as error:  # the address cannot be looked up, or is none
            raise StoreUnavailableError(
                f"{self.login.uri} cannot be reached ({error}). Check the address of the server."
            ) from error

    def check(self) -> None:
        """Fail at once where the server is gone: a managed transaction would go on trying for half a minute."""
        with self._reaching():
            self.driver.verify_connectivity()  # pyright: ignore[reportUnknownMemberType]

    def write(self, work: Callable[[neo4j.ManagedTransaction], T]) -> T:
        """Run one write transaction, again where the server says so: `work` must bear being called twice."""
        with self.guarded(), self._session("WRITE") as session:
            return session.execute_write(work)

    def read(self, name: str, /, **values: object) -> list[tuple[Any, ...]]:
        """The rows of one reading statement of the store."""
        return self.read_text(statement(name), values)

    def read_text(self, text: Any, values: dict[str, object]) -> list[tuple[Any, ...]]:
        """The rows of one reading statement."""

        def work(tx: neo4j.ManagedTransaction) -> list[tuple[Any, ...]]:
            return rows_of(tx.run(text, values))

        with self.guarded(), self._session("READ") as session:
            return session.execute_read(work)

    def iterate(self, name: str, /, **values: object) -> Iterator[tuple[Any, ...]]:
        """The same, row by row."""
        with self.guarded(), self._session("READ") as session:
            for record in session.run(statement(name), values):
                yield tuple(record.values())

    def run_alone(self, name: str, /) -> None:
        """Run a statement that makes its own transactions."""
        self.change_schema(statement(name))

    def change_schema(self, text: Any, **values: object) -> None:
        """Run a statement on indexes or constraints, which share no transaction with data."""
        with self.guarded(), self._session("WRITE") as session:
            session.run(text, values).consume()

    def _session(self, mode: str) -> neo4j.Session:
        self.check()
        return self.driver.session(  # pyright: ignore[reportUnknownMemberType]
            database=self.login.database, default_access_mode=mode, bookmark_manager=self._bookmarks, fetch_size=5000
        )

    def close(self) -> None:
        """Release the connections; safe to call twice."""
        self.driver.close()


def rows_of(result: neo4j.Result) -> list[tuple[Any, ...]]:
    """All rows, as plain tuples."""
    return [tuple(record.values()) for record in result]


def check_version(agent: str, uri: str) -> None:
    """Refuse a server that is too old; one that does not tell its version is taken."""
    if (version := version_of(agent)) is not None and version < OLDEST:
        raise StoreVersionError(
            f"{uri} runs {agent}, and hepm needs Neo4j {OLDEST[0]}.{OLDEST[1]} or newer: upgrade it, or start one "
            "beside it with `hepm neo4j start`."
        )


def version_of(agent: str) -> tuple[int, int] | None:
    """5.26 of "Neo4j/5.26.30"; None where a server does not say so."""
    match = re.search(r"/(\d+)\.(\d+)", agent)
    return (int(match[1]), int(match[2])) if match else None


def explain(error: Exception, login: Login) -> StoreError:
    """A driver's error as one sentence that says what to do; it never holds the password."""
    where, code = login.uri, str(getattr(error, "code", None) or "")
    said = (getattr(error, "message", None) or str(error) or type(error).__name__).splitlines()[0][:300].rstrip(": ")
    for kind, is_meant, sentence in _SENTENCES:
        if is_meant(type(error).__name__, code, said):
            values = {"where": where, "said": said, "user": login.username, "database": login.database}
            return kind(sentence.format_map(values))
    return StoreError(f"{where}: {said}" + (f" [{code}]" if code else ""))


# What a server says of a database that it is still opening, or closing.
_STARTING: Final = ("Neo.TransientError.General.Database", "Neo.TransientError.Database.")

_SENTENCES: Final[tuple[tuple[type[StoreError], Callable[[str, str, str], bool], str], ...]] = (
    (
        StoreAccessError,
        lambda name, code, said: "RateLimit" in code,
        "{where} refuses {user!r} for a while after too many wrong passwords: wait, then check NEO4J_PASSWORD.",
    ),
    (
        StoreAccessError,
        lambda name, code, said: name == "AuthError" or code.startswith("Neo.ClientError.Security"),
        "{where} does not let {user!r} in: check NEO4J_USERNAME and NEO4J_PASSWORD.",
    ),
    (
        StoreError,
        lambda name, code, said: code.startswith("Neo.ClientError.Database."),
        "{where} has no database {database!r}: name another one by NEO4J_DATABASE, or leave it out.",
    ),
    (
        StoreUnavailableError,
        lambda name, code, said: name == "ConfigurationError",
        "{where} is no address that can be used ({said}): write it like neo4j://localhost:7687.",
    ),
    (
        StoreUnavailableError,
        lambda name, code, said: name in _GONE or code.startswith(_STARTING),
        "no answer from {where} ({said}). Check that Neo4j is running there, start one with `hepm neo4j start`, or "
        "name a file as the store to work without a server.",
    ),
    (
        StoreError,
        lambda name, code, said: "OutOfMemory" in code or "MemoryPool" in code or "memory pool" in said,
        "{where} has too little memory for this ({said}). Nothing of it was stored; give the server a larger heap.",
    ),
    (
        StoreError,
        lambda name, code, said: "ReadOnly" in code or "NotALeader" in code,
        "{where} takes no writes ({said}): in a cluster name it by neo4j://, which finds the member that does.",
    ),
)
_GONE: Final = (
    "ServiceUnavailable", "SessionExpired", "IncompleteCommit", "WriteServiceUnavailable", "ReadServiceUnavailable",
)  # fmt: skip
