"""The way to a server: sessions that see what they wrote, managed transactions, and errors turned into ours."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np

from hepm.cypher import statement
from hepm.errors import (
    HepmError,
    MissingExtraError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
    StoreVersionError,
)
from hepm.graph.delta import StateMove, StatePlace
from hepm.graph.neo4j.login import Login
from hepm.graph.rows import Float32Array, Row, Values, no_text
from hepm.types import START

if TYPE_CHECKING:
    import neo4j
    from hepm.cypher.model import Result

T = TypeVar("T")

OLDEST: Final = (5, 23)  # the first server whose Cypher has all that the statements use
PROBE_S: Final = 4.0  # for a connection; five seconds with what else it takes
ROWS: Final = 2_000  # per statement, of numbers and short texts
VECTOR_ROWS: Final = 500
"""Rows per statement: a thousand vectors of 512 floats are 4.7 MB on the wire."""
BYTES: Final = 4 << 20
"""Of texts and vectors per statement, more only in a single row: a server unpacks a whole message into its heap."""


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
                max_transaction_retry_time=30.0,  # after errors that pass: deadlocks, a leader that moved
                notifications_min_severity="OFF",
                user_agent="hepm",
            )
            # Shared by all sessions: what one wrote the next one reads, on any member of a cluster.
            self._bookmarks = neo4j.GraphDatabase.bookmark_manager()
            try:
                # Otherwise a dead server is noticed only after the whole time of retrying.
                self.driver.verify_connectivity()  # pyright: ignore[reportUnknownMemberType]
                info = self.driver.get_server_info()  # pyright: ignore[reportUnknownMemberType]
                check_version(info.agent, self.login.uri)
            except BaseException:
                self.driver.close()
                raise

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

    def write(self, work: Callable[[neo4j.ManagedTransaction], T]) -> T:
        """Run one write transaction, again after errors that pass; not after a commit that was not confirmed."""
        with self.guarded(), self._session("WRITE") as session:
            return session.execute_write(work)

    def execute(self, name: str, /, **values: object) -> None:
        """Run a named statement that gives no rows, in a transaction of its own."""
        self.write(lambda tx: tx.run(statement(name), values).consume())

    def read(self, name: str, folder: str = "store", /, *, newest: bool = False, **values: object) -> list[Row]:
        """The rows of a named statement that only reads.

        Args:
            newest: Ask the member of a cluster that takes the writes; later reads, by any member, see no older state.
        """
        from neo4j.exceptions import DriverError, Neo4jError

        text = statement(name, folder)
        mode = "WRITE" if newest else "READ"
        with self.guarded():
            try:  # without a transaction around it a statement takes one round trip, not four
                with self._new_session(mode) as session:
                    return rows_of(session.run(text, values))
            except (DriverError, Neo4jError) as error:
                if not error.is_retryable():
                    raise
            with self._session(mode) as session:
                again = session.execute_write if newest else session.execute_read
                return again(lambda tx: rows_of(tx.run(text, values)))

    def iterate(self, name: str, /, **values: object) -> Iterator[Row]:
        """The same, row by row."""
        with self.guarded(), self._session("READ") as session:
            for record in session.run(statement(name), values):
                yield tuple(record.values())

    def change_schema(self, text: Any, **values: object) -> None:
        """Run a statement on indexes or constraints. Other processes may run the same at the same time."""
        from neo4j.exceptions import ClientError

        try:
            self.write(lambda tx: tx.run(text, values).consume())
        except StoreError as error:  # two that create it at once both find that it does not exist
            cause = error.__cause__
            if not (isinstance(cause, ClientError) and str(cause.code).endswith("AlreadyExists")):
                raise

    def index_vectors(self, dimensions: int) -> None:
        """Make the indexes of vectors, and make those of other dimensions anew; none for 0."""
        # A change of the schema makes the server plan every statement again: not without need.
        stored = dict(self.read("find_embeddings", "schema"))
        if not dimensions:
            return
        for name in ("state_embedding", "lesson_embedding"):
            if stored.get(name) == dimensions:
                continue
            if name in stored:
                self.change_schema(statement(f"drop_{name}", "schema"))
            config = {"vector.dimensions": dimensions, "vector.similarity_function": "cosine"}
            self.change_schema(statement(name, "schema"), options={"indexConfig": config})

    def ask(self, text: str, parameters: Mapping[str, Any], **options: Any) -> Result:
        """Run a user's query, with the options of `hepm.cypher.engines.ask_server`."""
        from hepm.cypher.engines import ask_server

        with self.guarded():
            self.read("memory", newest=True)  # so that the query sees what other processes have committed
            return ask_server(self.driver, self.login.database, text, parameters, bookmarks=self._bookmarks, **options)

    def _session(self, mode: str) -> neo4j.Session:
        with self._reaching():  # fails at once where a managed transaction would go on trying for half a minute
            self.driver.verify_connectivity()  # pyright: ignore[reportUnknownMemberType]
        return self._new_session(mode)

    def _new_session(self, mode: str) -> neo4j.Session:
        return self.driver.session(  # pyright: ignore[reportUnknownMemberType]
            database=self.login.database, default_access_mode=mode, bookmark_manager=self._bookmarks, fetch_size=5000
        )

    def close(self) -> None:
        """Release the connections; safe to call twice."""
        self.driver.close()


