"""An endpoint and a client that speak HTTP byte by byte, for what no library would send."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


@dataclass(slots=True)
class Taken:
    """A request as it came: its first line with the headers, and its body."""

    head: bytes
    body: bytes


@dataclass(slots=True)
class RawEndpoint:
    """Takes requests down and answers each with the bytes of `answer`, or by what `answer` does with the connection."""

    url: str = ""
    answer: bytes | Callable[[socket.socket, Taken], None] = OK
    taken: list[Taken] = field(default_factory=list[Taken])
    gone: threading.Event = field(default_factory=threading.Event)

    def serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while (request := _request(connection)) is not None:
                self.taken.append(request)
                if isinstance(self.answer, bytes):
                    connection.sendall(self.answer)
                else:
                    self.answer(connection, request)
                    return
        self.gone.set()


def _request(connection: socket.socket) -> Taken | None:
    found = b""
    while b"\r\n\r\n" not in found:
        part = connection.recv(65_536)
        if not part:
            return None
        found += part
    head, _, body = found.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().splitlines() if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65_536)
    return Taken(head, body)


@contextlib.contextmanager
def raw_endpoint() -> Iterator[RawEndpoint]:
    """An endpoint on a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        endpoint = RawEndpoint(f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
        taken: list[socket.socket] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    taken.append(connection)
                    threading.Thread(target=endpoint.serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield endpoint
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for connection in taken:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


def connected(url: str, timeout_s: float = 20.0) -> socket.socket:
    """A connection to a server."""
    where = urlsplit(url)
    assert where.hostname is not None
    return socket.create_connection((where.hostname, where.port or 80), timeout_s)


def request_bytes(path: str, body: bytes = b"", *headers: str, method: str = "POST", host: str = "127.0.0.1") -> bytes:
    """A request that asks for the connection's end after its answer. Without a content type in `headers` it is JSON."""
    lines = [f"{method} {path} HTTP/1.1", f"host: {host}", "connection: close", f"content-length: {len(body)}"]
    if not any(one.startswith("content-type:") for one in headers):
        lines.append("content-type: application/json")
    return "\r\n".join([*lines, *headers, "", ""]).encode("utf-8", "surrogateescape") + body


def answer_to(url: str, sent: bytes, timeout_s: float = 20.0) -> bytes:
    """All bytes of a server until it closes the connection, resets it, or is silent for so long."""
    with connected(url, timeout_s) as connection:
        connection.sendall(sent)
        found = b""
        with contextlib.suppress(ConnectionResetError, TimeoutError):
            while part := connection.recv(65_536):
                found += part
        return found


def status_of(answer: bytes) -> int:
    """Of the first answer; 0 if there is none."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0
