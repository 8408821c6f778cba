from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hepm.graph.neo4j_local import LocalServer
from tests.neo4j_server import LINE, Neo4jServer, emptied, free_port


class Mortal:
    """A server of this module's own, that may be killed."""

    def __init__(self, local: LocalServer) -> None:
        self.local = local
        self.start()
        uri = local.status().uri
        assert uri is not None
        self.uri = uri

    @property
    def auth(self) -> tuple[str, str]:
        return self.local.status().username, self.local.password

    def start(self) -> None:
        self.local.start(timeout_s=240)

    def kill(self) -> None:
        pid = self.local.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def once_started(tmp_path_factory: pytest.TempPathFactory, servers_end_with_us: None) -> Iterator[Mortal]:
    del servers_end_with_us
    folder = tmp_path_factory.mktemp("mortal")
    server = Mortal(LocalServer(folder, LINE, bolt_port=free_port(), http_port=free_port(), heap="512m"))
    yield server
    server.local.stop()


@pytest.fixture
def mortal(once_started: Mortal) -> Mortal:
    """Killed and started again by tests; it runs, however the test before ended."""
    once_started.start()
    return once_started


@pytest.fixture
def server(neo4j_server: Neo4jServer) -> Neo4jServer:
    """The session's server, emptied."""
    return emptied(neo4j_server)


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
