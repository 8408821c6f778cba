"""What the tests of a local server share: one server, and a Maven mirror on this machine."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Semaphore, Thread
from typing import Any, Protocol

import pytest

from hepm.graph.neo4j_local import LocalServer
from hepm.graph.neo4j_local.installation import Jar, cache_folder, locked_jars, provide_jars
from tests.neo4j_server import Neo4jServer

FULL_CACHE = cache_folder()


class Serve(Protocol):
    """Begins to hand out the jars of a folder, `most` of them until more are released."""

    def __call__(self, repository: Path, *, most: int | None = None) -> Semaphore: ...


@pytest.fixture(autouse=True)
def _no_server_stays(servers_end_with_us: None) -> None:
    del servers_end_with_us


@pytest.fixture(scope="session")
def jars() -> list[Jar]:
    """The jars, all in the user's cache."""
    provide_jars()
    return locked_jars()


@pytest.fixture
def local(neo4j_server: Neo4jServer, tmp_path: Path) -> Iterator[LocalServer]:
    """A running server of ours: the session's, or one more where the session has another."""
    if neo4j_server.local is not None:
        yield neo4j_server.local
        return
    with running(LocalServer(tmp_path / "server")) as server:
        yield server


@contextmanager
def running(server: LocalServer) -> Generator[LocalServer]:
    """A server that is started, and stopped whatever happens."""
    try:
        server.start(timeout_s=240)
        yield server
    finally:
        server.stop()


@pytest.fixture
def copied(tmp_path: Path, jars: list[Jar], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own with every jar in it, to be spoilt."""
    cache = tmp_path / "cache"
    for jar in jars:
        target = cache / jar.path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.hardlink_to(FULL_CACHE / jar.path)
        except OSError:
            target.write_bytes((FULL_CACHE / jar.path).read_bytes())
    monkeypatch.setenv("HEPM_NEO4J_CACHE", str(cache))
    return cache


def damage(jar: Path) -> None:
    """Flip a byte in the middle of a file, and of this file alone."""
    content = bytearray(jar.read_bytes())
    content[len(content) // 2] ^= 1
    jar.unlink()
    jar.write_bytes(content)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jars: list[Jar]) -> Iterator[Serve]:
    """Let jgo fetch from a folder in the layout of a Maven repository, over HTTP on this machine."""
    served: list[ThreadingHTTPServer] = []

    def serve(repository: Path, *, most: int | None = None) -> Semaphore:
        left = Semaphore(1 << 30 if most is None else most)
        handler = functools.partial(_Silent, left, directory=str(repository))
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        served.append(server)
        settings = tmp_path / "jgo.conf"
        settings.write_text(f"[repositories]\ncentral = http://127.0.0.1:{server.server_port}\n")
        monkeypatch.setenv("JGO_CONFIG_FILE", str(settings))
        return left

    yield serve
    for server in served:
        server.shutdown()
        server.server_close()


class _Silent(SimpleHTTPRequestHandler):
    def __init__(self, left: Semaphore, *request: Any, directory: str) -> None:
        self._left = left
        super().__init__(*request, directory=directory)

    def do_GET(self) -> None:
        if self.path.endswith(".jar"):
            self._left.acquire()
        super().do_GET()

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # who asked was killed
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        pass
