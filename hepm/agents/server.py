"""`hepm serve`: one process with every door to a memory over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hmac
import json
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hepm.agents.claude_code import ClaudeCode
from hepm.agents.mcp import mcp_server
from hepm.agents.proxy import Proxy
from hepm.agents.runs import LiveRuns
from hepm.agents.wire import Placement
from hepm.errors import HepmError, InputError, StoreError
from hepm.memory import Memory
from hepm.types import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    import uvicorn

_log = logging.getLogger("hepm")

_NAMESPACE: Final = ContextVar("namespace", default=DEFAULT_NAMESPACE)
"""Of the request under way, for the tools of MCP."""

_NO_CHECK: Final = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the guard checks it

_LOCAL: Final = ("127.0.0.1", "localhost", "::1")
_SWEEP_S: Final = 30.0
_OPEN: Final = ("/health",)


@dataclass(frozen=True, slots=True)
class Access:
    """What a token allows.

    Attributes:
        namespaces: None for all.
        write: Whether runs may be recorded and lessons changed.
    """

    namespaces: frozenset[str] | None = None
    write: bool = True

    def to(self, namespace: str) -> bool:
        """Whether a namespace may be read."""
        return self.namespaces is None or namespace in self.namespaces


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How the server behaves.

    Attributes:
        upstream: Base URL of the endpoint behind the proxy, with its `/v1`.
        hint_s: Seconds that a request waits for memory; after them it goes on without a hint.
        idle_s: A run that rests for so long is stored without a label.
        max_body: Bytes of a request's body.
        rate: Requests a second of one client, in the mean over ten seconds; 0 for no limit.
        tokens: What each bearer token allows; empty on loopback lets everyone in.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    upstream: str = "https://api.openai.com/v1"
    placement: Placement = "auto"
    hint_s: float = 1.0
    idle_s: float = 1_800.0
    max_body: int = 64 << 20
    rate: float = 0.0
    tokens: Mapping[str, Access] = field(default_factory=dict[str, Access], repr=False)

    def __post_init__(self) -> None:
        if self.host not in _LOCAL and not self.tokens:
            raise InputError(
                f"{self.host} can be reached by others: give --token (or HEPM_TOKEN), or bind to 127.0.0.1."
            )


def read_tokens(path: Path) -> dict[str, Access]:
    """Tokens of a JSON file: {"TOKEN": {"namespaces": ["desk"], "write": true}}; InputError if it is no such file."""
    try:
        told = json.loads(path.read_text("utf-8"))
        return {
            token: Access(
                None if (names := about.get("namespaces")) is None else frozenset(names), about.get("write", True)
            )
            for token, about in told.items()
        }
    except OSError as error:
        raise InputError(f"the tokens in {path} cannot be read: {error.strerror}") from error
    except (ValueError, AttributeError, TypeError) as error:
        raise InputError(
            f'{path} holds no tokens: write {{"TOKEN": {{"namespaces": ["desk"], "write": true}}}}'
        ) from error


class _Guard:
    """Refuses what may not come in: foreign hosts, wrong tokens, other namespaces, large bodies, too many requests."""

    def __init__(self, app: ASGIApp, options: ServeOptions) -> None:
        self._app = app
        self._options = options
        self._buckets: dict[str, tuple[float, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008, "reason": "hepm speaks HTTP: use it instead"})
                return
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        left = self._options.max_body

        async def limited() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise _TooLargeError
            return message

        try:
            await self._app(scope, limited, send)
        except _TooLargeError:
            await _error(413, f"the body is larger than {self._options.max_body:,} bytes")(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        options = self._options
        if options.host in _LOCAL:
            # A page in a browser could reach this server under a name of its own (DNS rebinding).
            if (host := _host(headers.get("host", ""))) not in _LOCAL:
                return _error(421, f"this server is reached as 127.0.0.1 or localhost, not as {host!r}")
            origin = headers.get("origin")
            if origin and _host(origin.rpartition("://")[2]) not in _LOCAL:
                return _error(403, "pages of other sites may not use this server")
        return None if scope["path"] in _OPEN else self._unauthorised(scope, headers) or self._too_much(scope, headers)

    def _unauthorised(self, scope: Scope, headers: Headers) -> Response | None:
        namespace, access = namespace_of(scope, headers), self._access(headers)
        if access is None:
            response = _error(401, "a token is needed: X-Hepm-Token: TOKEN, or Authorization: Bearer TOKEN")
            response.headers["www-authenticate"] = "Bearer"
            return response
        if not access.to(namespace):
            return _error(403, f"this token does not open the namespace {namespace!r}")
        scope["hepm.access"], scope["hepm.namespace"] = access, namespace
        _NAMESPACE.set(namespace)
        return None

    def _too_much(self, scope: Scope, headers: Headers) -> Response | None:
        options = self._options
        if options.rate and not self._in_time(_token(headers) or (scope.get("client") or ("",))[0]):
            response = _error(429, f"more than {options.rate:g} requests a second")
            response.headers["retry-after"] = "1"
            return response
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            return _error(400, "content-length is no number")
        return (
            _error(413, f"the body is larger than {options.max_body:,} bytes")
            if int(length) > options.max_body
            else None
        )

    def _access(self, headers: Headers) -> Access | None:
        tokens = self._options.tokens
        if not tokens:
            return Access()
        given = _token(headers).encode()
        found = None
        for token, access in tokens.items():
            if hmac.compare_digest(token.encode(), given):
                found = access
        return found

    def _in_time(self, client: str) -> bool:
        now, rate = time.monotonic(), self._options.rate
        left, at = self._buckets.get(client, (10 * rate, now))
        left = min(10 * rate, left + (now - at) * rate)
        if len(self._buckets) > 10_000:
            self._buckets.clear()
        self._buckets[client] = (left - 1 if left >= 1 else left, now)
        return left >= 1


class _TooLargeError(Exception):
    pass


def namespace_of(scope: Scope, headers: Headers) -> str:
    """The namespace of a request: of its path (/desk/v1/…), else of its header, else the default one."""
    first, _, rest = scope["path"].lstrip("/").partition("/")
    if rest.startswith(("v1/", "hooks/", "outcome", "mcp")) and first not in ("v1", "hooks", "otlp"):
        return first
    return headers.get("x-hepm-namespace", "").strip() or DEFAULT_NAMESPACE


def _host(address: str) -> str:
    """A host without its port."""
    return address.partition("]")[0].strip("[") if address.startswith("[") else address.partition(":")[0]


def _token(headers: Headers) -> str:
    """hepm's own token; the proxy's clients give the endpoint's key as Authorization."""
    own = headers.get("x-hepm-token", "").strip()
    return own or headers.get("authorization", "").removeprefix("Bearer ").strip()


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "type": "hepm", "param": None, "code": None}}, status)


