"""What may come in: tokens and the namespaces they open, hosts, sizes and rates."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeAlias

from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hepm.agents import DOORS
from hepm.agents.live_run import TOKEN, Bounded
from hepm.agents.wire import api_of
from hepm.errors import InputError
from hepm.text import what_is_wrong
from hepm.types import DEFAULT_NAMESPACE

LOCAL: Final = ("127.0.0.1", "localhost", "::1")

OPEN: Final = frozenset({"/", "/health", "/openapi.json"})
"""Paths that need no token to be read: they hold no data."""

GUESSES: Final = 20
"""Wrong tokens that an address may send in `GUESSES_S` seconds."""
GUESSES_S: Final = 100.0
_CLIENTS: Final = 10_000
_Headers: TypeAlias = Mapping[str, str]
_UNASKED: Final = frozenset({"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"})
"""Content types that a page may send to any server without asking it first (CORS)."""

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


def headers_of(request: Request) -> _Headers:
    """The headers of a request by their names in lower case."""
    return request.scope["hepm.headers"]


def read_tokens(path: Path) -> dict[str, Access]:
    """Tokens of a JSON file: {"TOKEN": {"name": "ann", "namespaces": ["desk"], "write": true}}; else InputError."""
    try:
        tokens = TypeAdapter(dict[str, Access]).validate_json(path.read_bytes(), strict=True, extra="forbid")
    except OSError as error:
        raise InputError(f"the tokens in {path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        form = '{"TOKEN": {"namespaces": ["desk"], "write": true}}'
        problem = what_is_wrong(error, 1).partition(".")[2].lower()  # without the token
        raise InputError(f"{path} holds no tokens ({problem}): write {form}") from None
    for token in tokens:  # before a store is made
        check_token(token)
    return tokens


def name_of_token(token: str) -> str:
    """The name of a token that was given none; it does not show the token."""
    return f"token-{blake2b(token.encode(), digest_size=4).hexdigest()}"


def check_token(token: str) -> None:
    """InputError for a token that no header can hold, or that is soon guessed."""
    fits_a_header = token.isascii() and token.isprintable() and token == token.strip()
    if not fits_a_header or len(token) < 8:
        raise InputError("a token has at least 8 ASCII characters")


def refused(status: int, message: str, **more: Any) -> Response:
    """An error in the form of the APIs of OpenAI and Anthropic; Gemini's clients read its message, too."""
    error = {"message": message, "type": "hepm", "param": None, "code": None, **more}
    return JSONResponse({"type": "error", "error": error}, status)


