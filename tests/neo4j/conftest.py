from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hepm.graph.neo4j_local import LocalServer
from tests.neo4j_server import LINE, Neo4jServer, emptied, free_port


class Mortal:
    """A server that tests may kill and start again."""

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


@pytest.fixture
def mortal(neo4j_server: Neo4jServer, tmp_path: Path) -> Iterator[Mortal]:
    """The session's server, emptied; one of the test's own where the session's is not ours to kill."""
    if neo4j_server.local is not None:
        emptied(neo4j_server)
        mortal = Mortal(neo4j_server.local)
        yield mortal
        mortal.start()
        return
    local = LocalServer(tmp_path / "mortal", LINE, bolt_port=free_port(), http_port=free_port(), heap="512m")
    try:
        yield Mortal(local)
    finally:
        local.stop()


@pytest.fixture
def server(neo4j_server: Neo4jServer) -> Neo4jServer:
    """The session's server, emptied."""
    return emptied(neo4j_server)


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