class Server:
    """The application and what it holds."""

    def __init__(self, memory: Memory, options: ServeOptions) -> None:
        self.memory = memory
        self.options = options
        self.runs = LiveRuns(memory, idle_s=options.idle_s)
        self.proxy: Proxy | None = None
        self.started = time.time()
        self._hooks = ClaudeCode(self.runs)
        self._mcp_server = mcp_server(self.runs, _NAMESPACE.get)
        self._mcp = self._mcp_server.streamable_http_app(
            stateless_http=True, json_response=True, transport_security=_NO_CHECK
        )
        routes = [
            Route("/health", self._health),
            Route("/metrics", self._metrics),
            Route("/outcome", self._outcome, methods=["POST"]),
            Route("/{namespace}/outcome", self._outcome, methods=["POST"]),
            Route("/hooks/claude-code", self._hook, methods=["POST"]),
            Route("/{namespace}/hooks/claude-code", self._hook, methods=["POST"]),
            *self._mcp.routes,
            Route("/v1/{path:path}", self._proxied, methods=_METHODS),
            Route("/{namespace}/v1/{path:path}", self._proxied, methods=_METHODS),
        ]
        inner = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers={HepmError: _told})
        self.app: ASGIApp = _Guard(inner, options)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        del app
        options = self.options
        self.proxy = Proxy(self.runs, options.upstream, placement=options.placement, hint_s=options.hint_s)
        await asyncio.to_thread(self.memory.prompt, ())  # so that the first request need not wait for imports
        sweeping = asyncio.create_task(self._sweep())
        gc.freeze()  # a full collection of what is loaded once would hold every request up
        try:
            async with self._mcp_server.session_manager.run():
                yield
        finally:
            sweeping.cancel()
            await self.proxy.close()

    async def _sweep(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self.runs.store_idle)
            except Exception:
                _log.warning("runs that rest are not stored; it is tried again", exc_info=True)
            await asyncio.sleep(min(_SWEEP_S, self.options.idle_s))

    async def _health(self, request: Request) -> Response:
        del request
        return JSONResponse(
            {"status": "ok", "open_runs": len(self.runs), "uptime_s": round(time.time() - self.started)}
        )

    async def _metrics(self, request: Request) -> Response:
        access: Access = request.scope["hepm.access"]
        lines = ["# TYPE hepm_open_runs gauge", f"hepm_open_runs {len(self.runs)}"]
        counts = sorted((what, name, n) for (what, name), n in list(self.runs.counts.items()) if access.to(name))
        for at, (what, name, count) in enumerate(counts):
            if not at or counts[at - 1][0] != what:
                lines.append(f"# TYPE hepm_{what}_total counter")
            shown = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            lines.append(f'hepm_{what}_total{{namespace="{shown}"}} {count}')
        return PlainTextResponse("\n".join([*lines, ""]), media_type="text/plain; version=0.0.4")

    async def _outcome(self, request: Request) -> Response:
        if not request.scope["hepm.access"].write:
            return _error(403, "this token may not write")
        try:
            body: Any = json.loads(await request.body())
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            return _error(400, 'give {"session": "ID", "success": true} or a "reward"')
        session, success, reward = body.get("session"), body.get("success"), body.get("reward")
        if not isinstance(session, str) or not session:
            return _error(400, '"session" is missing: the header x-hepm-session of each reply names it')
        if not (success is None or isinstance(success, bool)):
            return _error(400, '"success" is neither true nor false')
        if not (reward is None or (isinstance(reward, int | float) and not isinstance(reward, bool))):
            return _error(400, '"reward" is no number')
        await asyncio.to_thread(
            self.runs.finish, session, namespace=request.scope["hepm.namespace"], success=success, reward=reward
        )
        return JSONResponse({"session": session, "stored": True})

    async def _hook(self, request: Request) -> Response:
        if not request.scope["hepm.access"].write:
            return _error(403, "this token may not write: hooks record runs")
        try:
            event: Any = json.loads(await request.body())
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            return _error(400, "a hook's event is a JSON object")
        try:
            return JSONResponse(await asyncio.to_thread(self._hooks.answer, event, request.scope["hepm.namespace"]))
        except Exception as error:  # the agent goes on without memory
            _log.warning("a hook is not recorded: %s", error, exc_info=not isinstance(error, HepmError))
            return JSONResponse({})

    async def _proxied(self, request: Request) -> Response:
        if self.proxy is None:
            return _error(503, "the server is starting")
        if not request.scope["hepm.access"].write:
            return _error(403, "this token may not write: the proxy records runs")
        return await self.proxy.handle(request, request.path_params["path"], request.scope["hepm.namespace"])


