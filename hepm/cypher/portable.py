"""The portable subset: Cypher that means the same on Neo4j and on the embedded engine.

`translate` reads a query with Neo4j's meaning and writes it so that the embedded engine gives the same answer, or
says in one sentence which part of it lies outside. Nothing that it does not know reaches the engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final, cast

from hepm.cypher.clauses import PARTS, check_words, clauses_of, queries_of
from hepm.cypher.expressions import ExpressionWriter
from hepm.cypher.kinds import ValueKind, kind_of_value
from hepm.cypher.patterns import MADE, outside
from hepm.cypher.tokens import KEYWORDS, PARAMETER, Token, split_at, tokens_of, written
from hepm.errors import QueryError

SHADOW: Final = "as_"
KEPT: Final = 200
"""How many translations are kept: analysts ask the same text again with other values."""

_VALUES_MATTER: Final = re.compile(r"\[|\b(?:all|any|none)\b", re.IGNORECASE)
_known: dict[tuple[str, tuple[tuple[str, str], ...]], Portable] = {}


@dataclass(frozen=True, slots=True)
class Portable:
    """A query for the embedded engine.

    Attributes:
        columns: Names of what it returns, as Neo4j would name them; None for `RETURN *`.
        parameters: Those of the given ones that its text still holds, under the names it has for them.
    """

    text: str
    columns: tuple[str, ...] | None
    parameters: Mapping[str, Any]


def translate(text: str, parameters: Mapping[str, Any]) -> Portable:
    """The query, for the embedded engine.

    Raises:
        QueryError: a part lies outside of the portable subset, or a parameter is missing.
    """
    shapes = tuple((name, _shape(value)) for name, value in sorted(parameters.items()))
    if _VALUES_MATTER.search(text):
        return _translated(text, parameters)
    known = _known.get((text, shapes))
    if known is None:
        if len(_known) >= KEPT:
            _known.clear()
        known = _known[text, shapes] = _translated(text, parameters)
    return replace(known, parameters={name: parameters[name.removeprefix(PARAMETER)] for name in known.parameters})


def _shape(value: Any) -> str:
    """What of a parameter's value the translation depends on, where its text has neither slices nor loops."""
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        return f"list {len(items) > 0} {None in items}"
    return kind_of_value(value)


def _translated(text: str, parameters: Mapping[str, Any]) -> Portable:
    tokens = tokens_of(text)
    while tokens and tokens[-1].is_sign(";"):
        tokens.pop()
    if not tokens:
        raise QueryError("there is no query: the text is empty.")
    check_words(tokens)
    if missing := sorted({t.text for t in tokens if t.kind == "param"} - set(parameters)):
        raise QueryError(f"the query uses ${missing[0]}, which has no value: give it one with --param {missing[0]}=…")
    names = (f"{MADE}{number}" for number in count(1))
    parts: list[str] = []
    columns: list[tuple[str, ...] | None] = []
    for joined, query in queries_of(tokens):
        reader = _Query(text, parameters, names)
        parts += [joined, reader.write(query)]
        columns.append(reader.columns)
    if None in columns and len(columns) > 1:
        raise outside("RETURN * beside UNION", "name the columns")
    done = " ".join(part for part in parts if part)
    used = {t.text for t in tokens_of(done) if t.kind == "param"}
    kept = {PARAMETER + name: value for name, value in parameters.items() if PARAMETER + name in used}
    return Portable(done, columns[0], kept)


