"""A real Neo4j for the tests: the one that NEO4J_URI names, else one that hepm starts for this session.

It fails where neither can be had; nothing is skipped.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from hepm.graph.neo4j_local import LocalServer

ON_SERVER: Final = pytest.mark.xdist_group("neo4j")
"""Of tests that use the session's server: pytest-xdist runs them in one process, one after the other."""

# The command line would speak of it where a test's store is not there. The processes of pytest-xdist inherit the other.
_NAMED = os.environ.pop("NEO4J_URI", None) or os.environ.get("HEPM_TEST_NEO4J_URI")
if _NAMED:
    os.environ["HEPM_TEST_NEO4J_URI"] = _NAMED
# The best compiler takes more of a server's CPU time than it saves, but for what is called very often: the planner of
# statements. The others save a tenth of a start; the jars' digests are checked.
_QUICK_START = (
    "-XX:Tier4InvocationThreshold=30000 -XX:Tier4MinInvocationThreshold=5000 -XX:Tier4CompileThreshold=60000 "
    "-XX:Tier4BackEdgeThreshold=300000 "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote -XX:MetaspaceSize=256m"
)
os.environ.setdefault("JAVA_TOOL_OPTIONS", _QUICK_START)
# A plan is kept though the counts of nodes change: by default it is made anew after ten seconds, as each test empties
# the graph, which took half of the server's CPU time.
_KEEP_PLANS = "dbms.cypher.statistics_divergence_threshold=1.0"


@dataclass(frozen=True, slots=True)
class Neo4jServer:
    """Where a test finds Neo4j.

    Attributes:
        local: The server behind it, to be killed and started again by tests of faults; None where NEO4J_URI is set.
    """

    uri: str
    username: str
    password: str = field(repr=False)
    database: str
    local: LocalServer | None


@pytest.fixture(scope="session")
def neo4j_server(tmp_path_factory: pytest.TempPathFactory, servers_end_with_us: None) -> Iterator[Neo4jServer]:
    """One server for all tests of a session; what a test leaves in it the next one finds."""
    del servers_end_with_us
    if uri := _NAMED:
        yield Neo4jServer(
            uri,
            os.environ.get("NEO4J_USERNAME", "neo4j"),
            os.environ.get("NEO4J_PASSWORD", ""),
            os.environ.get("NEO4J_DATABASE", "neo4j"),
            None,
        )
        return
    folder = tmp_path_factory.mktemp("neo4j of the session")  # with spaces, which must not harm
    server = LocalServer(folder, bolt_port=free_port(), http_port=free_port(), lines=[_KEEP_PLANS], say=print)
    try:
        server.start(timeout_s=240)  # an exception is a failure of every test that asked for it
        status = server.status()
        assert status.uri is not None
        yield Neo4jServer(status.uri, status.username, server.password, "neo4j", server)
    finally:
        server.stop()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def emptied(server: Neo4jServer, *, header: bool = False) -> Neo4jServer:
    """The server without the memory that another test left in it; its indexes stay.

    With `header`, the header of a memory with the settings by default stays too, as new: making it anew costs a
    server a fifth of a second, since it plans every statement of the schema again.
    """
    import neo4j

    with (
        neo4j.GraphDatabase.driver(server.uri, auth=(server.username, server.password)) as driver,
        driver.session(database=server.database) as session,
    ):
        session.run(
            "MATCH (n) WHERE NOT $header OR NOT n:Memory OR n.counting <> 'all' OR n.states_per_move <> 256 "
            "OR n.dimensions <> 512 CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 500 ROWS",
            header=header,
        ).consume()
        session.run("MATCH (m:Memory) SET m.revision = 0, m.lessons_removed = 0, m.success_from = 0.7").consume()
    return server


_KILL_SERVERS = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.stdin.read()
import psutil
for process in psutil.process_iter(["cmdline"]):
    if any(argument.startswith("--home-dir=" + sys.argv[1]) for argument in process.info["cmdline"] or ()):
        process.kill()
"""


def watch(folder: Path) -> subprocess.Popen[bytes]:
    """A process that kills each server below a folder once this process has ended, however it ended.

    Servers are sessions of their own, which no signal to the tests reaches. The end of its standard input, which this
    process alone holds open, tells it.
    """
    command = [sys.executable, "-c", _KILL_SERVERS, os.path.join(folder, "")]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


@pytest.fixture(scope="session")
def servers_end_with_us(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No server that these tests start outlives them, even if they are killed."""
    with watch(tmp_path_factory.getbasetemp()):
        yield