def rows_of(result: neo4j.Result) -> list[Row]:
    """All rows, as plain tuples."""
    return [tuple(record.values()) for record in result]


def parts(rows: Sequence[Values], size: int) -> Iterator[Sequence[Values]]:
    """Rows in parts of at most `size` rows, and of at most `BYTES` of texts and vectors or a single row."""
    start = held = 0
    for end, row in enumerate(rows):
        heavy = 0
        for value in row.values():
            if isinstance(value, str | bytes):
                heavy += len(value)
            elif isinstance(value, list):
                heavy += 9 * len(cast("list[object]", value))  # a number of a vector: a byte for the type, eight for it
        # A row that is too large by itself is sent alone: the server says if it takes it.
        if end > start and (end - start == size or held + heavy > BYTES):
            yield rows[start:end]
            start, held = end, 0
        held += heavy
    if rows:
        yield rows[start:]


@lru_cache(maxsize=65_536)
def uid(*parts: str) -> str:
    """A hash of names, which may be longer than an index holds; no two lists of names give the same text to hash."""
    # With lengths: else ("ab", "c") and ("a", "bc") were one key.
    text = "".join([f"{len(part)}:{part}" for part in parts])
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


_NODES: Final = {
    "lesson": "lesson",
    "parent": "lesson",
    "run": "run",
    "tool": "tool",
    "after": "tool",
    "source": "tool",
    "target": "tool",
    "user": "user",
    "key": "answer",
    "subject": "concept",
    "object": "concept",
}
"""Values that name a node, with its kind; statements find the node by `<name>_uid`."""
_ROWS: Final = {"links", "tools", "parents", "triples"}
"""Values of a row that are lists of such rows."""
_LISTS: Final = {
    "runs": "run",
    "in_runs": "showing",
    "lessons": "lesson",
    "keys": "answer",
    "tools": "tool",
    "sources": "tool",
}
"""Lists of names among the values of a statement, with the kind of node; the statement finds the nodes by `uids`."""


def keyed(space: str, row: Mapping[str, Any]) -> Values:
    """A row of a statement with the keys of the nodes that it names."""
    keys = dict(row)
    for name, value in row.items():
        if name in _NODES and isinstance(value, str):
            keys[f"{name}_uid"] = uid(space, _NODES[name], value) if value else None
        elif name in _ROWS:
            keys[name] = [keyed(space, item) for item in value]
    if "run" in row:
        keys["showing_uid"] = uid(space, "showing", row["run"])
    for source, target in (("after", "tool"), ("source", "target")):
        if {source, target} <= row.keys():  # a run has a source, too: its file
            keys["edge"] = uid(space, "edge", row[source], row[target])
    return keys