class _Query:
    """Writes one query, clause by clause."""

    def __init__(self, text: str, parameters: Mapping[str, Any], names: Iterator[str]) -> None:
        self._text = text
        self._writer = ExpressionWriter(parameters, names)
        self.columns: tuple[str, ...] | None = None

    def write(self, tokens: Sequence[Token]) -> str:
        """The query in the embedded engine's words; `columns` says afterwards what it returns, None where all."""
        clauses = clauses_of(tokens)
        if not clauses or clauses[-1][0] in {"MATCH", "OPTIONAL MATCH", "UNWIND", "WITH"}:
            raise QueryError("the query returns nothing: end it with RETURN.")
        text: list[str] = []
        at = 0
        while at < len(clauses):
            word, inner = clauses[at]
            following = at + 1
            while following < len(clauses) and clauses[following][0] in PARTS | {"ORDER BY"}:
                following += 1
            parts = dict(clauses[at + 1 : following])
            text.append(self._clause(word, inner, parts))
            at = following
            if word == "RETURN" and at < len(clauses):
                raise QueryError(f"{clauses[at][0]} stands behind RETURN, which ends a query.")
        return " ".join(text)

    def _clause(self, word: str, inner: Sequence[Token], parts: Mapping[str, Sequence[Token]]) -> str:
        if word in {"MATCH", "OPTIONAL MATCH"}:
            return self._match(word, inner, parts)
        if word == "UNWIND":
            return self._unwind(inner, parts)
        if word in {"WITH", "RETURN"}:
            return self._projection(word, inner, parts)
        raise QueryError(f"{word} stands where a clause should begin.")

    def _match(self, word: str, inner: Sequence[Token], parts: Mapping[str, Sequence[Token]]) -> str:
        _only(parts, "WHERE", of=word)
        pattern = self._writer.patterns.read(inner)
        walks = {one.name.strip("`") for one in pattern.relationships if one.varies and one.named}
        if word == "OPTIONAL MATCH" and (pattern.paths or walks):
            raise outside("a named path in OPTIONAL MATCH", "leave its name out, or use MATCH")
        condition = parts.get("WHERE", ())
        if pattern.shortest and any(token.text in {*pattern.paths, *walks} for token in condition):
            raise outside("a condition on the path inside the MATCH of allShortestPaths", "put it behind a WITH")
        self._writer.walks |= walks
        inside = word if word == "OPTIONAL MATCH" else ""
        return f"{word} {pattern.text}{self._writer.where(condition, pattern, inside=inside)}"

    def _unwind(self, inner: Sequence[Token], parts: Mapping[str, Sequence[Token]]) -> str:
        _only(parts, of="UNWIND")
        if len(inner) < 3 or inner[-2].upper != "AS" or not inner[-1].is_name:
            raise outside("this UNWIND", "write UNWIND list AS name")
        text = f"UNWIND {self._writer.write(inner[:-2])} AS {written(inner[-1])}"
        self._writer.walks.discard(inner[-1].text)
        self._writer.kinds.set(inner[-1].text, "unknown")
        return text

    def _projection(self, word: str, inner: Sequence[Token], parts: Mapping[str, Sequence[Token]]) -> str:
        _only(parts, *(["WHERE"] if word == "WITH" else []), "ORDER BY", "SKIP", "LIMIT", of=word)
        distinct = bool(inner) and inner[0].upper == "DISTINCT"
        items = [item for item in split_at(inner[distinct:], ",") if item]
        whole = len(items) == 1 and len(items[0]) == 1 and items[0][0].is_sign("*")
        if any(item[0].is_sign("*") for item in items) and (not whole or distinct or word == "WITH"):
            raise outside(f"* beside other things in {word}" if word == "RETURN" else "WITH *", "name the columns")
        order = parts.get("ORDER BY", ())
        if not whole and word == "RETURN":
            self.columns = tuple(self._column(item) for item in items)
            items, order = self._without_shadows(items, order)
        text = word + (" DISTINCT " if distinct else " ") + ("*" if whole else self._items(items, word))
        text += self._ordered(word, order, parts)
        if "WHERE" in parts:
            text += f" WHERE {self._writer.write(parts['WHERE'])}"
        return text

    def _without_shadows(
        self, items: Sequence[Sequence[Token]], order: Sequence[Token]
    ) -> tuple[list[list[Token]], list[Token]]:
        """Columns that are called like a variable get another name: the engine would sort by the variable."""
        renamed: dict[str, Token] = {}
        plain: list[list[Token]] = []
        for item in items:
            expression, name = _aliased(item)
            if name is None or name.text not in self._writer.patterns.variables:
                plain.append(list(item))
                continue
            renamed[name.text] = other = name._replace(kind="quoted", text=f"{SHADOW}{name.text}")
            plain.append([*expression, item[-2], other])
        return plain, [
            renamed.get(token.text, token) if token.is_name and not (at and order[at - 1].is_sign(".")) else token
            for at, token in enumerate(order)
        ]

    def _ordered(self, word: str, order: Sequence[Token], parts: Mapping[str, Sequence[Token]]) -> str:
        text = ""
        if order:
            if word == "WITH" and not {"LIMIT", "SKIP"} & set(parts):
                raise outside("ORDER BY in a WITH without LIMIT", "sort behind RETURN")
            self._writer.unordered |= word == "WITH"
            text += f" ORDER BY {self._writer.write(order)}"
        for name in ("SKIP", "LIMIT"):
            if name in parts:
                text += f" {name} {_amount(name, parts[name])}"
        return text

    def _items(self, items: Sequence[Sequence[Token]], word: str) -> str:
        texts: list[str] = []
        named: list[tuple[str, Sequence[Token]]] = []
        for item in items:
            expression, name = _aliased(item)
            text = self._writer.write(expression)
            if name is None and len(item) == 1 and item[0].is_name:
                name = item[0]  # a relationship of variable length is written out, and keeps its name
            elif name is None and word == "WITH":
                raise QueryError(f"WITH {self._column(item)} needs a name: write … AS name.")
            if name is not None:
                named.append((name.text, expression))
            texts.append(text if name is None or written(name) == text else f"{text} AS {written(name)}")
        if word == "WITH":
            kinds: list[tuple[str, ValueKind]] = [
                (name, self._writer.kinds.of(expression)) for name, expression in named
            ]
            for name, kind in kinds:
                self._writer.kinds.set(name, kind)
                self._writer.walks.discard(name)
            labels = self._writer.patterns.labels
            self._writer.patterns.labels = {
                name: labels[expression[0].text]
                for name, expression in named
                if len(expression) == 1 and expression[0].text in labels
            }
        return ", ".join(texts)

    def _column(self, item: Sequence[Token]) -> str:
        expression, name = _aliased(item)
        if name is not None or len(expression) == 1:
            return (name or expression[0]).text
        return self._text[expression[0].start : expression[-1].end]


def _aliased(item: Sequence[Token]) -> tuple[Sequence[Token], Token | None]:
    if len(item) > 2 and item[-2].upper == "AS" and item[-1].is_name:
        if item[-1].upper in KEYWORDS:
            raise QueryError(f"{item[-1].text!r} is a word of Cypher itself: put it in backticks to name something so.")
        return item[:-2], item[-1]
    return item, None


def _amount(word: str, tokens: Sequence[Token]) -> str:
    if len(tokens) != 1 or tokens[0].kind not in {"number", "param"}:
        raise outside(f"a computed {word}", "write a number, or a parameter that is one")
    return written(tokens[0])


def _only(parts: Mapping[str, Sequence[Token]], *allowed: str, of: str) -> None:
    if extra := set(parts) - set(allowed):
        raise QueryError(f"{sorted(extra)[0]} stands behind {of}, where it cannot.")
