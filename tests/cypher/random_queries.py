"""Random queries over tools, edges, runs and lessons, each of a kind that both engines can be asked."""

from __future__ import annotations

import random
import re
from typing import Final

SHAPES: Final = {
    "cross": (
        "MATCH (t:Tool {namespace: $namespace}) {optional} (t)-[r:NEXT]->(u:Tool) "
        "MATCH (j:Trajectory {namespace: $namespace})",
        "truj",
    ),
    "edge": ("MATCH (t:Tool {namespace: $namespace}) {optional} (t)-[r:NEXT]->(u:Tool)", "tru"),
    "run": ("MATCH (j:Trajectory {namespace: $namespace})", "j"),
    "took": (
        "MATCH (j:Trajectory {namespace: $namespace})-[:TOOK]->(t:Tool) {optional} (t)-[r:NEXT]->(u:Tool)",
        "jtru",
    ),
    "learned": (
        "MATCH (j:Trajectory {namespace: $namespace}) {optional} (j)<-[w:FROM]-(l:Lesson)",
        "jlw",
    ),
    "lesson": ("MATCH (l:Lesson {namespace: $namespace}) {optional} (l)-[:ABOUT]->(t)", "lt"),
}
"""Patterns by name, with the variables that they bind."""


class QueryMaker:
    """Makes queries of one shape; the same for the same random numbers."""

    def __init__(self, shape: str, chance: random.Random) -> None:
        self._pattern, self._names = SHAPES[shape]
        self._chance = chance

    def query(self) -> str:
        """One query with the parameters $namespace, $i, $f, $s and $l."""
        optional = self._one("MATCH", "OPTIONAL MATCH")
        text = self._pattern.replace("{optional}", optional)
        if self._chance.random() < 0.6:
            text += f" WHERE {self.test(2)}"
        kind = self._chance.random()
        if kind < 0.4:
            return text + f" RETURN {self._one('', 'DISTINCT ')}{self.value(3)} AS a, {self.value(2)} AS b"
        key = self._one(self.text, self.test, self.integer)(2)
        if kind < 0.7:
            return text + f" RETURN {key} AS a, {self.aggregate()} AS b, {self.aggregate()} AS c"
        if kind < 0.85:
            return text + f" WITH {key} AS a, {self.aggregate()} AS b RETURN a, b"
        first = self._names[0]
        return text + (
            f" WITH {first}, {self.integer(2)} AS n, {self.decimal(1)} AS f "
            f"RETURN n / 2 AS h, n + f AS nf, CASE WHEN {first}.namespace = 'q' THEN n ELSE f END AS cc"
        )

    def value(self, depth: int) -> str:
        return self._one(self.integer, self.decimal, self.text, self.list, self.test)(depth)

    def integer(self, depth: int) -> str:
        part = depth - 1
        if depth <= 0:
            return self._fit(
                "t.calls",
                "r.support",
                "r.failures",
                "2",
                "$i",
                "size(j.tools)",
                "j.steps",
                "size(t.name)",
                "l.uses",
                "size(l.runs)",
            )
        return self._one(
            lambda: self.integer(0),
            lambda: f"({self.integer(part)} {self._one(*'+-*')} {self.integer(part)})",
            lambda: f"({self.integer(part)} {self._one(*'/%')} {self._one('2', '3', '7')})",
            lambda: f"abs({self.integer(part)})",
            lambda: f"CASE WHEN {self.test(part)} THEN {self.integer(part)} ELSE {self.integer(part)} END",
            lambda: f"coalesce({self.integer(part)}, {self.integer(part)})",
        )()

    def decimal(self, depth: int) -> str:
        part = depth - 1
        if depth <= 0:
            return self._fit("r.weight", "j.reward", "l.score", "w.reward", "0.5", "$f")
        other = self._one(self.integer, self.decimal)(part)
        return self._one(
            lambda: self.decimal(0),
            lambda: f"({self.decimal(part)} {self._one(*'+-*')} {other})",
            lambda: f"toFloat({self.integer(part)})",
            lambda: f"{self._one('floor', 'ceil', 'abs')}({self.decimal(part)})",
            lambda: f"CASE WHEN {self.test(part)} THEN {self.decimal(part)} ELSE {other} END",
            lambda: f"coalesce({self.decimal(part)}, {other})",
        )()

    def text(self, depth: int) -> str:
        part = depth - 1
        if depth <= 0:
            return self._fit(
                "t.name", "u.name", "j.task", "j.day", "j.environment", "l.text", "l.zone", "l.kind", "'x'", "$s"
            )
        return self._one(
            lambda: self.text(0),
            lambda: f"({self.text(part)} + {self.text(part)})",
            lambda: f"{self._one('toUpper', 'toLower', 'trim')}({self.text(part)})",
            lambda: f"{self._one('left', 'right')}({self.text(part)}, {self._one('0', '1', '2', '9')})",
            lambda: f"replace({self.text(part)}, 't', 'zz')",
            lambda: f"CASE WHEN {self.test(part)} THEN {self.text(part)} END",
            lambda: f"{self._one('head', 'last')}({self.list(part)})",
        )()

    def list(self, depth: int) -> str:
        part = depth - 1
        if depth <= 0:
            return self._fit("j.tools", "l.runs", "['a', 'b']", "$l")
        condition = f"x {self._one('<>', '<', '=')} {self._one('$s', repr('b'))}"
        return self._one(
            lambda: self.list(0),
            lambda: f"{self.list(part)}[{self._one('0..2', '1..', '..1', '0..0')}]",
            lambda: f"[x IN {self.list(part)} WHERE {condition} | x + 'q']",
            lambda: f"({self.list(part)} + {self.list(part)})",
        )()

    def test(self, depth: int) -> str:
        part = depth - 1
        if depth <= 0:
            return self._fit(
                "j.success", "r.support > 2", "j.day IS NULL", "j.reward IS NOT NULL", "true", "$i = 3",
                "l.live", "w.words", "l.zone IS NULL", "'Retired' IN labels(l)",
            )  # fmt: skip
        number = self._one(self.integer, self.decimal)(part)
        comparison = self._one("<", "=", "<>", "STARTS WITH", "CONTAINS", "ENDS WITH")
        return self._one(
            lambda: self.test(0),
            lambda: f"({self.integer(part)} {self._one('<', '<=', '>', '>=', '=', '<>')} {number})",
            lambda: f"({self.text(part)} {comparison} {self.text(part)})",
            lambda: f"({self.test(part)} {self._one('AND', 'OR', 'XOR')} {self.test(part)})",
            lambda: f"(NOT {self.test(part)})",
            lambda: f"({self.text(part)} IN {self.list(part)})",
            lambda: f"{self._one('any', 'all', 'none')}(x IN {self.list(part)} WHERE x = {self._one('$s', repr('b'))})",
            lambda: f"({self._one(self.integer, self.decimal, self.text)(part)} IS NULL)",
            lambda: self._fit(
                "EXISTS { (t)-[:NEXT]->(t) }",
                "EXISTS { MATCH (t)<-[:AFTER]-(s:State) WHERE s.success }",
                "COUNT { (t)-[q:NEXT]->() WHERE q.support > 1 } > 1",
                "EXISTS { (l)-[:EVOLVED_FROM]->(:Experience) }",
                "COUNT { (:Showing)-[q:SHOWED]->(l) WHERE NOT q.success } > 0",
                "EXISTS { (j)<-[:FROM]-(:Principle) }",
                "1 = 1",
            ),
        )()

    def aggregate(self) -> str:
        return self._one(
            lambda: f"count({self.value(1)})",
            lambda: f"count(DISTINCT {self._one(self.integer, self.text, self.test)(1)})",
            lambda: f"{self._one('sum', 'avg', 'min', 'max')}({self.integer(1)})",
            lambda: f"{self._one('sum', 'avg', 'min', 'max')}({self.decimal(1)})",
            lambda: f"{self._one('min', 'max')}({self.text(1)})",
            lambda: f"collect({self._one(self.integer, self.text)(1)})",
        )()

    def _one(self, *parts):  # type: ignore[no-untyped-def]
        return self._chance.choice(parts)

    def _fit(self, *parts: str) -> str:
        """One of those whose variables the pattern binds."""
        return self._one(*(p for p in parts if set(re.findall(r"\b([trujlw])\b(?=[.)])", p)) <= set(self._names)))
