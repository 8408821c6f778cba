"""An OpenAI-compatible proxy: what memory says goes into the request, and a copy of the reply into the record.

The bytes of a reply are passed on as they come and never rebuilt. If memory fails, the request goes on unchanged.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import quote, urlsplit

import httpx2
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from hepm.agents import wire
from hepm.agents.runs import LiveRun, LiveRuns
from hepm.agents.wire import Api, Placement
from hepm.errors import HepmError

_log = logging.getLogger("hepm")

SESSION_HEADER: Final = "x-hepm-session"
_SESSION: Final = (SESSION_HEADER, "session_id", "x-session-id")  # the second is Codex's
_OWN: Final = "x-hepm-"
_HOP: Final = frozenset({
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding"),
    *("upgrade", "host", "content-length", "accept-encoding"),
})  # fmt: skip
_MAX_COPY: Final = 32 << 20
"""Bytes of a reply that are kept for the record; a longer one is passed on and not recorded."""


class Proxy:
    """Passes requests on to an endpoint.

    Args:
        upstream: Base URL with its `/v1`.
        key: The endpoint's key, for clients whose key is a token of hepm or missing.
        own_tokens: Tokens of hepm, which the endpoint never sees.
        hint_s: Seconds for memory to answer; after them a request goes on without a hint.
    """

    def __init__(
        self,
        runs: LiveRuns,
        upstream: str,
        *,
        key: str = "",
        own_tokens: frozenset[str] = frozenset(),
        placement: Placement = "auto",
        hint_s: float = 1.0,
    ) -> None:
        self.upstream = upstream.rstrip("/")
        self._runs = runs
        self._key = key
        self._own_tokens = own_tokens
        self._placement: Placement = placement
        if placement == "auto":
            own = (urlsplit(upstream).hostname or "").endswith("api.openai.com")
            self._placement = "message" if own else "tail"
        self._hint_s = hint_s
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(10, read=None, pool=None), limits=httpx2.Limits(max_connections=None)
        )
        self._ask = ThreadPoolExecutor(4, thread_name_prefix="hepm-hint")
        self._record = ThreadPoolExecutor(1, thread_name_prefix="hepm-record")

    async def close(self) -> None:
        """Finish recording, and close the connections."""
        await asyncio.to_thread(self._record.shutdown)
        self._ask.shutdown(wait=False, cancel_futures=True)
        await self._client.aclose()

    async def handle(self, request: Request, path: str, namespace: str) -> Response:
        """The upstream's answer to a request for a path below `/v1`."""
        raw = await request.body()
        api = wire.api_of(path) if request.method == "POST" else None
        run: LiveRun | None = None
        content = raw
        if api is not None:
            loop = asyncio.get_running_loop()
            hinted = loop.run_in_executor(self._ask, self._with_hint, api, raw, request.headers, namespace)
            try:
                run, content = await asyncio.wait_for(hinted, self._hint_s)
            except TimeoutError:
                self._runs.counts["late_hints", namespace] += 1
        return await self._pass_on(request, path, content, api, run)

    def _with_hint(
        self, api: Api, raw: bytes, headers: Mapping[str, str], namespace: str
    ) -> tuple[LiveRun | None, bytes]:
        """The run of a request, and its body with the hint; the body as it is if memory cannot read it."""
        try:
            body = wire.read_body(raw)
            sequel = wire.continued(body) if api == "responses" else ""
            tools = wire.tools_of(body)
            run = self._runs.continued(
                wire.messages_of(api, body),
                id=next((id for name in _SESSION if (id := headers.get(name, "").strip())), wire.session_id_of(body)),
                sequel=sequel,
                group=wire.cache_key_of(body),
                namespace=namespace,
                door="proxy",
                user=headers.get("x-hepm-user", "").strip() or wire.user_of(body),
                task=headers.get("x-hepm-task", "").strip(),
                environment=headers.get("x-hepm-environment", "").strip(),
                model=str(body.get("model") or ""),
                tools=tools or None,
            )
            prompt = self._runs.hint(run, keep=False)
            placed = wire.with_hint(api, body, stable=run.stable, present=prompt.present, placement=self._placement)
            return run, raw if placed is body else json.dumps(placed, ensure_ascii=False).encode()
        except Exception as error:  # the agent goes on without memory
            known = isinstance(error, HepmError)
            _log.warning("a request goes on without memory: %s", error if known else "", exc_info=not known)
            self._runs.counts["failed", namespace] += 1
            return None, raw

    async def _pass_on(
        self, request: Request, path: str, content: bytes, api: Api | None, run: LiveRun | None
    ) -> Response:
        url = httpx2.URL(f"{self.upstream}/{quote(path)}", query=request.url.query.encode() or None)
        sent = self._client.build_request(request.method, url, content=content, headers=self._headers(request))
        sending = asyncio.ensure_future(self._client.send(sent, stream=True))
        leaving = asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():  # the client is gone before the first byte: free the model
                return Response(status_code=499)
            upstream = sending.result()
        except httpx2.HTTPError as error:
            what = f"hepm cannot reach {self.upstream}: {type(error).__name__} {error}".strip()
            return JSONResponse(
                {"error": {"message": what, "type": "upstream_error", "param": None, "code": None}}, 502
            )
        finally:
            leaving.cancel()
            if not sending.done():
                sending.cancel()
        kept = [(k, v) for k, v in upstream.headers.multi_items() if k.lower() not in _HOP]
        response = StreamingResponse(self._tee(upstream, api, run), upstream.status_code)
        response.raw_headers = [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in kept]
        if (length := upstream.headers.get("content-length")) is not None:
            response.raw_headers.append((b"content-length", length.encode()))
        if run is not None:
            response.raw_headers.append((SESSION_HEADER.encode(), run.id.encode("ascii", "replace")))
        if "text/event-stream" in upstream.headers.get("content-type", ""):
            response.headers["x-accel-buffering"] = "no"
            response.headers.setdefault("cache-control", "no-cache")
        response.background = BackgroundTask(upstream.aclose)
        return response

    def _headers(self, request: Request) -> list[tuple[str, str]]:
        found = [(k, v) for k, v in request.headers.items() if k not in _HOP and not k.startswith(_OWN)]
        found.append(("accept-encoding", "identity"))  # so that the copy can be read
        given = request.headers.get("authorization", "").partition(" ")[2].strip()
        if given in self._own_tokens or (self._key and not given):
            found = [(k, v) for k, v in found if k != "authorization"]
            if self._key:
                found.append(("authorization", f"Bearer {self._key}"))
        return found

    async def _tee(self, upstream: httpx2.Response, api: Api | None, run: LiveRun | None) -> AsyncIterator[bytes]:
        copy: list[bytes] = []
        size = 0
        try:
            async for part in upstream.aiter_raw():
                if run is not None and size <= _MAX_COPY:
                    copy.append(part)
                    size += len(part)
                yield part
        finally:
            if run is not None and api is not None and upstream.status_code < 300 and size <= _MAX_COPY:
                kind = upstream.headers.get("content-type", "")
                self._record.submit(self._recorded(api, run, kind, copy))
            await upstream.aclose()

    def _recorded(self, api: Api, run: LiveRun, kind: str, copy: list[bytes]) -> Callable[[], None]:
        def record() -> None:
            try:
                self._runs.replied(run, wire.read_reply(api, kind, b"".join(copy)))
            except Exception:  # the reply is the client's already
                _log.warning("a reply is not recorded", exc_info=True)

        return record


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
