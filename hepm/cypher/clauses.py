"""A query's clauses, and which words may begin one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hepm.cypher.patterns import MADE, outside
from hepm.cypher.tokens import Token, closing
from hepm.errors import QueryError

WRITES: Final = {
    *("CREATE", "MERGE", "SET", "DELETE", "DETACH", "NODETACH", "REMOVE", "FOREACH", "DROP", "ALTER", "INSERT"),
    *("COPY", "INSTALL", "ATTACH", "EXPORT", "IMPORT"),
}
_REFUSED: Final[Mapping[str, str]] = {
    "CALL": "use OPTIONAL MATCH, WITH or EXISTS { … }, or run it on a store in Neo4j",
    "LOAD": "bring data in with `hepm ingest`",
    **dict.fromkeys(
        ("USE", "EXPLAIN", "PROFILE", "SHOW", "TERMINATE", "YIELD", "FINISH", "LET", "FILTER", "CYPHER"),
        "run it on a store in Neo4j",
    ),
    **dict.fromkeys(("BEGIN", "COMMIT", "ROLLBACK", "CHECKPOINT", "DETACH", "PROJECT", "MACRO"), "ask a question"),
}
_STARTS: Final = {"MATCH", "OPTIONAL", "WITH", "UNWIND", "RETURN", "UNION"}
PARTS: Final = {"WHERE", "ORDER", "SKIP", "LIMIT"}


def check_words(tokens: Sequence[Token]) -> None:
    """Refuse words that write, and clauses that the embedded engine does not answer.

    Raises:
        QueryError: the sentence names the word.
    """
    for index, token in enumerate(tokens):
        if token.is_sign(";"):
            raise QueryError("one query at a time: there is a second one behind the ; .")
        if token.is_name and token.text.startswith(MADE):
            raise QueryError(f"{token.text!r} begins like the names that hepm gives: call it something else.")
        before = tokens[index - 1] if index else None
        if token.kind != "word" or (before is not None and before.is_sign(".", ":", "|")):
            continue
        if index + 1 < len(tokens) and tokens[index + 1].is_sign(":", ".") and token.upper not in {"LOAD", "CALL"}:
            continue  # a key of a map, or a variable
        if token.upper in WRITES:
            raise QueryError(
                f"{token.upper} writes, and what analysts ask only reads. Change a store in Neo4j with --write; an "
                "embedded one changes by ingest and forget alone."
            )
        if token.upper in _REFUSED and (before is None or before.upper != "AS"):
            raise outside(token.upper, _REFUSED[token.upper])


def queries_of(tokens: Sequence[Token]) -> Iterator[tuple[str, list[Token]]]:
    """The queries that UNION joins, each with the word that joins it to those before."""
    joined, at = "", 0
    part: list[Token] = []
    while at < len(tokens):
        if tokens[at].upper == "UNION" and not (at and tokens[at - 1].is_sign(".", ":")):
            yield joined, part
            all_of_it = at + 1 < len(tokens) and tokens[at + 1].upper == "ALL"
            joined, part = ("UNION ALL" if all_of_it else "UNION"), []
            at += 1 + all_of_it
        else:
            part.append(tokens[at])
            at += 1
    yield joined, part


def clauses_of(tokens: Sequence[Token]) -> list[tuple[str, list[Token]]]:
    """The clauses of a query, each with its word and what follows it."""
    found: list[tuple[str, list[Token]]] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.is_sign("(", "[", "{"):
            end = closing(tokens, at)
            _behind(found, token).extend(tokens[at : end + 1])
            at = end + 1
            continue
        before = tokens[at - 1] if at else None
        free = before is None or not (before.is_sign(".", ":") or before.upper in {"STARTS", "ENDS", "AS"})
        if free and token.upper in _STARTS | PARTS:
            following = tokens[at + 1].upper if at + 1 < len(tokens) else ""
            pair = {"OPTIONAL": "MATCH", "ORDER": "BY"}.get(token.upper)
            if pair is not None and following != pair:
                raise outside(f"{token.upper} without {pair}", "write the clause in full")
            found.append((f"{token.upper} {pair}" if pair else token.upper, []))
            at += 1 + (pair is not None)
        else:
            _behind(found, token).append(token)
            at += 1
    return found


def _behind(found: Sequence[tuple[str, list[Token]]], token: Token) -> list[Token]:
    if not found:
        raise outside(f"a query that begins with {token.text!r}", "begin it with MATCH, UNWIND, WITH or RETURN")
    return found[-1][1]
