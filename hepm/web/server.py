"""`hepm serve`: one process with every door to a memory over HTTP."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property, partial
from itertools import groupby
from operator import itemgetter
from time import monotonic, time
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hepm.agents import DOORS
from hepm.agents.claude_code import ClaudeCode
from hepm.agents.guard import (
    LOCAL,
    Access,
    Guard,
    access_of,
    check_token,
    name_of_token,
    namespace_of,
    refused,
)
from hepm.agents.hook_events import AGENTS
from hepm.agents.mcp import mcp_server
from hepm.agents.proxy import Proxy
from hepm.agents.runs import LiveRuns
from hepm.agents.traces import Traces
from hepm.agents.wire import read_object
from hepm.errors import ConflictError, HepmError, InputError, MissingExtraError, NotFoundError, StoreError
from hepm.types import Object
from hepm.web import live_page
from hepm.web.answers import Health
from hepm.web.doors import Door, document_of, routes_of
from hepm.web.options import ServeOptions
from hepm.web.session_doors import SessionDoors

if TYPE_CHECKING:
    import uvicorn

_log = logging.getLogger("hepm")

_NO_CHECK: Final = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the guard checks it
_METHODS: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_STATUSES: Final = {
    StoreError: 503, NotFoundError: 404, ConflictError: 409, InputError: 400, MissingExtraError: 501, HepmError: 409,
}  # fmt: skip


class Server:
    """The application and what it holds.

    Args:
        tokens: What each bearer token allows; empty lets every client in, from this machine alone.
        upstream_key: The endpoint's key, for clients whose key is a token of hepm or missing.
    Raises:
        InputError: options and tokens do not fit each other.
    """

    def __init__(
        self,
        runs: LiveRuns,
        options: ServeOptions,
        *,
        tokens: Mapping[str, Access] = MappingProxyType({}),
        upstream_key: str = "",
    ) -> None:
        _check(options, tokens)
        self.runs = runs
        self.memory = runs.memory
        self.options = options
        self.tokens = tokens
        self._upstream_key = upstream_key
        self.started = monotonic()
        self._sessions = "ok"
        self._probe_at = 0.0
        self._proxy: Proxy | None = None
        self._hooks = ClaudeCode(self.runs)
        self._mcp_server = mcp_server(self.runs)
        mcp = self._mcp_server.streamable_http_app(
            stateless_http=True, json_response=True, transport_security=_NO_CHECK
        )
        for route in mcp.routes:  # without sessions there is nothing to wait for in the stream that GET opens
            cast(Route, route).methods = {"POST"}
        page, page_doors = live_page.routes(self.runs)
        self._doors = [Door("GET", "/health", self._health), *SessionDoors(self.runs).all, *page_doors]
        routes = [
            Route("/v1/{path:path}", self._proxied, methods=_METHODS),  # first, as most requests are the proxy's
            Route("/v1beta/{path:path}", self._proxied, methods=_METHODS),
            Route("/metrics", self._metrics),
            Route("/openapi.json", self._openapi),
            Route("/hooks/{agent}", self._hook, methods=["POST"]),
            Route("/otlp/v1/traces", Traces(self.runs, max_body=options.max_body_bytes).answer, methods=["POST"]),
            page,
            *mcp.routes,
            *routes_of(self._doors),
        ]
        # The guard is outside: nothing that it refuses reaches a route.
        inner = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=_HANDLERS)
        self.app: ASGIApp = Guard(inner, host=options.host, tokens=tokens, max_body=options.max_body_bytes)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncGenerator[None]:
        options = self.options
        self._proxy = Proxy(
            self.runs,
            options.upstream,
            key=self._upstream_key,
            own_tokens=self.tokens,
            placement=options.placement,
            hint_s=options.hint_timeout_s,
            shortlist=options.shortlist,
        )
        # So that the first request need not wait for imports, nor for what hints like its own are made of.
        await asyncio.to_thread(self.memory.prompt, ())
        why = self.runs.why_not_kept()
        if why:
            _log.warning("runs are not stored: %s", why)
        sweeping = asyncio.create_task(self._sweep())
        gc.freeze()  # a full collection of what is loaded once would hold every request up
        try:
            async with self._mcp_server.session_manager.run():
                yield
        finally:
            sweeping.cancel()
            await self._proxy.close()

    async def _sweep(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self.runs.store_idle)
            except Exception:
                _log.warning("runs that rest are not stored; it is tried again", exc_info=True)
            await asyncio.sleep(min(30.0, self.options.idle_s))

    def _health(self, request: Request) -> Health:
        """Whether the store answers, and runs can be kept.

        Agents go on without the store and without room on the disk, so that the status is 200 all the same.
        """
        lost = self.memory.lost_since
        store = "ok" if lost is None else f"no answer for {max(0.0, time() - lost):.0f} s"
        # Once a second, as it writes a file, and every client is answered.
        if monotonic() >= self._probe_at:
            self._probe_at = monotonic() + 1
            self._sessions = self.runs.why_not_kept() or "ok"
        health: Health = {
            "status": "ok" if store == self._sessions == "ok" else "degraded",
            "store": store,
            "sessions": self._sessions,
            "uptime_s": round(monotonic() - self.started),
        }
        if not self.tokens:  # else it is for those who have one to know
            health["open_runs"] = len(self.runs)
            health["shortlists_off"] = self.memory.shortlists.off()
        return health

    async def _metrics(self, request: Request) -> Response:
        access = access_of(request)
        # Copied: other threads add counts meanwhile.
        counts = {key: count for key, count in list(self.runs.counts.items()) if access.to(key[1])}
        lines = ["# TYPE hepm_open_runs gauge"]
        for namespace in sorted({namespace for _, namespace in counts}):
            lines.append(f"hepm_open_runs{_labelled(namespace)} {len(self.runs.under_way(namespace))}")
        # ("hints", "desk"): 12 becomes hepm_hints_total{namespace="desk"} 12.
        for what, of_kind in groupby(sorted(counts), key=itemgetter(0)):
            lines.append(f"# TYPE hepm_{what}_total counter")
            for key in of_kind:
                lines.append(f"hepm_{what}_total{_labelled(key[1])} {counts[key]}")
        return PlainTextResponse("\n".join([*lines, ""]), media_type="text/plain; version=0.0.4")

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(self.document)

    @cached_property
    def document(self) -> Object:
        """The OpenAPI document of all that is served here."""
        return document_of(self._doors)

    async def _hook(self, request: Request) -> Response:
        if not access_of(request).write:
            return refused(403, "this token may not write: hooks record runs")
        agent = request.path_params["agent"]
        if agent not in AGENTS:
            return refused(404, f"no hooks of {agent[:40]!r} are known, but of {', '.join(sorted(AGENTS))}")
        event = read_object(await request.body())
        try:
            return JSONResponse(await asyncio.to_thread(self._hooks.answer, event, namespace_of(request), agent))
        except (InputError, StoreError):  # nothing of it is recorded, and its client learns that
            raise
        except Exception:  # the agent goes on without memory
            _log.warning("a hook is not recorded", exc_info=True)
            return JSONResponse({})

    async def _proxied(self, request: Request) -> ASGIApp:
        if self._proxy is None:
            return refused(503, "the server is starting")
        if not access_of(request).write:
            return refused(403, "this token may not write: the proxy records runs")
        return await self._proxy.handle(request, request.path_params["path"], namespace_of(request))


def _check(options: ServeOptions, tokens: Mapping[str, Access]) -> None:
    names = sorted(access.name or name_of_token(token) for token, access in tokens.items())
    unknown = [name for name in options.distrust if name not in names]
    if unknown:
        raise InputError(f"no token is called {unknown[0]!r}; there are {', '.join(names) or 'none'}.")
    if options.host not in LOCAL and not tokens:
        raise InputError(
            f"{options.host} can be reached by others: set HEPM_TOKEN (or serve.tokens in hepm.toml), or bind to "
            "127.0.0.1."
        )
    for token in tokens:
        check_token(token)
    if not options.upstream.startswith(("http://", "https://")):
        raise InputError(f"the upstream {options.upstream!r} is no URL: write it as https://host/v1")


def _labelled(namespace: str) -> str:
    """A namespace as a label of Prometheus."""
    name = namespace.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{namespace="{name}"}}'


async def _explained(status: int, request: Request, error: Exception) -> Response:
    if status == _STATUSES[StoreError]:
        _log.warning("%s is answered with %d: %s", request.url.path, status, error)
    return refused(status, str(error))


async def _unrouted(request: Request, error: Exception) -> Response:
    """What no route answers, as a path that is none or a method that is not for it, or refuses."""
    error = cast(HTTPException, error)
    message = error.detail
    if error.status_code in (404, 405):
        served = ", ".join(f"/{name}" for name in sorted(DOORS))
        message += f": {request.method[:40]} {request.url.path[:200]}; hepm serves {served}"
    response = refused(error.status_code, message)
    response.headers.update(error.headers or {})
    return response


async def _failed(request: Request, error: Exception) -> Response:
    # It is raised again, and logged.
    return refused(500, "hepm made an error: its log says where")


_HANDLERS: Final = {kind: partial(_explained, status) for kind, status in _STATUSES.items()} | {
    HTTPException: _unrouted,
    Exception: _failed,
}


@contextmanager
def listening(options: ServeOptions) -> Generator[socket.socket]:
    """The port of a server, which clients may connect to before it answers; InputError if it is in use."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    # With the protocol: asyncio sends small parts at once (TCP_NODELAY) only on sockets that name it.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as port:
        # A server that was stopped a moment ago leaves its port in TIME_WAIT for a minute.
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            port.bind((options.host, options.port))
            # Connections that may wait to be accepted; a burst of agents fills the usual 128.
            port.listen(2_048)
        except OSError as error:
            where = f"{options.host}:{options.port}"
            raise InputError(f"{where} cannot be used ({error.strerror}): give another --port") from error
        yield port


def serve(server: Server, port: socket.socket, on_start: Callable[[str], object]) -> None:
    """Serve until the process gets a signal to stop. Requests under way are answered, and runs stay on disk.

    Args:
        port: That it listens on.
        on_start: Called with the address.
    """
    import uvicorn

    host, number = port.getsockname()[:2]
    on_start(f"http://[{host}]:{number}" if ":" in host else f"http://{host}:{number}")
    # uvicorn raises the signal again when all is answered: without a handler the memory would not be closed.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    uvicorn.Server(uvicorn_config(server.app, server.options)).run(sockets=[port])


def uvicorn_config(app: ASGIApp, options: ServeOptions) -> uvicorn.Config:
    """How uvicorn serves the application: silently, and with the upstream's own headers."""
    import uvicorn

    from hepm.web.protocol import Protocol

    return uvicorn.Config(
        app,
        options.host,
        options.port,
        http=Protocol,
        ws="none",  # else a request for WebSocket gets no sentence where a library for it is installed
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=10,
    )
