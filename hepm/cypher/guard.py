"""What may be run for somebody who only asks.

A Neo4j server plans the query without running it (EXPLAIN), and the plan is checked: it may read, and call procedures
of a short list. Then it runs in a read transaction, which the server itself keeps from writing, with a time limit, and
no more rows are fetched than were asked for. The embedded engine has no such plan: words of the text are checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from hepm.cypher.result import Result, from_neo4j
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
"""Operators of plans that write, or tell of more than the graph: other clients' queries, settings, users."""

_FUNCTION_SPACES: Final = {
    *("date", "datetime", "localdatetime", "localtime", "time", "duration", "point", "vector", "db"),
}
_READING: Final = {"MATCH", "OPTIONAL", "UNWIND", "WITH", "RETURN", "CALL"}
_CATALOG: Final = {"SHOW_TABLES", "SHOW_FUNCTIONS", "TABLE_INFO"}
_ESCAPE: Final = re.compile(r"\\u+([0-9a-fA-F]{4})")
_TOKEN: Final = re.compile(
    r"""
    (?P<space> \s+ | //[^\n\r]* | /\*.*?\*/ )
  | (?P<param> \$(?: \w+ | `[^`]*` ) )
  | (?P<word> [^\W\d]\w* )
  | (?P<quoted> `[^`]*` )
  | (?P<string> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
  | (?P<sign> \d+(?:\.\d+)? | \.\. | [^'"`] )
    """,
    re.VERBOSE | re.DOTALL,
)


def ask_server(
    driver: neo4j.Driver,
    database: str,
    text: str,
    parameters: Mapping[str, Any],
    *,
    timeout_s: float = 30.0,
    limit: int = 10_000,
) -> Result:
    """Run a query that only reads.

    Raises:
        QueryError: it would write, call what is not allowed, takes too long, or is no Cypher.
    """
    check_text(text)
    with _session(driver, database, "READ") as session:
        with session.begin_transaction(timeout=timeout_s) as transaction:
            planned = _answer(transaction, "EXPLAIN " + text, parameters, timeout_s).consume()
            check_plan(planned)
        with session.begin_transaction(timeout=timeout_s) as transaction:
            return _fetch(_answer(transaction, text, parameters, timeout_s), limit, timeout_s)


def change_server(
    driver: neo4j.Driver,
    database: str,
    text: str,
    parameters: Mapping[str, Any],
    *,
    timeout_s: float = 30.0,
    limit: int = 10_000,
) -> Result:
    """Run any statement, as it is; it commits by itself."""
    import neo4j

    with _session(driver, database, "WRITE") as session:
        query = neo4j.Query(cast("Any", text), timeout=timeout_s)
        return _fetch(_answer(session, query, parameters, timeout_s), limit, timeout_s, to_the_end=True)


def _session(driver: neo4j.Driver, database: str, mode: str) -> neo4j.Session:
    return driver.session(  # pyright: ignore[reportUnknownMemberType]  # its settings are untyped
        database=database, default_access_mode=mode
    )


def check_text(text: str) -> None:
    """Refuse what a server's plan does not show.

    Raises:
        QueryError: it is empty, holds several statements, or calls functions that come from plug-ins.
    """
    _check_functions(_one_query(text))
    if "\\u" in text:  # Neo4j reads such escapes before anything else, so that they could end a string
        _check_functions(_one_query(_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)))


