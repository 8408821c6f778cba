"""Queries on a Neo4j server, and the checks that keep a query from doing more than reading the graph.

A server plans the query without running it (EXPLAIN), and the plan is checked: it may read, and call the listed
procedures. Then it runs in a read transaction, in which the server itself rejects writes, with limits of time and rows.
The embedded engine has no such plan: the words of the text are checked.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from hepm.cypher.model import Result, Value, entity
from hepm.errors import QueryError

if TYPE_CHECKING:
    import neo4j

PROCEDURES: Final = (
    "db.info", "db.labels", "db.relationshipTypes", "db.propertyKeys", "db.schema.nodeTypeProperties",
    "db.schema.relTypeProperties", "db.schema.visualization", "db.index.vector.queryNodes",
    "db.index.vector.queryRelationships", "db.index.fulltext.queryNodes", "db.index.fulltext.queryRelationships",
)  # fmt: skip
"""Procedures that only read, and only the graph."""

_REFUSED: Final = re.compile(
    r"(Locking)?(Create|Merge|Delete|DetachDelete|Set|Remove|Foreach|Insert|Drop|Alter|Grant|Deny|Revoke|Rename|Start|Stop"
    r"|Load|Transaction|SubqueryForeach|EnsureNodes|Terminate|Do|Enable|Assert|AdministrationCommand"
    r"|Show(?!Indexes|Constraints|Functions|Procedures))"
)
"""Operators that write, or read more than the graph: other clients' queries, settings, users."""

_FUNCTION_SPACE: Final = re.compile(r"date|(local)?(date)?time|duration|point|vector|db")
_READING: Final = {"MATCH", "OPTIONAL", "UNWIND", "WITH", "RETURN", "CALL"}
_CATALOG: Final = {"SHOW_TABLES", "SHOW_FUNCTIONS", "TABLE_INFO"}
_ESCAPE: Final = re.compile(r"\\u+([0-9a-fA-F]{4})")
_TOKEN: Final = re.compile(
    r"""//[^\n\r]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\d[\w.]*|\$?`[^`]*`|\$?\w+|\.\.|\S""", re.DOTALL
)
TIMED_OUT: Final = "the query did not end within {:g} s: narrow it, or give it more with --timeout."
_NAME: Final = r"(?:`[^`]*`|\w+)"
_CALLED: Final = re.compile(rf"(\. )?((?:{_NAME} \. )*{_NAME}) \(")


def ask_server(
    driver: neo4j.Driver,
    database: str,
    text: str,
    parameters: Mapping[str, Any],
    *,
    timeout_s: float = 30.0,
    limit: int = 10_000,
    write: bool = False,
) -> Result:
    """Run a query.

    Args:
        write: Run any statement unchecked and commit it; otherwise the query must only read.
    Raises:
        QueryError: it would write, calls what is not allowed, takes too long, or is no Cypher.
    """
    import neo4j

    values = dict(parameters)
    mode = neo4j.WRITE_ACCESS if write else neo4j.READ_ACCESS
    with cast("Any", driver).session(database=database, default_access_mode=mode) as session:
        if write:
            with _explained(timeout_s):
                found = session.run(neo4j.Query(cast("Any", text), timeout=timeout_s), values)
                result = _fetch(found, limit)
                found.consume()
                return result
        check_text(text)
        with session.begin_transaction(timeout=timeout_s) as transaction, _explained(timeout_s):
            check_plan(transaction.run("EXPLAIN " + text, values).consume())
        with session.begin_transaction(timeout=timeout_s) as transaction, _explained(timeout_s):
            return _fetch(transaction.run(text, values), limit)


def _fetch(found: neo4j.Result, limit: int) -> Result:
    columns = tuple(found.keys())
    rows = tuple(tuple(from_neo4j(value) for value in record.values()) for record in islice(found, limit))
    return Result(columns, rows, truncated=found.peek() is not None)


