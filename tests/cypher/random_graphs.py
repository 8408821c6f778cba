"""Small random graphs with lessons on them, and what queries on them must answer, worked out in plain Python."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hepm.cypher.model import Table
from tests.cypher.engines import Rows, Tables, node, table


@dataclass(frozen=True)
class Edge:
    """A NEXT relationship."""

    source: str
    target: str
    support: int
    failures: int
    weight: float


@dataclass(frozen=True)
class Lesson:
    """An experience or a principle: the tools it is about, and the experiences before it that it evolved from."""

    id: str
    label: str
    live: bool
    uses: int
    about: tuple[str, ...]
    parents: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """Tools with NEXT between them, and states beside them. Some tools lead nowhere, some to themselves."""

    namespace: str
    calls: dict[str, int]
    edges: tuple[Edge, ...]
    states: tuple[tuple[str, str, bool, int], ...]
    lessons: tuple[Lesson, ...]

    def leaving(self, tool: str) -> list[Edge]:
        return [edge for edge in self.edges if edge.source == tool]

    def trails(self, start: str, low: int, high: int) -> Iterator[tuple[Edge, ...]]:
        """Walks that take no edge twice."""
        waiting: list[tuple[str, tuple[Edge, ...]]] = [(start, ())]
        while waiting:
            at, taken = waiting.pop()
            if low <= len(taken):
                yield taken
            if len(taken) < high:
                waiting += [(edge.target, (*taken, edge)) for edge in self.leaving(at) if edge not in taken]


def random_graph(namespace: str, seed: int) -> Graph:
    """The same for the same seed."""
    chance = random.Random(seed)
    tools = [f"t{number}" for number in range(chance.randint(1, 6))]
    pairs = [pair for pair in itertools.product(tools, tools) if chance.random() < 0.35]
    edges = [
        Edge(a, b, chance.randint(0, 5), chance.randint(0, 3), chance.choice([0.0, 0.25, 0.5, 1.0])) for a, b in pairs
    ]
    states = [
        (chance.choice(tools), chance.choice(tools), chance.random() < 0.6, chance.randint(1, 4))
        for _ in range(chance.randint(0, 5))
    ]
    calls = {tool: chance.randint(-3, 9) for tool in tools}
    return Graph(namespace, calls, tuple(edges), tuple(states), tuple(_random_lessons(tools, chance)))


def _random_lessons(tools: list[str], chance: random.Random) -> Iterator[Lesson]:
    before: list[str] = []
    for number in range(chance.randint(0, 7)):
        label = chance.choice(["Experience", "Experience", "Principle"])
        parents = [name for name in before if label == "Experience" and chance.random() < 0.4]
        about = tuple(tool for tool in tools if chance.random() < 0.4)
        yield Lesson(f"l{number}", label, chance.random() < 0.7, chance.randint(0, 4), about, tuple(parents))
        if label == "Experience":
            before.append(f"l{number}")


def tables_of(graphs: list[Graph]) -> Tables:
    """Rows of all graphs as tables of the model."""
    rows: dict[str, Rows] = defaultdict(list)
    for graph in graphs:
        numbers = {tool: len(rows["Tool"]) + i for i, tool in enumerate(graph.calls)}
        for tool, number in numbers.items():
            rows["Tool"].append((number, graph.namespace, tool, "", "{}", graph.calls[tool], 0))
        for e in graph.edges:
            ends = (numbers[e.source], numbers[e.target])
            rows["NEXT"].append((*ends, e.support, e.failures, 0, 0, e.weight, 0.0, 0, ()))
        for number, (after, before, success, count) in enumerate(graph.states):
            key = len(rows["State"])
            rows["State"].append(
                (key, graph.namespace, number, f"s{number}", (after,), (before,), success, count, 0.0, "run", 0)
            )
            rows["AFTER"].append((key, numbers[after]))
            rows["BEFORE"].append((key, numbers[before]))
    lessons = [found for graph in graphs for found in _lesson_rows(graph, rows)]
    return [*lessons, *((table(name), rows[name]) for name in ("Tool", "State", "NEXT", "AFTER", "BEFORE"))]


def _lesson_rows(graph: Graph, rows: dict[str, Rows]) -> Iterator[tuple[Table, Rows]]:
    """A graph's lessons, numbered behind those of the graphs before it; a table comes in one part a graph."""
    tools = {row[2]: row[0] for row in rows["Tool"] if row[1] == graph.namespace}
    numbers: dict[str, int] = {}
    for one in graph.lessons:
        key = numbers[one.id] = len(rows[one.label])
        told = {"namespace": graph.namespace, "id": one.id, "live": one.live, "uses": one.uses}
        rows[one.label].append(row := node(one.label, key, **told))
        yield Table(one.label), [row]
        yield Table("ABOUT", (one.label, "Tool")), [(key, tools[tool]) for tool in one.about]
        yield (
            Table("EVOLVED_FROM", ("Experience", "Experience")),
            [(key, numbers[parent], f"from {parent}") for parent in one.parents],
        )