def token_of(headers: _Headers) -> str:
    """hepm's own token; clients of the proxy may give the endpoint's key in its place."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    own = headers.get("x-hepm-token", "").strip()
    if own:
        return own
    if kind.lower() == "bearer":
        return token.strip()
    return (headers.get("x-api-key") or headers.get("x-goog-api-key", "")).strip()


def _why_unknown(headers: _Headers) -> str:
    """What a client has to send that sent none of the tokens."""
    if headers.get("x-hepm-token", "").strip():
        return "the token in X-Hepm-Token is none of this server's: check it against those that the server was given"
    if token_of(headers):
        return "the key that was sent is no token of this server: beside a provider's key, send X-Hepm-Token: TOKEN"
    return "a token is needed: X-Hepm-Token: TOKEN, or Authorization: Bearer TOKEN"


class Guard:
    """Refuses what may not come in, and says in the scope what the others may do.

    Args:
        host: The address that the server listens on.
        tokens: What each token allows; empty lets every client in, from this machine alone.
        max_body: Bytes of a request's body.
    """

    def __init__(self, app: ASGIApp, *, host: str, tokens: Mapping[str, Access], max_body: int) -> None:
        self._app = app
        self._host = host
        self._tokens: dict[str, Access] = {}
        for token, access in tokens.items():
            if not access.name:
                access = replace(access, name=name_of_token(token))  # noqa: PLW2901
            self._tokens[token] = access
        self._max_body = max_body
        # Of each address, how many wrong tokens it sent since when.
        self._wrong = Bounded[str, tuple[int, float]](_CLIENTS)
        self._known = Bounded[tuple[str, str], bool](_CLIENTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Of several with one name the first, and all at once: Starlette's headers decode again for each question.
        raw = reversed(scope["headers"])
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
        scope = {**scope, "hepm.headers": headers, **_namespace_in(scope["path"], headers)}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        # Without content-length (chunked) the size is known only as the body comes in.
        left = self._max_body
        over = False

        async def limited() -> Message:
            nonlocal left, over
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0 and not over:
                over = True
                await self._too_large()(scope, receive, send)
            if over:
                return {"type": "http.disconnect"}
            return message

        async def unless_over(message: Message) -> None:
            if not over:
                await send(message)

        # The server closes the connection then. It cancels what is still under way some seconds after it was stopped.
        with suppress(BrokenOffError, ClientDisconnect, asyncio.CancelledError):
            await self._app(scope, limited, unless_over)

    def _refusal(self, scope: Scope, headers: _Headers) -> Response | None:
        if self._host in LOCAL and not self._tokens:
            # Without tokens, any page in a browser on this machine could send requests here.
            refusal = _from_a_page(scope, headers)
            if refusal is not None:
                return refusal
        if "upgrade" in headers.get("connection", "").lower() and headers.get("upgrade", "").lower() == "websocket":
            return refused(426, "hepm speaks HTTP, not WebSocket")
        if scope["path"] in OPEN and scope["method"] in ("GET", "HEAD"):
            return None
        refusal = self._unauthorised(scope, headers)
        length = headers.get("content-length", "0")
        if refusal is None and not length.isdecimal():
            return refused(400, "content-length is no number")
        if refusal is None and int(length) > self._max_body:
            return self._too_large()
        return refusal

    def _unauthorised(self, scope: Scope, headers: _Headers) -> Response | None:
        access = self._access(headers)
        namespace = scope["hepm.namespace"]
        if self._tokens and self._guesses_too_often(access, token_of(headers), (scope.get("client") or ("",))[0]):
            response = refused(429, "too many wrong tokens from this address")
            response.headers["retry-after"] = "1"
            return response
        if access is None:
            response = refused(401, _why_unknown(headers))
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

    def _too_large(self) -> Response:
        return refused(413, f"the body is larger than {self._max_body:,} bytes")

    def _access(self, headers: _Headers) -> Access | None:
        if not self._tokens:
            return Access()
        # `compare_digest` takes as long for a wrong first byte as for a wrong last one.
        given = token_of(headers).encode()
        allowed = None
        for token, access in self._tokens.items():  # all of them, so that the time says nothing
            if hmac.compare_digest(token.encode(), given):
                allowed = access
        return allowed

    def _guesses_too_often(self, access: Access | None, token: str, address: str) -> bool:
        """Whether a client tries tokens. One that is known from its address works on, whatever others try there."""
        if not token or (address, token) in self._known:
            return False
        count, since = self._wrong.get(address, (0, monotonic()))
        if monotonic() - since > GUESSES_S:
            count = 0
            since = monotonic()
        if count >= GUESSES:  # a right token is no exception: the answer would tell
            return True
        if access is None:
            self._wrong[address] = count + 1, since
        else:
            self._known[address, token] = True
        return False


def _from_a_page(scope: Scope, headers: _Headers) -> Response | None:
    """Why a request may come from a page in a browser that is not this server's own; None if it does not."""
    host = headers.get("host", "")
    path = scope["path"]
    reads = scope["method"] in ("GET", "HEAD")
    name = host.partition(":")[0]
    if host.startswith("["):  # IPv6: [::1]:8765
        name = host.partition("]")[0].strip("[")
    if name not in LOCAL:  # a page's own name for this machine (DNS rebinding)
        return refused(421, f"this server is reached as 127.0.0.1 or localhost, not as {name!r}")
    # A link may lead to the page, which holds no data, and to figures; data and money are the page's own affair.
    visit = reads and headers.get("sec-fetch-mode") == "navigate" and not path.startswith(("/v1/", "/v1beta/", "/api/"))
    elsewhere = headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not visit
    # Browsers send "null" for files and sandboxed pages, which is no address of this server.
    origin = headers.get("origin")
    if elsewhere or (origin is not None and origin.partition("://")[2].lower() != host.lower()):
        return refused(403, "pages of other sites and ports may not use this server")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    upload = kind == "multipart/form-data" and path.startswith("/v1/") and api_of(path.removeprefix("/v1/")) is None
    has_body = scope["method"] == "POST" and headers.get("content-length", "0") != "0"
    if has_body and kind in _UNASKED and not upload:
        return refused(415, "send JSON, with Content-Type: application/json")
    return None


class BrokenOffError(Exception):
    """The endpoint broke off a reply whose beginning the client has: the client's connection breaks, too."""


def _namespace_in(path: str, headers: _Headers) -> dict[str, str]:
    """The namespace: of the path, which loses it (/desk/v1/…), else of the header, else the default."""
    # "/desk/v1/models" is "/v1/models" in the namespace "desk".
    first, _, rest = path.lstrip("/").partition("/")
    if first not in DOORS and rest.partition("/")[0] in DOORS - {""}:
        return {"path": f"/{rest}", "hepm.namespace": first}
    return {"hepm.namespace": headers.get("x-hepm-namespace", "").strip() or DEFAULT_NAMESPACE}
