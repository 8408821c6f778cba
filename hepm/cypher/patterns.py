"""Patterns of the portable subset, written so that the embedded engine matches what Neo4j matches.

Neo4j never takes a relationship twice inside one MATCH; the embedded engine does, unless it is told not to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final, TypeAlias

from hepm.cypher.model import BESIDE, LESSON, LESSONS, NODES, RELATIONSHIPS
from hepm.cypher.tokens import Token, closing, split_at, written
from hepm.errors import QueryError

MADE: Final = "_hepm_"
"""How names begin that the translation gives to relationships without one."""

MOST_HOPS: Final = 30

_ONE_FOR_SEVERAL: Final = {LESSON: LESSONS}
"""A label that stands for several of the engine's."""

_INSTEAD_OF: Final = {
    one.label: f"say {one.property}: {str(one.value).lower() if isinstance(one.value, bool) else repr(one.value)}"
    for one in BESIDE
}
"""What to write for labels that only Neo4j has."""

Expression: TypeAlias = Callable[[Sequence[Token]], str]


def outside(part: str, instead: str = "run it on a store in Neo4j") -> QueryError:
    """What stands outside of the portable subset, in one sentence."""
    return QueryError(f"{part} is outside of the Cypher that the embedded engine answers: {instead}.")


@dataclass(slots=True)
class Relationship:
    """One relationship pattern.

    Attributes:
        types: Those it may have; none: all.
        least: Its least length, where that varies; else None.
    """

    name: str
    types: tuple[str, ...]
    least: int | None
    named: bool

    @property
    def varies(self) -> bool:
        """Whether its length does."""
        return self.least is not None

    def may_be(self, other: Relationship) -> bool:
        """Whether both may match the same relationship."""
        return not self.types or not other.types or bool(set(self.types) & set(other.types))


@dataclass(slots=True)
class Pattern:
    """The patterns of one MATCH.

    Attributes:
        text: For the embedded engine.
        distinct: Conditions that keep relationships apart.
        paths: Names of paths.
        names: Names of nodes, relationships and paths.
        bound: Those of them that a clause before has bound, with the labels that they may have.
    """

    text: str = ""
    distinct: list[str] = field(default_factory=list[str])
    relationships: list[Relationship] = field(default_factory=list[Relationship])
    paths: list[str] = field(default_factory=list[str])
    names: set[str] = field(default_factory=set[str])
    bound: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    shortest: bool = False