def two_steps(g: Graph) -> list[tuple[Any, ...]]:
    return [
        (a.source, a.target, b.target)
        for a in g.edges for b in g.edges
        if a.target == b.source and a is not b
    ]  # fmt: skip


def trails_1_3(g: Graph) -> list[tuple[Any, ...]]:
    return [
        ([trail[0].source, *(e.target for e in trail)], len(trail), min(e.support for e in trail))
        for tool in g.calls
        for trail in g.trails(tool, 1, 3)
    ]


def trails_0_2(g: Graph) -> list[tuple[Any, ...]]:
    ends = [(tool, trail[-1].target if trail else tool) for tool in g.calls for trail in g.trails(tool, 0, 2)]
    return [(a, b, n) for (a, b), n in Counter(ends).items()]


def well_trodden(g: Graph) -> list[tuple[Any, ...]]:
    return [
        (tool, trail[-1].target)
        for tool in g.calls
        for trail in g.trails(tool, 2, 2)
        if all(e.support > 1 for e in trail)
    ]


def shortest(g: Graph) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for a, b in itertools.permutations(g.calls, 2):
        trails = [t for t in g.trails(a, 1, 4) if t[-1].target == b]
        least = min(map(len, trails), default=0)
        found += [([a, *(e.target for e in t)],) for t in trails if len(t) == least]
    return found


def circles(g: Graph) -> list[tuple[Any, ...]]:
    return [
        (a.source, b.source, c.source)
        for a in g.edges for b in g.edges for c in g.edges
        if a.target == b.source and b.target == c.source and c.target == a.source and len({a, b, c}) == 3
    ]  # fmt: skip


def counts(g: Graph) -> list[tuple[Any, ...]]:
    supports = [e.support for e in g.edges]
    mean = sum(supports) / len(supports) if supports else None
    return [
        (len(supports), sum(supports), mean, min(supports, default=None), max(supports, default=None), sorted(supports))
    ]


def optional(g: Graph) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for tool in g.calls:
        strong = [e for e in g.leaving(tool) if e.support > 2]
        found.append((tool, len(strong), sum(e.support for e in strong), sorted(e.target for e in strong)))
    return found


def optional_chain(g: Graph) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for tool in g.calls:
        for one in g.leaving(tool) or [None]:
            following = g.leaving(one.target) if one else []
            found += [(tool, one and one.target, two and two.target) for two in following or [None]]
    return found


def grouped(g: Graph) -> list[tuple[Any, ...]]:
    by_end: dict[bool, list[int]] = defaultdict(list)
    for _, _, success, count in g.states:
        by_end[success].append(count)
    return [(end, len(n), sum(n), sum(n) / len(n)) for end, n in by_end.items()]


def existing(g: Graph) -> list[tuple[Any, ...]]:
    return [
        (
            tool,
            any(e.source == tool for e in g.edges),
            any(after == tool for after, *_ in g.states),
            sum(e.target == tool and e.support > 1 for e in g.edges),
        )
        for tool in g.calls
        if not any(e.source == e.target == tool for e in g.edges)
    ]


