"""Commits that fail, as when a cluster changes its leader: nothing is lost or counted twice."""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
import socket
import tomllib
from collections.abc import Iterator
from pathlib import Path

import neo4j
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hepm.cypher
from hepm import Memory
from hepm.cypher import statement
from hepm.graph.neo4j.connection import parts
from tests.neo4j.conftest import Relay
from tests.neo4j.test_faults import TOOLS, some_runs
from tests.neo4j_server import Neo4jServer, emptied
from tests.runs import exported_runs, trajectory

_COMMIT = b"\x00\x02\xb0\x12\x00\x00"  # Bolt's message, as one chunk; nothing follows it before its answer


def failure(code: str) -> bytes:
    """Bolt's message FAILURE, as one chunk."""
    told = {"neo4j_code": code, "message": "as in a test", "description": "as in a test", "gql_status": "50N42"}
    texts = b"".join(bytes([0xD0, len(text)]) + text.encode() for item in told.items() for text in item)
    message = b"\xb1\x7f" + bytes([0xA0 + len(told)]) + texts
    return len(message).to_bytes(2, "big") + message + b"\x00\x00"


class Faulty(Relay):
    """A relay that makes every second commit fail, from the first one after `fault` is set."""

    def __init__(self, server: Neo4jServer) -> None:
        self.fault = ""
        self.faults = 0
        self._commits = 0
        super().__init__(server)

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(65_536):
                if part.endswith(_COMMIT) and self._fails():
                    source.sendall(failure(self.fault))  # the server waits for the driver's RESET
                    continue
                target.sendall(part)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _fails(self) -> bool:
        self._commits += self.fault != ""
        failing = self._commits % 2 == 1
        self.faults += failing
        return failing


@pytest.fixture
def faulty(neo4j_server: Neo4jServer) -> Iterator[Faulty]:
    """The session's server, emptied, behind a relay that can make commits fail."""
    relay = Faulty(emptied(neo4j_server, header=True))
    yield relay
    relay.kill()


def written(memory: Memory) -> Iterator[object]:
    """What every kind of write returned, and what is stored after all of them."""
    report = memory.ingest(some_runs(20), tools=[{"name": "pay", "description": "pays a bill"}])
    yield report.stored, report.duplicates
    late = trajectory("late", "look", "pay", success=None)
    report = memory.ingest([*some_runs(20), *some_runs(6, "more"), late])
    yield report.stored, report.duplicates, report.unlabelled
    memory.label("late", success=True)
    memory.tools.add_alias("seek", "find")
    memory.tools.retire("send")
    yield memory.forget(trajectory="run-3")
    memory.ingest([trajectory(f"solved-{i}", *TOOLS[: 2 + i], task="a parcel", success=i > 0) for i in range(3)])
    yield memory.experiences.distill().new
    lessons = [one.row.id for one in memory.lessons.list("experience")]
    assert lessons
    memory.lessons.show("more-1", lessons)
    memory.lessons.show("unknown", lessons[:2])
    memory.lessons.record_outcome("unknown", success=True)
    yield memory.forget(trajectory="more-2")
    yield [(one.row.id, one.uses) for one in memory.lessons.list("experience")]
    yield sorted(exported_runs(memory), key=lambda run: run["id"])
    yield memory.totals(), memory.examine()


@pytest.mark.parametrize(
    "fault",
    [
        "Neo.ClientError.Cluster.NotALeader",
        pytest.param("Neo.ClientError.General.ForbiddenOnReadOnlyDatabase", marks=pytest.mark.exhaustive),
        pytest.param("Neo.TransientError.Transaction.DeadlockDetected", marks=pytest.mark.exhaustive),
    ],
)
def test_writes_whose_commits_fail_do_the_same_as_others(
    faulty: Faulty, tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neo4j._sync.work.session.sleep", lambda _: None)  # the driver's second before it tries again
    with Memory.open(tmp_path / "embedded.hepm") as memory:
        expected = list(written(memory))
    with Memory.open(faulty.uri, auth=faulty.auth) as memory:
        faulty.fault = fault
        found = list(written(memory))
    assert found == expected
    assert faulty.faults >= 10


@given(st.lists(st.binary(max_size=40)), st.integers(1, 5), st.integers(1, 60))
def test_statements_are_cut_by_rows_and_by_bytes_and_lose_no_row(rows: list[bytes], size: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hepm.graph.neo4j.connection.BYTES", most)
        cut = list(parts([{"record": row} for row in rows], size))
    found = [[row["record"] for row in part] for part in cut]
    assert [row for part in found for row in part] == rows
    assert all(1 <= len(part) <= size for part in found)
    assert all(len(part) == 1 or sum(map(len, part)) <= most for part in found)
    assert all(len(a) == size or sum(map(len, a)) + len(b[0]) > most for a, b in itertools.pairwise(found))


# What Aura, a cluster or Community Edition would refuse

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
