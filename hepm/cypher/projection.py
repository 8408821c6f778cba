"""The embedded engine's copy of a store: read-only, rebuilt when the store has changed, never the record.

There is one file per state of the store. It is built under another name and renamed when it is complete, so that any
number of processes may build and read at once, and a killed build leaves nothing that is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from hepm.cypher.guard import TIMED_OUT, check_embedded
from hepm.cypher.model import PROPERTIES, TABLES, PropertyType, Result, Table, Value, entity
from hepm.errors import MissingExtraError, QueryError, StoreError

_LAYOUT: Final = 2  # incremented when the tables change, so that no older copy is read
_MEMORY_BYTES: Final = 1 << 30
_ABANDONED_S: Final = 3600.0
_BUILDING: Final = "building-"
_SUFFIX: Final = ".lbug"
_END, _EMPTY = "\x1ehepm\x1f", "\x1f\x1f"
_TYPES: Final[Mapping[PropertyType, str]] = {
    "string": "STRING",
    "integer": "INT64",
    "float": "DOUBLE",
    "boolean": "BOOLEAN",
    "strings": "STRING[]",
}

Rows: TypeAlias = Iterable[tuple[Table, Iterable[Sequence[object]]]]
"""Tables of the model with their rows, as `hepm.graph.model_rows.ModelRows` gives them; one may come in parts."""


class Projection(contextlib.AbstractContextManager["Projection"]):
    """An open copy, for one thread."""

    def __init__(self, file: Path) -> None:
        engine = _engine()
        try:
            self._database = engine.Database(
                file, read_only=True, buffer_pool_size=_MEMORY_BYTES, throw_on_wal_replay_failure=False
            )
        except RuntimeError as error:
            raise StoreError(f"{file} cannot be opened ({error}). Delete its folder: it is made again.") from error
        self._connection = engine.Connection(self._database)

    def close(self) -> None:
        """Release the file."""
        self._connection.close()
        self._database.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, text: str, parameters: Mapping[str, Any], *, timeout_s: float = 30.0, limit: int = 10_000) -> Result:
        """Run a query unchanged, in the engine's own Cypher.

        Raises:
            QueryError: it does more than read the graph, takes too long, or is not valid for the engine.
        """
        used = check_embedded(text, parameters)
        try:
            self._connection.set_query_timeout(max(1, round(1000 * timeout_s)))
            found: Any = self._connection.execute(text, used)
            columns: tuple[str, ...] = tuple(found.get_column_names())
            if len(set(columns)) < len(columns):
                raise QueryError(f"two columns have one name ({', '.join(columns)}): tell them apart with AS.")
            rows: list[tuple[Value, ...]] = []
            while len(rows) <= limit and found.has_next():
                rows.append(tuple(_plain(value) for value in found.get_next()))
            found.close()
            return Result(columns, tuple(rows[:limit]), len(rows) > limit)
        except QueryError:
            raise
        except (RuntimeError, ValueError, TypeError, OverflowError) as error:
            message = " ".join(str(error).split())
            if "Interrupted" in message:
                raise QueryError(TIMED_OUT.format(timeout_s)) from error
            if "Buffer manager" in message or "memory" in message.lower():
                needed = f"the query needs more than {_MEMORY_BYTES >> 20} MB"
                raise QueryError(f"{needed}: narrow it, or run it on a store in Neo4j.") from error
            raise QueryError(
                f"the embedded engine cannot answer that: {message.removeprefix('Binder exception: ')} Its Cypher "
                "is a dialect (docs/cypher.md); `hepm neo4j start` and `hepm copy` give Neo4j's own."
            ) from error


def _engine() -> Any:
    try:
        return import_module("ladybug")
    except ImportError as error:
        raise MissingExtraError(
            "Cypher without a server needs its engine: pip install 'hepm[cypher]'. Or name a store in Neo4j by --store."
        ) from error


def _plain(value: Any) -> Value:
    if isinstance(value, Decimal):  # a sum of integers
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return cast("Value", value)
    found = {key: _plain(item) for key, item in cast("dict[str, Any]", value).items()}
    if "_NODES" in found:
        return {"nodes": found["_NODES"], "relationships": found["_RELS"]}
    if "_LABEL" in found and "_ID" in found:
        return entity([str(found["_LABEL"])], found, is_node="_SRC" not in found)
    return found


def open_projection(folders: Sequence[Path], state: Callable[[], str], tables: Callable[[], Rows]) -> Projection:
    """The copy of a store as it is now, built if there is none.

    Args:
        folders: Where copies may be; the first writable one is used.
        state: Returns a text that differs between states of the store.
        tables: Reads the store.
    """
    version, name = _engine().__version__, ""
    for _ in range(3):
        now = state()
        name = hashlib.blake2b(f"{_LAYOUT}\n{version}\n{now}".encode(), digest_size=16).hexdigest() + _SUFFIX
        built = next((folder / name for folder in folders if (folder / name).exists()), None)
        file = built or _build(folders, name, tables)
        try:
            projection = Projection(file)
        except StoreError:
            if file.exists():
                raise
            continue  # another process saw a newer store and removed this copy
        if state() == now:
            return projection
        projection.close()  # the store changed while it was read: the copy may contain half of a batch
    return Projection(_build(folders, name, tables))


def _build(folders: Sequence[Path], name: str, tables: Callable[[], Rows]) -> Path:
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK | os.X_OK):
                break
    else:
        raise StoreError(f"nowhere to put the copy for Cypher: {' and '.join(map(str, folders))} cannot be written.")
    building = folder / f"{_BUILDING}{os.getpid()}-{time.time_ns()}{_SUFFIX}"
    try:
        with tempfile.TemporaryDirectory(prefix="hepm-cypher-") as scratch:
            _fill(building, Path(scratch), tables())
        with contextlib.suppress(PermissionError):  # Windows: another process has just built and opened the same
            building.replace(folder / name)
    except RuntimeError as error:
        raise StoreError(f"no copy for Cypher could be built in {folder}: {error}") from error
    finally:
        for rest in folder.glob(f"{building.stem}*"):
            rest.unlink(missing_ok=True)
    for file in folder.iterdir():  # copies of older states, and what killed builds left
        with contextlib.suppress(OSError):  # removed already, or open on Windows
            abandoned = time.time() - file.stat().st_mtime > _ABANDONED_S
            if file.name != name and (abandoned or not file.name.startswith(_BUILDING)):
                file.unlink()
    return folder / name


def _fill(file: Path, scratch: Path, tables: Rows) -> None:
    engine = _engine()
    database = engine.Database(file, buffer_pool_size=_MEMORY_BYTES)
    connection = engine.Connection(database)
    try:
        for name, properties in PROPERTIES.items():
            columns = "".join(f", `{column}` {_TYPES[kind]}" for column, kind in properties.items())
            pairs = [table.ends for table in TABLES if table.name == name and table.ends]
            ends = ", ".join(f"FROM `{source}` TO `{target}`" for source, target in pairs)
            kind, first = ("REL", ends) if ends else ("NODE", "pk INT64 PRIMARY KEY")
            connection.execute(f"CREATE {kind} TABLE `{name}`({first}{columns})")
        files = {table: scratch / f"{number}.csv" for number, table in enumerate(TABLES)}
        for table, rows in tables:
            # Texts in quotes, null as an unquoted empty cell.
            lines = (",".join([_cell(value) for value in row]) + "\n" for row in rows)
            with files[table].open("a", encoding="utf-8", newline="") as csv:
                csv.writelines(lines)
        for table in TABLES:  # relationships find their nodes there
            if files[table].exists():
                connection.execute(_copy(table, files[table]))
        connection.execute("CHECKPOINT")
    finally:
        connection.close()
        database.close()


def _copy(table: Table, path: Path) -> str:
    kinds: dict[str, PropertyType] = {"a": "integer", "b": "integer"} if table.ends else {"pk": "integer"}
    kinds |= {f"c{number}": kind for number, kind in enumerate(PROPERTIES[table.name].values())}
    typed = ", ".join(f"{column} {_TYPES[kind].removesuffix('[]')}" for column, kind in kinds.items())
    # The engine's splitting drops empty texts.
    split = f"list_transform(string_split({{0}}, '{_END}')[2:], x -> CASE WHEN x = '{_EMPTY}' THEN '' ELSE x END)"
    returned = ", ".join(split.format(column) if kind == "strings" else column for column, kind in kinds.items())
    where = str(path).replace("\\", "\\\\").replace("'", "\\'")
    options = "HEADER=false, DELIM=',', QUOTE='\"', ESCAPE='\"', PARALLEL=false, AUTO_DETECT=false"
    ends = f" (from='{table.ends[0]}', to='{table.ends[1]}')" if table.ends else ""
    return f"COPY `{table.name}` FROM (LOAD WITH HEADERS ({typed}) FROM '{where}' ({options}) RETURN {returned}){ends}"


def _cell(value: object) -> str:
    kind = type(value)
    if kind is str:
        return '"' + value.replace('"', '""') + '"'  # type: ignore[union-attr]
    if kind is int or kind is float:
        return repr(value)
    if value is None:
        return ""
    if kind is bool:
        return "true" if value else "false"
    # A first item that is dropped again tells an empty list from one of an empty text.
    texts = (item.replace(_END, " ") or _EMPTY for item in cast("Sequence[str]", value))
    return _cell(_END.join([".", *texts]))