def from_neo4j(value: Any) -> Value:
    """A value of Neo4j's driver as a plain one."""
    from neo4j.graph import Node, Path, Relationship

    if isinstance(value, Node | Relationship):
        names = list(value.labels) if isinstance(value, Node) else [value.type]
        properties = {key: from_neo4j(item) for key, item in value.items()}
        return entity(names, properties, is_node=isinstance(value, Node))
    if isinstance(value, Path):
        return {"nodes": from_neo4j(value.nodes), "relationships": from_neo4j(value.relationships)}
    if isinstance(value, list | tuple):
        return [from_neo4j(item) for item in cast("Sequence[Any]", value)]
    if isinstance(value, Mapping):
        return {str(key): from_neo4j(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if value is None or isinstance(value, bool | int | float | str):
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
        code, message = str(error.code or ""), " ".join(str(error.message or error).split())
        if "TimedOut" in code or "Terminated" in code:
            message = TIMED_OUT.format(timeout_s)
        elif "AccessMode" in code or "ReadOnly" in code or "read access mode" in message:
            message = "the query would write, and only reads: to change the graph, use --write."
        else:
            message = message.replace('"EXPLAIN ', '"')
            message = f"Neo4j cannot answer that: {message} [{code}]"
        raise QueryError(message) from error


def check_plan(planned: neo4j.ResultSummary) -> None:
    """Refuse a plan that does more than read the graph, with a `QueryError` that names the operator or procedure."""
    operators = list(_operators(cast("Any", planned).plan))
    for operator, details in operators:
        if operator.startswith("ProcedureCall"):
            name = details.partition("(")[0].strip().replace("`", "")
            if name not in PROCEDURES:
                raise QueryError(f"the procedure {name} is not among those that only read ({', '.join(PROCEDURES)}).")
        elif _REFUSED.match(operator):
            raise QueryError(f"the query does more than read the graph ({operator}): to do that, use --write.")
    shows = any(operator.startswith("Show") for operator, _ in operators)  # the allowed ones: indexes and the like
    if planned.query_type != "r" and not (planned.query_type == "s" and shows):
        raise QueryError("the query would change the graph or the server, and only reads: to do that, use --write.")


def _operators(plan: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if plan is not None:
        details = str(plan.get("args", {}).get("Details", ""))
        yield str(plan.get("operatorType", "")).partition("@")[0], details
        for child in plan.get("children", ()):
            yield from _operators(child)


def check_text(text: str) -> None:
    """Refuse what a server's plan does not show: several statements, or functions of plug-ins."""
    # Neo4j decodes such escapes before anything else, so that they could end a string.
    for read in {text, _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)}:
        for dot, called in _CALLED.findall(" ".join(_tokens(read))):
            name = called.replace(" . ", ".").replace("`", "")
            known = _FUNCTION_SPACE.fullmatch(name.partition(".")[0].lower()) or name in PROCEDURES
            if (dot or "." in name) and not known:
                raise QueryError(f"{name}() comes from a plug-in or is not for reading: run it with --write.")


def check_embedded(text: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse what the embedded engine does even to a read-only database: it reads and writes files, fetches extensions
    and changes settings.

    Returns:
        The parameters that the text uses: the engine rejects others, and takes a missing one for null.
    Raises:
        QueryError: it does one of those, holds several statements, or uses a parameter without a value.
    """
    tokens = _tokens(text)
    if (first := tokens[0].upper()) not in _READING:
        raise QueryError(
            f"{first} is no query that reads: begin with MATCH, UNWIND, WITH or RETURN. An embedded store changes by "
            "ingest, import and forget; one in Neo4j by --write too."
        )
    for before, token, following in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
        word = token.upper()
        if token[0].isdigit():  # the engine reads 1e0LOAD as a number and a keyword
            word = "LOAD" if word.endswith("LOAD") else "CALL" if word.endswith("CALL") else ""
        elif before == "." or following == ":":
            continue  # a property, or a key of a map
        if word == "LOAD":
            raise QueryError("LOAD reads files, and a query only the graph; a name is written `load`.")
        if word == "CALL" and following.upper() not in _CATALOG:
            raise QueryError(f"of procedures a query may CALL {', '.join(sorted(_CATALOG)).lower()} alone.")
    used = {token[1:].strip("`") for token in tokens if token[0] == "$" and len(token) > 1}
    if missing := sorted(used - set(parameters)):
        raise QueryError(f"the query uses ${missing[0]}, which has no value: give it one with --param {missing[0]}=…")
    return {name: value for name, value in parameters.items() if name in used}


def _tokens(text: str) -> list[str]:
    """The tokens of a text that must hold one query, with strings emptied."""
    tokens: list[str] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in {"'", '"', "`"}:
            raise QueryError(f"the query has a quotation mark that is not closed: {text[match.start() :][:20]!r}.")
        if not token.startswith(("//", "/*")):
            tokens.append("''" if token[0] in "'\"" else token)
    while tokens and tokens[-1] == ";":
        tokens.pop()
    if not tokens:
        raise QueryError("there is no query: the text is empty.")
    if ";" in tokens:
        raise QueryError("one query at a time: there is a second one behind the ; .")
    if (first := tokens[0].upper()) in {"EXPLAIN", "PROFILE"}:
        raise QueryError(f"{first} comes from hepm itself here: leave it out, or use it in Neo4j Browser.")
    return tokens
