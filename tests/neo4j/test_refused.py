"""Statements that Aura, a cluster or Community Edition would refuse, by the lists of Neo4j's manuals."""

from __future__ import annotations

import logging
import re
import tomllib
from pathlib import Path

import neo4j
import pytest

import hepm.cypher
from hepm import Memory
from hepm.cypher import statement
from tests.neo4j.test_commits import written
from tests.neo4j_server import Neo4jServer

HERE = Path(__file__).parent
LISTS = tomllib.loads((HERE / "refused.toml").read_text())
FILES = [
    file for file in Path(hepm.cypher.__file__).parent.glob("*/*.cypher") if not file.name.endswith(".embedded.cypher")
]
WRITING = re.compile(r"\b(CREATE|MERGE|SET|DELETE|REMOVE|DROP)\b")


def body(text: str) -> str:
    """A statement in one line, without comments and texts in quotes."""
    return re.sub(r"\s+", " ", re.sub(r"//.*|'[^']*'", " ", text)).strip()


def faults_of(text: str) -> list[str]:
    """Where a statement would be refused."""
    found = [f"{rule}: {by}" for rule, by in LISTS["refused"].items() if re.search(rf"(?<!\w){rule}", body(text), re.I)]
    called = re.findall(r"\bCALL ([\w.]+) ?\(", body(text), re.IGNORECASE)
    return found + [f"{name}: not every user's" for name in called if name not in LISTS["procedures"]]


def test_no_statement_is_refused_by_aura_a_cluster_or_community_edition() -> None:
    assert len(FILES) > 150
    assert {file.stem: faults for file in FILES if (faults := faults_of(file.read_text()))} == {}


def test_reads_are_sent_to_any_member_and_writes_and_the_header_to_the_leader(
    server: Neo4jServer, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        Memory.open(server.uri, auth=(server.username, server.password)) as memory,
        caplog.at_level(logging.DEBUG, logger="neo4j.io"),
    ):
        list(written(memory))
        memory.rebuild()
        memory.refresh()
        memory.cypher("MATCH (t:Tool) RETURN count(t)")
    begun: dict[str, str] = {}
    read, alone = set[str](), set[str]()
    for line in caplog.messages:
        connection, access = line.partition("]")[0], "read" if "'mode': 'r'" in line else "write"
        if "C: BEGIN" in line:
            begun[connection] = access
        elif "C: COMMIT" in line or "C: ROLLBACK" in line:
            del begun[connection]
        elif sent := re.search(r"C: RUN (['\"])(.*?)(?<!\\)\1 \{", line):
            text = sent[2].replace("\\n", "\n").replace("\\'", "'")
            if begun.get(connection, access) == "read":
                read.add(text)
            elif connection not in begun:
                alone.add(text)
    assert len(read) > 15
    assert not [text for text in read if WRITING.search(body(text))]
    assert alone == {statement("memory")}


def test_a_server_refuses_every_write_in_a_session_that_reads(server: Neo4jServer) -> None:
    Memory.open(server.uri, auth=(server.username, server.password)).close()
    with (
        neo4j.GraphDatabase.driver(server.uri, auth=(server.username, server.password)) as driver,
        driver.session(database=server.database, default_access_mode="READ") as session,
        pytest.raises(neo4j.exceptions.ClientError, match="read access mode"),
    ):
        session.run("MATCH (m:Memory) SET m.revision = 7").consume()