def ranked(g: Graph) -> list[tuple[Any, ...]]:
    rows = sorted(((e.weight, e.source, e.target) for e in g.edges), key=lambda r: (-r[0], r[1], r[2]))
    return [(a, b, weight) for weight, a, b in rows[1:4]]


def cases(g: Graph) -> list[tuple[Any, ...]]:
    return [
        (
            e.source,
            e.target,
            e.failures / (e.support + e.failures) if e.support + e.failures else 0,
            "high" if e.weight >= 0.5 else "low" if e.weight > 0 else None,
            0.5 if e.support == 2 else e.support,
        )
        for e in g.edges
    ]


def together(g: Graph) -> list[tuple[Any, ...]]:
    names = [tool for tool, calls in g.calls.items() if calls > 4]
    return [(name,) for name in [*names, *(f"s{i}" for i in range(len(g.states)))]]


def states_between(g: Graph) -> list[tuple[Any, ...]]:
    return [
        (after, before, f"s{i}", [after])
        for i, (after, before, success, _) in enumerate(g.states)
        if success and any(e.source == after and e.target == before for e in g.edges)
    ]


def lists(g: Graph) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for tool in g.calls:
        supports = sorted(e.support for e in g.leaving(tool))
        if supports:
            over = [2 * s for s in supports if s > 1]
            found.append((tool, len(supports), sorted(over), any(s > 4 for s in supports), max(supports) in supports))
    return found


def lessons_about(g: Graph) -> list[tuple[Any, ...]]:
    return [(one.id, one.live, tool, g.calls[tool]) for one in g.lessons for tool in one.about]


def tools_with_lessons(g: Graph) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for tool in g.calls:
        here = [one for one in g.lessons if tool in one.about]
        principle = any(one.label == "Principle" for one in here)
        found.append((tool, sum(one.live for one in here), sum(one.uses for one in here), principle))
    return found


def families(g: Graph) -> list[tuple[Any, ...]]:
    by_id = {one.id: one for one in g.lessons}
    ways = [[one.id] for one in g.lessons if one.label == "Experience"]
    found: list[tuple[Any, ...]] = []
    while ways:
        way = ways.pop()
        found.append((way, [f"from {name}" for name in way[1:]]))
        ways += [[*way, parent] for parent in by_id[way[-1]].parents]
    return found


def told_twice(g: Graph) -> list[tuple[Any, ...]]:
    return [
        (a.id, b.id, tool)
        for a in g.lessons for b in g.lessons for tool in a.about
        if a.label == "Principle" and b.label == "Experience" and tool in b.about and a.uses < b.uses
    ]  # fmt: skip


