from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from hepm.graph.neo4j_local import LocalServer
from tests.neo4j_server import Neo4jServer, emptied, free_port


class Fallible(Protocol):
    """A server that tests may take away and bring back."""

    uri: str

    @property
    def auth(self) -> tuple[str, str]: ...

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def freeze(self) -> None: ...


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
        if self.local.status().pid is not None:
            self._send(signal.SIGCONT)
        self.local.start(timeout_s=240)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def freeze(self) -> None:
        self._send(signal.SIGSTOP)

    def _send(self, number: signal.Signals) -> None:
        pid = self.local.status().pid
        assert pid is not None
        os.kill(pid, number)


class Relay:
    """A port before a server; `kill` closes it with all its connections, which clients cannot tell from its death.

    While it is frozen, it carries nothing.
    """

    def __init__(self, server: Neo4jServer) -> None:
        self.auth = (server.username, server.password)
        host, _, port = server.uri.rpartition("/")[2].rpartition(":")
        self._behind, self._port = (host, int(port)), 0
        self._flows = threading.Event()
        self.start()
        self.uri = f"bolt://127.0.0.1:{self._port}"

    def freeze(self) -> None:
        self._flows.clear()

    def start(self) -> None:
        self._flows.set()
        if self._port and self._listening.fileno() >= 0:
            return
        self._open: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", self._port))
        self._port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def kill(self) -> None:
        for one in (self._listening, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, server = listening.accept()[0], socket.create_connection(self._behind)
                self._open += (client, server)
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(65_536):
                self._flows.wait()
                target.sendall(part)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@pytest.fixture(params=["relay", pytest.param("server", marks=[pytest.mark.soak, pytest.mark.restarts])])
def fallible(request: pytest.FixtureRequest, neo4j_server: Neo4jServer) -> Iterator[Fallible]:
    """The session's server, emptied, behind a relay; a server that is really killed takes seconds to start again."""
    if request.param == "server":
        yield request.getfixturevalue("mortal")
        return
    relay = Relay(emptied(neo4j_server))
    yield relay
    relay.kill()


@pytest.fixture
def mortal(neo4j_server: Neo4jServer, tmp_path: Path) -> Iterator[Mortal]:
    """The session's server, emptied; one of the test's own where the session's is not ours to kill."""
    if neo4j_server.local is not None:
        emptied(neo4j_server)
        mortal = Mortal(neo4j_server.local)
        yield mortal
        mortal.start()
        return
    local = LocalServer(tmp_path / "mortal", bolt_port=free_port(), http_port=free_port(), heap="512m")
    try:
        yield Mortal(local)
    finally:
        local.stop()


@pytest.fixture
def server(neo4j_server: Neo4jServer) -> Neo4jServer:
    """The session's server, emptied."""
    return emptied(neo4j_server)
