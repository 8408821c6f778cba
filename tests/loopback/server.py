"""A real HTTP server on loopback that plays an OpenAI-compatible endpoint."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.loopback.checks import RefusedError
from tests.loopback.replies import Drop, Reply, Script, answer_well, error
from tests.loopback.requests import Request, Rules
from tests.loopback.responses import response_events_of, response_of
from tests.loopback.streams import events_of

_PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/embeddings")


class Loopback:
    """Plays an endpoint: POST /v1/chat/completions, /v1/responses and /v1/embeddings, GET /v1/models.

    A request is held against `rules` first. What passes gets the next of `replies`, and what `script` says when they
    are used up. Set either while no request is under way.

    Attributes:
        requests: All that came, refused ones too, in the order they came.
        most_at_once: How many were under way at the same time at most.
        left: How many clients went away before they had their answer.
    """

    def __init__(self) -> None:
        self.rules = Rules()
        self.replies: list[Reply | Script] = []
        self.script: Script = answer_well
        self.requests: list[Request] = []
        self.most_at_once = 0
        self.left = 0
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
    def connections(self) -> int:
        """How many were ever opened."""
        return self._http.opened

    @property
    def keys(self) -> set[str]:
        """All keys that came."""
        return {request.key for request in self.requests}

    def begin(self, request: Request) -> Reply:
        """Take a request down and choose its reply; `end` follows."""
        with self._lock:
            self.requests.append(request)
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
            if refusal := self._refusal(request):
                return refusal
            if request.method == "GET":
                return self._models()
            chosen = self.replies.pop(0) if self.replies else self.script
        return chosen if isinstance(chosen, Reply) else chosen(request)

    def end(self, *, left: bool) -> None:
        """A request has its answer, or its client left."""
        with self._lock:
            self._under_way -= 1
            self.left += left

    def _refusal(self, request: Request) -> Reply | None:
        known = request.path == "/v1/models" if request.method == "GET" else request.path in _PATHS
        if not known:
            return error(404, f"Invalid URL ({request.method} {request.path})")
        if "" in request.body:
            return error(400, "We could not parse the JSON body of your request.")
        try:
            self.rules.check(request)
        except RefusedError as refusal:
            return error(refusal.status, str(refusal), param=refusal.param, code=refusal.code)
        return None

    def _models(self) -> Reply:
        names = self.rules.models or ("small",)
        data = [{"id": name, "object": "model", "created": 1_760_000_000, "owned_by": "loopback"} for name in names]
        return Reply({"object": "list", "data": data})


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that `server_close` waits for them
    request_queue_size = 64

    def __init__(self, played: Loopback) -> None:
        self.played = played
        self.opened = 0
        self._sockets: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.opened += 1
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

    def do_GET(self) -> None:
        self._serve({})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        raw = self.rfile.read(length)
        if len(raw) < length:  # its client died while it sent: no request
            self.close_connection = True
            return
        try:
            body = json.loads(raw.decode())
        except ValueError:
            body = {"": "no JSON"}
        self._serve(body if isinstance(body, dict) else {"": "no object"})

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self, body: dict[str, Any]) -> None:
        played = self.server.played
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path.partition("?")[0], headers, body, time.monotonic())
        left = False
        try:
            reply = played.begin(request)
            played.stopping.wait(reply.delay_s)
            left = reply.delay_s > 0 and self._client_left()
            if not left:
                self._write(request, reply)
        except (BrokenPipeError, ConnectionResetError):
            left = True
        finally:
            self.close_connection = self.close_connection or left
            played.end(left=left)

    def _client_left(self) -> bool:
        """Whether the client closed its side: nothing more can be read, though there is something to read."""
        self.connection.setblocking(False)
        try:
            return self.connection.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            with contextlib.suppress(OSError):
                self.connection.setblocking(True)

    def _write(self, request: Request, reply: Reply) -> None:
        if reply.drop is Drop.AT_ONCE:
            self.close_connection = True
            return
        chosen = isinstance(reply.body, dict) and reply.body.get("choices")
        streamed = request.body.get("stream") and chosen
        if chosen and request.path == "/v1/responses":
            reply = replace(reply, body=response_of(reply.body, request.body))
            streamed = ()
            if request.body.get("stream"):
                reply = replace(reply, events=list(response_events_of(reply.body)))
        if reply.events is not None:
            self._write_events(reply, reply.events)
        elif streamed:
            options = request.body.get("stream_options") or {}
            self._write_events(reply, events_of(reply.body, include_usage=bool(options.get("include_usage"))))
        else:
            self._write_body(reply)

    def _write_body(self, reply: Reply) -> None:
        payload = reply.body.encode() if isinstance(reply.body, str) else json.dumps(reply.body).encode()
        self._write_head(reply, {"Content-Type": "application/json", "Content-Length": str(len(payload))})
        if reply.drop is Drop.MIDWAY:
            payload = payload[: len(payload) // 2]
            self.close_connection = True
        self.wfile.write(payload)

    def _write_events(self, reply: Reply, events: Iterable[str]) -> None:
        self._write_head(reply, {"Content-Type": "text/event-stream; charset=utf-8", "Transfer-Encoding": "chunked"})
        told = list(events)
        if reply.drop is Drop.MIDWAY:
            told = told[: len(told) // 2]
            self.close_connection = True
        for event in told:
            payload = f"{event}\n\n".encode()
            self.wfile.write(f"{len(payload):x}\r\n".encode() + payload + b"\r\n")
            self.server.played.stopping.wait(reply.pause_s)
        if reply.drop is Drop.NEVER:
            self.wfile.write(b"0\r\n\r\n")

    def _write_head(self, reply: Reply, headers: dict[str, str]) -> None:
        self.send_response(reply.status)
        for name, value in {**headers, **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