def check_embedded(text: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse what the embedded engine does even to a database that is open for reading alone: it reads and writes
    files, fetches extensions and changes settings.

    Returns:
        The parameters that the text uses: the engine refuses others, and takes a missing one for null.
    Raises:
        QueryError: it does one of those, holds several statements, or uses a parameter without a value.
    """
    tokens = _one_query(text)
    if (first := tokens[0].text.upper()) not in _READING:
        raise QueryError(
            f"{first} is no query that reads: begin with MATCH, UNWIND, WITH or RETURN. An embedded store changes by "
            "ingest, import and forget; one in Neo4j by --write too."
        )
    for before, token, following in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if (before and before.text == ".") or (following and following.text == ":"):
            continue  # a property, or a key of a map
        if token.upper == "LOAD":
            raise QueryError("LOAD reads files, and a query only the graph; a name is written `load`.")
        if token.upper == "CALL" and (following is None or following.upper not in _CATALOG):
            raise QueryError(f"of procedures a query may CALL {', '.join(sorted(_CATALOG)).lower()} alone.")
    used = {token.text for token in tokens if token.kind == "param"}
    if missing := sorted(used - set(parameters)):
        raise QueryError(f"the query uses ${missing[0]}, which has no value: give it one with --param {missing[0]}=…")
    return {name: value for name, value in parameters.items() if name in used}


class _Token(NamedTuple):
    kind: str
    text: str

    @property
    def upper(self) -> str:
        """A word in capitals, as keywords are compared; "" for everything else."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def is_name(self) -> bool:
        return self.kind in {"word", "quoted"}


def _one_query(text: str) -> list[_Token]:
    """The tokens of a text that holds one query."""
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise QueryError(f"the query has a quotation mark that is not closed: {text[at : at + 20]!r}.")
        if (kind := str(match.lastgroup)) != "space":
            tokens.append(_Token(kind, match[0].strip("`$") if kind in {"quoted", "param"} else match[0]))
        at = match.end()
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    if not tokens:
        raise QueryError("there is no query: the text is empty.")
    if any(token == ("sign", ";") for token in tokens):
        raise QueryError("one query at a time: there is a second one behind the ; .")
    if (first := tokens[0].upper) in {"EXPLAIN", "PROFILE"}:
        raise QueryError(f"{first} comes from hepm itself here: leave it out, or use it in Neo4j Browser.")
    return tokens


def _check_functions(tokens: list[_Token]) -> None:
    for index, token in enumerate(tokens[:-1]):
        behind_a_dot = index > 0 and tokens[index - 1].text == "."
        if not (token.is_name and tokens[index + 1].text == "(" and (behind_a_dot or "." in token.text)):
            continue
        parts = _dotted(tokens, index)
        if parts[0].lower() not in _FUNCTION_SPACES and ".".join(parts) not in PROCEDURES:
            raise QueryError(f"{'.'.join(parts)}() comes from a plug-in or is not for reading: run it with --write.")


def _dotted(tokens: list[_Token], end: int) -> list[str]:
    at = end
    while at >= 2 and tokens[at - 1].text == "." and tokens[at - 2].is_name:
        at -= 2
    return ".".join(token.text for token in tokens[at : end + 1] if token.is_name).split(".")


def check_plan(planned: neo4j.ResultSummary) -> None:
    """Refuse a plan that does more than read the graph.

    Raises:
        QueryError: it names the operator or the procedure.
    """
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
    if plan is None:
        return
    details = str(plan.get("args", {}).get("Details", ""))
    yield str(plan.get("operatorType", "")).partition("@")[0], details
    for child in plan.get("children", ()):
        yield from _operators(child)


def _answer(runner: Any, text: Any, parameters: Mapping[str, Any], timeout_s: float) -> neo4j.Result:
    from neo4j.exceptions import ClientError, TransientError

    try:
        return runner.run(text, dict(parameters))
    except (ClientError, TransientError) as error:
        raise _explain(error, timeout_s) from error
    except (OverflowError, UnicodeError, ValueError, TypeError) as error:
        raise QueryError(f"a parameter cannot be sent to Neo4j: {error}.") from error


def _fetch(found: neo4j.Result, limit: int, timeout_s: float, *, to_the_end: bool = False) -> Result:
    from neo4j.exceptions import ClientError, TransientError

    rows: list[tuple[Any, ...]] = []
    cut = False
    try:
        columns = tuple(found.keys())
        for record in found:
            if len(rows) == limit:
                cut = True
                break
            rows.append(tuple(from_neo4j(value) for value in record.values()))
        if to_the_end:
            found.consume()
    except (ClientError, TransientError) as error:
        raise _explain(error, timeout_s) from error
    return Result(columns, tuple(rows), cut)


def _explain(error: Any, timeout_s: float) -> QueryError:
    code, said = str(error.code or ""), " ".join(str(error.message or error).split())
    if "TimedOut" in code or "Terminated" in code:
        return QueryError(f"the query did not end within {timeout_s:g} s: narrow it, or give it more with --timeout.")
    if "AccessMode" in code or "ReadOnly" in code or "read access mode" in said:
        return QueryError("the query would write, and only reads: to change the graph, use --write.")
    said = said.replace('"EXPLAIN ', '"')
    return QueryError(f"Neo4j cannot answer that: {said} [{code}]")