def bound(space: str, values: Mapping[str, Any]) -> Values:
    """The parameters of a statement in a namespace: its values, and the keys of the nodes that they name."""
    lists = {name: list(dict.fromkeys(values[name])) for name in _LISTS.keys() & values.keys()}
    others = {name: value for name, value in values.items() if name not in lists}
    parameters: Values = {"space": space, "start": START, **keyed(space, others), **lists}
    for name, names in lists.items():
        parameters["uids"] = [uid(space, _LISTS[name], each) for each in names]
    if "places" in values:  # which the driver cannot send
        parameters["uids"] = [state_uid(space, place) for place in parameters.pop("places")]
    if values.get("task"):
        parameters["task_uid"] = uid(space, values["environment"] or "", values["task"])
    parameters["rows"] = [
        keyed(space, {"source": source, "target": target, "at": number})
        for number, (source, target) in enumerate(values.get("edges", ()))
    ]
    return parameters


def state_uid(space: str, place: StatePlace) -> str:
    """The uid of the state in a place."""
    move, key = place
    return uid(move_uid(space, move), str(key))


def move_uid(space: str, move: StateMove) -> str:
    """What all states of a move have in common."""
    # With their number, so that it is known which of the tools are the sources.
    return uid(space, "move", str(move.success), str(len(move.sources)), *move.sources, *move.targets)


def to_floats(vector: Float32Array) -> list[float]:
    """The stored vector as the server's index and Cypher see it."""
    # Rounded as the stored bytes are: both must give the same cosines.
    return np.asarray(vector, dtype="<f2").astype(np.float64).tolist()


def check_version(agent: str, uri: str) -> None:
    """Refuse a server that is too old, by an agent such as "Neo4j/5.26.30"; one without a version is accepted."""
    match = re.search(r"/(\d+)\.(\d+)", agent)
    if match and (int(match[1]), int(match[2])) < OLDEST:
        raise StoreVersionError(
            f"{uri} runs {agent}, and hepm needs Neo4j {OLDEST[0]}.{OLDEST[1]} or newer: upgrade it, or start one "
            "beside it with `hepm neo4j start`."
        )


_CAUSES: Final = (
    (
        "RateLimit",
        StoreAccessError,
        "{where} refuses {user!r} for a while after too many wrong passwords: wait, then check NEO4J_PASSWORD.",
    ),
    (
        r"^AuthError| Neo\.ClientError\.Security",
        StoreAccessError,
        "{where} does not let {user!r} in: check NEO4J_USERNAME and NEO4J_PASSWORD.",
    ),
    (
        r" Neo\.ClientError\.Database\.",
        StoreError,
        "{where} has no database {database!r}: name another one by NEO4J_DATABASE, or leave it out.",
    ),
    (
        "^ConfigurationError ",
        StoreUnavailableError,
        "{where} is no address that can be used ({text}): write it like neo4j://localhost:7687.",
    ),
    (
        # The codes are those of a database that the server is still opening, or closing.
        r"^((Write|Read)?ServiceUnavailable|SessionExpired|IncompleteCommit) "
        r"| Neo\.TransientError\.(General\.Database|Database\.)",
        StoreUnavailableError,
        "no answer from {where} ({text}). Check that Neo4j is running there, start one with `hepm neo4j start`, "
        "or name a file as the store to work without a server.",
    ),
    (
        "OutOfMemory|MemoryPool",
        StoreError,
        "{where} has too little memory for this ({text}). Nothing of it was stored; give the server a larger heap.",
    ),
    (
        "ReadOnly|NotALeader",
        StoreError,
        "{where} takes no writes ({text}): in a cluster name it by neo4j://, which finds the member that does.",
    ),
)
"""What the name and the code of a driver's error look like, the error that it becomes, and its sentence."""


def explain(error: Exception, login: Login) -> StoreError:
    """A driver's error as one sentence that says what to do; it never holds the password."""
    code = str(getattr(error, "code", None) or "")
    # Of several lines the first one says what is wrong.
    message = getattr(error, "message", None) or str(error) or type(error).__name__
    text = message.splitlines()[0][:300].rstrip(": ")
    cause = f"{type(error).__name__} {code}"
    if "memory pool" in text:
        cause += " MemoryPool"
    for pattern, kind, sentence in _CAUSES:
        if re.search(pattern, cause):
            return kind(sentence.format(where=login.uri, user=login.username, database=login.database, text=text))
    if code:
        text += f" [{code}]"
    return StoreError(f"{login.uri}: {text}")