class PatternReader:
    """Reads patterns; names the relationships that have none."""

    def __init__(self, expression: Expression, names: Iterator[str]) -> None:
        self._expression = expression
        self._names = names
        self.variables: set[str] = set()
        self.labels: dict[str, frozenset[str]] = {}
        """Which labels the node of a name may have."""

    def read(self, tokens: Sequence[Token]) -> Pattern:
        """All patterns of one MATCH, separated by commas."""
        found = Pattern()
        before = dict(self.labels)
        parts = split_at(tokens, ",")
        texts = [self._path(part, found, alone=len(parts) == 1) for part in parts]
        found.names.update(found.paths, (one.name.strip("`") for one in found.relationships))
        found.bound = {name: labels for name, labels in before.items() if name in found.names}
        self.variables |= found.names
        found.text = ", ".join(texts)
        for one, other in combinations(found.relationships, 2):
            if one.name == other.name:
                raise outside(f"the relationship {one.name} matched twice in one MATCH", "name it once")
            if not one.may_be(other):
                continue
            if one.varies or other.varies:
                raise outside(
                    "a pattern of variable length beside another relationship in one MATCH",
                    "write a MATCH for each of them, and say in WHERE what may not repeat",
                )
            found.distinct.append(f"id({one.name}) <> id({other.name})")
        return found

    def _path(self, tokens: Sequence[Token], found: Pattern, *, alone: bool) -> str:
        rest = list(tokens)
        text = ""
        if len(rest) > 2 and rest[0].is_name and rest[1].is_sign("="):
            found.paths.append(rest[0].text)
            text = f"{written(rest[0])} = "
            rest = rest[2:]
        if rest and rest[0].kind == "word" and rest[0].text.lower() in {"shortestpath", "allshortestpaths"}:
            rest = _inside_shortest(rest, alone=alone)
            found.shortest = True
        chain, used = self.chain(rest, found)
        if used < len(rest):
            raise outside(f"{rest[used].text!r} in a pattern", "write patterns like (a)-[r:NEXT]->(b)")
        return text + chain

    def chain(self, tokens: Sequence[Token], found: Pattern) -> tuple[str, int]:
        """One chain of nodes and relationships, and how many tokens it takes."""
        if not tokens or not tokens[0].is_sign("("):
            raise outside("a pattern that does not begin with (", "write patterns like (a)-[r:NEXT]->(b)")
        end = closing(tokens, 0)
        text, left = self._node(tokens[1:end], found)
        at = end + 1
        while at < len(tokens) and (tokens[at].is_sign("-") or _backwards(tokens, at)):
            backwards = tokens[at].is_sign("<")
            link, at = self._relationship(tokens, at, found)
            if at >= len(tokens) or not tokens[at].is_sign("("):
                raise outside("a relationship that leads to no node", "write patterns like (a)-[r:NEXT]->(b)")
            end = closing(tokens, at)
            node, right = self._node(tokens[at + 1 : end], found)
            self._check_ends(found.relationships[-1], *((right, left) if backwards else (left, right)))
            text += link + node
            left = right
            at = end + 1
        return text, at

    def _node(self, inner: Sequence[Token], found: Pattern) -> tuple[str, str]:
        """A node's text, and the name under which its labels are known."""
        name, rest = _name(inner)
        labels, rest = _labels(rest, known=(*NODES, LESSON), what="label")
        labels = tuple(dict.fromkeys(one for label in labels for one in _ONE_FOR_SEVERAL.get(label, (label,))))
        key = name.strip("`") or next(self._names)
        found.names.add(key)
        self.labels[key] = frozenset(labels or NODES) & self.labels.get(key, frozenset(NODES))
        return f"({name}{_alternatives(labels)}{self._properties(rest)})", key

    def _check_ends(self, relationship: Relationship, source: str, target: str) -> None:
        """Refuse what cannot be: where OPTIONAL or EXISTS asks for it, the engine finds rows that are not there."""
        types = [RELATIONSHIPS[name] for name in relationship.types or RELATIONSHIPS]
        if relationship.varies:
            leaving = frozenset(label for one in types for label in one.sources)
            entered = frozenset(label for one in types for label in one.targets)
            if relationship.least == 0:
                self._check_standing_still(relationship, self.labels[source] & self.labels[target], leaving & entered)
                return
            fit = [(a, b) for a in leaving & self.labels[source] for b in entered & self.labels[target]]
        else:
            ends = [pair for one in types for pair in one.ends()]
            fit = [(a, b) for a, b in ends if a in self.labels[source] and b in self.labels[target]]
        if not fit:
            names = " or ".join(relationship.types) or "relationship"
            model = ", ".join(
                f"(:{'|'.join(one.sources)})-[:{name}]->(:{'|'.join(one.targets)})"
                for name, one in RELATIONSHIPS.items()
            )
            raise QueryError(f"no {names} leads there, so that the pattern matches nothing: the graph has {model}.")
        self.labels[source] = frozenset(a for a, _ in fit)
        self.labels[target] = frozenset(b for _, b in fit)

    @staticmethod
    def _check_standing_still(relationship: Relationship, asked: frozenset[str], known: frozenset[str]) -> None:
        """Of nodes that no such relationship leaves, the engine does not find the way of no length."""
        if asked - known:
            raise outside(
                f"length 0 at nodes without {' or '.join(relationship.types) or 'such a relationship'}",
                f"give the first one a label: {' or '.join(sorted(known)) or 'there is none'}",
            )

    def _relationship(self, tokens: Sequence[Token], at: int, found: Pattern) -> tuple[str, int]:
        backwards = tokens[at].is_sign("<")
        at += 2 if backwards else 1
        inner: Sequence[Token] = ()
        if at < len(tokens) and tokens[at].is_sign("["):
            end = closing(tokens, at)
            inner = tokens[at + 1 : end]
            at = end + 1
        if at >= len(tokens) or not tokens[at].is_sign("-"):
            raise outside("this relationship pattern", "write it like (a)-[r:NEXT]->(b)")
        at += 1
        forwards = at < len(tokens) and tokens[at].is_sign(">")
        at += forwards
        if forwards == backwards:
            raise outside("a relationship without a direction", "write -[…]-> or <-[…]-")
        middle = self._details(inner, found)
        return (f"<-[{middle}]-" if backwards else f"-[{middle}]->"), at

    def _details(self, inner: Sequence[Token], found: Pattern) -> str:
        name, rest = _name(inner)
        types, rest = _labels(rest, known=tuple(RELATIONSHIPS), what="relationship type")
        length, least, rest = _length(rest, shortest=found.shortest)
        if found.shortest and not length:
            raise outside("allShortestPaths over a single relationship", "give it a length like *..4")
        found.relationships.append(Relationship(name or next(self._names), types, least, bool(name)))
        return f"{found.relationships[-1].name}{_alternatives(types)}{length}{self._properties(rest)}"

    def _properties(self, rest: Sequence[Token]) -> str:
        if not rest:
            return ""
        if not rest[0].is_sign("{") or closing(rest, 0) != len(rest) - 1:
            raise outside(f"{rest[0].text!r} in a pattern", "give properties as {name: $name}, and the rest in WHERE")
        return " " + self._expression(rest)


