"""Operators that mean something else to the embedded engine where a null or nothing takes part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hepm.cypher.kinds import Kinds
from hepm.cypher.tokens import KEYWORDS, Token, closing, end_of_case, split_at


class Writer(Protocol):
    """What writes the operands."""

    parameters: Mapping[str, Any]
    kinds: Kinds

    def write(self, tokens: Sequence[Token]) -> str:
        """One expression."""
        ...


def write_operation(tokens: Sequence[Token], at: int, writer: Writer) -> tuple[str, int] | None:
    """The operation that begins here and where it ends; None where it needs no care."""
    if at and not _separates(tokens[at - 1]):
        return None
    end = _end_of_term(tokens, at)
    operator = tokens[end].upper if end < len(tokens) else ""
    if operator in {"CONTAINS", "IN"} and end > at:
        last = _end_of_term(tokens, end + 1)
        write = _containment if operator == "CONTAINS" else _membership
        return write(tokens[at:end], tokens[end + 1 : last], writer), last
    return (text, end) if (text := _sum_of_texts(tokens[at:end], writer)) else None


def _containment(whole: Sequence[Token], part: Sequence[Token], writer: Writer) -> str:
    """To the engine no text contains the empty one."""
    one, other = writer.write(whole), writer.write(part)
    if len(part) == 1 and part[0].kind == "string" and part[0].text:
        return f"{one} CONTAINS {other}"
    return f"({one} CONTAINS {other} OR ({other} = '' AND {one} IS NOT NULL))"


def _membership(item: Sequence[Token], items: Sequence[Token], writer: Writer) -> str:
    """To the engine null may be in a list of nothing, and `x IN list[0..2]` is a slice of `x IN list`."""
    one, other = writer.write(item), writer.write(items)
    given = writer.parameters.get(items[0].text) if len(items) == 1 and items[0].kind == "param" else None
    written_out = len(items) > 2 and items[0].is_sign("[") and closing(items, 0) == len(items) - 1
    if given or (written_out and other.startswith("[")):
        return f"{one} IN {other}"
    return f"(size({other}) > 0 AND {one} IN ({other}))"


def _sum_of_texts(tokens: Sequence[Token], writer: Writer) -> str:
    """To the engine a text and null together are the text."""
    operands = split_at(tokens, "+")
    if len(operands) < 2 or not all(operands) or writer.kinds.of(tokens) not in {"string", "unknown"}:
        return ""
    texts = [writer.write(operand) for operand in operands]
    doubtful = [
        f"{t} IS NOT NULL" for t, o in zip(texts, operands, strict=True) if o[0].kind not in {"string", "number"}
    ]
    return f"CASE WHEN {' AND '.join(doubtful)} THEN {' + '.join(texts)} END" if doubtful else ""


def _end_of_term(tokens: Sequence[Token], at: int) -> int:
    while at < len(tokens) and not _separates(tokens[at]):
        if tokens[at].is_sign("(", "[", "{"):
            at = closing(tokens, at)
        elif tokens[at].upper == "CASE":
            at = end_of_case(tokens, at)
        at += 1
    return at


def _separates(token: Token) -> bool:
    if token.is_sign("=", "<>", "<", ">", "<=", ">=", "=~", ",", "|", ":", ".."):
        return True
    return token.upper in KEYWORDS - {"TRUE", "FALSE", "NULL", "CASE", "END"}
