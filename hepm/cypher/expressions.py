"""Expressions of the portable subset, written so that the embedded engine gives the values that Neo4j gives.

Everything here was found by running both engines beside each other; docs/cypher.md tells users what came of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from hepm.cypher.functions import QUANTIFIERS, check_function, written_call, written_labels
from hepm.cypher.kinds import Kinds, ValueKind, kind_of_value, parts_of
from hepm.cypher.loops import LoopWriter, check_names
from hepm.cypher.model import always_there
from hepm.cypher.operations import write_operation
from hepm.cypher.patterns import Pattern, PatternReader, outside
from hepm.cypher.tokens import KEYWORDS, Token, closing, end_of_case, split_at, until_where, written

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
        self._loops = LoopWriter(self)

    def write(self, tokens: Sequence[Token]) -> str:
        """One expression, or several with commas between."""
        text = ""
        at = 0
        while at < len(tokens):
            piece, following = write_operation(tokens, at, self) or self._sliced(tokens, at) or self._piece(tokens, at)
            space = " " if tokens[at].apart or (text and text[-1].isalnum() and piece[:1].isalnum()) else ""
            text += space + piece
            at = following
        return text.strip()

    def _sliced(self, tokens: Sequence[Token], at: int) -> tuple[str, int] | None:
        """What begins here, where slices are taken of it; in brackets, for they bind more loosely in the engine."""
        if at and tokens[at - 1].is_sign("."):
            return None
        first = end = _end_of_operand(tokens, at)
        slices = ""
        while end > at and end < len(tokens) and tokens[end].is_sign("["):
            close = closing(tokens, end)
            slices += self._slice(tokens[end + 1 : close])
            end = close + 1
        if not slices:
            return None
        # Once the engine has met a null there, it says null for the rows behind it too.
        whole = self.write(tokens[at:first])
        return f"(CASE WHEN {whole} IS NOT NULL THEN coalesce({whole}, []){slices} END)", end

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
        elif following is not None and following.is_sign("{") and token.upper not in KEYWORDS:
            return self._subquery(tokens, at)
        elif token.upper in KEYWORDS:
            return token.upper, at + 1
        elif following is not None and following.is_sign("("):
            end = closing(tokens, at + 1)
            return self._call(token, tokens[at + 2 : end]), end + 1
        elif token.text in self.walks:
            return f"rels({written(token)})", at + 1
        return written(token), at + 1

    def _parameter(self, token: Token) -> str:
        value = self.parameters[token.text]
        if isinstance(value, list | tuple) and None in cast("list[Any]", value):
            raise outside(f"a null in the list ${token.text}", "leave it out")
        if value is None:  # the engine takes an untyped null for a boolean
            return "NULL"
        # Computed with, an integer that is given gets a type of its own, which not every operator takes.
        return f"CAST({written(token)} AS INT64)" if kind_of_value(value) == "integer" else written(token)

    def _sign(self, tokens: Sequence[Token], at: int) -> tuple[str, int]:
        token = tokens[at]
        if token.is_sign("("):
            return self._bracket(tokens, at)
        if token.is_sign("["):
            end = closing(tokens, at)
            inner = tokens[at + 1 : end]
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
            return self._loops.comprehension(inner)
        if len(split_at(inner, "|")) > 1:
            raise outside("a pattern comprehension", "use OPTIONAL MATCH and collect()")
        if any(token.upper == "NULL" for token in inner):
            raise outside("a null in a list", "leave it out")
        return f"[{self.write(inner)}]"

    # Words with brackets behind them

    def _call(self, token: Token, inner: Sequence[Token]) -> str:
        function = token.text.lower()
        if token.kind == "quoted":
            raise outside(f"the function `{token.text}`")
        check_function(token.text)
        if function in QUANTIFIERS:
            return self._loops.quantifier(function, inner)
        if function == "collect" and self.unordered:
            raise outside("collect() behind an ORDER BY, whose order the list would not keep,", "sort what is returned")
        if function == "replace":
            return self._replacing(inner)
        if function == "labels":
            return self._labels(inner)
        return written_call(token.text, self._arguments(inner))

    def _replacing(self, inner: Sequence[Token]) -> str:
        text, *others = [self.write(part) for part in split_at(inner, ",")]
        if len(others) != 2 or "NULL" in others or any(token.kind not in {"string", "param"} for token in inner[-3::2]):
            raise outside("replace() with computed texts", "write replace(text, 'this', 'that')")
        # Once the engine has met a null there, it says null for the rows behind it too.
        return f"CASE WHEN {text} IS NOT NULL THEN replace(coalesce({text}, ''), {', '.join(others)}) END"

    def _labels(self, inner: Sequence[Token]) -> str:
        if len(inner) != 1 or inner[0].text not in self.patterns.labels:
            raise outside("labels() of anything but a node's name in a pattern", "name the node in MATCH")
        return written_labels(written(inner[0]), self.patterns.labels[inner[0].text])

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
        text = f"{word} {{ MATCH {pattern.text}{self.where(condition, pattern, inside=word)} }}"
        self.patterns.labels = labels  # names of its own are gone behind it
        return text, end + 1

    def where(self, condition: Sequence[Token], pattern: Pattern, *, inside: str = "") -> str:
        """The WHERE of a pattern: what was asked, and that no relationship is taken twice."""
        if inside:
            check_names(condition, pattern.names, f"the pattern of {inside}", _ASK_BEFORE)
            _check_bound(condition, pattern, inside)
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
        # As a condition the engine misreads a CASE, so it is made a comparison.
        return (f"({text} END = true)" if found == {"boolean"} else f"{text} END"), end + 1


def _check_bound(condition: Sequence[Token], pattern: Pattern, inside: str) -> None:
    """Refuse what may be null of a node bound before: by such values the engine joins, and null equals nothing."""
    for at, token in enumerate(condition):
        if token.text not in pattern.bound or not token.is_name or (at and condition[at - 1].is_sign(".")):
            continue
        following = condition[at + 1] if at + 1 < len(condition) else None
        if following is not None and following.is_sign(".") and at + 2 < len(condition):
            if always_there(condition[at + 2].text, pattern.bound[token.text]):
                continue
        elif any(0 <= i < len(condition) and condition[i].is_sign("=", "<>") for i in (at - 1, at + 1)):
            continue
        raise outside(f"what may be null of {token.text!r}, bound before, in the WHERE of {inside}", _ASK_BEFORE)


_ASK_BEFORE: Final = "match it there too, or ask in WITH … WHERE"
_CLAUSES: Final = {"OPTIONAL", "RETURN", "UNWIND", "CALL", "UNION", "MATCH", "ORDER", "LIMIT", "SKIP"}


def _text(tokens: Sequence[Token]) -> str:
    return " ".join(written(token) for token in tokens)


def _ends_operand(token: Token) -> bool:
    if token.kind == "word":
        return token.upper not in KEYWORDS or token.upper == "END"
    return token.kind in {"quoted", "param", "string"} or token.is_sign(")", "]", "}")


def _end_of_operand(tokens: Sequence[Token], at: int) -> int:
    token = tokens[at]
    if token.is_sign("(", "["):
        end = closing(tokens, at) + 1
    elif token.kind in {"param", "string"} or (token.is_name and token.upper not in KEYWORDS):
        end = at + 1
        if end < len(tokens) and tokens[end].is_sign("("):
            end = closing(tokens, end) + 1
    else:
        return at
    while end + 1 < len(tokens) and tokens[end].is_sign(".") and tokens[end + 1].is_name:
        end += 2
    return end


def _leads_on(tokens: Sequence[Token], at: int, end: int) -> bool:
    """Whether brackets hold a node that a relationship follows, and not something to be computed."""
    if at and _ends_operand(tokens[at - 1]):
        return False
    signs = "".join(token.text for token in tokens[end + 1 : end + 4] if token.kind == "sign")
    return signs.startswith(("-[", "<-[", "-->", "<--", "--("))
