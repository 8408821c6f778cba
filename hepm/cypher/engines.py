"""Queries on a Neo4j server and in the embedded engine, with the check that they only read the graph.

The words of a text are checked: it begins as a query, loads no file, and calls listed procedures alone. A server runs
it in a read transaction, in which it rejects writes; the embedded engine on a copy of the store, which is read-only.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from decimal import Decimal
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from hepm.cypher.model import PROPERTIES, TABLES, Properties, PropertyType, Result, Table, Value, entity
from hepm.errors import MissingExtraError, QueryError, StoreError
from hepm.types import Object

if TYPE_CHECKING:
    import neo4j


PROCEDURES: Final = (
    "db.info", "db.labels", "db.relationshipTypes", "db.propertyKeys", "db.schema.nodeTypeProperties",
    "db.schema.relTypeProperties", "db.schema.visualization", "db.index.vector.queryNodes",
    "db.index.vector.queryRelationships", "db.index.fulltext.queryNodes", "db.index.fulltext.queryRelationships",
)  # fmt: skip
"""Procedures that only read, and only the graph."""

_CATALOG: Final = ("show_tables", "show_functions", "table_info")
"""Procedures of the embedded engine that only read, and only the graph."""
_READING: Final = {"MATCH", "OPTIONAL", "UNWIND", "WITH", "RETURN", "CALL"}
_COMMENT: Final = r"//[^\n\r]*|/\*.*?\*/"
_HIDDEN: Final = re.compile(rf"""({_COMMENT})|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|(?<!\$)`[^`]*`""", re.DOTALL)
"""Comments, texts and quoted names, in which any word may stand."""
# The embedded engine reads 1e0LOAD as a number and a keyword.
_KEYWORD: Final = r"(?:(?<![.$\w])|(?<![A-Za-z_$])\d\w*?)"
_VERSION: Final = re.compile(r"CYPHER\s+\d+\s+", re.IGNORECASE)
_LOADS: Final = re.compile(_KEYWORD + r"LOAD\s+(FROM|WITH|CSV)\b", re.IGNORECASE)
_CALLS: Final = re.compile(_KEYWORD + r"CALL\s+([\w'.]+)", re.IGNORECASE)
_PARAMETER: Final = re.compile(r"\$(?:(\w+)|`([^`]*)`)")
_ESCAPE: Final = re.compile(r"\\u+([0-9a-fA-F]{4})")
_TIMED_OUT: Final = "the query did not end within {:g} s: narrow it, or give it more with --timeout."


def ask_server(
    driver: neo4j.Driver,
    database: str,
    text: str,
    parameters: Mapping[str, Any],
    *,
    timeout_s: float = 30.0,
    limit: int = 10_000,
    bookmarks: neo4j.BookmarkManager | None = None,
) -> Result:
    """Run a query that only reads.

    Args:
        bookmarks: Of what the query must see, on any member of a cluster.
    Raises:
        QueryError: it would write, calls what is not allowed, takes too long, or is no Cypher.
    """
    import neo4j

    values = dict(parameters)
    options: Any = {"database": database, "default_access_mode": neo4j.READ_ACCESS, "bookmark_manager": bookmarks}
    # Neo4j decodes such escapes before anything else, so that they could end a string.
    for read in {text, _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)}:
        _check(read, PROCEDURES)
    with (
        cast("Any", driver).session(**options) as session,
        _explained(timeout_s),
        session.begin_transaction(timeout=timeout_s) as transaction,
    ):
        return _fetch(transaction.run(text, values), limit)


def _fetch(records: neo4j.Result, limit: int) -> Result:
    rows: list[tuple[Value, ...]] = []
    for record in islice(records, limit):
        rows.append(tuple(map(_from_neo4j, record.values())))
    return Result(tuple(records.keys()), tuple(rows), truncated=records.peek() is not None)