_METHODS: Final = ["GET", "POST", "PUT", "PATCH", "DELETE"]


async def _told(request: Request, error: Exception) -> Response:
    del request
    return _error(503 if isinstance(error, StoreError) else 404 if "no run" in str(error) else 409, str(error))


def serve(memory: Memory, options: ServeOptions, on_start: Callable[[str], object] = lambda address: None) -> None:
    """Serve a memory until the process is told to stop. Requests under way are answered, and runs stay on disk.

    Raises:
        InputError: the port is in use.
    """
    import uvicorn

    with socket.socket(socket.AF_INET6 if ":" in options.host else socket.AF_INET) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((options.host, options.port))
        except OSError as error:
            where = f"{options.host}:{options.port}"
            raise InputError(f"{where} cannot be used ({error.strerror}): give another --port") from error
        listening.listen(2_048)
        host, port = listening.getsockname()[:2]
        on_start(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
        uvicorn.Server(uvicorn_config(Server(memory, options).app, options)).run(sockets=[listening])


def uvicorn_config(app: ASGIApp, options: ServeOptions) -> uvicorn.Config:
    """How uvicorn serves the application: silently, and with the upstream's own headers."""
    import uvicorn

    return uvicorn.Config(
        app,
        options.host,
        options.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=10,
    )