QUERIES = {
    lessons_about: """MATCH (l:Lesson {namespace: $namespace})-[:ABOUT]->(t) RETURN l.id, l.live, t.name, t.calls""",
    tools_with_lessons: """MATCH (t:Tool {namespace: $namespace}) OPTIONAL MATCH (l:Lesson)-[:ABOUT]->(t)
        RETURN t.name, sum(CASE WHEN l.live THEN 1 ELSE 0 END) AS live, sum(l.uses) AS uses,
               EXISTS { (:Principle)-[:ABOUT]->(t) } AS ruled""",
    families: """MATCH p = (l:Experience {namespace: $namespace})-[way:EVOLVED_FROM*0..8]->(m:Lesson)
        RETURN [n IN nodes(p) | n.id] AS line, [r IN way | r.operator] AS operators""",
    told_twice: """MATCH (p:Principle {namespace: $namespace})-[:ABOUT]->(t:Tool)<-[:ABOUT]-(e:Experience)
        WHERE p.uses < e.uses RETURN p.id, e.id, t.name""",
    two_steps: "MATCH (a:Tool {namespace: $namespace})-[:NEXT]->(b)-[:NEXT]->(c) RETURN a.name, b.name, c.name",
    trails_1_3: """MATCH p = (a:Tool {namespace: $namespace})-[:NEXT*1..3]->(b:Tool)
        WITH [n IN nodes(p) | n.name] AS way, [r IN relationships(p) | r.support] AS supports, length(p) AS steps
        UNWIND supports AS support RETURN way, steps, min(support) AS least""",
    trails_0_2: """MATCH (a:Tool {namespace: $namespace})-[:NEXT*0..2]->(b:Tool)
        RETURN a.name AS a, b.name AS b, count(*) AS n""",
    well_trodden: """MATCH (a:Tool {namespace: $namespace})-[way:NEXT*2]->(b:Tool)
        WHERE all(r IN way WHERE r.support > 1) AND size(way) = 2 RETURN a.name, b.name""",
    shortest: """MATCH (a:Tool {namespace: $namespace}), (b:Tool {namespace: $namespace}) WHERE a.name <> b.name
        MATCH p = allShortestPaths((a)-[:NEXT*..4]->(b)) RETURN [n IN nodes(p) | n.name] AS way""",
    circles: """MATCH (a:Tool {namespace: $namespace})-[:NEXT]->(b:Tool), (b)-[:NEXT]->(c:Tool), (a)<-[:NEXT]-(c)
        RETURN a.name, b.name, c.name""",
    counts: """MATCH (:Tool {namespace: $namespace})-[r:NEXT]->(:Tool)
        RETURN count(r), sum(r.support), avg(r.support), min(r.support), max(r.support), collect(r.support)""",
    optional: """MATCH (a:Tool {namespace: $namespace}) OPTIONAL MATCH (a)-[r:NEXT]->(b) WHERE r.support > 2
        RETURN a.name AS tool, count(r) AS n, sum(r.support) AS s, collect(b.name) AS names""",
    optional_chain: """MATCH (a:Tool {namespace: $namespace}) OPTIONAL MATCH (a)-[:NEXT]->(b)
        OPTIONAL MATCH (b)-[:NEXT]->(c) RETURN a.name, b.name, c.name""",
    grouped: """MATCH (s:State {namespace: $namespace})
        RETURN s.success AS success, count(*) AS n, sum(s.count) AS total, avg(s.count) AS mean""",
    existing: """MATCH (a:Tool {namespace: $namespace}) WHERE NOT EXISTS { (a)-[:NEXT]->(a) }
        RETURN a.name, EXISTS { MATCH (a)-[:NEXT]->(:Tool) } AS leads, EXISTS { (a)<-[:AFTER]-(:State) } AS known,
               COUNT { (:Tool)-[r:NEXT]->(a) WHERE r.support > 1 } AS n""",
    ranked: """MATCH (a:Tool {namespace: $namespace})-[r:NEXT]->(b:Tool)
        RETURN a.name AS a, b.name AS b, r.weight AS weight ORDER BY weight DESC, a, b SKIP 1 LIMIT 3""",
    cases: """MATCH (a:Tool {namespace: $namespace})-[r:NEXT]->(b:Tool)
        RETURN a.name, b.name,
          CASE WHEN r.support + r.failures > 0 THEN toFloat(r.failures) / (r.support + r.failures) ELSE 0 END AS share,
          CASE WHEN r.weight >= 0.5 THEN 'high' WHEN r.weight > 0 THEN 'low' END AS how,
          CASE r.support WHEN 2 THEN 0.5 ELSE r.support END AS half""",
    together: """MATCH (t:Tool {namespace: $namespace}) WHERE t.calls > 4 RETURN t.name AS name
        UNION ALL MATCH (s:State {namespace: $namespace}) RETURN s.summary AS name""",
    states_between: """MATCH (a:Tool {namespace: $namespace})<-[:AFTER]-(s:State)-[:BEFORE]->(b:Tool)
        WHERE s.success AND (a)-[:NEXT]->(b) RETURN a.name, b.name, s.summary, s.sources""",
    lists: """MATCH (a:Tool {namespace: $namespace})-[r:NEXT]->(:Tool)
        WITH a, collect(r.support) AS supports, max(r.support) AS most
        RETURN a.name, size(supports), [s IN supports WHERE s > 1 | 2 * s] AS twice,
               any(s IN supports WHERE s > 4) AS some, most IN supports AS there""",
}
