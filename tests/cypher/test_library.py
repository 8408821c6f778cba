"""The library: its files, and the same answers from every engine and store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import neo4j
import pytest

from hepm import Memory
from hepm.cypher.guard import ask_server
from hepm.cypher.portable import translate
from hepm.cypher.questions import Question, parse, question, questions
from hepm.cypher.result import Result
from hepm.cypher.tokens import tokens_of
from hepm.errors import QueryError
from hepm.graph.cypher_copy import open_copy
from hepm.graph.model_rows import ModelRows
from hepm.graph.opening import open_store
from hepm.graph.sqlite import SQLiteStore
from hepm.ingest.pipeline import replay_with
from tests.cypher.engines import as_set, clear_server, fresh, load_server
from tests.cypher.remembered import (
    BY_QUESTION,
    DO_NOT_RETURN,
    GIVE_UP,
    GO_ON,
    LOOK,
    LOOK_TWICE,
    LOOK_WELL,
    RETURN,
    VALUES,
    learn,
    shop,
)  # fmt: skip
from tests.neo4j_server import Neo4jServer

NAMES = sorted(questions())
PAGE = Path(__file__).parents[2] / "docs" / "cypher.md"


def values(q: Question, namespace: str) -> dict[str, Any]:
    known = {**VALUES, **BY_QUESTION.get(q.name, {}), "namespace": namespace}
    return q.values({p.name: known[p.name] for p in q.parameters if p.name in known})


@dataclass
class Answers:
    """The shop, in an embedded store with its copy, on the server by plain statements, and in hepm's store there."""

    copy: Any
    driver: neo4j.Driver
    database: str
    by_rows: str
    by_store: str

    def ask(self, q: Question) -> dict[str, Result]:
        text = q.text
        return {
            "copy": self.copy.ask(text, values(q, self.by_rows)),
            "rows": ask_server(self.driver, self.database, text, values(q, self.by_rows)),
            "store": ask_server(self.driver, self.database, text, values(q, self.by_store)),
        }


@pytest.fixture(scope="module")
def answers(
    driver: neo4j.Driver, neo4j_server: Neo4jServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Answers]:
    by_rows, by_store = fresh("shop"), fresh("shop-store")
    file = tmp_path_factory.mktemp("shop") / "shop.hepm"
    with Memory.open(file) as memory:
        memory.ingest(shop(), namespace=by_rows)
        memory.ingest(shop(), namespace="another")
    login = (neo4j_server.username, neo4j_server.password)
    with Memory.open(neo4j_server.uri, auth=login) as memory:
        memory.ingest(shop(), namespace=by_store)
    with contextlib.closing(open_store(neo4j_server.uri, auth=login)) as server:
        learn(server, by_store)
    store = SQLiteStore(file)
    for namespace in (by_rows, "another"):
        learn(store, namespace)
    replay = replay_with(None)

    def read(records: Any) -> Any:
        return replay(records)[0]

    load_server(driver, neo4j_server.database, ModelRows(store, read).tables())
    with open_copy(store, file, read) as copy:
        yield Answers(copy, driver, neo4j_server.database, by_rows, by_store)
    store.close()
    clear_server(driver, neo4j_server.database, [by_rows, by_store, "another"])


@pytest.mark.parametrize("name", NAMES)
def test_the_header_names_exactly_the_parameters_of_the_body(name: str):
    q = questions()[name]
    assert {p.name for p in q.parameters} == {t.text for t in tokens_of(q.text) if t.kind == "param"}


@pytest.mark.parametrize("name", NAMES)
def test_the_header_names_exactly_the_columns_that_come_back(name: str):
    q = questions()[name]
    assert translate(q.text, values(q, "n")).columns == tuple(column for column, _ in q.returns)


@pytest.mark.parametrize("name", NAMES)
def test_every_match_of_a_question_begins_in_the_namespace_or_where_an_earlier_one_was(name: str):
    tokens = tokens_of(questions()[name].text)
    first = next(i for i, token in enumerate(tokens) if token.upper == "MATCH")
    rest = [token.text for token in tokens[first : first + 40]]
    assert "namespace" in rest[: rest.index("]") if "]" in rest else None], name


@pytest.mark.parametrize("name", NAMES)
def test_every_store_gives_the_same_answer_to_a_question(name: str, answers: Answers):
    found = answers.ask(questions()[name])
    expected = without_namespace(found["copy"], answers.by_rows)
    assert expected, "a question without an answer tests nothing: give the shop what it asks for"
    assert without_namespace(found["rows"], answers.by_rows) == expected
    assert without_namespace(found["store"], answers.by_store) == expected
    assert found["copy"].columns == found["rows"].columns == found["store"].columns


def without_namespace(result: Result, namespace: str) -> list[str]:
    return [row.replace(namespace, "NAMESPACE") for row in as_set(result.rows)]


