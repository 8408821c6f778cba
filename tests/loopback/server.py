"""A real HTTP server on loopback that plays an OpenAI-compatible endpoint."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.loopback import anthropic, gemini
from tests.loopback.replies import (
    Drop,
    Reply,
    Script,
    answer_well,
    error,
    events_of,
    response_events_of,
    response_of,
)
from tests.loopback.requests import RefusedError, Request, Rules


class Loopback:
    """Plays an endpoint: POST /v1/chat/completions, /v1/responses, /v1/messages, Gemini's
    generateContent and /v1/embeddings.

    A request is held against `rules` first. What passes gets the next of `replies`, and what `script` says when they
    are used up. Set either while no request is under way.

    Attributes:
        requests: All that came, refused ones too, in the order they came.
        most_at_once: How many were under way at the same time at most.
        connections: How many were ever opened.
    """

    def __init__(self) -> None:
        self.rules = Rules()
        self.replies: list[Reply | Script] = []
        self.script: Script = answer_well
        self.requests: list[Request] = []
        self.most_at_once = 0
        self.connections = 0
        self.stopping = threading.Event()
        self._under_way = 0
        self._lock = threading.Lock()
        self._http = _Server(self)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def stop(self) -> None:
        """Break all connections and end all threads."""
        self.stopping.set()
        self._http.shutdown()
        self._http.break_connections()
        self._http.server_close()
        self._thread.join()

    @property
    def keys(self) -> set[str]:
        """All keys that came."""
        return {request.key for request in self.requests}

    @contextlib.contextmanager
    def answering(self, request: Request) -> Iterator[Reply]:
        """Take a request down and choose its reply, which is under way until the block ends."""
        refusal = self._refusal(request)
        with self._lock:
            self.requests.append(request)
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
            chosen = refusal or (self.replies.pop(0) if self.replies else self.script)
        try:
            yield chosen if isinstance(chosen, Reply) else chosen(request)
        finally:
            with self._lock:
                self._under_way -= 1

    def _refusal(self, request: Request) -> Reply | None:
        try:
            self.rules.check(request)
        except RefusedError as refusal:
            return error(refusal.status, str(refusal), param=refusal.param, code=refusal.code)
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that `server_close` waits for them
    request_queue_size = 64

    def __init__(self, played: Loopback) -> None:
        self.played = played
        self._sockets: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.played.connections += 1
        self._sockets.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._sockets.discard(request)
        super().shutdown_request(request)

    def break_connections(self) -> None:
        for one in list(self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        gone = isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError)
        if not gone and not self.played.stopping.is_set():
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        raw = self.rfile.read(length)
        if len(raw) < length:  # its client died while it sent: no request
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path.partition("?")[0], headers, json.loads(raw), time.monotonic())
        with self.server.played.answering(request) as reply:
            self.server.played.stopping.wait(reply.delay_s)
            self._write(request, reply)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _write(self, request: Request, reply: Reply) -> None:
        if reply.drop is not Drop.NEVER:
            self.close_connection = True
        if reply.drop is Drop.AT_ONCE:
            return
        body, streamed = reply.body, request.body.get("stream")
        is_completion = isinstance(body, dict) and body.get("choices")
        if is_completion and request.path == "/v1/responses":
            body = response_of(body, request.body)
            events = response_events_of(body)
        elif is_completion and gemini.PATH.fullmatch(request.path):
            body = gemini.content_of(body)
            events = gemini.events_of(body)
            streamed = ":stream" in request.path
        elif is_completion and request.path == "/v1/messages":
            body = anthropic.message_of(body, request.body)
            events = anthropic.message_events_of(body)
        elif is_completion:
            options = request.body.get("stream_options") or {}
            events = events_of(body, include_usage=bool(options.get("include_usage")))
        if is_completion and streamed:
            self._write_events(reply, events)
        else:
            self._write_body(reply, body if isinstance(body, str) else json.dumps(body))

    def _write_body(self, reply: Reply, body: str) -> None:
        payload = body.encode()
        self._write_head(reply, {"Content-Type": "application/json", "Content-Length": str(len(payload))})
        self.wfile.write(payload if reply.drop is Drop.NEVER else payload[: len(payload) // 2])

    def _write_events(self, reply: Reply, events: Iterable[str]) -> None:
        self._write_head(reply, {"Content-Type": "text/event-stream; charset=utf-8", "Transfer-Encoding": "chunked"})
        payloads = [f"{event}\n\n".encode() for event in events]
        if reply.drop is Drop.NEVER:
            payloads.append(b"")  # the chunk that ends the stream
        else:
            payloads = payloads[: len(payloads) // 2]
        for payload in payloads:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(payload), payload))

    def _write_head(self, reply: Reply, headers: dict[str, str]) -> None:
        self.send_response(reply.status)
        for name, value in {**headers, **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
