"""A server of one's own, started and stopped for real."""

from __future__ import annotations

from neo4j import GraphDatabase

from tests.neo4j_server import Neo4jServer


def test_a_started_server_answers_with_the_user_and_password_it_tells(neo4j_server: Neo4jServer):
    with GraphDatabase.driver(neo4j_server.uri, auth=(neo4j_server.username, neo4j_server.password)) as driver:
        assert driver.execute_query("RETURN 1 AS one", database_=neo4j_server.database).records[0]["one"] == 1
