"""A proxy for model APIs: what memory says goes into a request, and a copy of the reply is recorded.

The bytes of a reply are passed on as they come and never rebuilt. If memory fails, the request goes on without a hint.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Final, TypeAlias, cast
from urllib.parse import quote, unquote
from urllib.request import getproxies, proxy_bypass

import httpx2
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from hepm.agents.daemons import Daemons
from hepm.agents.guard import BrokenOffError, headers_of, refused
from hepm.agents.live_run import Bounded, LiveRun
from hepm.agents.replies import Reply, StreamEnd, after_denial, read_reply
from hepm.agents.runs import LiveRuns
from hepm.agents.tool_lists import ROUNDS, ToolLists
from hepm.agents.wire import (
    Api,
    Placement,
    Vendor,
    api_of,
    model_of,
    objects,
    read_body,
    resolved,
    tools_of,
    upstream_of,
    with_hint,
    without_foreign_hints,
    write_body,
)
from hepm.errors import ConflictError, HepmError, InputError
from hepm.ingest.records import RecordError
from hepm.memory.shortlist import MORE_TOOLS
from hepm.types import Object

_log = logging.getLogger("hepm")

SESSION_HEADER: Final = "x-hepm-session"
_SESSION: Final = (SESSION_HEADER, "session-id", "session_id", "x-session-id")  # the next two are Codex's
_KEYS: Final[dict[Vendor, bytes]] = {"openai": b"authorization", "anthropic": b"x-api-key", "google": b"x-goog-api-key"}
"""The header with the key, of each vendor."""
_HOP: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer", b"upgrade",
    b"transfer-encoding", b"proxy-connection", b"host", b"content-length", b"accept-encoding", b"expect",
})  # fmt: skip
_SANDBOX: Final = (
    (b"content-security-policy", b"sandbox"),  # a reply that is a page must not act as one of this server
    (b"x-content-type-options", b"nosniff"),
)
_MAX_COPY: Final = 32 << 20
"""Bytes of a reply that are kept for the record; a longer one is passed on and not recorded."""
_REFUSED: Final = frozenset({400, 422})
"""Statuses of an endpoint whose chat template does not take a message. After another error nothing is sent again."""


_Headers: TypeAlias = list[tuple[bytes, bytes]]


@dataclass(slots=True)
class _Exchange:
    """A request on its way to the endpoint.

    Attributes:
        headers: Those that the endpoint gets.
        content: Its body, with the hint.
        body: What `content` says; empty without a run.
        run: The run that it belongs to; None if memory does not know it, and always without an `api`.
        with_tail: Makes the body with the hint at the end of the last message, for an endpoint that refuses `content`;
            None if that would change nothing.
        tools: All of the client's tools where `content` holds fewer, and `more_tools`; else empty.
        reply: The endpoint's latest reply, whose body is yet to come.
    """

    client: Request
    url: httpx2.URL
    headers: _Headers
    api: Api | None
    content: bytes
    body: Object = field(default_factory=Object)
    run: LiveRun | None = None
    model: str = ""
    with_tail: Callable[[], Object] | None = None
    tools: Sequence[Object] = ()
    reply: httpx2.Response | None = None

    def change(self, body: Object) -> None:
        """Send another body from now on."""
        self.body = body
        self.content = write_body(body)


class Proxy:
    """Passes requests on to an endpoint.

    Args:
        upstream: Base URL with its `/v1`.
        key: The endpoint's key, for clients whose key is a token of hepm or missing.
        own_tokens: Tokens of hepm, which the endpoint never sees.
        hint_s: Seconds for memory to answer; after them a request goes on without a hint.
        shortlist: How many tools the words of a request choose; 0 passes all on.
    """

    def __init__(
        self,
        runs: LiveRuns,
        upstream: str,
        *,
        key: str,
        own_tokens: Iterable[str],
        placement: Placement,
        hint_s: float,
        shortlist: int,
    ) -> None:
        self.upstream = upstream.rstrip("/")
        self._runs = runs
        self._key = key
        self._own_tokens = [token.encode() for token in own_tokens]
        self._placement: Placement = resolved(placement, upstream)
        self._may_fall_back = placement == "auto"
        # Models that refused a hint behind results, and took it in the last of them.
        self._tail = Bounded[str, bool](1_000)
        self._hint_s = hint_s
        self._lists = ToolLists(runs, shortlist)
        # By the address of a proxy on the way; "" for none. No client is above them, which would keep cookies.
        self._transports: dict[str, httpx2.AsyncHTTPTransport] = {}
        self._asking = Daemons(4, "hepm-hint")  # an embedder or a store that does not answer holds a hint up
        self._recording = ThreadPoolExecutor(1, thread_name_prefix="hepm-record")

    async def close(self) -> None:
        """Finish recording, and close the connections."""
        await asyncio.to_thread(self._runs.wait_recorded)
        self._recording.shutdown(wait=False)
        self._asking.shutdown()
        for transport in self._transports.values():
            await transport.aclose()

    async def handle(self, request: Request, path: str, namespace: str) -> ASGIApp:
        """An application that gives the upstream's answer to a request for a path below `/v1` or `/v1beta`."""
        vendor = _vendor_of(request)
        base = upstream_of(self.upstream, vendor, _root(request).strip("/"))
        try:
            # The query as bytes: "?a=1&b" must reach the endpoint as the client wrote it.
            url = _url(f"{base}/{_encoded(request, path)}", request.scope["query_string"] or None)
        except httpx2.InvalidURL as error:
            return refused(400, f"this path cannot be passed on: {error}")
        api = api_of(path) if request.method == "POST" else None
        key = self._key
        if key and (base != self.upstream or "key" in request.query_params):
            key = ""
        headers = self._headers(request, vendor, url, key)
        exchange = _Exchange(request, url, headers, api, await request.body())
        if api is not None:
            hinted = partial(self._with_hint, exchange, api, path, namespace)
            asked = self._asking.submit(copy_context().run, hinted)
            try:
                async with asyncio.timeout(self._hint_s):
                    exchange = await asyncio.wrap_future(asked)
            except TimeoutError:
                asked.add_done_callback(self._came_late)
                # The hint is late, the request is not: it goes on as it came.
                self._runs.counts["late_hints", namespace] += 1
                exchange = await asyncio.to_thread(_without_hint, exchange, api)
        return partial(self._pass_on, exchange)

    def _with_hint(self, exchange: _Exchange, api: Api, path: str, namespace: str) -> _Exchange:
        """A request with its run and the hint; without them if memory cannot read it."""
        headers = headers_of(exchange.client)
        try:
            body = read_body(api, exchange.content)
            model = model_of(path, body)
            about = {name: headers.get(f"x-hepm-{name}", "").strip() for name in ("user", "task", "environment")}
            if headers.get("user-agent", "").startswith("claude-cli/"):
                if not tools_of(body):  # it asks for a title, or for a summary of a page: that is no conversation
                    return _without_hint(exchange, api)
                about["environment"] = about["environment"] or "claude-code"
            named = [headers.get(name, "").strip() for name in _SESSION]
            id = next(filter(None, named), "")
            run = self._runs.of_request(api, body, id=id, namespace=namespace, door="proxy", model=model, **about)
            prompt = self._runs.prompt(run, keep=run.behind)
            # A web page or a mail among the results may imitate memory's words.
            own = without_foreign_hints(api, body)
            shortened = self._lists.shorten(api, run, own)
            present = prompt.present
            if run.failed_upstream:  # perhaps at the hint: the client's next try has none, and the hint's place stays
                present = ""
                run.failed_upstream = False

            def placed(placement: Placement) -> Object:
                return with_hint(api, shortened, stable=run.stable, present=present, placement=placement)

            placement: Placement = "tail" if model in self._tail else self._placement
            with_tail = None
            if self._may_fall_back and placement == "behind" and api in ("chat", "responses"):
                with_tail = partial(placed, "tail")
            all_tools = [] if shortened is own else objects(own.get("tools"))
            sent = placed(placement)
            hinted = replace(exchange, body=sent, run=run, model=model, with_tail=with_tail, tools=all_tools)
            if sent is not body:  # else the client's own bytes are sent
                hinted.change(sent)
            return hinted
        except ConflictError:  # two agents under one name: the second learns it at once
            raise
        except Exception as error:  # the agent goes on without memory
            known = isinstance(error, HepmError | RecordError)
            _log.warning("a request goes on without memory: %s", error if known else "", exc_info=not known)
            self._runs.counts["failed", namespace] += 1
            return _without_hint(exchange, api)

    def _came_late(self, asked: Future[_Exchange]) -> None:
        """The request went on without its run, so that the run waits for no reply to it."""
        if asked.cancelled() or asked.exception() is not None:
            return
        exchange = asked.result()
        if exchange.run is not None:
            self._runs.replied(exchange.run, Reply())

    async def _pass_on(self, exchange: _Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        """Give a client the endpoint's answer, as long as it is there: no model goes on for one that has left."""
        answering = cast("asyncio.Task[object]", asyncio.current_task())
        has_left = False

        async def watch() -> None:
            nonlocal has_left
            while (await receive())["type"] != "http.disconnect":
                pass
            has_left = True
            answering.cancel()

        watching = asyncio.ensure_future(watch())
        refusal = None
        try:
            reply = await self._answer(exchange)
            # A client that follows it would be past hepm, with hepm's token and the prompt.
            if 300 <= reply.status_code < 400 and not reply.headers.get("location", "/v1").startswith("/v1"):
                where = "the endpoint redirects to another address: give the one that answers as --upstream"
                refusal = refused(502, where)
            else:
                await self._relay(exchange, reply, send)
        except httpx2.HTTPError as error:
            # Without the user and password that a URL may hold.
            where = f"{exchange.url.scheme}://{exchange.url.netloc.decode()}"
            refusal = refused(502, f"hepm cannot reach {where}: {type(error).__name__} {error}".strip())
        except asyncio.CancelledError:
            if not has_left:
                raise
        finally:
            watching.cancel()
            if has_left:
                answering.uncancel()
            self._end(exchange)
            if exchange.reply is not None:
                await exchange.reply.aclose()
        if refusal is not None:
            await refusal(scope, receive, send)

    async def _relay(self, exchange: _Exchange, reply: httpx2.Response, send: Send) -> None:
        """Pass the bytes of a reply on as they come, and record a copy of them."""
        run = exchange.run
        # Raw pairs, as a dictionary would merge two set-cookie headers into one.
        pairs = [(name.lower(), value) for name, value in reply.headers.raw]
        given = dict(pairs)
        added = dict[bytes, bytes]()
        kind = given.get(b"content-type", b"").decode("latin-1")
        length = given.get(b"content-length", b"")
        is_stream = "text/event-stream" in kind
        if run is not None and run.id.isascii() and run.id.isprintable():
            added[SESSION_HEADER.encode()] = run.id.encode()
        if is_stream:
            # nginx would collect a stream until it ends.
            added[b"x-accel-buffering"] = b"no"
            if b"cache-control" not in given:
                added[b"cache-control"] = b"no-cache"
        # Length and body are passed on unchanged, so that content-length may stay.
        dropped = (_HOP | _named(pairs) | added.keys()) - {b"content-length"}
        headers = [*[(name, value) for name, value in pairs if name not in dropped], *added.items(), *_SANDBOX]
        copy: list[bytes] = []
        size = 0
        stream_end = StreamEnd()

        async def record() -> None:
            is_read = reply.status_code < 300 and size <= _MAX_COPY
            recorded = self._end(exchange, kind, copy if is_read else ())
            # The next request names this reply by its id alone.
            if exchange.api == "responses" and recorded is not None:
                await asyncio.wait({asyncio.wrap_future(recorded)}, timeout=self._hint_s)

        await send({"type": "http.response.start", "status": reply.status_code, "headers": headers})
        # Not `aiter_raw`, which gives the connection back before the client hears that the reply is over.
        parts = cast("AsyncGenerator[bytes]", cast("httpx2.AsyncByteStream", reply.stream).__aiter__())
        try:
            async with aclosing(parts):
                async for part in parts:
                    size += len(part)
                    is_copied = run is not None and size <= _MAX_COPY
                    if is_copied:
                        copy.append(part)
                    # The last part: by its length, or by the event with which streams of the APIs end.
                    if b"%d" % size == length or (is_copied and is_stream and stream_end.came_in(part)):
                        await record()  # before the client has it: its next request waits for the record of this reply
                    await send({"type": "http.response.body", "body": part, "more_body": True})
        except httpx2.HTTPError as error:
            _log.warning("the endpoint broke off a reply: %s", type(error).__name__)
            raise BrokenOffError from error
        await record()
        await send({"type": "http.response.body"})

    async def _answer(self, exchange: _Exchange) -> httpx2.Response:
        """The endpoint's answer that goes to the client, whose body is yet to come."""
        run = exchange.run
        answer = await self._send(exchange)
        if exchange.with_tail is not None and answer.status_code in _REFUSED:
            # Some chat templates take no user's message behind a result: the hint goes into the last message, then and
            # from now on. Any other refusal comes again, and goes to the client.
            body = exchange.with_tail()
            if body != exchange.body:
                await asyncio.to_thread(exchange.change, body)
                await answer.aclose()
                answer = await self._send(exchange)
                if answer.status_code < 400:
                    self._tail[exchange.model] = True
        if exchange.api is None or run is None:
            return answer
        if exchange.with_tail is not None and answer.status_code >= 500:
            run.failed_upstream = True
        if exchange.tools or run.session.denies:
            return await self._past_own_answers(exchange, exchange.api, run, answer)
        return answer

    async def _send(self, exchange: _Exchange) -> httpx2.Response:
        """An answer of the endpoint, of which the body is yet to come."""
        headers = [(b"Host", exchange.url.netloc), *exchange.headers]
        method = exchange.client.method
        if exchange.content or method in ("POST", "PUT", "PATCH"):
            headers.append((b"Content-Length", b"%d" % len(exchange.content)))
        sent = httpx2.Request(
            method,
            exchange.url,
            stream=httpx2.ByteStream(exchange.content),
            headers=headers,
            extensions={"timeout": {"connect": 10.0, "write": 10.0}},  # a model may think for an hour
        )
        exchange.reply = await self._transport_to(exchange.url).handle_async_request(sent)
        return exchange.reply

    def _transport_to(self, url: httpx2.URL) -> httpx2.AsyncHTTPTransport:
        """The connections for an address; UnsupportedProtocol if the environment allows none."""
        proxy = proxy_for(url)
        if proxy not in self._transports:
            limits = httpx2.Limits(max_connections=None)
            try:
                self._transports[proxy] = httpx2.AsyncHTTPTransport(limits=limits, proxy=proxy or None)
            except (ImportError, ValueError, OSError) as error:  # SOCKS, no such scheme, no such SSL_CERT_FILE
                raise httpx2.UnsupportedProtocol(f"by the environment's proxy and certificates: {error}") from error
        return self._transports[proxy]

    async def _past_own_answers(
        self, exchange: _Exchange, api: Api, run: LiveRun, reply: httpx2.Response
    ) -> httpx2.Response:
        """The model's reply once memory answered its calls of `more_tools`, and those that it denies.

        The client sees this reply alone. Where the endpoint takes no denial for a result, it is the reply before. Where
        a call of `more_tools` cannot be answered, or the endpoint refuses the shortened request, this is sent again
        with all tools, and so are the run's later ones.
        """
        for answered in range(ROUNDS + 1):
            if exchange.tools and reply.status_code in _REFUSED:
                break
            # A stream is passed on as it comes.
            is_json = "application/json" in reply.headers.get("content-type", "")
            if reply.status_code >= 300 or "content-encoding" in reply.headers or not is_json:
                return reply
            raw = await reply.aread()
            # The same reply as if its bytes were yet to come.
            reply = httpx2.Response(reply.status_code, headers=reply.headers.raw, stream=httpx2.ByteStream(raw))
            own = None
            try:
                async with asyncio.timeout(self._hint_s):
                    own = await asyncio.get_running_loop().run_in_executor(
                        self._asking, copy_context().run, partial(self._own_answer, exchange, api, run, raw)
                    )
            except Exception as error:  # it is late, or memory fails
                _log.warning("a reply is not answered here: %s", type(error).__name__)
            if own is None or answered == ROUNDS:
                if exchange.tools and any(call.name == MORE_TOOLS for call in read_reply(api, "", raw).calls):
                    break
                return reply
            exchange.body, exchange.content = own
            answer = await self._send(exchange)
            if answer.status_code >= 300 and not exchange.tools:
                await answer.aclose()
                return reply
            reply = answer
        await reply.aclose()
        run.sends_all = True
        exchange.change({**exchange.body, "tools": list(exchange.tools)})
        exchange.tools = ()
        return await self._send(exchange)

    def _own_answer(self, exchange: _Exchange, api: Api, run: LiveRun, raw: bytes) -> tuple[Object, bytes] | None:
        """The request that answers a reply's call of `more_tools`, or says that a call is denied; None for neither.

        The run keeps a denied call beside the conversation, which does not contain it.
        """
        reply = read_reply(api, "", raw)
        for place, call in enumerate(reply.calls):
            if call.name == MORE_TOOLS and exchange.tools:
                counted = "more_tools"
                body = self._lists.answer(api, run, exchange.tools, exchange.body, reply, place)
            else:
                with run.lock:
                    denial = run.session.denial(call.name, call.arguments)
                    if denial is None:
                        continue
                    run.session.record(call.name, call.arguments, denial.text, refused=True, hidden=True)
                counted = "denied"
                body = after_denial(api, exchange.body, reply, place, denial.text)
            self._runs.counts[counted, run.namespace] += 1
            return body, write_body(body)
        return None

    def _headers(self, request: Request, vendor: Vendor, url: httpx2.URL, key: str) -> _Headers:
        """The headers for the endpoint: it sees no header and no token of hepm.

        Args:
            key: For a client that sends none.
        """
        given = request.headers.raw
        tokens = self._own_tokens
        dropped = _HOP | _named(given)
        headers: _Headers = []
        for name, value in given:
            if name in dropped or name.startswith(b"x-hepm-") or (tokens and any(token in value for token in tokens)):
                continue
            if name in _KEYS.values():
                if not value.removeprefix(b"Bearer").strip():
                    continue
                key = ""
            headers.append((name, value))
        # Compressed, the reply could not be read for the record.
        headers.append((b"accept-encoding", b"identity"))
        if key:
            headers.append((_KEYS[vendor], f"Bearer {key}".encode() if vendor == "openai" else key.encode()))
        if url.userinfo:  # the address says who asks the endpoint, whatever the client says
            headers = [(name, value) for name, value in headers if name != b"authorization"]
            user = f"{url.username}:{url.password}".encode()
            headers.append((b"authorization", b"Basic " + b64encode(user)))
        return headers

    def _end(self, exchange: _Exchange, kind: str = "", copy: Sequence[bytes] = ()) -> Future[None] | None:
        """Record the reply to a request once, if there is a whole one, as soon as the event loop has nothing to do."""
        api = exchange.api
        run = exchange.run
        if api is None or run is None:
            return None
        exchange.run = None
        recorded = self._runs.recording()

        def record() -> None:
            try:
                self._runs.replied(run, read_reply(api, kind, b"".join(copy)))
            except Exception:  # the reply is the client's already
                _log.warning("a reply is not recorded", exc_info=True)
            finally:
                recorded.set_result(None)

        # Begun at once, the thread would hold up the bytes that now go to the client.
        asyncio.get_running_loop().call_soon(self._recording.submit, record)
        return recorded


@lru_cache(maxsize=256)  # an agent asks one address again and again
def _url(address: str, query: bytes | None) -> httpx2.URL:
    return httpx2.URL(address, query=query)


@lru_cache(maxsize=256)
def proxy_for(url: httpx2.URL) -> str:
    """The proxy that the environment names for an address, as in HTTPS_PROXY and NO_PROXY; "" for none."""
    if proxy_bypass(f"{url.host}:{url.port}" if url.port else url.host):
        return ""
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all", "")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def _without_hint(exchange: _Exchange, api: Api) -> _Exchange:
    """A request that goes on without memory: nothing of others may have the form of a hint all the same."""
    try:
        body = read_body(api, exchange.content)
        own = without_foreign_hints(api, body)
        if own is not body:
            return replace(exchange, content=write_body(own))
    except (InputError, RecursionError):
        pass  # a body that is no request: the endpoint says so itself
    return exchange


def _vendor_of(request: Request) -> Vendor:
    """Whose form a request has, by what each client of Anthropic and of Google sends."""
    headers = headers_of(request)
    if "anthropic-version" in headers:
        return "anthropic"
    if _root(request) == "/v1beta/" or "x-goog-api-client" in headers or "x-goog-api-key" in headers:
        return "google"
    return "openai"


def _root(request: Request) -> str:
    """What is in front of the endpoint's own paths."""
    return "/v1beta/" if request.scope["path"].startswith("/v1beta/") else "/v1/"


def _encoded(request: Request, path: str) -> str:
    """A path below `/v1` as the client wrote it, in percent-encoding; InvalidURL if it leads out of it."""
    if any(part in (".", "..") for part in path.replace("\\", "/").split("/")):
        raise httpx2.InvalidURL("the path has a part . or ..")
    # Decoded and encoded again, "a%2Fb" would become "a/b".
    raw = request.scope["raw_path"].partition(_root(request).encode())[2].decode("ascii", "replace")
    if unquote(raw) != path:
        return quote(path)
    return raw


def _named(headers: _Headers) -> set[bytes]:
    """Headers that belong to one connection alone, as `connection` says."""
    values = [value for name, value in headers if name == b"connection"]
    return {part.strip() for part in b",".join(values).lower().split(b",")}
