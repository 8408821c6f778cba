"""The library: its files, and the same answers from both engines and from every store."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import neo4j
import pytest

from hepm import Memory, Trajectory
from hepm.cypher import NamedQuery, question, questions
from hepm.cypher.engines import Projection, ask_server
from hepm.cypher.model import Result
from hepm.errors import QueryError
from hepm.graph.open_store import open_store
from hepm.graph.sqlite import SQLiteStore
from hepm.graph.sqlite.projection import open_copy
from tests.cypher.engines import clear_server, comparable, fresh
from tests.cypher.remembered import (
    BY_QUESTION,
    DO_NOT_RETURN,
    GIVE_UP,
    LOOK_TWICE,
    RETURN,
    VALUES,
    learn,
    random_shop,
    shop,
)  # fmt: skip
from tests.neo4j_server import Neo4jServer

PAGE_ON_PICTURES = Path(__file__).parents[2] / "docs" / "use/browser.md"


class Engines:
    """The same memories, by namespace, in both engines: in an embedded copy, and in the store on a server."""

    def __init__(self, file: Path, runs: Mapping[str, list[Trajectory]], driver: neo4j.Driver, at: Neo4jServer) -> None:
        self._driver, self._database, login = driver, at.database, (at.username, at.password)
        with Memory.open(file) as memory, Memory.open(at.uri, auth=login) as there:
            for namespace, one in product(runs, (memory, there)):
                one.ingest(runs[namespace], namespace=namespace)
        self.store = SQLiteStore(file)
        with contextlib.closing(open_store(at.uri, auth=login)) as server:
            for namespace, store in product(runs, (self.store, server)):
                learn(store, namespace)
        self.copy: Projection = open_copy(self.store)

    def embedded(self, name: str, values: Mapping[str, Any]) -> Result:
        return self.copy.ask(questions()[name].embedded, questions()[name].values(values))

    def server(self, name: str, values: Mapping[str, Any]) -> Result:
        return ask_server(self._driver, self._database, questions()[name].text, questions()[name].values(values))

    def __enter__(self) -> Engines:
        return self

    def __exit__(self, *_: object) -> None:
        self.copy.close()
        clear_server(self._driver, self._database, self.store.namespaces())
        self.store.close()


def values_of(q: NamedQuery, namespace: str, **known: Any) -> dict[str, Any]:
    known = {**VALUES, **BY_QUESTION.get(q.name, {}), **known, "namespace": namespace}
    return {p.name: known[p.name] for p in q.parameters if p.name in known}


def in_order(result: Result) -> list[str]:
    return [repr(tuple(comparable(value) for value in row)) for row in result.rows]


@pytest.fixture(scope="module")
def in_a_shop(
    driver: neo4j.Driver, neo4j_server: Neo4jServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Engines, str]]:
    file, namespace = tmp_path_factory.mktemp("shop") / "shop.hepm", fresh("shop")
    runs = dict.fromkeys((namespace, fresh("another")), shop())
    with Engines(file, runs, driver, neo4j_server) as engines:
        yield engines, namespace


@pytest.fixture
def told(in_a_shop: tuple[Engines, str]) -> Any:
    engines, namespace = in_a_shop
    return lambda name: engines.embedded(name, values_of(question(name), namespace))


def test_each_header_names_exactly_the_parameters_of_both_bodies():
    for q in questions().values():
        named = {p.name for p in q.parameters}
        for text in (q.text, q.embedded):
            body = "\n".join(line for line in text.splitlines() if not line.startswith("//"))
            assert set(re.findall(r"\$(\w+)", body)) == named, q.name
            assert re.match(r"MATCH (p = )?(allShortestPaths\()?\(\w*:[\w|]+ \{namespace: \$namespace", body), q.name


def test_each_question_gives_the_columns_of_its_header_and_the_same_rows_from_every_store(
    in_a_shop: tuple[Engines, str],
):
    engines, namespace = in_a_shop
    for q in questions().values():
        found, kept = (ask(q.name, values_of(q, namespace)) for ask in (engines.embedded, engines.server))
        (header,) = re.findall(r"// Returns: (.*)", q.text)
        assert kept.columns == found.columns == tuple(part.split()[0] for part in header.split(",")), q.name
        assert found.rows, f"{q.name}: a question without an answer tests nothing: give the shop what it asks for"
        assert in_order(kept) == in_order(found), q.name
        assert engines.embedded(q.name, values_of(q, "nowhere")).rows == (), q.name


@pytest.mark.parametrize("graphs", [3, pytest.param(8, marks=pytest.mark.exhaustive)])
def test_both_engines_answer_alike_on_random_memories(
    driver: neo4j.Driver, neo4j_server: Neo4jServer, tmp_path: Path, graphs: int
):
    names = {fresh(f"random-{seed}"): random.Random(seed) for seed in range(graphs)}
    runs = {name: random_shop(chance) for name, chance in names.items()}
    answered: set[str] = set()
    with Engines(tmp_path / "random.hepm", runs, driver, neo4j_server) as engines:
        for name, chance in names.items():
            called = sorted(tool.name for tool in engines.store.tools(namespace=name) if tool.calls)
            for _ in range(2):
                drawn = {key: chance.choice(called) for key in ("tool", "after")}
                drawn["from"], drawn["to"] = chance.sample([*called, "<START>"], 2)
                answered |= compared(engines, name, limit=10_000, trajectory=f"r{chance.randint(1, 12)}", **drawn)
    assert set(questions()) - answered == set()


def compared(engines: Engines, namespace: str, **values: Any) -> set[str]:
    """Ask both engines everything; which questions had an answer."""
    answered: set[str] = set()
    for q in questions().values():
        given = values_of(q, namespace, **values)
        here, there = engines.embedded(q.name, given), engines.server(q.name, given)
        assert in_order(here) == in_order(there), (q.name, given)
        answered |= {q.name} if here.rows else set()
    return answered


def test_the_strongest_next_tools_are_those_counted_by_hand(told: Any):
    rows = told("strongest_next_tools").rows
    # get_order was left by r1, r2 and r4 for return_items after 3, 3 and 2 steps, by r3 (6 steps) for it too, for
    # get_product, and for itself: (4 + 1/3 + 1/3 + 1/2 + 1/6) and twice (1 + 1/6).
    total = (4 + 4 / 3) + 2 * (1 + 1 / 6)
    assert [row[0] for row in rows] == ["return_items", "get_order", "get_product"]
    assert rows[0][1] == pytest.approx((4 + 4 / 3) / total)
    assert [row[2] for row in rows] == [4, 1, 1]


def test_no_edge_is_gone_twice_on_the_way_to_what_comes_two_steps_ahead(told: Any):
    # get_order leads to itself: twice around is no way of two steps.
    rows = told("two_steps_ahead").dicts()
    assert [(row["tool"], row["ways"]) for row in rows] == [("get_order", 1), ("return_items", 1), ("get_product", 1)]


def test_a_lesson_helped_or_hurt_by_the_share_of_successes_among_all_runs(told: Any):
    # Five of the eight runs with an outcome succeeded. RETURN was shown in four that ended, and three succeeded.
    [helped] = told("lessons_that_helped").dicts()
    assert (helped["lesson"], helped["uses"], helped["successes"]) == (RETURN.id, 4, 3)
    assert helped["base_share"] == 5 / 8
    assert helped["lift"] == pytest.approx(4 / 6 - 5 / 8)
    hurt = told("lessons_that_hurt").dicts()
    assert [(h["lesson"], h["score"]) for h in hurt] == [
        (GIVE_UP.id, 1 / 4),
        (DO_NOT_RETURN.id, pytest.approx(1 / 3)),
        (LOOK_TWICE.id, 1 / 2),
    ]


def test_principles_contradict_where_one_says_what_the_other_denies_and_both_are_live(told: Any):
    # GO_ON too says what a principle denies: but that one was pruned.
    found = [(row["after"], row["tool"], row["says"], row["denies"]) for row in told("contradictions").dicts()]
    assert found == [("get_order", "return_items", RETURN.text, DO_NOT_RETURN.text)]


STEPS = "MATCH (a:Tool {namespace: $namespace})"
RUNS = "MATCH (t:Trajectory {namespace: $namespace})"
NOTES = "MATCH (n:Notes {namespace: $namespace})"
DIFFERENT = [
    (f"{STEPS}-[:NEXT]->(b)-[:NEXT]->(c) RETURN count(*) AS n", 22, 21),
    (f"{STEPS}-[:NEXT*2]->(c) RETURN count(*) AS n", 22, 21),
    ("RETURN [1, 2, 3][1..2] AS l", [1, 2], [2]),
    ("RETURN substring('hello', 1, 2) AS t", "he", "el"),
    (f"{RUNS} WHERE t.id = 'r8' RETURN t.id + t.day AS t", "r8", None),
    ("MATCH (t:Tool {namespace: 'none'}) RETURN sum(t.calls) AS n", None, 0),
    ("RETURN 'abc' CONTAINS '' AS b", False, True),
    (f"{RUNS} WHERE t.id = 'r8' RETURN t.day IN [] AS b", None, False),
    ("RETURN any(x IN [null] WHERE x = 1) AS b", False, None),
    (f"{RUNS} WHERE t.id = 'r8' RETURN CASE t.success WHEN null THEN 1 ELSE 2 END AS n", 1, 2),
    (f"{RUNS} OPTIONAL MATCH (t)-[:TOOK]->(b) WHERE t.success IS NULL RETURN count(b) AS n", 0, 2),
    (f"{RUNS} WHERE EXISTS {{ MATCH (t)-[:TOOK]->(b) WHERE coalesce(t.success, true) }} RETURN count(*) AS n", 5, 6),
    (f"{NOTES} WHERE EXISTS {{ MATCH (n)-[:MENTIONS]->(c) }} RETURN count(*) AS n", 3, 0),
    (f"{STEPS} WHERE a.calls > 0 RETURN labels(a) AS l LIMIT 1", "Tool", ["Tool"]),
    (f"{RUNS} WHERE t.id = 'r8' RETURN 'day' IN keys(t) AS b", True, False),
    (f"{RUNS} WHERE t.id = 'r8' RETURN 'pk' IN keys(t) AS b", True, False),
]
ALIKE = [
    (f"{STEPS}-[one:NEXT]->(b)-[two:NEXT]->(c) WHERE one <> two RETURN count(*) AS n", 21),
    ("RETURN [1, 2, 3][-1] AS n", 3),
    (f"{RUNS} WHERE t.day IS NULL RETURN count(*) AS n", 2),
    ("MATCH (t:Tool {namespace: 'none'}) RETURN coalesce(sum(t.calls), 0) AS n", 0),
    (f"{RUNS} WHERE t.success IS NULL OPTIONAL MATCH (t)-[:TOOK]->(b) RETURN count(b) AS n", 2),
    (f"{NOTES} MATCH (n)-[:MENTIONS]->(c) RETURN count(*) AS n", 0),
]


def test_the_page_tells_rightly_where_the_engines_differ_and_what_means_the_same(
    in_a_shop: tuple[Engines, str], driver: neo4j.Driver, neo4j_server: Neo4jServer
):
    engines, namespace = in_a_shop
    for text, here, there in [*DIFFERENT, *((text, both, both) for text, both in ALIKE)]:
        given = {"namespace": namespace}
        assert engines.copy.ask(text, given).rows == ((here,),), text
        assert ask_server(driver, neo4j_server.database, text, given).rows == ((there,),), text
    number = f"{RUNS} RETURN id(t) AS number LIMIT 1"
    assert engines.copy.ask(number, {"namespace": namespace}).rows[0][0].keys() == {"offset", "table"}
    assert isinstance(ask_server(driver, neo4j_server.database, number, {"namespace": namespace}).rows[0][0], int)
    trail = f"{STEPS}-[:NEXT* TRAIL 2..2]->(c) RETURN count(*) AS n"
    assert engines.copy.ask(trail, {"namespace": namespace}).rows == ((21,),)


def test_the_page_on_pictures_shows_questions_as_the_library_has_them():
    bodies = {q.text[q.text.index("MATCH") :].strip() for q in questions().values()}
    shown = re.findall(r"```cypher\n(.*?)\n```", PAGE_ON_PICTURES.read_text("utf-8"), re.DOTALL)
    assert [text for text in shown if text not in bodies and ":!NEXT]" not in text] == []


def test_a_value_of_another_type_and_an_unknown_one_are_told_with_those_that_exist():
    q = question("strongest_next_tools")
    for given, said in (
        ({"namespace": "n"}, "needs tool"),
        ({"namespace": "n", "tool": 3}, "takes tool as string"),
        ({"namespace": "n", "tool": "x", "limit": True}, "takes limit as int"),
        ({"namespace": "n", "tool": "x", "top": 3}, "has no parameter 'top'"),
    ):
        with pytest.raises(QueryError, match=said) as raised:
            q.values(given)
        assert "limit = 10" in str(raised.value) or "takes" in str(raised.value)


def test_a_misspelt_question_is_told_with_the_one_that_is_spelt_alike():
    with pytest.raises(QueryError, match="did you mean strongest_next_tools"):
        question("strongest_next_tool")
