"""What may be run by somebody who only asks, on a server and in the embedded engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import neo4j
import pytest

from hepm.cypher.engines import Projection, ask_server, open_projection
from hepm.errors import QueryError
from tests.cypher.engines import table
from tests.neo4j_server import Neo4jServer


@pytest.fixture
def ask(driver: neo4j.Driver, neo4j_server: Neo4jServer) -> Any:
    def asked(text: str, **options: Any) -> Any:
        return ask_server(driver, neo4j_server.database, text, options.pop("parameters", {}), **options)

    return asked


WRITES = [
    "CREATE (n:Probe {name: 'x'})",
    "MATCH (n:Probe) DETACH DELETE n",
    "CALL { CREATE (n:Probe) RETURN n } RETURN n",
    "LOAD CSV FROM 'file:///etc/passwd' AS line RETURN line",
    "CREATE INDEX probe FOR (n:Probe) ON (n.name)",
    "ALTER CURRENT USER SET PASSWORD FROM 'a' TO 'bbbbbbbb'",
    "SHOW USERS",
    "CYPHER 5 SHOW SETTINGS",
    "CALL db.createLabel('Probe')",
    "CALL dbms.listConfig()",
    "RETURN apoc.version() AS v",
    "RETURN '\\u0027 AS a CALL dbms.listConfig() YIELD name RETURN name //' AS x",
    "MATCH (t:Tool) CALL `dbms.listConfig`() YIELD name RETURN name",
    "RETURN 1; CREATE (n:Probe)",
    "",
]


def test_what_does_more_than_read_is_refused_and_does_nothing(ask: Any) -> None:
    for text in WRITES:
        before = ask("MATCH (n) RETURN count(n)").rows
        with pytest.raises(QueryError):
            ask(text)
        assert ask("MATCH (n) RETURN count(n)").rows == before
        assert ask("MATCH (n:Probe) RETURN count(n)").rows == ((0,),)


READS = [
    "CALL db.labels() YIELD label RETURN label",
    "CALL db.schema.visualization()",
    "CYPHER 5 MATCH (t:Tool) RETURN count(t)",
    "CALL { MATCH (t:Tool) RETURN t LIMIT 1 } RETURN t.name",
    "MATCH (t:Tool) RETURN t {.name} LIMIT 1",
    "RETURN vector.similarity.cosine([1.0, 0.0], [1.0, 0.0]) AS s",
    "WITH 'CREATE (n) SET x' AS text /* DELETE */ RETURN text",
    "RETURN 1 AS x;",
]


def test_what_only_reads_is_answered(ask: Any) -> None:
    for text in READS:
        assert ask(text).columns


def test_time_and_rows_are_limited(ask: Any):
    with pytest.raises(QueryError, match="did not end within 1 s"):
        ask("UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b RETURN count(a + b)", timeout_s=1.0)
    found = ask("UNWIND range(1, 100) AS n RETURN n", limit=3)
    assert found.rows == ((1,), (2,), (3,))
    assert found.truncated


def test_a_mistake_is_told_in_neo4js_words(ask: Any):
    with pytest.raises(QueryError, match=r"Neo4j cannot answer that: .*not defined"):
        ask("RETURN nothing")
    with pytest.raises(QueryError, match=r"Expected parameter\(s\): who"):
        ask("RETURN $who")


@pytest.mark.parametrize("value", [2**70, object(), "\ud800"], ids=["too large", "no value", "half a letter"])
def test_a_parameter_that_cannot_be_sent_gets_a_sentence(value: object, ask: Any):
    with pytest.raises(QueryError, match="a parameter cannot be sent"):
        ask("RETURN $v", parameters={"v": value})


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Projection]:
    tables = [
        (
            table("Tool"),
            [
                (0, "shop", "look", "", "{}", 3, 0, None, None, None),
                (1, "shop", "buy", "", "{}", 2, 1, None, None, None),
            ],
        )
    ]
    with open_projection(tmp_path_factory.mktemp("copies"), "guarded", lambda: tables) as opened:
        yield opened


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE (n:Tool {pk: 9})", "CREATE is no query that reads"),
        ("MATCH (t:Tool) SET t.calls = 0", "read-only"),
        ("COPY (MATCH (t:Tool) RETURN t.name) TO '{folder}/stolen.csv'", "COPY is no query that reads"),
        ("MATCH (t:Tool) LOAD FROM '/etc/passwd' (file_format='csv', delim=':') RETURN *", "LOAD reads files"),
        ("MATCH (t:Tool) /* ' */ load /* ' */ from '/etc/passwd' (file_format='csv') RETURN *", "LOAD reads files"),
        ("MATCH (t:Tool) WHERE t.calls > .5LOAD FROM '/etc/passwd' (file_format='csv') RETURN *", "LOAD reads files"),
        ("CALL timeout=0", "may CALL those that only read \\(show_tables, show_functions, table_info\\), not timeout"),
        ("", "the text is empty"),
        ("RETURN 'open", "cannot answer that"),
        ("RETURN $unknown", "--param unknown=…"),
        ("MATCH (t:Tool)", "cannot answer that: Parser exception.*hepm neo4j start"),
        ("RETURN toFloat(1)", "function TOFLOAT does not exist"),
        ("MATCH (t:Tool) RETURN 1 AS a, 2 AS a", "a"),
    ],
)
def test_the_embedded_engine_only_reads_the_graph_and_says_in_a_sentence_what_it_cannot(
    text: str, said: str, copy: Projection, tmp_path: Path
):
    with pytest.raises(QueryError, match=said):
        copy.ask(text.replace("{folder}", str(tmp_path)), {})
    assert list(tmp_path.iterdir()) == []
    assert copy.ask("MATCH (t:Tool) RETURN sum(t.calls) AS calls", {}).rows == ((5,),)


@pytest.mark.parametrize(
    "text",
    [
        "MATCH (t:Tool) WHERE t.name = 'look' RETURN t.calls AS n /* COPY */ // LOAD;",
        "WITH 'COPY; LOAD FROM' AS text RETURN 3 AS n;",
        "MATCH (t:Tool) WHERE t.name = 'look' WITH {load: t.calls} AS `call` RETURN `call`.load AS n",
        "CALL table_info('Tool') WHERE name = 'errors' RETURN `property id` - 3 AS n",
    ],
)
def test_the_words_of_other_statements_may_stand_in_texts_and_names(text: str, copy: Projection):
    assert copy.ask(text, {"namespace": "not used"}).rows == ((3,),)


ODD = ["'", "\\", "x' OR '1'='1", "}) DETACH DELETE t //", "line\nend\r\n", "\u2028"]


def test_a_value_is_only_ever_a_value(copy: Projection, ask: Any) -> None:
    for value in ODD:
        for answer in (copy.ask, lambda text, values: ask(text, parameters=values)):
            assert answer("RETURN $v AS v, size($v) > 0 AS there", {"v": value}).rows == ((value, True),)
            assert answer("MATCH (t:Tool) WHERE t.name = $v RETURN t.name", {"v": value}).rows == ()


def test_a_long_query_of_the_embedded_engine_is_ended_and_its_rows_are_cut(copy: Projection):
    slow = "UNWIND range(1, 3000) AS a UNWIND range(1, 3000) AS b UNWIND range(1, 3000) AS c RETURN count(a + b + c)"
    with pytest.raises(QueryError, match=r"did not end within 0\.3 s"):
        copy.ask(slow, {}, timeout_s=0.3)
    for rows, limit, cut in ((50, 7, True), (7, 7, False)):
        found = copy.ask(f"UNWIND range(1, {rows}) AS n RETURN n", {}, limit=limit)
        assert (len(found.rows), found.truncated) == (7, cut)