@pytest.mark.parametrize("name", NAMES)
def test_a_question_sees_nothing_of_another_namespace(name: str, answers: Answers):
    q = questions()[name]
    assert answers.copy.ask(q.text, values(q, "nowhere")).rows == ()


def test_the_strongest_next_tools_are_those_counted_by_hand(answers: Answers):
    rows = answers.ask(question("strongest_next_tools"))["copy"].rows
    # get_order was left by r1, r2 and r4 for return_items after 3, 3 and 2 steps, by r3 (6 steps) for it too, for
    # get_product, and for itself: (4 + 1/3 + 1/3 + 1/2 + 1/6) and twice (1 + 1/6).
    total = (4 + 4 / 3) + 2 * (1 + 1 / 6)
    assert [row[0] for row in rows] == ["return_items", "get_order", "get_product"]
    assert rows[0][1] == pytest.approx((4 + 4 / 3) / total)
    assert [row[2] for row in rows] == [4, 1, 1]


def test_loops_retries_and_tools_without_success_are_found(answers: Answers):
    assert [row[:2] for row in answers.ask(question("loops"))["copy"].rows] == [("get_order", "get_product")]
    assert [row[0] for row in answers.ask(question("retries"))["copy"].rows] == ["get_order"]
    found = answers.ask(question("never_followed_by_success"))["copy"].rows
    assert {row[0] for row in found} == {"cancel_order", "give_up"}


def test_months_and_models_are_put_side_by_side(answers: Answers):
    months = answers.ask(question("months_side_by_side"))["copy"].dicts()
    assert [(m["month"], m["runs"], m["failures"]) for m in months] == [
        ("2026-09", 2, 0),
        ("2026-10", 3, 1),
        ("2026-11", 2, 1),
    ]
    models = answers.ask(question("models_side_by_side"))["copy"].dicts()
    assert [(m["model"], m["runs"], m["successes"]) for m in models] == [("one", 6, 3), ("other", 3, 2)]


def test_a_lesson_helped_or_hurt_by_the_share_of_successes_among_all_runs(answers: Answers):
    # Five of the eight runs with an outcome succeeded. RETURN was shown in four that ended, and three succeeded.
    [helped] = answers.ask(question("lessons_that_helped"))["copy"].dicts()
    assert (helped["lesson"], helped["uses"], helped["successes"]) == (RETURN.id, 4, 3)
    assert helped["base_share"] == 5 / 8
    assert helped["lift"] == pytest.approx(4 / 6 - 5 / 8)
    hurt = answers.ask(question("lessons_that_hurt"))["copy"].dicts()
    assert [(h["lesson"], h["score"]) for h in hurt] == [
        (GIVE_UP.id, 1 / 4),
        (DO_NOT_RETURN.id, pytest.approx(1 / 3)),
        (LOOK_TWICE.id, 1 / 2),
    ]


def test_the_family_of_a_lesson_reaches_to_what_it_came_from_and_what_came_from_it(answers: Answers):
    found = answers.ask(question("family_of_lesson"))["copy"].dicts()
    ways = [[node["properties"]["id"] for node in row["way"]["nodes"]] for row in found]
    assert sorted(ways) == sorted([[LOOK_TWICE.id, LOOK.id], [LOOK_WELL.id, LOOK_TWICE.id]])


def test_principles_contradict_where_one_says_what_the_other_denies_and_both_are_live(answers: Answers):
    # GO_ON too says what a principle denies: but that one was pruned.
    rows = answers.ask(question("contradictions"))["copy"].dicts()
    found = [(row["after"], row["tool"], row["says"], row["denies"]) for row in rows]
    assert found == [("get_order", "return_items", RETURN.text, DO_NOT_RETURN.text)]


def test_lessons_that_nobody_used_are_told_with_how_often_they_were_shown(answers: Answers):
    rows = answers.ask(question("unsettled_lessons"))["copy"].dicts()
    assert (rows[0]["lesson"], rows[0]["shown"]) == (GO_ON.id, 1)
    assert {row["shown"] for row in rows[1:]} == {0}


def test_a_tool_that_only_a_retired_lesson_is_about_lacks_one(answers: Answers):
    # give_up was called in three runs that failed, cancel_order in two; GIVE_UP is about that.
    rows = answers.ask(question("tools_without_lesson"))["copy"].dicts()
    assert [(row["tool"], row["failures"]) for row in rows] == [("give_up", 3)]


def test_the_page_names_every_question_as_it_asks():
    text = PAGE.read_text("utf-8")
    for q in questions().values():
        assert f"| {q.asks} |" in text, q.name
        assert f"| `{q.name}`{' ★' if q.picture else ''} |" in text, q.name


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


def test_a_file_without_its_header_is_refused():
    with pytest.raises(ValueError, match="needs one line with the question"):
        parse("broken", "MATCH (n) RETURN n")
