"""The SQLite file: its connections, schema and migrations, and SQLite's errors turned into ours."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Generator, Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Final

from hepm.errors import StoreDamagedError, StoreError, StoreVersionError
from hepm.graph.rows import Row, check_schema, no_text

SCHEMA_VERSION: Final = 24
_OLDEST_SCHEMA: Final = 15  # that is brought up to date on opening; a new file begins with it, too
BUSY_TIMEOUT_S: Final = 60.0  # for which a writer waits for another one
_APPLICATION_ID: Final = 0x6865706D  # "hepm": a file of another program has another one


def load_statements() -> Mapping[str, str]:
    """The statements of all query files by name."""
    text = _resource("queries.sql") + _resource("lesson_queries.sql") + _resource("projection.sql")
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _resource(name: str) -> str:
    return resources.files("hepm.graph.sqlite").joinpath(name).read_text(encoding="utf-8")


def _run_script(connection: sqlite3.Connection, name: str) -> None:
    """Run the statements of a file one by one: executescript() would commit the transaction that makes them atomic."""
    statement = ""
    for line in _resource(name).splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


@lru_cache(maxsize=65_536)  # many states have one move
def _names(stored: bytes) -> Row:
    """A list, which SQLite keeps as JSON."""
    return tuple(json.loads(stored))


# Columns that a statement calls `x AS "x [hepm_flag]"` or `[hepm_names]` arrive as a server gives them.
sqlite3.register_converter("hepm_flag", lambda stored: stored != b"0")
sqlite3.register_converter("hepm_names", _names)


class Connections:
    """One writing connection, and as many reading ones as read at once, on one file.

    Writers of this process queue on a lock, writers of other processes on SQLite's own (`BEGIN IMMEDIATE`, 60 s).
    Readers see the last commit and never wait (WAL).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._idle: list[sqlite3.Connection] = []  # readers
        self._idle_lock = threading.RLock()  # the collector may end a generator that reads at any moment
        self._closed = False
        self.read_only = False
        _create(path)
        with self.guarded():
            self._writer = self._open_for_writing()
            self._migrate()
            # A statement that may fail half-way keeps what it changes, which need not go to a file. Not before: a
            # migration sorts whole tables.
            self._writer.execute("PRAGMA temp_store = MEMORY")

    @contextlib.contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """A transaction: committed at the end, rolled back on any error."""
        if self.read_only:
            raise StoreError(f"{self.path} can only be read here. {_TO_WRITE}")
        with self._lock, self.guarded():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                # A batch changes pages all over a large store, and the next one many of them again. With a log of an
                # eighth of the store these are written back once: at a million runs an ingest takes a quarter less.
                pages = self._writer.execute("PRAGMA page_count").fetchone()[0]
                self._writer.execute(f"PRAGMA wal_autocheckpoint = {min(max(1_000, pages // 8), 65_536)}")
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                # A full disk rolls back by itself, and then there is no transaction left to roll back.
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """A connection for the caller alone until the end of the block."""
        with self.guarded():
            with self._idle_lock:
                if self._closed:
                    raise sqlite3.ProgrammingError("the store was closed")
                connection = self._idle.pop() if self._idle else None
            connection = connection or self.connect(read_only=True)
            try:
                yield connection
            finally:
                with self._idle_lock:
                    if self._closed:
                        connection.close()
                    else:
                        self._idle.append(connection)

    @contextlib.contextmanager
    def guarded(self) -> Generator[None]:
        """Turn SQLite's errors into ours, which say what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise _explain(error, self.path) from error
        except UnicodeEncodeError as error:
            raise no_text(error) from error
        except UnicodeDecodeError as error:
            raise StoreDamagedError(_UNREADABLE.format(path=self.path, text=error.reason)) from error

    def close(self) -> None:
        """Close all connections, one that reads when it has ended; later use is an error."""
        with self._idle_lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()
        # Last: one that may write clears the log away.
        with self._lock:
            self._writer.close()

    def _open_for_writing(self) -> sqlite3.Connection:
        try:
            connection = self.connect(read_only=False)
            # Read in one transaction: another process may be making the store right now.
            connection.execute("BEGIN")
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            connection.execute("COMMIT")
            if tables and application != _APPLICATION_ID:
                raise StoreDamagedError(
                    f"{self.path} is a database of another program. Name another file for the store."
                )
            if not os.access(self.path, os.W_OK):  # SQLite opens it for reading then, and says so at the first write
                raise sqlite3.OperationalError("readonly")
            self._turn_on_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            # The log of a large ingest is cut to 4 MiB when the next write begins it anew, not kept until closing.
            connection.execute("PRAGMA journal_size_limit = 4194304")
            # Rows arrive all over the indexes: with SQLite's 2 MiB, not 64, a large store reads a page again for each.
            connection.execute("PRAGMA cache_size = -65536")
            return connection
        except sqlite3.OperationalError as error:
            if self.path.exists() and ("readonly" in str(error) or "unable to open" in str(error)):
                self.read_only = True
                log = self.path.with_name(self.path.name + "-wal")
                if self._is_immutable and log.exists() and log.stat().st_size:
                    raise StoreError(
                        f"{self.path} can only be read here, and {log.name} beside it holds runs not yet written back. "
                        "Copy both files to a folder that can be written, and open the copy."
                    ) from error
                return self.connect(read_only=True)
            raise

    @property
    def _is_immutable(self) -> bool:
        """Whether it lies where nothing can be written: SQLite must not look for a WAL there that it cannot create."""
        return self.read_only and not os.access(self.path.parent, os.W_OK)

    def _turn_on_wal(self, connection: sqlite3.Connection) -> None:
        # Changing the mode needs the file alone, and does not wait for that by itself.
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def connect(self, *, read_only: bool) -> sqlite3.Connection:
        """A new connection, for the caller to close."""
        if self._is_immutable:
            mode = "mode=ro&immutable=1"
        elif self.read_only or read_only:
            mode = "mode=ro"
        else:
            mode = "mode=rwc"
        return sqlite3.connect(
            f"{self.path.absolute().as_uri()}?{mode}",
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            detect_types=sqlite3.PARSE_COLNAMES,
        )

    def _migrate(self) -> None:
        stored_version = int(self._writer.execute("PRAGMA user_version").fetchone()[0])
        if stored_version == SCHEMA_VERSION:
            return
        if stored_version:
            check_schema(stored_version, str(self.path), oldest=_OLDEST_SCHEMA, newest=SCHEMA_VERSION)
        if self.read_only:
            raise StoreVersionError(
                f"{self.path} has schema version {stored_version}, and can only be read here, so that it cannot be "
                f"brought to {SCHEMA_VERSION}. {_TO_WRITE}"
            )
        with self.writing() as connection:
            # Another process may have been first.
            stored_version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            for version in range(_OLDEST_SCHEMA, SCHEMA_VERSION + 1):
                if version > stored_version:
                    _run_script(connection, f"schema_{version}.sql")
            if stored_version:
                # Until what derives from the records was looked at (see `Store.settle_upgrade`), whatever ends this.
                # A file that another process makes just now has no header yet, and nothing to look at.
                connection.execute(
                    "INSERT OR IGNORE INTO meta (key, value) "
                    "SELECT 'upgraded_from', ? WHERE EXISTS (SELECT 1 FROM meta WHERE key = 'embedder')",
                    (str(stored_version),),
                )
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")


def _create(path: Path) -> None:
    """Make a new file for its owner's eyes alone. SQLite gives the files beside it the same mode."""
    with contextlib.suppress(OSError):  # it is there, or cannot be made: then SQLite says why
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


