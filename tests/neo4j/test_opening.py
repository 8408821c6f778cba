"""Opening a memory on a server: one sentence before long where that cannot be, and no password anywhere."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from hepm import Memory
from hepm.errors import (
    EmbedderMismatchError,
    InputError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
    StoreVersionError,
)
from hepm.graph.neo4j.connection import OLDEST, Connection, check_version
from hepm.graph.neo4j.login import Login
from hepm.graph.neo4j.store import Neo4jStore
from tests.faults.command import quick
from tests.neo4j_server import Neo4jServer, free_port
from tests.runs import trajectory

SECRET = "correct-horse-battery"


def login(server: Neo4jServer) -> Login:
    return Login(server.uri, server.username, server.password, server.database)


@contextmanager
def before_long() -> Iterator[None]:
    """Some seconds, on a busy machine too; left to itself the driver goes on for half a minute or more."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < 15


@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
def test_a_server_that_is_not_there_is_told_at_once(scheme: str) -> None:
    with before_long(), pytest.raises(StoreUnavailableError, match="hepm neo4j start"):
        Connection(Login(f"{scheme}://127.0.0.1:{free_port()}", password=SECRET))


def test_a_server_that_accepts_and_never_answers_is_told_in_time() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"bolt://127.0.0.1:{silent.getsockname()[1]}"
        with before_long(), pytest.raises(StoreUnavailableError, match="no answer"):
            Connection(Login(address, password=SECRET))


def test_a_name_that_leads_nowhere_is_told() -> None:
    # How long that takes is up to the resolver of the machine.
    with pytest.raises(StoreUnavailableError, match=r"no-such-host\.invalid"):
        Connection(Login("bolt://no-such-host.invalid:7687", password=SECRET))


def test_a_wrong_password_is_told_without_saying_it(neo4j_server: Neo4jServer) -> None:
    wrong = replace(login(neo4j_server), password=SECRET)
    with before_long(), pytest.raises(StoreAccessError, match="NEO4J_PASSWORD") as caught:
        Connection(wrong)
    assert SECRET not in str(caught.value) + repr(caught.value) + repr(caught.value.__cause__) + repr(wrong)


def test_a_wrong_database_is_told(neo4j_server: Neo4jServer) -> None:
    with before_long(), pytest.raises(StoreError, match=r"no database 'nowhere'.*NEO4J_DATABASE"):
        Neo4jStore(replace(login(neo4j_server), database="nowhere"))


@pytest.mark.parametrize("agent", ["Neo4j/4.4.39", "Neo4j/5.22.0"])
def test_a_server_that_is_too_old_is_refused(agent: str) -> None:
    with pytest.raises(StoreVersionError, match=rf"{agent}.*{OLDEST[0]}\.{OLDEST[1]} or newer"):
        check_version(agent, "bolt://old:7687")


def test_a_store_of_a_newer_hepm_or_of_a_much_older_one_is_refused(server: Neo4jServer) -> None:
    store = Neo4jStore(login(server))
    for version in (9, 99):
        of_version = f"MATCH (m:Memory) SET m.schema_version = {version}"
        store._connection.write(lambda tx, text=of_version: tx.run(text).consume())
        with pytest.raises(StoreVersionError, match=f"schema version {version}"):
            Neo4jStore(login(server))
    store.close()


def test_another_embedders_vectors_are_refused_with_the_way_out(server: Neo4jServer) -> None:
    auth = (server.username, server.password)
    with Memory.open(server.uri, auth=auth, speak="weighed") as memory:
        memory.ingest(trajectory("r", "a"))
    with pytest.raises(EmbedderMismatchError, match="hepm reembed"):
        Memory.open(server.uri, auth=auth, embedder="hepm/hash-256", speak="weighed")


def test_an_address_with_a_password_is_refused_without_repeating_it() -> None:
    with pytest.raises(InputError, match="NEO4J_PASSWORD") as caught:
        Memory.open(f"bolt://neo4j:{SECRET}@localhost:7687", speak="weighed")
    assert SECRET not in str(caught.value)


def test_the_database_of_an_address_goes_before_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_DATABASE", "other")
    assert Login.from_environment("neo4j://db.example.com/sales").database == "sales"
    assert Login.from_environment("neo4j://db.example.com").database == "other"


def test_no_password_is_logged_however_much_is_logged(
    neo4j_server: Neo4jServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    Neo4jStore(login(neo4j_server)).close()
    assert "bolt" in caplog.text.lower()
    assert neo4j_server.password not in caplog.text


def test_missing_migrations_run_on_opening(server: Neo4jServer) -> None:
    store = Neo4jStore(login(server))
    store._connection.write(lambda tx: tx.run("MATCH (m:Memory) SET m.schema_version = 10").consume())
    store.close()
    reopened = Neo4jStore(login(server))
    assert reopened.header.schema_version == 19
    reopened.close()


def test_the_command_line_takes_a_server_from_the_environment_and_says_in_a_sentence_that_it_is_gone(
    server: Neo4jServer, tmp_path: object
) -> None:
    env = {"HEPM_STORE": server.uri, "NEO4J_USERNAME": server.username, "NEO4J_PASSWORD": server.password}
    with Memory.open(server.uri, auth=(server.username, server.password), speak="weighed") as memory:
        memory.ingest([trajectory("r", "look", "buy"), trajectory("s", "look", "buy")])
    answer = quick("suggest", "--speak", "weighed", "--after", "look", "--json", env=env)
    assert [one["tool"] for one in answer.json["tools"]] == ["buy"]
    gone = quick("stats", env={**env, "HEPM_STORE": f"bolt://127.0.0.1:{free_port()}"})
    assert gone.code == 1
    assert gone.err.startswith("hepm: no answer from")
    assert gone.err.count("\n") == 1