def _backwards(tokens: Sequence[Token], at: int) -> bool:
    return tokens[at].is_sign("<") and at + 1 < len(tokens) and tokens[at + 1].is_sign("-")


def _name(inner: Sequence[Token]) -> tuple[str, Sequence[Token]]:
    return (written(inner[0]), inner[1:]) if inner and inner[0].is_name else ("", inner)


def _alternatives(names: Sequence[str]) -> str:
    return ":" + "|".join(f"`{name}`" for name in names) if names else ""


def _labels(rest: Sequence[Token], *, known: tuple[str, ...], what: str) -> tuple[tuple[str, ...], Sequence[Token]]:
    labels: list[str] = []
    while len(rest) > 1 and rest[0].is_sign(":", "|") and (labels or rest[0].is_sign(":")):
        if rest[0].is_sign(":") and labels:
            raise outside("a node with two labels", "name that of its kind")
        step = 2 if len(rest) > 2 and rest[0].is_sign("|") and rest[1].is_sign(":") else 1
        if rest[step].text in _INSTEAD_OF:
            raise outside(f"the label {rest[step].text}", _INSTEAD_OF[rest[step].text])
        if rest[step].text not in known or not rest[step].is_name:
            raise QueryError(
                f"there is no {what} {rest[step].text!r} in the embedded engine: it has {', '.join(known)}."
            )
        labels.append(rest[step].text)
        rest = rest[step + 1 :]
    return tuple(labels), rest


def _length(rest: Sequence[Token], *, shortest: bool) -> tuple[str, int | None, Sequence[Token]]:
    if not rest or not rest[0].is_sign("*"):
        return "", None, rest
    end = next((i for i, token in enumerate(rest) if token.is_sign("{")), len(rest))
    parts = "".join(token.text for token in rest[1:end])
    low, dots, high = parts.partition("..")
    low, high = (low or "1"), (high if dots else low)
    if not (low.isdigit() and high.isdigit() and int(low) <= int(high) <= MOST_HOPS):
        raise outside("a pattern without an end", f"give it a length like *1..4, {MOST_HOPS} at most")
    if shortest and int(low) > 1:
        raise outside("allShortestPaths with a least length", "leave it out")
    return f"* {'ALL SHORTEST' if shortest else 'TRAIL'} {low}..{high}", int(low), rest[end:]


def _inside_shortest(tokens: Sequence[Token], *, alone: bool) -> list[Token]:
    if tokens[0].text.lower() == "shortestpath":
        raise outside("shortestPath, which takes any one of equally short paths,", "ask for allShortestPaths")
    if not alone:
        raise outside("allShortestPaths beside another pattern", "give it a MATCH of its own")
    if len(tokens) < 2 or not tokens[1].is_sign("(") or closing(tokens, 1) != len(tokens) - 1:
        raise outside("this use of allShortestPaths", "write MATCH p = allShortestPaths((a)-[:NEXT*..4]->(b))")
    return list(tokens[2:-1])
