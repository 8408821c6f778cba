"""What may come in: tokens and the namespaces they open, hosts, sizes and rates."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, cast

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hepm.agents.live_run import TOKEN
from hepm.errors import InputError
from hepm.types import DEFAULT_NAMESPACE

LOCAL: Final = ("127.0.0.1", "localhost", "::1")
DOORS: Final = frozenset({"", "v1", "mcp", "hooks", "otlp", "outcome", "api", "health", "metrics"})
"""First parts of the paths. Another first part, before one of these, names a namespace: /desk/v1/models."""

NAMESPACE: Final = ContextVar("namespace", default=DEFAULT_NAMESPACE)
"""Of the request under way, for the tools of MCP."""

WRITES: Final = ContextVar("writes", default=True)
"""Whether the request under way may write, for the tools of MCP."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a token allows.

    Attributes:
        namespaces: None for all.
        write: Whether runs may be recorded and lessons changed.
        name: Stands in the runs that the token records; "" for one made of the token.
    """

    namespaces: frozenset[str] | None = None
    write: bool = True
    name: str = ""

    def to(self, namespace: str) -> bool:
        """Whether a namespace may be read."""
        return self.namespaces is None or namespace in self.namespaces


def access_of(request: Request) -> Access:
    """What the client of a request may do."""
    return request.scope["hepm.access"]


def namespace_of(request: Request) -> str:
    """The namespace of a request."""
    return request.scope["hepm.namespace"]


def read_tokens(path: Path) -> dict[str, Access]:
    """Tokens of a JSON file: {"TOKEN": {"name": "ann", "namespaces": ["desk"], "write": true}}; else InputError."""
    try:
        found: Any = json.loads(path.read_text("utf-8"))
        return {token: _access(token, about) for token, about in found.items()}
    except OSError as error:
        raise InputError(f"the tokens in {path} cannot be read: {error.strerror}") from error
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        form = '{"TOKEN": {"namespaces": ["desk"], "write": true}}'
        raise InputError(f"{path} holds no tokens ({error}): write {form}") from error


def _access(token: str, about: dict[str, Any]) -> Access:
    names, write, own = about.get("namespaces"), about.get("write", True), about.get("name", "")
    if not token.isascii() or not token.strip() or len(token) < 8:
        raise ValueError("a token has at least 8 ASCII characters")
    if unknown := sorted(about.keys() - {"namespaces", "write", "name"}):
        raise ValueError(f"unknown key {unknown[0]!r}")
    listed = cast("list[Any]", names) if isinstance(names, list) else []
    named = isinstance(names, list | None) and all(isinstance(name, str) for name in listed)
    if not (named and isinstance(write, bool) and isinstance(own, str)):
        raise ValueError('"namespaces" is a list of names, "write" is true or false, "name" is a text')
    return Access(None if names is None else frozenset(listed), write, own)


def name_of_token(token: str) -> str:
    """The name of a token that was given none; it does not show the token."""
    return f"token-{blake2b(token.encode(), digest_size=4).hexdigest()}"


async def json_object(request: Request) -> dict[str, Any] | None:
    """The body of a request; None if it is no JSON object."""
    try:
        body: Any = json.loads(await request.body())
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", body) if isinstance(body, dict) else None


def refused(status: int, message: str, **more: Any) -> Response:
    """An error in the form of OpenAI's API, which its clients show."""
    return JSONResponse({"error": {"message": message, "type": "hepm", "param": None, "code": None, **more}}, status)


