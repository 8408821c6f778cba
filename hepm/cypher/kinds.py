"""What kind of value an expression has, as far as its text tells.

The embedded engine takes one type for all branches of a CASE, and cuts 0.5 down to 0 where another branch is an
integer; Neo4j keeps each. So branches of different kinds of numbers are made floats, and where the kinds cannot be
told, the query is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from hepm.cypher.model import type_of
from hepm.cypher.tokens import Token, closing, end_of_case, split_at

ValueKind: TypeAlias = Literal["integer", "float", "string", "boolean", "other", "null", "unknown"]

_LOGIC: Final = {"AND", "OR", "XOR", "NOT", "IN", "IS", "STARTS", "ENDS", "CONTAINS"}
_FUNCTIONS: Final[Mapping[str, ValueKind]] = {
    **dict.fromkeys(("count", "size", "length"), "integer"),
    **dict.fromkeys(
        ("tofloat", "avg", "percentilecont", "sqrt", "log", "log10", "ceil", "floor"),
        "float",
    ),
    **dict.fromkeys(("tolower", "toupper", "trim", "ltrim", "rtrim", "left", "right", "replace", "type"), "string"),
    **dict.fromkeys(("all", "any", "none"), "boolean"),
    **dict.fromkeys(("collect", "nodes", "relationships", "labels", "range", "startnode", "endnode"), "other"),
}
_LIKE_THEIR_ARGUMENTS: Final = {"sum", "min", "max", "abs", "coalesce", "percentiledisc"}


class Kinds:
    """Kinds of the names and parameters of one query."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters
        self._names: dict[str, ValueKind] = {}

    def set(self, name: str, kind: ValueKind) -> None:
        """Note what a name stands for."""
        self._names[name] = kind

    def of(self, tokens: Sequence[Token]) -> ValueKind:
        """The kind of an expression."""
        if len(tokens) == 1:
            return self._of_one(tokens[0])
        if not tokens:
            return "unknown"
        first = tokens[0]
        if first.is_sign("(") and closing(tokens, 0) == len(tokens) - 1:
            return self.of(tokens[1:-1])
        if first.upper == "CASE" and end_of_case(tokens, 0) == len(tokens) - 1:
            return self.common([self.of(branch) for branch in results_of(tokens[1:-1])])
        return self._of_operation(tokens) or self._of_operand(tokens)

    def _of_one(self, token: Token) -> ValueKind:
        if token.kind == "string":
            return "string"
        if token.kind == "number":
            return "integer" if token.text.isdigit() else "float"
        if token.kind == "param":
            return kind_of_value(self._parameters.get(token.text))
        if token.upper in {"TRUE", "FALSE"}:
            return "boolean"
        return "null" if token.upper == "NULL" else self._names.get(token.text, "unknown")

    def _of_operation(self, tokens: Sequence[Token]) -> ValueKind | None:
        outer = _outside_brackets(tokens)
        if any(token.upper in _LOGIC or token.is_sign("=", "<>", "<", ">", "<=", ">=", "=~") for token in outer):
            return "boolean"
        if any(token.is_sign("^") for token in outer):
            return "float"
        parts = [part for part in split_at(tokens, "+", "-", "*", "/", "%") if part]
        if len(parts) == 1 and len(parts[0]) == len(tokens):
            return None
        return self.common([self.of(part) for part in parts])

    def _of_operand(self, tokens: Sequence[Token]) -> ValueKind:
        first = tokens[0]
        if first.is_sign("[", "{") and closing(tokens, 0) == len(tokens) - 1:
            return "other"
        if len(tokens) == 3 and tokens[1].is_sign(".") and first.is_name:
            kind = type_of(tokens[2].text)
            return "unknown" if kind is None else "other" if kind == "strings" else kind
        if first.kind == "word" and tokens[1].is_sign("(", "{") and closing(tokens, 1) == len(tokens) - 1:
            function = first.text.lower()
            if function in _LIKE_THEIR_ARGUMENTS:
                inner = [part for part in split_at(tokens[2:-1], ",") if part]
                return self.common([self.of(_without_distinct(part)) for part in inner])
            return "boolean" if function == "exists" else _FUNCTIONS.get(function, "unknown")
        return "unknown"

    @staticmethod
    def common(kinds: Sequence[ValueKind]) -> ValueKind:
        """What values of these kinds are together."""
        found = set(kinds) - {"null"}
        if len(found) == 1:
            return found.pop()
        if found in ({"integer", "float"}, {"float", "unknown"}):
            return "float"
        return "null" if not found else "unknown"


def kind_of_value(value: Any) -> ValueKind:
    """The kind of a parameter."""
    if value is None:
        return "null"
    for kind, types in (("boolean", bool), ("integer", int), ("float", float), ("string", str)):
        if isinstance(value, types):
            return kind  # type: ignore[return-value]
    return "other"


def results_of(inner: Sequence[Token]) -> list[list[Token]]:
    """The expressions behind THEN and ELSE of a CASE, given what stands between CASE and END."""
    return [tokens for word, tokens in parts_of(inner) if word in {"THEN", "ELSE"}]


def parts_of(inner: Sequence[Token]) -> list[tuple[str, list[Token]]]:
    """What stands between CASE and END: ("", the operand), then each of WHEN, THEN and ELSE with its expression."""
    parts: list[tuple[str, list[Token]]] = [("", [])]
    depth = 0
    for token in inner:
        depth += (token.upper == "CASE" or token.is_sign("(", "[", "{")) - (
            token.upper == "END" or token.is_sign(")", "]", "}")
        )
        if depth == 0 and token.upper in {"WHEN", "THEN", "ELSE"}:
            parts.append((token.upper, []))
        else:
            parts[-1][1].append(token)
    return parts


def _without_distinct(tokens: Sequence[Token]) -> Sequence[Token]:
    return tokens[1:] if tokens and tokens[0].upper == "DISTINCT" else tokens


def _outside_brackets(tokens: Sequence[Token]) -> list[Token]:
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        if tokens[at].is_sign("(", "[", "{"):
            at = closing(tokens, at)
        elif tokens[at].upper == "CASE":
            at = end_of_case(tokens, at)
        else:
            found.append(tokens[at])
        at += 1
    return found