_TO_WRITE: Final = "Give the file and its folder write permission, or copy the file."
_UNREADABLE: Final = (
    "{path} is not a readable store ({text}). Restore it from an export or a copy, or name another file."
)
_CAUSES: Final = (
    (
        ("disk is full", "disk I/O error"),
        StoreError,
        "no room left to write {path} ({text}). What was stored before is whole; free some space and run it again.",
    ),
    (
        ("readonly",),
        StoreError,
        f"{{path}} cannot be written ({{text}}). {_TO_WRITE}",
    ),
    (
        ("unable to open",),
        StoreError,
        "{path} cannot be opened: its folder is missing or closed to this user, or this process has too many "
        "files open (see `ulimit -n`). Create the folder, or name another store.",
    ),
    (
        ("locked", "busy"),
        StoreError,
        f"another process has been writing {{path}} for {BUSY_TIMEOUT_S:g} s. Try again when it is done.",
    ),
    (("Could not decode", "not a database", "malformed"), StoreDamagedError, _UNREADABLE),
)
"""What SQLite's text holds, the error that it becomes, and its sentence."""


def _explain(error: sqlite3.Error, path: Path) -> StoreError:
    text = str(error)
    for signs, kind, sentence in _CAUSES:
        if any(sign in text for sign in signs):
            return kind(sentence.format(path=path, text=text))
    return StoreError(f"{path}: {text}")
