"""What may be run on a server by somebody who only asks."""

from __future__ import annotations

from typing import Any

import neo4j
import pytest

from hepm.cypher.guard import PROCEDURES, ask_server, change_server, check_text
from hepm.errors import QueryError
from tests.cypher.engines import fresh
from tests.neo4j_server import Neo4jServer


@pytest.fixture
def ask(driver: neo4j.Driver, neo4j_server: Neo4jServer) -> Any:
    def asked(text: str, **options: Any) -> Any:
        return ask_server(driver, neo4j_server.database, text, options.pop("parameters", {}), **options)

    return asked


@pytest.mark.parametrize(
    "text",
    [
        "CREATE (n:Probe {name: 'x'})",
        "MATCH (t:Tool) SET t.calls = 0",
        "MATCH (n:Probe) DETACH DELETE n",
        "MERGE (n:Probe) RETURN n",
        "MATCH (n:Tool) REMOVE n.name",
        "FOREACH (x IN [1] | CREATE (:Probe))",
        "CALL { CREATE (n:Probe) RETURN n } RETURN n",
        "UNWIND [1] AS x CALL { CREATE (:Probe) } IN TRANSACTIONS RETURN x",
        "LOAD CSV FROM 'file:///etc/passwd' AS line RETURN line",
        "CREATE INDEX probe FOR (n:Probe) ON (n.name)",
        "DROP INDEX probe IF EXISTS",
        "CREATE CONSTRAINT probe FOR (n:Probe) REQUIRE n.name IS UNIQUE",
        "ALTER CURRENT USER SET PASSWORD FROM 'a' TO 'bbbbbbbb'",
        "SHOW USERS",
        "TERMINATE TRANSACTIONS 'neo4j-transaction-1'",
        "CALL db.createLabel('Probe')",
        "CALL dbms.listConfig()",
        "CALL tx.setMetaData({a: 1})",
        "CALL db.awaitIndexes(1)",
        "RETURN apoc.version() AS v",
        "RETURN '\\u0027 AS a, apoc.load.json(1) //' AS x",
        "PROFILE CREATE (n:Probe)",
        "CYPHER 5 PROFILE CREATE (n:Probe)",
        "EXPLAIN RETURN 1",
        "RETURN 1; CREATE (n:Probe)",
        "",
    ],
)
def test_what_does_more_than_read_is_refused_and_does_nothing(text: str, ask: Any):
    before = ask("MATCH (n) RETURN count(n)").rows
    with pytest.raises(QueryError):
        ask(text)
    assert ask("MATCH (n) RETURN count(n)").rows == before
    assert ask("MATCH (n:Probe) RETURN count(n)").rows == ((0,),)


@pytest.mark.parametrize(
    "text",
    [
        "CALL db.labels() YIELD label RETURN label",
        "CALL db.relationshipTypes()",
        "CALL db.propertyKeys()",
        "CALL db.schema.visualization()",
        "CALL db.schema.nodeTypeProperties()",
        "SHOW INDEXES YIELD name RETURN name",
        "SHOW CONSTRAINTS",
        "CYPHER 5 MATCH (t:Tool) RETURN count(t)",
        "CALL { MATCH (t:Tool) RETURN t LIMIT 1 } RETURN t.name",
        "MATCH (t:Tool) RETURN t {.name} LIMIT 1",
        "RETURN date('2026-11-21') AS day, point({x: 1, y: 2}) AS place",
        "RETURN vector.similarity.cosine([1.0, 0.0], [1.0, 0.0]) AS s",
        "WITH 'CREATE (n) SET x' AS text /* DELETE */ RETURN text",
        "RETURN 1 AS x;",
    ],
)
def test_what_only_reads_is_answered(text: str, ask: Any):
    assert ask(text).columns


def test_a_transaction_that_reads_would_not_let_a_write_pass_either(driver: neo4j.Driver, neo4j_server: Neo4jServer):
    with (
        driver.session(database=neo4j_server.database, default_access_mode="READ") as session,
        pytest.raises(neo4j.exceptions.ClientError, match="read access mode"),
    ):
        session.run("CREATE (:Probe)").consume()


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


def test_a_statement_changes_the_graph_where_that_is_allowed(driver: neo4j.Driver, neo4j_server: Neo4jServer, ask: Any):
    name = fresh("probe")
    made = change_server(driver, neo4j_server.database, "CREATE (n:Analysis {name: $n}) RETURN n.name", {"n": name})
    assert made.rows == ((name,),)
    count = "MATCH (n:Analysis {name: $n}) RETURN count(n)"
    assert ask(count, parameters={"n": name}).rows == ((1,),)
    gone = change_server(driver, neo4j_server.database, "MATCH (n:Analysis {name: $n}) DELETE n", {"n": name})
    assert gone.columns == ()
    assert ask(count, parameters={"n": name}).rows == ((0,),)


def test_functions_of_plug_ins_are_known_by_their_dots_even_in_backticks():
    for text in ("RETURN apoc.x.y(1)", "RETURN `apoc`.`x`(1)", "RETURN `apoc.x`(1)", "CALL gds.graph.drop('g')"):
        with pytest.raises(QueryError, match="comes from a plug-in"):
            check_text(text)
    for name in PROCEDURES:
        check_text(f"CALL {name}()")
