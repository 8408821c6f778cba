"""The embedded engine's copy of a store: read-only, rebuilt when the store moved on, worth nothing by itself.

One file per state of the store, built under another name and renamed when it is whole, so that any number of
processes may build and read at once, and a build that is killed leaves nothing that anybody would read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

from hepm.cypher.guard import check_embedded
from hepm.cypher.model import NODES, RELATIONSHIPS, TABLES, PropertyType, Table, properties_of
from hepm.cypher.result import Result, from_ladybug
from hepm.errors import MissingExtraError, QueryError, StoreError

LAYOUT: Final = 2
"""Raised when the tables change, so that no older copy is taken for a new one."""

MEMORY_BYTES: Final = 1 << 30
ABANDONED_S: Final = 3600.0
ASKED_AT_MOST: Final = 100
_BUILDING: Final = "building-"
_SUFFIX: Final = ".lbug"
_END, _EMPTY = "\x1ehepm\x1f", "\x1f\x1f"
_TYPES: Final[Mapping[PropertyType, tuple[str, str]]] = {
    "string": ("STRING", "STRING"),
    "integer": ("INT64", "INT64"),
    "float": ("DOUBLE", "DOUBLE"),
    "boolean": ("BOOLEAN", "BOOLEAN"),
    "strings": ("STRING[]", "STRING"),
}

Rows: TypeAlias = Iterable[tuple[Table, Iterable[Sequence[object]]]]
"""Tables of the model with their rows, as `hepm.graph.model_rows.ModelRows` gives them; one may come in parts."""

Tables: TypeAlias = Callable[[], Rows]


class Projection:
    """An open copy. One thread at a time."""

    def __init__(self, file: Path) -> None:
        engine = _engine()
        self._connection: Any = None
        self._asked = 0
        try:
            self._database = engine.Database(
                file, read_only=True, buffer_pool_size=MEMORY_BYTES, throw_on_wal_replay_failure=False
            )
        except RuntimeError as error:
            raise StoreError(f"{file} cannot be opened ({error}). Delete its folder: it is made again.") from error

    def __enter__(self) -> Projection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._database.close()

    def _connected(self) -> Any:
        """The connection, changed from time to time: it keeps the plans of all that it ran."""
        if self._connection is None or self._asked >= ASKED_AT_MOST:
            if self._connection is not None:
                self._connection.close()
            self._connection, self._asked = _engine().Connection(self._database), 0
        self._asked += 1
        return self._connection

    def ask(self, text: str, parameters: Mapping[str, Any], *, timeout_s: float = 30.0, limit: int = 10_000) -> Result:
        """Run a query as it is, in the engine's own Cypher.

        Raises:
            QueryError: it does more than read the graph, takes too long, or means nothing to the engine.
        """
        used = check_embedded(text, parameters)
        try:
            connection = self._connected()
            connection.set_query_timeout(max(1, round(1000 * timeout_s)))
            return _run(connection, text, used, limit)
        except QueryError:
            raise
        except (RuntimeError, ValueError, TypeError, OverflowError) as error:
            raise _explain(error, timeout_s) from error


def open_projection(folders: Sequence[Path], state: Callable[[], str], tables: Tables) -> Projection:
    """The copy of a store as it is now, built where there is none.

    Args:
        folders: Where copies may lie; the first that can be written is taken.
        state: Tells the store's state in a few words; equal words mean an equal store.
        tables: Reads the store.
    """
    _engine()
    name = ""
    for _ in range(3):
        told = state()
        name = (
            hashlib.blake2b(f"{LAYOUT}\n{_engine().__version__}\n{told}".encode(), digest_size=16).hexdigest() + _SUFFIX
        )
        file = next((folder / name for folder in folders if (folder / name).exists()), None) or _build(
            folders, name, tables
        )
        try:
            projection = Projection(file)
        except StoreError:
            if file.exists():
                raise
            continue  # another process saw a newer store and swept this copy away
        if state() == told:
            return projection
        projection.close()  # the store moved on while it was read: what was built may hold half of a batch
    return Projection(_build(folders, name, tables))


def _build(folders: Sequence[Path], name: str, tables: Tables) -> Path:
    folder = _writable(folders)
    scratch = Path(tempfile.mkdtemp(prefix="hepm-cypher-"))
    under_way = folder / f"{_BUILDING}{os.getpid()}-{time.time_ns()}{_SUFFIX}"
    try:
        _fill(under_way, scratch, tables())
        with contextlib.suppress(PermissionError):  # Windows: another process has just built and opened the same
            under_way.replace(folder / name)
    except RuntimeError as error:
        raise StoreError(f"no copy for Cypher could be built in {folder}: {error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        for rest in folder.glob(f"{under_way.stem}*"):
            rest.unlink(missing_ok=True)
    _sweep(folder, name)
    return folder / name


def _writable(folders: Sequence[Path]) -> Path:
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK | os.X_OK):
                return folder
    raise StoreError(f"nowhere to put the copy for Cypher: {' and '.join(map(str, folders))} cannot be written.")


def _sweep(folder: Path, name: str) -> None:
    for file in folder.iterdir():
        building = file.name.startswith(_BUILDING)
        with contextlib.suppress(OSError):  # gone already, or open in Windows
            if file.name != name and (not building or time.time() - file.stat().st_mtime > ABANDONED_S):
                file.unlink()


def _fill(file: Path, scratch: Path, tables: Rows) -> None:
    engine = _engine()
    database = engine.Database(file, buffer_pool_size=MEMORY_BYTES)
    connection = engine.Connection(database)
    try:
        for statement in _schema():
            connection.execute(statement)
        held_empty: dict[Table, bool] = {}
        for table, rows in tables:
            held_empty[table] = _write_rows(_file_of(table, scratch), rows) or held_empty.get(table, False)
        for table in TABLES:  # relationships find their nodes there
            if table in held_empty:
                connection.execute(_copy(table, _file_of(table, scratch), held_empty[table]))
        connection.execute("CHECKPOINT")
    finally:
        connection.close()
        database.close()


def _schema() -> Iterator[str]:
    for label, table in NODES.items():
        columns = "".join(f", `{name}` {_TYPES[kind][0]}" for name, kind in table.items())
        yield f"CREATE NODE TABLE `{label}`(pk INT64 PRIMARY KEY{columns})"
    for name, relationship in RELATIONSHIPS.items():
        ends = ", ".join(f"FROM `{source}` TO `{target}`" for source, target in relationship.ends())
        columns = "".join(f", `{column}` {_TYPES[kind][0]}" for column, kind in relationship.properties.items())
        yield f"CREATE REL TABLE `{name}`({ends}{columns})"


def _file_of(table: Table, scratch: Path) -> Path:
    return scratch / f"{'-'.join((table.name, *(table.ends or ())))}.csv"


def _copy(table: Table, path: Path, holds_empty: bool) -> str:
    columns: list[tuple[str, PropertyType]] = []
    columns.extend((number, "integer") for number in (("a", "b") if table.ends else ("pk",)))
    columns.extend((f"c{number}", kind) for number, kind in enumerate(properties_of(table.name).values()))
    typed = ", ".join(f"{column} {_TYPES[kind][1]}" for column, kind in columns)
    split = f"string_split({{0}}, '{_END}')[2:]"
    if holds_empty:
        split = f"list_transform({split}, x -> CASE WHEN x = '{_EMPTY}' THEN '' ELSE x END)"
    returned = ", ".join(split.format(column) if kind == "strings" else column for column, kind in columns)
    where = str(path).replace("\\", "\\\\").replace("'", "\\'")
    options = "HEADER=false, DELIM=',', QUOTE='\"', ESCAPE='\"', PARALLEL=false, AUTO_DETECT=false"
    ends = f" (from='{table.ends[0]}', to='{table.ends[1]}')" if table.ends else ""
    return f"COPY `{table.name}` FROM (LOAD WITH HEADERS ({typed}) FROM '{where}' ({options}) RETURN {returned}){ends}"


def _write_rows(path: Path, rows: Iterable[Sequence[object]]) -> bool:
    """Add to a table; whether one of its lists holds an empty text, which the engine's splitting would drop."""
    cells = _Cells()
    rows = iter(rows)
    with path.open("a", encoding="utf-8", newline="") as file:
        while part := list(islice(rows, 1000)):
            file.write("".join([",".join([cells.written(value) for value in row]) + "\n" for row in part]))
    return cells.held_empty