def token_of(headers: Headers) -> str:
    """hepm's own token; clients of the proxy may give the endpoint's key as Authorization."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return headers.get("x-hepm-token", "").strip() or (token.strip() if kind.lower() == "bearer" else "")


class Guard:
    """Refuses what may not come in, and says in the scope what the others may do.

    Args:
        host: The address that the server listens on.
        tokens: What each token allows; empty lets every client in, from this machine alone.
        rate: Requests a second of one client, in the mean over ten seconds; 0 for no limit.
        max_body: Bytes of a request's body.
    """

    def __init__(self, app: ASGIApp, *, host: str, tokens: Mapping[str, Access], rate: float, max_body: int) -> None:
        self._app = app
        self._host = host
        self._tokens = {
            token: access if access.name else replace(access, name=name_of_token(token))
            for token, access in tokens.items()
        }
        self._rate = rate
        self._max_body = max_body
        self._buckets: dict[str, tuple[float, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "hepm speaks HTTP, not WebSocket"})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        scope = _with_namespace(scope, headers)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        left, over = self._max_body, False

        async def limited() -> Message:
            nonlocal left, over
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0 and not over:
                over = True
                await self._too_large()(scope, receive, send)
            return {"type": "http.disconnect"} if over else message

        async def unless_over(message: Message) -> None:
            if not over:
                await send(message)

        # The server closes the connection then. It cancels what is still under way some seconds after it was stopped.
        with contextlib.suppress(BrokenOffError, ClientDisconnect, asyncio.CancelledError):
            await self._app(scope, limited, unless_over)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if self._host in LOCAL and not self._tokens:
            # A page in a browser could reach this server under a name of its own (DNS rebinding).
            if (host := _without_port(headers.get("host", ""))) not in LOCAL:
                return refused(421, f"this server is reached as 127.0.0.1 or localhost, not as {host!r}")
            origin = headers.get("origin")
            elsewhere = headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate"
            if elsewhere or (origin and _without_port(origin.rpartition("://")[2]) not in LOCAL):
                return refused(403, "pages of other sites may not use this server")
        if "upgrade" in headers.get("connection", "").lower() and headers.get("upgrade", "").lower() == "websocket":
            return refused(426, "hepm speaks HTTP, not WebSocket")
        if scope["path"] == "/health" or (scope["path"] == "/" and scope["method"] == "GET"):  # they hold no data
            return None
        return self._unauthorised(scope, headers) or self._too_much(scope, headers)

    def _unauthorised(self, scope: Scope, headers: Headers) -> Response | None:
        access, namespace = self._access(headers), scope["hepm.namespace"]
        if access is None:
            response = refused(401, "a token is needed: X-Hepm-Token: TOKEN, or Authorization: Bearer TOKEN")
            response.headers["www-authenticate"] = "Bearer"
            return response
        if not access.to(namespace):
            opened = sorted(access.namespaces or ())
            message = f"this token does not open the namespace {namespace!r}, but {', '.join(opened) or 'none'}"
            return refused(403, message, namespaces=opened)
        scope["hepm.access"] = access
        NAMESPACE.set(namespace)
        WRITES.set(access.write)
        TOKEN.set(access.name)
        return None

    def _too_much(self, scope: Scope, headers: Headers) -> Response | None:
        if self._rate and not self._in_time(token_of(headers) if self._tokens else (scope.get("client") or ("",))[0]):
            response = refused(429, f"more than {self._rate:g} requests a second")
            response.headers["retry-after"] = "1"
            return response
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            return refused(400, "content-length is no number")
        return self._too_large() if int(length) > self._max_body else None

    def _too_large(self) -> Response:
        return refused(413, f"the body is larger than {self._max_body:,} bytes")

    def _access(self, headers: Headers) -> Access | None:
        if not self._tokens:
            return Access()
        given, found = token_of(headers).encode(), None
        for token, access in self._tokens.items():  # all of them, so that the time says nothing
            if hmac.compare_digest(token.encode(), given):
                found = access
        return found

    def _in_time(self, client: str) -> bool:
        now, rate = time.monotonic(), self._rate
        most = max(1.0, 10 * rate)
        left, at = self._buckets.get(client, (most, now))
        left = min(most, left + (now - at) * rate)
        if len(self._buckets) > 10_000:
            self._buckets.clear()
        self._buckets[client] = (left - 1 if left >= 1 else left, now)
        return left >= 1


class BrokenOffError(Exception):
    """The endpoint broke off a reply whose beginning the client has: the client's connection breaks, too."""


def _with_namespace(scope: Scope, headers: Headers) -> Scope:
    """The scope with its namespace: of its path, which loses it (/desk/v1/…), else of its header, else the default."""
    first, _, rest = scope["path"].lstrip("/").partition("/")
    if first not in DOORS and rest.partition("/")[0] in DOORS - {""}:
        return {**scope, "path": f"/{rest}", "hepm.namespace": first}
    return {**scope, "hepm.namespace": headers.get("x-hepm-namespace", "").strip() or DEFAULT_NAMESPACE}


def _without_port(address: str) -> str:
    return address.partition("]")[0].strip("[") if address.startswith("[") else address.partition(":")[0]
