"""Expressions of the portable subset, written so that the embedded engine gives the values that Neo4j gives.

Everything here was found by running both engines beside each other; docs/cypher.md tells users what came of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hepm.cypher.functions import QUANTIFIERS, written_call
from hepm.cypher.kinds import Kinds, ValueKind, end_of_case, parts_of
from hepm.cypher.patterns import Pattern, PatternReader, outside
from hepm.cypher.tokens import Token, closing, split_at, until_where, written
from hepm.errors import QueryError

_KEYWORDS: Final = {
    *("AND", "OR", "XOR", "NOT", "IN", "IS", "NULL", "STARTS", "ENDS", "WITH", "CONTAINS", "TRUE", "FALSE", "DISTINCT"),
    *("CASE", "WHEN", "THEN", "ELSE", "END", "AS", "WHERE", "ASC", "DESC", "ASCENDING", "DESCENDING"),
}
_SIGNS: Final = ("+", "-", "*", "/", "%", "^", "=", "<>", "<", ">", "<=", ">=", "=~", ",", ".")


class ExpressionWriter:
    """Writes expressions for the embedded engine.

    Attributes:
        walks: Names of relationships of variable length: in Neo4j such a name is a list.
        unordered: Whether rows were put in order before, which a collected list would not keep.
    """

    def __init__(self, parameters: Mapping[str, Any], names: Iterator[str]) -> None:
        self.parameters = parameters
        self.kinds = Kinds(parameters)
        self.patterns = PatternReader(self.write, names)
        self.walks: set[str] = set()
        self.unordered = False

    def write(self, tokens: Sequence[Token]) -> str:
        """One expression, or several with commas between."""
        text = ""
        at = 0
        while at < len(tokens):
            piece, following = self._piece(tokens, at)
            space = " " if tokens[at].apart or (text and text[-1].isalnum() and piece[:1].isalnum()) else ""
            text += space + piece
            at = following
        return text.strip()

    def _piece(self, tokens: Sequence[Token], at: int) -> tuple[str, int]:
        token = tokens[at]
        if token.kind == "param":
            return self._parameter(token), at + 1
        if token.kind == "sign":
            return self._sign(tokens, at)
        return self._word(tokens, at) if token.is_name else (written(token), at + 1)

    def _word(self, tokens: Sequence[Token], at: int) -> tuple[str, int]:
        token = tokens[at]
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        if at and tokens[at - 1].is_sign("."):
            if following is not None and following.is_sign("("):
                raise outside(f"the function …{token.text}()")
        elif token.upper == "CASE":
            return self._case(tokens, at)
        elif following is not None and following.is_sign("{") and token.upper not in _KEYWORDS:
            return self._subquery(tokens, at)
        elif token.upper in _KEYWORDS:
            return token.upper, at + 1
        elif following is not None and following.is_sign("("):
            end = closing(tokens, at + 1)
            return self._call(token, tokens[at + 2 : end]), end + 1
        elif token.text in self.walks:
            return f"rels({written(token)})", at + 1
        return written(token), at + 1

    def _parameter(self, token: Token) -> str:
        value = self.parameters[token.text]
        if isinstance(value, list | tuple) and None in value:  # pyright: ignore[reportUnknownVariableType]
            raise outside(f"a null in the list ${token.text}", "leave it out")
        # The engine takes an untyped null for a boolean.
        return "NULL" if value is None else written(token)

    def _sign(self, tokens: Sequence[Token], at: int) -> tuple[str, int]:
        token = tokens[at]
        if token.is_sign("("):
            return self._bracket(tokens, at)
        if token.is_sign("["):
            end = closing(tokens, at)
            inner = tokens[at + 1 : end]
            if at and _ends_operand(tokens[at - 1]):
                return self._slice(inner), end + 1
            return self._list(inner), end + 1
        if token.is_sign("{"):
            end = closing(tokens, at)
            return "{" + ", ".join(
                self._entry(part) for part in split_at(tokens[at + 1 : end], ",") if part
            ) + "}", end + 1
        if token.is_sign(":", "::"):
            raise outside("a label in an expression", "write the label into MATCH, or compare labels(n)")
        if not token.is_sign(*_SIGNS):
            raise outside(f"{token.text!r} in an expression")
        return token.text, at + 1

    def _bracket(self, tokens: Sequence[Token], at: int) -> tuple[str, int]:
        end = closing(tokens, at)
        if not _leads_on(tokens, at, end):
            return f"({self.write(tokens[at + 1 : end])})", end + 1
        found = Pattern()
        text, used = self.patterns.chain(tokens[at:], found)
        if len(found.relationships) > 1:
            raise outside("a longer pattern as a condition", "write EXISTS { … } around it")
        return f"EXISTS {{ MATCH {text} }}", at + used

    def _entry(self, part: Sequence[Token]) -> str:
        if len(part) < 3 or not part[0].is_name or not part[1].is_sign(":"):
            raise outside("this map", "write maps like {name: value}")
        return f"{written(part[0])}: {self.write(part[2:])}"

    # Lists

    def _slice(self, inner: Sequence[Token]) -> str:
        # Neo4j counts from 0 and leaves the end out, the embedded engine counts from 1 and takes it in.
        at = next((i for i, token in enumerate(inner) if token.is_sign("..")), None)
        if at is None:
            raise outside("an index like list[0]", "use head(), last() or a slice like list[0..3]")
        low, high = self._bound(inner[:at]), self._bound(inner[at + 1 :])
        start = "" if low is None else str(low + 1)
        return f"[{start}:{'' if high is None else high}]"

    def _bound(self, tokens: Sequence[Token]) -> int | None:
        if not tokens:
            return None
        token = tokens[0]
        value = self.parameters.get(token.text) if token.kind == "param" else token.text
        if len(tokens) > 1 or not str(value).isdigit():
            raise outside("a computed or negative bound of a slice", "write a number, or a parameter that is one")
        return int(str(value))

    def _list(self, inner: Sequence[Token]) -> str:
        if len(inner) > 2 and inner[0].is_name and inner[1].upper == "IN":
            return self._comprehension(inner)
        if len(split_at(inner, "|")) > 1:
            raise outside("a pattern comprehension", "use OPTIONAL MATCH and collect()")
        if any(token.upper == "NULL" for token in inner):
            raise outside("a null in a list", "leave it out")
        return f"[{self.write(inner)}]"

    def _comprehension(self, inner: Sequence[Token]) -> str:
        head, *tail = split_at(inner, "|")
        source, condition = until_where(head[2:])
        name = inner[0]
        items, renamed = self._items(source, name, [*condition, *(tail[0] if tail else ())])
        if condition:
            items = f"list_filter({items}, {written(name)} -> {self._of_item(condition, name, renamed)})"
        if tail and not (renamed and not condition and len(tail[0]) == 3):
            items = f"list_transform({items}, {written(name)} -> {self._of_item(tail[0], name, renamed)})"
        elif renamed and not tail:
            raise outside(
                "a list of whole nodes or relationships picked by a condition", "return one of their properties"
            )
        return items

    def _quantifier(self, function: str, inner: Sequence[Token]) -> str:
        if len(inner) < 3 or inner[1].upper != "IN":
            raise outside(f"this use of {function}()", f"write {function}(x IN list WHERE …)")
        source, condition = until_where(inner[2:])
        items, renamed = self._items(source, inner[0], condition)
        test = self._of_item(condition, inner[0], renamed) if condition else written(inner[0])
        return f"{function}({written(inner[0])} IN {items} WHERE {test})"

    def _items(self, source: Sequence[Token], name: Token, used_in: Sequence[Token]) -> tuple[str, str]:
        """The list to go through; where it holds nodes or relationships, the one property of them that is used.

        Inside such a loop the engine reads properties of the wrong row, so it is given a list of plain values.
        """
        used = {
            used_in[i + 2].text
            for i in range(len(used_in) - 2)
            if used_in[i].text == name.text and used_in[i].is_name and used_in[i + 1].is_sign(".")
        }
        if not used:
            return self.write(source), ""
        function = source[0].text.lower() if source[0].kind == "word" else ""
        walk = len(source) == 1 and source[0].text in self.walks
        if not walk and function not in {"nodes", "relationships"}:
            raise outside("a property of a list's items inside […] or all(…)", "UNWIND the list")
        only = used.pop()
        if used:
            raise outside("two properties of a path's parts inside one […] or all(…)", "write one for each of them")
        if not only.isidentifier():  # it goes into the text as a string
            raise QueryError(f"there is no property {only!r}.")
        return f"properties({self.write(source)}, '{only}')", only

    def _of_item(self, tokens: Sequence[Token], name: Token, renamed: str) -> str:
        if not renamed:
            return self.write(tokens)
        plain: list[Token] = []
        at = 0
        while at < len(tokens):
            plain.append(tokens[at])
            if tokens[at].is_name and tokens[at].text == name.text and not (at and tokens[at - 1].is_sign(".")):
                if at + 2 >= len(tokens) or not tokens[at + 1].is_sign("."):
                    raise outside("a path's part beside one of its properties inside […] or all(…)", "use its property")
                at += 2
            at += 1
        return self.write(plain)

    # Words with brackets behind them

    def _call(self, token: Token, inner: Sequence[Token]) -> str:
        function = token.text.lower()
        if token.kind == "quoted":
            raise outside(f"the function `{token.text}`")
        if function in QUANTIFIERS:
            return self._quantifier(function, inner)
        if function == "collect" and self.unordered:
            raise outside("collect() behind an ORDER BY, whose order the list would not keep,", "sort what is returned")
        return written_call(token.text, self._arguments(inner))

    def _arguments(self, inner: Sequence[Token]) -> str:
        if len(inner) == 1 and inner[0].is_sign("*"):
            return "*"
        if inner and inner[0].upper == "DISTINCT":
            return f"DISTINCT {self.write(inner[1:])}"
        return self.write(inner)

    def _subquery(self, tokens: Sequence[Token], at: int) -> tuple[str, int]:
        word = tokens[at].upper
        if word not in {"EXISTS", "COUNT", "COLLECT"}:
            raise outside(f"the map projection {tokens[at].text} {{…}}", "return the properties one by one")
        end = closing(tokens, at + 1)
        inner = tokens[at + 2 : end]
        if inner and inner[0].upper == "MATCH":
            inner = inner[1:]
        if word == "COLLECT" or not inner or not inner[0].is_sign("(") or any(t.upper in _CLAUSES for t in inner):
            raise outside(f"this {word} {{…}}", "hold one pattern in it, and perhaps a WHERE")
        pattern_tokens, condition = until_where(inner)
        labels = dict(self.patterns.labels)
        pattern = self.patterns.read(pattern_tokens)
        text = f"{word} {{ MATCH {pattern.text}{self.where(condition, pattern)} }}"
        self.patterns.labels = labels  # names of its own are gone behind it
        return text, end + 1

    def where(self, condition: Sequence[Token], pattern: Pattern) -> str:
        """The WHERE of a pattern: what was asked, and that no relationship is taken twice."""
        asked = [f"({self.write(condition)})"] if condition else []
        return " WHERE " + " AND ".join([*asked, *pattern.distinct]) if asked or pattern.distinct else ""

    def _case(self, tokens: Sequence[Token], at: int) -> tuple[str, int]:
        end = end_of_case(tokens, at)
        (_, operand), *parts = parts_of(tokens[at + 1 : end])
        results = [branch for word, branch in parts if word in {"THEN", "ELSE"}]
        found: set[ValueKind] = {self.kinds.of(branch) for branch in results}
        found.discard("null")
        as_float = self.kinds.common([*found]) == "float" and len(found) > 1
        doubtful = "unknown" in found and (
            found & {"integer"} or (len(found) == 1 and len({_text(b) for b in results}) > 1)
        )
        if doubtful:
            raise outside(
                "a CASE whose results may be different kinds of numbers", "put toFloat(…) around each of them"
            )
        text = "CASE"
        for word, branch in parts:
            piece = self.write(branch)
            if word == "WHEN" and operand:
                # The engine lets `CASE x WHEN null` match everything.
                piece = f"({self.write(operand)}) = ({piece})"
            elif word != "WHEN" and as_float:
                piece = f"CAST({piece} AS DOUBLE)"
            text += f" {word} {piece}"
        return f"{text} END", end + 1


_CLAUSES: Final = {"OPTIONAL", "RETURN", "UNWIND", "CALL", "UNION", "MATCH", "ORDER", "LIMIT", "SKIP"}


def _text(tokens: Sequence[Token]) -> str:
    return " ".join(written(token) for token in tokens)


def _ends_operand(token: Token) -> bool:
    if token.kind == "word":
        return token.upper not in _KEYWORDS or token.upper == "END"
    return token.kind in {"quoted", "param", "string"} or token.is_sign(")", "]", "}")


def _leads_on(tokens: Sequence[Token], at: int, end: int) -> bool:
    """Whether brackets hold a node that a relationship follows, and not something to be computed."""
    if at and _ends_operand(tokens[at - 1]):
        return False
    signs = "".join(token.text for token in tokens[end + 1 : end + 4] if token.kind == "sign")
    return signs.startswith(("-[", "<-[", "-->", "<--", "--("))