class _Cells:
    """Values as cells of a CSV file. Texts stand in quotes; an unquoted cell that is empty is null."""

    def __init__(self) -> None:
        self.held_empty = False

    def written(self, value: object) -> str:
        kind = type(value)
        if kind is str:
            return '"' + value.replace('"', '""') + '"'  # type: ignore[union-attr]
        if kind is int or kind is float:
            return repr(value)
        if value is None:
            return ""
        if kind is bool:
            return "true" if value else "false"
        return self._list(value)  # type: ignore[arg-type]

    def _list(self, items: Sequence[str]) -> str:
        if "" in items:
            self.held_empty = True
        # A first item that is dropped again tells an empty list from one of an empty text.
        texts = [".", *(item.replace(_END, " ") or _EMPTY for item in items)]
        return self.written(_END.join(texts))


def _run(connection: Any, text: str, parameters: dict[str, Any], limit: int) -> Result:
    found: Any = connection.execute(text, parameters)
    columns: tuple[str, ...] = tuple(found.get_column_names())
    if len(set(columns)) < len(columns):
        raise QueryError(f"two columns have one name ({', '.join(columns)}): tell them apart with AS.")
    rows: list[tuple[Any, ...]] = []
    while len(rows) <= limit and found.has_next():
        rows.append(tuple(from_ladybug(value) for value in found.get_next()))
    found.close()
    return Result(columns, tuple(rows[:limit]), len(rows) > limit)


def _engine() -> Any:
    try:
        import ladybug
    except ImportError as error:
        raise MissingExtraError(
            "Cypher without a server needs its engine: pip install 'hepm[cypher]'. Or name a store in Neo4j by --store."
        ) from error
    return ladybug


def _explain(error: Exception, timeout_s: float) -> QueryError:
    said = " ".join(str(error).split())
    if "Interrupted" in said:
        return QueryError(f"the query did not end within {timeout_s:g} s: narrow it, or give it more with --timeout.")
    if "Buffer manager" in said or "memory" in said.lower():
        return QueryError(
            f"the query needs more than {MEMORY_BYTES >> 20} MB: narrow it, or run it on a store in Neo4j."
        )
    return QueryError(
        f"the embedded engine cannot answer that: {said.removeprefix('Binder exception: ')} Its Cypher is a dialect "
        "(docs/cypher.md); `hepm neo4j start` and `hepm copy` give Neo4j's own."
    )