def _from_neo4j(value: Any) -> Value:
    from neo4j.graph import Node, Path, Relationship

    if isinstance(value, Node | Relationship):
        is_node = isinstance(value, Node)
        names = list(value.labels) if isinstance(value, Node) else [value.type]
        properties = {key: _from_neo4j(item) for key, item in value.items()}
        return entity(names, properties, is_node=is_node)
    if isinstance(value, Path):
        return {"nodes": _from_neo4j(value.nodes), "relationships": _from_neo4j(value.relationships)}
    if isinstance(value, list | tuple):
        return [_from_neo4j(item) for item in cast("Sequence[Any]", value)]
    if isinstance(value, Mapping):
        return {str(key): _from_neo4j(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, bool | int | float | str | None):
        return value
    return str(value)  # dates and points, which hepm itself never stores


@contextlib.contextmanager
def _explained(timeout_s: float) -> Generator[None]:
    from neo4j.exceptions import ClientError, TransientError

    try:
        yield
    except QueryError:
        raise
    except (OverflowError, ValueError, TypeError) as error:
        raise QueryError(f"a parameter cannot be sent to Neo4j: {error}.") from error
    except (ClientError, TransientError) as error:
        code = str(error.code or "")
        message = " ".join(str(error.message or error).split())
        if "TimedOut" in code or "Terminated" in code:
            message = _TIMED_OUT.format(timeout_s)
        elif "AccessMode" in code or "ReadOnly" in code or "read access mode" in message:
            message = "the query would write, and queries only read."
        else:
            message = f"Neo4j cannot answer that: {message} [{code}]"
        raise QueryError(message) from error


def _check(text: str, procedures: Sequence[str]) -> str:
    """Refuse what reads or changes more than the graph even where the database takes no writes; without what is quoted.

    Those are commands, files, and procedures but for some.
    """
    plain = _HIDDEN.sub(lambda found: " " if found[1] else " '' ", text).strip().rstrip("; \n\t")
    if not plain:
        raise QueryError("there is no query: the text is empty.")
    if ";" in plain:
        raise QueryError("one query at a time: there is a second one behind the ; .")
    first = re.split(r"\W", _VERSION.sub("", plain))[0].upper()
    if first not in _READING:
        raise QueryError(
            f"{first} is no query that reads: begin with MATCH, UNWIND, WITH or RETURN. A store changes by "
            "ingest, import and forget."
        )
    if _LOADS.search(plain):
        raise QueryError("LOAD reads files, and a query only the graph; a name is written `load`.")
    for name in _CALLS.findall(plain):
        if name.lower() not in map(str.lower, procedures):
            known = ", ".join(procedures)
            raise QueryError(
                f"of procedures a query may CALL those that only read ({known}), not {name}; a name is written `call`."
            )
    return plain


def _used(plain: str, parameters: Mapping[str, Any]) -> Object:
    """The parameters that a text uses: the embedded engine rejects others, and takes a missing one for null."""
    used = {name or quoted for name, quoted in _PARAMETER.findall(plain)}
    missing = sorted(used - parameters.keys())
    if missing:
        raise QueryError(f"the query uses ${missing[0]}, which has no value: give it one with --param {missing[0]}=…")
    return {name: value for name, value in parameters.items() if name in used}


_LAYOUT: Final = 4  # incremented when the tables change, so that no older copy is read
_MEMORY_BYTES: Final = 1 << 30  # of the engine's buffers: a query that needs more fails with a sentence
_ABANDONED_S: Final = 3600.0  # age from which on an unfinished copy is one of a killed process
_BUILDING: Final = "building-"  # beginning of the name of the folder of a copy that is not finished
_SUFFIX: Final = ".lbug"  # ending that the engine expects
_END, _EMPTY = "\x1ehepm\x1f", "\x1f\x1f"  # between the texts of a list in a cell; in place of an empty text
_TYPES: Final = {"string": "STRING", "integer": "INT64", "float": "DOUBLE", "boolean": "BOOLEAN", "strings": "STRING[]"}

Rows: TypeAlias = Iterable[tuple[Table, Iterable[Sequence[object]]]]
"""Tables of the model in their order, with their rows (see `hepm.graph.sqlite.projection`)."""


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
        used = _used(_check(text, _CATALOG), parameters)
        try:
            self._connection.set_query_timeout(max(1, round(1000 * timeout_s)))
            answer: Any = self._connection.execute(text, used)
            columns: tuple[str, ...] = tuple(answer.get_column_names())
            if len(set(columns)) < len(columns):
                raise QueryError(f"two columns have one name ({', '.join(columns)}): tell them apart with AS.")
            rows: list[tuple[Value, ...]] = []
            while len(rows) <= limit and answer.has_next():  # one row above the limit shows that there are more
                rows.append(tuple(map(_plain, answer.get_next())))
            answer.close()
            return Result(columns, tuple(rows[:limit]), len(rows) > limit)
        except QueryError:
            raise
        except (RuntimeError, ValueError, TypeError, OverflowError) as error:
            message = " ".join(str(error).split())
            if "Interrupted" in message:
                raise QueryError(_TIMED_OUT.format(timeout_s)) from error
            if "Buffer manager" in message or "memory" in message.lower():
                needed = f"the query needs more than {_MEMORY_BYTES >> 20} MB"
                raise QueryError(f"{needed}: narrow it, or run it on a store in Neo4j.") from error
            raise QueryError(
                f"the embedded engine cannot answer that: {message.removeprefix('Binder exception: ')} Its Cypher "
                "is a dialect (docs/use/cypher.md); `hepm neo4j start` and `hepm copy` give Neo4j's own."
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
    members = {key: _plain(item) for key, item in cast(Object, value).items()}
    if "_NODES" in members:  # a path
        return {"nodes": members["_NODES"], "relationships": members["_RELS"]}
    if "_LABEL" in members and "_ID" in members:
        return entity([str(members["_LABEL"])], members, is_node="_SRC" not in members)
    return members


def open_projection(folder: Path, state: str, tables: Callable[[], Rows]) -> Projection:
    """The copy of a store as it is now, in a folder; built if there is none.

    There is one file per `state`, a text that differs between states of the store. It is built in a folder of its own
    and moved when complete: any number of processes may build and read, and a killed build leaves nothing to read.
    """
    version = _engine().__version__
    name = hashlib.blake2b(f"{_LAYOUT}\n{version}\n{state}".encode(), digest_size=16).hexdigest() + _SUFFIX
    file = folder / name
    if file.exists():
        try:
            return Projection(file)
        except StoreError:
            # Else another process saw a newer store and has just removed this copy.
            if file.exists():
                raise
    try:
        folder.mkdir(exist_ok=True, mode=0o700)
        _build(file, tables())
    except (OSError, RuntimeError) as error:
        raise StoreError(f"no copy for Cypher could be built in {folder}: {error}") from error
    return Projection(file)


def _build(file: Path, tables: Rows) -> None:
    with tempfile.TemporaryDirectory(prefix=_BUILDING, dir=file.parent) as scratch:
        built = Path(scratch, file.name)
        _fill(built, Path(scratch, "table.csv"), tables)
        with contextlib.suppress(PermissionError):  # Windows: another process has just built and opened the same
            built.replace(file)
    for other in file.parent.iterdir():  # copies of older states, and what killed builds left
        with contextlib.suppress(OSError):  # removed already, or open on Windows
            if not other.is_dir():
                if other.name != file.name:
                    other.unlink()
            elif time.time() - other.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(other)


def _fill(file: Path, lines: Path, tables: Rows) -> None:
    """Make the copy in a file; the rows of one table after the other go through the file `lines`."""
    engine = _engine()
    database = engine.Database(file, buffer_pool_size=_MEMORY_BYTES)
    connection = engine.Connection(database)
    try:
        for name, properties in PROPERTIES.items():
            connection.execute(_create(name, properties))
        for table, rows in tables:  # relationships find their nodes there
            with lines.open("w", encoding="utf-8", newline="") as csv:
                csv.writelines(map(_line, rows))
            connection.execute(_copy(table, lines))
        connection.execute("CHECKPOINT")
    finally:
        connection.close()
        database.close()


def _create(name: str, properties: Properties) -> str:
    """The statement that makes the table of a label, or of a type with its pairs of labels."""
    columns = ""
    for column, kind in properties.items():
        columns += f", `{column}` {_TYPES[kind]}"
    pairs: list[str] = []
    for table in TABLES:
        if table.name == name and table.ends:
            source, target = table.ends
            pairs.append(f"FROM `{source}` TO `{target}`")
    if pairs:
        return f"CREATE REL TABLE `{name}`({', '.join(pairs)}{columns})"
    return f"CREATE NODE TABLE `{name}`(pk STRING PRIMARY KEY{columns})"


def _copy(table: Table, path: Path) -> str:
    """The statement that reads the rows of a table from a file."""
    kinds: dict[str, PropertyType] = {}
    ends = ""
    if table.ends:
        kinds["a"] = kinds["b"] = "string"  # the keys of both nodes
        ends = f" (from='{table.ends[0]}', to='{table.ends[1]}')"
    else:
        kinds["pk"] = "string"
    for number, kind in enumerate(PROPERTIES[table.name].values()):
        kinds[f"c{number}"] = kind
    # A list of texts is one text in the file, taken apart here. The engine's splitting drops empty texts. A CASE in
    # the transformation would mix up the lists of rows that hold more than 2,048 texts together.
    split = f"list_transform(string_split({{0}}, '{_END}')[2:], x -> replace(x, '{_EMPTY}', ''))"
    typed: list[str] = []
    returned: list[str] = []
    for column, kind in kinds.items():
        typed.append(f"{column} {_TYPES[kind].removesuffix('[]')}")
        returned.append(split.format(column) if kind == "strings" else column)
    where = str(path).replace("\\", "\\\\").replace("'", "\\'")
    options = "HEADER=false, DELIM=',', QUOTE='\"', ESCAPE='\"', PARALLEL=false, AUTO_DETECT=false"
    load = f"LOAD WITH HEADERS ({', '.join(typed)}) FROM '{where}' ({options}) RETURN {', '.join(returned)}"
    return f"COPY `{table.name}` FROM ({load}){ends}"


def _line(row: Sequence[object]) -> str:
    """A row of a CSV file: texts in quotes, null as an unquoted empty cell."""
    return ",".join([_cell(value) for value in row]) + "\n"


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
    # A first item, dropped again, distinguishes an empty list from one of an empty text.
    texts = ["."]
    for item in cast("Sequence[str]", value):
        texts.append(item.replace(_END, " ") or _EMPTY)
    return _cell(_END.join(texts))
