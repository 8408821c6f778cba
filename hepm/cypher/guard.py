"""What may be run on a Neo4j server for somebody who only asks.

The server plans the query without running it (EXPLAIN), and the plan is checked: it may read, and call procedures of
a short list. Then it runs in a read transaction, which the server itself keeps from writing, with a time limit, and
no more rows are fetched than were asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from hepm.cypher.result import Result, from_neo4j
from hepm.cypher.tokens import Token, tokens_of
from hepm.errors import QueryError

if TYPE_CHECKING:
    import neo4j

PROCEDURES: Final = (
    "db.info", "db.labels", "db.relationshipTypes", "db.propertyKeys", "db.schema.nodeTypeProperties",
    "db.schema.relTypeProperties", "db.schema.visualization", "db.index.vector.queryNodes",
    "db.index.vector.queryRelationships", "db.index.fulltext.queryNodes", "db.index.fulltext.queryRelationships",
)  # fmt: skip
"""Procedures that only read, and only the graph."""

_SHOWN: Final = {"ShowIndexes", "ShowConstraints", "ShowFunctions", "ShowProcedures"}
_WRITING: Final = re.compile(
    r"(Locking)?(Create|Merge|Delete|DetachDelete|Set|Remove|Foreach|Insert|Drop|Alter|Grant|Deny|Revoke|Rename|Start|Stop"
    r"|Load|Transaction|SubqueryForeach|EnsureNodes|Terminate|Do|Enable|Assert)"
)
_FUNCTION_SPACES: Final = {
    "date",
    "datetime",
    "localdatetime",
    "localtime",
    "time",
    "duration",
    "point",
    "vector",
    "db",
}
_ESCAPE: Final = re.compile(r"\\u+([0-9a-fA-F]{4})")


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
    """Refuse what a plan does not show.

    Raises:
        QueryError: it is empty, holds several statements, or calls functions that come from plug-ins.
    """
    _check_tokens(tokens_of(text))
    if "\\u" in text:  # Neo4j reads such escapes before anything else, so that they could end a string
        _check_tokens(tokens_of(_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)))


def _check_tokens(tokens: list[Token]) -> None:
    while tokens and tokens[-1].is_sign(";"):
        tokens.pop()
    if not tokens:
        raise QueryError("there is no query: the text is empty.")
    if any(token.is_sign(";") for token in tokens):
        raise QueryError("one query at a time: there is a second one behind the ; .")
    if (first := tokens[0].upper) in {"EXPLAIN", "PROFILE"}:
        raise QueryError(f"{first} comes from hepm itself here: leave it out, or use it in Neo4j Browser.")
    for index, token in enumerate(tokens[:-1]):
        behind_a_dot = index > 0 and tokens[index - 1].is_sign(".")
        if not (token.is_name and tokens[index + 1].is_sign("(") and (behind_a_dot or "." in token.text)):
            continue
        parts = _dotted(tokens, index)
        if parts[0].lower() not in _FUNCTION_SPACES and ".".join(parts) not in PROCEDURES:
            raise QueryError(f"{'.'.join(parts)}() comes from a plug-in or is not for reading: run it with --write.")


def _dotted(tokens: list[Token], end: int) -> list[str]:
    at = end
    while at >= 2 and tokens[at - 1].is_sign(".") and tokens[at - 2].is_name:
        at -= 2
    return ".".join(token.text for token in tokens[at : end + 1] if token.is_name).split(".")


def check_plan(planned: neo4j.ResultSummary) -> None:
    """Refuse a plan that does more than read.

    Raises:
        QueryError: it names the operator or the procedure.
    """
    operators = list(_operators(cast("Any", planned).plan))
    for operator, details in operators:
        if operator.startswith("ProcedureCall"):
            name = details.partition("(")[0].strip().replace("`", "")
            if name not in PROCEDURES:
                raise QueryError(f"the procedure {name} is not among those that only read ({', '.join(PROCEDURES)}).")
        elif _WRITING.match(operator):
            raise QueryError(
                f"the query would write or load ({operator}), and only reads: to change the graph, use --write."
            )
    shown = {operator for operator, _ in operators} & _SHOWN
    if planned.query_type != "r" and not (planned.query_type == "s" and shown):
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
