"""What the two engines take differently when asked plainly: after translation both must say what Neo4j says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import ladybug
import neo4j
import pytest

from hepm.cypher.guard import ask_server
from hepm.cypher.model import Table
from hepm.cypher.projection import Projection, open_projection
from hepm.cypher.result import Result
from hepm.errors import QueryError
from tests.cypher.engines import Both, Tables, as_set, clear_server, fresh, load_server, node, table
from tests.cypher.random_queries import SHAPES, QueryMaker
from tests.neo4j_server import Neo4jServer

NS = fresh("meaning")
TOOLS = [("a", 3, "says 'hi'"), ("b", -7, ""), ("Ünï€𝄞", 2, "back\\slash\nand line"), ("lonely", 0, "`tick`")]
EDGES = [(0, 1, 5, 0.25, ("q",)), (1, 0, 2, 1.0, ()), (0, 0, 1, 0.75, ("", "x")), (1, 2, 4, 0.5, ())]
RUNS = [
    ("r0", "shop", "t1", True, 1.0, 3, "2026-09-02", ("a", "b")),
    ("r1", "", "", False, None, 5, None, ()),
    ("r2", "shop", "t2", None, 0.5, 0, "2026-10-30", ("b",)),
    ("r3", "air", "t1", True, 0.25, 7, "2026-10-01", ("a", "a", "b")),
]


def tables() -> Tables:
    return [
        (table("Tool"), [(i, NS, name, text, "{}", calls, 0) for i, (name, calls, text) in enumerate(TOOLS)]),
        (table("State"), [(0, NS, 7, "knows", ("a",), ("b", "a"), True, 2, 1.5, "r0", 0)]),
        (
            table("Trajectory"),
            [
                (i, NS, name, i, env, task, "m", "", "f", success, reward, steps, None, day, tools, True, "said", "{}")
                for i, (name, env, task, success, reward, steps, day, tools) in enumerate(RUNS)
            ],
        ),
        (table("NEXT"), [(a, b, support, 1, 0, 9, weight, 0.5, 0, texts) for a, b, support, weight, texts in EDGES]),
        (table("AFTER"), [(0, 0)]),
        (table("BEFORE"), [(0, 1), (0, 0)]),
        *lessons(),
        (table("TOOK"), [(0, 1, "a"), (2, 1, "<START>"), (3, 0, "a"), (3, 1, "a")]),
    ]


def lessons() -> Tables:
    """Experiences of which one evolved from two, a principle, notes in two versions, and where they were shown."""
    experiences = [
        node("Experience", i, namespace=NS, id=f"e{i}", text=f"e {i}", zone=zone, live=i > 0, score=i / 4, runs=runs)
        for i, (zone, runs) in enumerate([("golden", ("r0", "r3")), ("warning", ("r1",)), ("golden", ())])
    ]
    principles = [node("Principle", 0, namespace=NS, id="p0", text="p 0", kind="guiding", score=0.75, runs=("r0",))]
    notes = [node("Notes", i, namespace=NS, id=f"n{i}", text=f"n {i}", user="ann", version=i + 1) for i in range(2)]
    return [
        (table("Experience"), experiences),
        (table("Principle"), principles),
        (table("Notes"), notes),
        (table("User"), [(0, NS, "ann")]),
        (table("Concept"), [(0, NS, "a"), (1, NS, "b")]),
        (table("Showing"), [(0, NS, "r9", None), (1, NS, "r8", False)]),
        (Table("FROM", ("Experience", "Trajectory")), [(0, 0, 1.0, True), (0, 3, None, False), (1, 1, 0.0, True)]),
        (Table("FROM", ("Principle", "Trajectory")), [(0, 0, None, True)]),
        (Table("FROM", ("Notes", "Trajectory")), [(0, 3, None, False)]),
        (Table("ABOUT", ("Experience", "Tool")), [(0, 0), (0, 1), (2, 1)]),
        (Table("ABOUT", ("Principle", "Tool")), [(0, 1)]),
        (Table("EVOLVED_FROM", ("Experience", "Experience")), [(2, 0, "crossover"), (2, 1, "crossover")]),
        (table("PREFERS"), [(0, 1)]),
        (table("REVISES"), [(1, 0)]),
        (table("MENTIONS"), [(0, 0), (0, 1)]),
        (table("RELATES"), [(0, 1, "followed_by", "p0"), (1, 0, "fails_after", "p0")]),
        (Table("SHOWED", ("Showing", "Experience")), [(0, 0, None), (1, 2, False)]),
        (Table("SHOWED", ("Showing", "Principle")), [(1, 0, False)]),
    ]


@pytest.fixture(scope="module")
def both(driver: neo4j.Driver, neo4j_server: Neo4jServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    load_server(driver, neo4j_server.database, tables())
    with open_projection([tmp_path_factory.mktemp("copies")], lambda: "values", tables) as copy:
        yield Both(copy, driver, neo4j_server.database)
    clear_server(driver, neo4j_server.database, [NS])


L = "MATCH (l:Lesson {namespace: $namespace}) "
T = "MATCH (t:Tool {namespace: $namespace}) "
J = "MATCH (j:Trajectory {namespace: $namespace}) "
R = "MATCH (a:Tool {namespace: $namespace})-[r:NEXT]->(b:Tool) "

ALIKE = [
    # nothing and null
    T + "WHERE t.name = 'none' RETURN count(t), sum(t.calls), collect(t.name), avg(t.calls), min(t.name)",
    T + "OPTIONAL MATCH (t)-[r:NEXT]->(u) RETURN t.name, sum(r.support), collect(u.name), labels(u), type(r)",
    T + "OPTIONAL MATCH (t)-[r:NEXT]->(u) RETURN t.name + '-' + u.name, replace(u.name, 'b', 'c'), toUpper(u.name)",
    J + "RETURN j.id, j.reward > 0.3, NOT j.success, j.reward + 1, j.success XOR true, coalesce(j.day, 'none')",
    J + "RETURN j.day ORDER BY j.day",
    J + "RETURN j.reward ORDER BY j.reward DESC",
    J + "RETURN DISTINCT j.success AS s ORDER BY s",
    J + "WHERE NOT j.reward = 0.5 RETURN count(*)",
    J + "RETURN j.id, 'a' IN j.tools, j.day IN ['2026-09-02'], j.day IN $empty, NOT j.day IN $empty",
    J + "RETURN j.id, all(x IN j.tools WHERE x = 'a'), any(x IN j.tools WHERE x = 'b')",
    J + "RETURN j.id, none(x IN j.tools WHERE x = $one), NOT all(x IN j.tools WHERE x = 'b')",
    J + "RETURN j.id, head(j.tools), last(j.tools), size(j.tools), j.tools[0..2], j.tools[1..], j.tools[..$two]",
    J + "RETURN j.id, [x IN j.tools WHERE x <> 'a' | x + '!'] AS some, [x IN j.tools | toUpper(x)] AS all",
    "RETURN $nothing IS NULL AS a, coalesce($nothing, 1) AS b, $nothing = 1 AS c",
    J + "WHERE $nothing IS NULL OR j.task = $nothing RETURN count(*)",
    # numbers
    T + "RETURN t.calls / 2, t.calls % 3, -t.calls, t.calls * 1.5, toFloat(t.calls) / 2, abs(t.calls), 2 ^ 3",
    T + "RETURN CASE WHEN t.calls > 0 THEN 1 ELSE 0.5 END, CASE t.calls WHEN 3 THEN 'three' ELSE t.name END",
    J + "RETURN CASE j.success WHEN null THEN 'null' WHEN true THEN 'yes' ELSE 'no' END",
    J + "RETURN sum(j.steps) / count(*), toFloat(sum(j.steps)) / count(*), sum(j.steps) * $two, $two - count(*) > 0.5",
    J + "WITH j.environment AS env, sum(j.steps) AS steps, avg(j.reward) AS reward RETURN env, steps / 2, reward",
    "RETURN floor(-1.5), ceil(1.2), sqrt(4), log(10), log10(100), sign(-2), range(1, 4)",
    "RETURN 7 / 2, -7 / 2, -7 % 3, 1.0 / 0, 2 ^ 3 ^ 2, -2 ^ 2, 10 - 3 - 2, NOT true OR true, 1 + 2 = 3 AND 2 < 3",
    J + "RETURN percentileCont(j.steps, 0.5), percentileDisc(j.steps, 0.5), count(DISTINCT j.task), max(j.day)",
    # texts
    T + "RETURN t.name, size(t.name), toUpper(t.name), left(t.name, 2), right(t.name, 9), t.name =~ '[ab]'",
    T + "RETURN t.name CONTAINS '', t.name CONTAINS $one, NOT t.name CONTAINS t.description",
    T + "RETURN t.description, t.name STARTS WITH left(t.name, 1), trim('  x '), replace(t.name, 'a', $quote)",
    "RETURN 'it\\'s' AS a, \"q\\\"\" AS b, 'tab\\t' AS c, 'u\\u00e9' AS d, 'CREATE (n) // no comment' AS e /* ( */",
    T + "WHERE t.description = $odd RETURN t.name // ' not a string",
    # relationships
    R + "RETURN a.name AS a, r.support AS s, type(r), labels(b), r.summaries, r ORDER BY a, s LIMIT 2",
    "MATCH p = (a:Tool {namespace: $namespace, name: 'a'})-[:NEXT]->(:Tool {name: 'b'}) RETURN p, length(p), nodes(p)",
    "MATCH (a:Tool {namespace: $namespace, name: 'a'})-[way:NEXT*1..3]->(b) RETURN b.name, [r IN way | r.support]",
    "MATCH (a:Tool {namespace: $namespace})-[way:NEXT*2]->(b) RETURN a.name, b.name, way",
    "MATCH (s:State {namespace: $namespace})-[:AFTER]->(a), (s)-[:BEFORE]->(b) RETURN s.summary, a.name, b.name",
    "MATCH (s:State {namespace: $namespace})-[:BEFORE]->(a), (s)-[:BEFORE]->(b) RETURN a.name, b.name",
    "MATCH (n {namespace: $namespace}) RETURN labels(n) AS l, count(*)",
    "MATCH (n {namespace: $namespace})-[r:NEXT|TOOK]->(m) RETURN type(r), count(*)",
    T + "WHERE NOT (t)-[:NEXT]->(:Tool) RETURN t.name",
    T + "RETURN t.name, COUNT { (t)-[r:NEXT]->() WHERE r.support > 1 }, EXISTS { (t)<-[:AFTER]-(:State) }",
    R + "WHERE a.name < b.name MATCH (b)-[back:NEXT]->(a) RETURN a.name, b.name, r.support + back.support AS both",
    # lessons
    L + "RETURN l.id, l.text, l.zone, l.kind, l.version, l.user, l.live, l.score, l.runs, size(l.runs)",
    L + "WHERE l.live RETURN coalesce(l.zone + ' experience', l.kind + ' principle', 'notes') AS what, count(*) AS n",
    L + "RETURN l",
    L + "RETURN l.id, [x IN labels(l) WHERE x = 'Lesson'] AS one, 'Retired' IN labels(l) AS retired, labels(l)",
    "MATCH (n {namespace: $namespace}) UNWIND labels(n) AS label RETURN label, count(*) AS n",
    "MATCH (n:Lesson|Tool {namespace: $namespace}) RETURN count(*)",
    J + "OPTIONAL MATCH (j)<-[:FROM]-(l:Lesson) RETURN j.id, l.id, l.runs[0..1], l.runs[1..]",
    L + "OPTIONAL MATCH (l)-[:ABOUT]->(t) WHERE l.live AND l.text <> t.name RETURN l.id, t.name",
    L + "OPTIONAL MATCH (l)-[:EVOLVED_FROM]->(m) WHERE l <> m RETURN l.id, m.id",
    J + "MATCH (j)<-[:FROM]-(l:Lesson) RETURN j.id, l.id, all(x IN j.tools WHERE x = 'a'), [x IN j.tools | x + '!']",
    "MATCH (l:Experience {namespace: $namespace})-[f:FROM]->(t:Trajectory) RETURN l.id, f.reward, f.words, t.id",
    "MATCH (p:Principle {namespace: $namespace})-[:ABOUT]->(t:Tool) RETURN p.id, t.name",
    L + "MATCH (l)-[f:FROM]->(j) RETURN l.id, f, j.id",
    "MATCH (l {namespace: $namespace})-[:ABOUT]->(t) RETURN l.id, t.name",
    J + "OPTIONAL MATCH (j)<-[f:FROM]-(l:Lesson) RETURN j.id, l.id, f.words",
    J + "MATCH (j)<-[:FROM]-(l:Lesson), (j)<-[:FROM]-(m:Lesson) RETURN j.id, l.id, m.id",
    L + "WHERE NOT EXISTS { (l)-[:FROM]->(:Trajectory) } RETURN l.id",
    T + "RETURN t.name, COUNT { (l:Lesson)-[:ABOUT]->(t) WHERE l.live }, EXISTS { (:Experience)-[:ABOUT]->(t) }",
    "MATCH p = (l:Lesson {namespace: $namespace})-[:EVOLVED_FROM*1..4]->(m) RETURN p, length(p)",
    "MATCH (:Lesson {namespace: $namespace})-[way:EVOLVED_FROM*0..4]->(m:Experience) RETURN m.id, size(way)",
    "MATCH (:Experience {namespace: $namespace})-[way:EVOLVED_FROM*0..4]->(m) RETURN m.id, [r IN way | r.operator]",
    "MATCH (:User {namespace: $namespace})-[:PREFERS]->(n)-[:REVISES*0..9]->(m) RETURN n.id, m.id, m.version",
    "MATCH (s:Showing {namespace: $namespace})-[r:SHOWED]->(l) RETURN s.run, s.told, r.success, l.id",
    "MATCH (c:Concept {namespace: $namespace})-[r:RELATES]->(d)<-[:MENTIONS]-(p) RETURN c.name, r, d.name, p.id",
    "MATCH (n {namespace: $namespace})-[r:FROM|ABOUT|SHOWED]->(m) RETURN type(r), count(*)",
    # names and clauses
    T + "RETURN t.name AS t ORDER BY t",
    T + "RETURN t.calls AS `my col`, t.`name` ORDER BY `my col` SKIP 1 LIMIT $two",
    R + "WITH a, count(*) AS `end`, collect(b.name) AS key WHERE `end` > 1 RETURN a.name, `end`, size(key)",
    T + "WITH t ORDER BY t.calls DESC LIMIT 2 MATCH (t)-[:NEXT]->(u) RETURN t.name, count(u)",
    "UNWIND $rows AS row MATCH (t:Tool {namespace: $namespace, name: row.name}) RETURN row.n, t.calls",
    T + "RETURN t.name AS x UNION MATCH (s:State {namespace: $namespace}) RETURN s.summary AS x",
    T + "RETURN {name: t.name, n: t.calls} AS m",
    T + "WHERE t.calls > 2 RETURN *",
]  # fmt: skip
PARAMETERS: dict[str, Any] = {
    "namespace": NS,
    "empty": [],
    "one": "a",
    "two": 2,
    "nothing": None,
    "quote": "'; MATCH (n) DETACH DELETE n //",
    "odd": "back\\slash\nand line",
    "rows": [{"name": "a", "n": 1}, {"name": "b", "n": 2}],
}


@pytest.mark.parametrize("text", ALIKE)
def test_a_query_of_the_portable_subset_means_the_same_to_both_engines(text: str, both: Both):
    copy, server = both.ask(text, PARAMETERS)
    assert copy.columns == server.columns
    assert without_order(copy.rows) == without_order(server.rows)
    if "ORDER BY" in text and "WITH" not in text:
        assert repr(copy.rows) == repr(server.rows)


def without_order(rows: Any) -> list[str]:
    return as_set([[sorted(v, key=repr) if isinstance(v, list) else v for v in row] for row in rows])


@pytest.mark.parametrize("shape", SHAPES)
def test_random_queries_mean_the_same_to_both_engines_or_are_refused(shape: str, both: Both):
    make = QueryMaker(shape, random.Random(shape))
    refused = 0
    for _ in range(150):
        text = make.query()
        parameters = {"i": 3, "f": 0.25, "s": "a", "l": ["b", "zz"], "namespace": NS}
        copy = answer_or_complaint(both.copy, text, parameters)
        if isinstance(copy, str):
            assert "outside of the Cypher that the embedded engine answers" in copy, text
            refused += 1
            continue
        server = ask_server(both.driver, both.database, text, parameters, limit=100_000)
        assert without_order(copy.rows) == without_order(server.rows), text
    assert refused < 75


def answer_or_complaint(copy: Projection, text: str, parameters: dict[str, Any]) -> Result | str:
    try:
        return copy.ask(text, parameters, limit=100_000)
    except QueryError as error:
        return str(error)


ODD = [
    "'",
    '"',
    "`",
    "\\",
    "x' OR '1'='1",
    "}) DETACH DELETE t //",
    "$namespace",
    "line\nend\r\n",
    "\u2028",
    "x" * 10_000,
]


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:20])
def test_a_value_is_only_ever_a_value(value: str, both: Both):
    for answer in both.ask("RETURN $v AS v, size($v) > 0 AS there", {"v": value}):
        assert answer.rows == ((value, True),)
    for answer in both.ask(T + "WHERE t.name = $v RETURN t.name", {"namespace": NS, "v": value}):
        assert answer.rows == ()
    literal = value.replace("\\", "\\\\").replace("'", "\\'")
    if "\\u" not in value:  # Neo4j reads that as a letter wherever it stands
        for answer in both.ask(f"RETURN '{literal}' AS v", {}):
            assert answer.rows == ((value,),)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("MATCH (a)-[:NEXT*]->(b) RETURN a", "a pattern without an end"),
        ("MATCH (a)-[:NEXT*1..99]->(b) RETURN a", "a pattern without an end"),
        ("MATCH (a)-[:NEXT]-(b) RETURN a", "a relationship without a direction"),
        ("MATCH (a)--(b) RETURN a", "a relationship without a direction"),
        ("MATCH (a)-[r:NEXT]->(b)-[:NEXT*1..2]->(c) RETURN a", "variable length beside another"),
        ("MATCH (a)-[:NEXT]->{1,3}(b) RETURN a", "a relationship that leads to no node"),
        ("MATCH p = shortestPath((a)-[:NEXT*..3]->(b)) RETURN p", "shortestPath"),
        ("OPTIONAL MATCH p = (a:Tool)-[:NEXT]->(b) RETURN p", "a named path in OPTIONAL MATCH"),
        (
            "MATCH (j:Trajectory) MATCH (t:Tool) OPTIONAL MATCH (t)-[:NEXT]->(u) WHERE j.success RETURN u",
            "'j' from outside",
        ),
        ("MATCH (t:Tool) CALL { WITH t RETURN 1 AS x } RETURN x", "CALL"),
        ("CALL db.labels()", "CALL"),
        ("LOAD CSV FROM 'x' AS line RETURN line", "LOAD"),
        ("MATCH (t) RETURN t {.name}", "the map projection t"),
        ("MATCH (t:Tool) RETURN [(t)-[:NEXT]->(u) | u.name]", "a pattern comprehension"),
        ("MATCH (t:Tool) RETURN COLLECT { MATCH (t) RETURN 1 }", "this COLLECT"),
        ("MATCH (t:Tool) WHERE t:Tool RETURN t", "a label in an expression"),
        ("MATCH (t:Tool) RETURN reduce(s = 0, x IN [1] | s + x)", "the function reduce()"),
        ("MATCH (t) RETURN apoc.text.join(['a'], 'b')", "the function"),
        (J + "OPTIONAL MATCH (j)-[:TOOK]->(t) WHERE j.success IS NULL RETURN t", "may be null of 'j', bound before"),
        (J + "WHERE EXISTS { (j)-[:TOOK]->(t) WHERE coalesce(j.success, true) } RETURN j", "may be null of 'j'"),
        (L + "RETURN COUNT { (l)-[:ABOUT]->(t) WHERE l.zone IS NULL } AS n", "may be null of 'l'"),
        (L + "OPTIONAL MATCH (l)-[:ABOUT]->(t) WHERE l IS NOT NULL RETURN t", "may be null of 'l'"),
        ("MATCH (l:Retired) RETURN l", "the label Retired"),
        ("MATCH (l:Golden) RETURN l", "say zone: 'golden'"),
        ("MATCH (l:Lesson)-[:EVOLVED_FROM*0..2]->(m) RETURN m", "length 0 at nodes without EVOLVED_FROM"),
        ("MATCH (u:User)-[:PREFERS*0..1]->(n) RETURN n", "length 0 at nodes without PREFERS"),
        ("MATCH (l:Lesson:Experience) RETURN l", "a node with two labels"),
        ("MATCH p = (:Tool)-[:NEXT]->(:Tool) RETURN [n IN nodes(p) | labels(n)]", "labels() of anything but"),
        ("MATCH (t:Tool) RETURN toString(t.calls)", "the function toString()"),
        ("MATCH (j:Trajectory) RETURN j.tools[0]", "an index like list[0]"),
        ("MATCH (j:Trajectory) RETURN [x IN j.tools WHERE x = j.task]", "'j' from outside"),
        ("MATCH (j:Trajectory) RETURN all(x IN j.tools WHERE x = 'a' OR x = 'b')", "AND, OR or NOT inside"),
        ("MATCH (t:Tool) WITH t ORDER BY t.name RETURN t", "ORDER BY in a WITH without LIMIT"),
        ("MATCH (t:Tool) WITH t ORDER BY t.name LIMIT 3 RETURN collect(t.name)", "collect() behind an ORDER BY"),
        ("MATCH (t:Tool) WITH * RETURN t", "WITH *"),
        ("UNWIND [1] AS x UNWIND [0.5] AS y RETURN CASE WHEN true THEN x ELSE y END", "a CASE whose results"),
        ("RETURN 1 <> 2 AS x, [1, null] AS y", "a null in a list"),
        ("EXPLAIN MATCH (n) RETURN n", "EXPLAIN"),
        ("USE other MATCH (n) RETURN n", "USE"),
        ("SHOW INDEXES", "SHOW"),
    ],
)
def test_what_lies_outside_of_the_subset_is_refused_by_name(text: str, part: str, both: Both):
    with pytest.raises(QueryError, match="outside of the Cypher that the embedded engine answers") as raised:
        both.copy.ask(text, {"namespace": NS})
    assert part in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE (n:Tool)",
        "MATCH (t:Tool) SET t.calls = 0",
        "MATCH (t) DETACH DELETE t",
        "MERGE (t:Tool {pk: 1}) RETURN t",
        "MATCH (t:Tool) REMOVE t.calls",
        "MATCH (t) WITH t FOREACH (x IN [1] | SET t.a = x)",
        "COPY (MATCH (t) RETURN t) TO 'stolen.csv'",
        "DROP TABLE Tool",
        "INSTALL json",
        "ATTACH 'x.db' AS x (dbtype sqlite)",
        "EXPORT DATABASE 'x'",
        "CREATE MACRO f(x) AS x + 1",
    ],
)
def test_what_writes_is_refused_in_a_sentence(text: str, both: Both):
    with pytest.raises(QueryError, match="writes, and what analysts ask only reads"):
        both.copy.ask(text, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the text is empty"),
        ("RETURN 1; RETURN 2", "one query at a time"),
        ("MATCH (t:Tool)", "returns nothing"),
        ("MATCH (t:Tool RETURN t", "does not close it"),
        ("RETURN 'open", "a string does not end"),
        ("RETURN 1 /* open", "a comment does not end"),
        ("RETURN $unknown", "--param unknown=…"),
        ("MATCH (t:Thing) RETURN t", "there is no label 'Thing'.*Tool, State, Trajectory"),
        ("MATCH (t)-[:LIKES]->(u) RETURN t", "there is no relationship type 'LIKES'"),
        ("MATCH (t:Tool)-[:TOOK]->(u) RETURN t", "no TOOK leads there"),
        ("MATCH (n:Notes)-[:MENTIONS]->(c) RETURN n", "no MENTIONS leads there"),
        ("MATCH (n:Notes)-[:EVOLVED_FROM*1..2]->(c) RETURN n", "no EVOLVED_FROM leads there"),
        ("MATCH (l:Lesson) RETURN l.colour", "Cannot find property colour"),
        ("MATCH (t:Tool) RETURN t.colour", "Cannot find property colour"),
        ("MATCH (`_hepm_1`:Tool) RETURN 1", "call it something else"),
        ("MATCH (t:Tool) RETURN t.name RETURN 2", "ends a query"),
        ("MATCH (t:Tool) RETURN t.name AS end", "put it in backticks"),
    ],
)
def test_a_mistake_gets_a_sentence(text: str, said: str, both: Both):
    with pytest.raises(QueryError, match=said):
        both.copy.ask(text, {})


def test_a_long_query_is_ended_and_many_rows_are_cut(both: Both):
    slow = "UNWIND range(1, 3000) AS a UNWIND range(1, 3000) AS b UNWIND range(1, 3000) AS c RETURN count(a + b + c)"
    with pytest.raises(QueryError, match=r"did not end within 0\.3 s"):
        both.copy.ask(slow, {}, timeout_s=0.3)
    for answer in both.ask("UNWIND range(1, 50) AS n RETURN n", {}, limit=7):
        assert len(answer.rows) == 7
        assert answer.truncated
    for answer in both.ask("UNWIND range(1, 7) AS n RETURN n", {}, limit=7):
        assert not answer.truncated


def test_the_engine_itself_takes_no_write_where_the_translation_is_passed_by(both: Both):
    connection = ladybug.Connection(both.copy._database)
    with pytest.raises(RuntimeError, match="read-only"):
        connection.execute("CREATE (:Tool {pk: 99})")
