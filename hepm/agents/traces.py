"""OTLP/HTTP trace receiver: agents that are instrumented already send their spans here.

https://opentelemetry.io/docs/specs/otlp/#otlphttp. The spans of a conversation come in several requests and in any
order; its run is brought up to date with each, and is on disk before the request is answered.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import OrderedDict
from dataclasses import replace
from threading import Lock
from time import time
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hepm.agents.guard import access_of, namespace_of
from hepm.agents.live_run import MCP_DOOR, OTLP_DOOR, Key
from hepm.agents.recordable import recordable
from hepm.agents.runs import LiveRuns
from hepm.agents.wire import read_object
from hepm.errors import ConflictError, InputError, MissingExtraError
from hepm.ingest.formats.document import RunOrigin
from hepm.ingest.formats.otlp import spans_of
from hepm.ingest.formats.spans import Spans, TraceSpan
from hepm.ingest.formats.turns import read_messages
from hepm.ingest.prepare import shorten
from hepm.ingest.records import DECODER, ReadOptions, RecordError
from hepm.ingest.redact import Redactor
from hepm.memory.labels import given_label
from hepm.memory.messages import as_messages
from hepm.types import RECORDED_BY, Object, Trajectory

_log = logging.getLogger("hepm")

REST_S: Final = 60.0
"""Seconds after which a trace that has its root, and belongs to no conversation, is stored."""
_JSON: Final = "application/json"
_PROTOBUF: Final = "application/x-protobuf"


class Traces:
    """The conversations whose spans come in.

    Args:
        max_body: Bytes of a decompressed body.
    """

    def __init__(self, runs: LiveRuns, *, max_body: int) -> None:
        self._runs = runs
        self._max_body = max_body
        self._conversations = OrderedDict[Key, Spans]()
        self._of_trace: dict[Key, str] = {}
        # The spans of the runs that a crash or a restart left, by namespace.
        self._before = set[Key]()
        self._lock = Lock()
        for kept in runs.memory.sessions.under_way(set()):
            for part in kept.parts:
                self._before.add((kept.namespace, part))
                self._of_trace.setdefault((kept.namespace, part.partition(":")[0]), kept.run.id)

    async def answer(self, request: Request) -> Response:
        """Take what an exporter sends, whose endpoint is http://host/otlp."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (_JSON, _PROTOBUF):
            raise HTTPException(415, f"the content type is {kind[:40]!r}: send {_PROTOBUF} or {_JSON}")
        if not access_of(request).write:
            raise HTTPException(403, "this token may not write")
        encoding = request.headers.get("content-encoding", "")
        body = await request.body()

        def take() -> list[str]:
            export = _decoded(_inflated(body, encoding, self._max_body), kind)
            return self.receive(export, namespace_of(request))

        return _accepted(kind, await asyncio.to_thread(take))

    def receive(self, export: Object, namespace: str) -> list[str]:
        """Take the spans of one request, and bring their runs up to date; why spans were rejected.

        Raises:
            InputError: it is no OTLP request. Nothing of it was taken.
            ConflictError: all of its runs are recorded by another token or door.
            StoreError: the store does not answer, or there is no room on the disk for a run.
        """
        spans: list[TraceSpan] = []
        rejected: list[str] = []
        try:
            for span in spans_of(export, ReadOptions()):
                if isinstance(span, RecordError):
                    rejected.append(str(span))
                else:
                    spans.append(span)
        except RecordError as error:
            raise InputError(f"the body is no OTLP request: {error}") from error
        with self._lock:
            sessions = {span.trace: span.session for span in spans if span.session}
            touched: dict[str, bool] = {}
            for span in spans:
                if (namespace, _part(span)) in self._before:
                    continue  # sent again, as its answer was lost
                id = self._conversation(namespace, span.trace, sessions.get(span.trace, ""))
                if not span.session and id != span.trace:
                    span.session = id  # as spans before a restart named it
                self._conversations[namespace, id].add(span)
                # A trace is whole with its root, which ends last; a conversation may go on in another trace.
                is_root = not span.parent.strip("0")
                touched[id] = touched.get(id, False) or (is_root and not span.session)
            conflicts: list[ConflictError] = []
            for id, is_whole in touched.items():
                try:
                    self._update(namespace, id, is_whole)
                except ConflictError as error:
                    self._drop(namespace, id)
                    conflicts.append(error)
            self._forget_rest()
        if conflicts and len(conflicts) == len(touched):
            raise conflicts[0]
        return rejected + list(map(str, conflicts))

    def _conversation(self, namespace: str, trace: str, session: str) -> str:
        """The id of the conversation of a trace. Its first spans may lack it: then they move."""
        known = self._of_trace.get((namespace, trace))
        id = session or known or trace
        spans = self._conversations.setdefault((namespace, id), Spans())
        self._conversations.move_to_end((namespace, id))
        if known is not None and known != id:
            before = self._conversations.pop((namespace, known), None)
            if before:
                for span in before:
                    spans.add(span)
                self._runs.discard(known, namespace=namespace)
        self._of_trace[namespace, trace] = id
        return id

    def _update(self, namespace: str, id: str, is_whole: bool) -> None:
        has_run = False
        spans = self._conversations[namespace, id]
        # The run of the conversation itself comes last: once it names its spans, all they belong to is on disk.
        for item in sorted(spans.runs(RunOrigin("otlp")), key=lambda item: getattr(item, "id", "") == id):
            if not isinstance(item, Trajectory):
                _log.debug("a trace is not recorded: %s", item.reason)
                continue
            has_run = True
            if self._is_over(item, namespace):
                continue
            run = self._runs.named(
                item.id,
                namespace=namespace,
                door=OTLP_DOOR,
                tools=item.tools or None,
                user=item.user,
                environment=item.environment,
                model=item.model,
            )
            if run.door not in (OTLP_DOOR, MCP_DOOR):
                raise ConflictError(
                    f"the session {item.id!r} is recorded by {run.door!r}: its spans would count its calls twice"
                )
            with run.lock:
                if run.over:  # it ended while these spans waited for it
                    return self._update(namespace, id, is_whole)
                run.door = OTLP_DOOR
                run.messages = list(map(recordable, as_messages(item.turns)))
                if item.id == id:
                    run.session.parts |= frozenset(map(_part, spans))
                run.outcome = item.outcome
                run.touched = time()
                # A trace that is over need not wait as long as a conversation.
                if is_whole:
                    run.touched -= max(0.0, self._runs.idle_s - REST_S)
                run.session.follow(run.messages)
                run.check_kept()
        if is_whole and not has_run:  # such as a trace of a web server
            self._drop(namespace, id)

    def _is_over(self, run: Trajectory, namespace: str) -> bool:
        """Whether a run has its outcome, or is stored with all these turns.

        Exporters send the last spans some seconds late: they are added to a run that has its outcome.
        """
        if self._runs.find(run.id, namespace=namespace) is not None:
            return False
        memory = self._runs.memory
        stored = memory.run(run.id, namespace=namespace)
        if stored is None:
            return False
        if not given_label(stored):
            return _contains(stored, run, self._runs.ingest_options().redactor)
        tags = dict(run.tags)
        if RECORDED_BY in stored.tags:
            tags[RECORDED_BY] = stored.tags[RECORDED_BY]
        again = replace(run, outcome=stored.outcome, tags=tags)
        memory.ingest([again], namespace=namespace, options=self._runs.ingest_options())
        return True

    def _forget_rest(self) -> None:
        """Drop the spans of runs that are stored, and the oldest of traces without a run."""
        # A thousand without a run are kept: their agents' spans may still come.
        while len(self._conversations) > len(self._runs) + 1_000:
            for namespace, id in self._conversations:
                if self._runs.find(id, namespace=namespace) is None:
                    break
            else:
                return
            self._drop(namespace, id)

    def _drop(self, namespace: str, id: str) -> None:
        spans = self._conversations.pop((namespace, id), None)
        for span in spans or ():
            self._of_trace.pop((namespace, span.trace), None)


def _part(span: TraceSpan) -> str:
    return f"{span.trace}:{span.id}"


def _contains(stored: Trajectory, run: Trajectory, redactor: Redactor | None) -> bool:
    """Whether a stored run has the turns of another in a row: an exporter sends them again after a restart."""
    # As ingest stores it: read from messages, shortened and without secrets.
    sent = shorten(replace(run, turns=read_messages([*as_messages(run.turns)])))
    if redactor is not None:
        sent = redactor(sent)
    count = len(sent.turns)
    starts = range(len(stored.turns) - count + 1)
    return any(stored.turns[start : start + count] == sent.turns for start in starts)


def _inflated(body: bytes, encoding: str, limit: int) -> bytes:
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise HTTPException(415, f"the content encoding is {encoding[:40]!r}: send gzip, deflate or none")
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)  # recognises the header of either
    try:
        content = inflater.decompress(body, limit + 1)
    except zlib.error as error:
        raise InputError(f"the body cannot be decompressed: {error}") from error
    if len(content) > limit:
        raise HTTPException(413, f"the body is larger than {limit:,} bytes when decompressed")
    if not inflater.eof or inflater.unused_data:
        raise InputError("the body cannot be decompressed: it was cut off, or something follows it")
    return content


def _decoded(body: bytes, kind: str) -> Object:
    if kind == _JSON:
        return read_object(body, DECODER.decode)
    try:
        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError as error:
        raise MissingExtraError(f"traces in protobuf need {error.name}: pip install 'hepm[serve]'") from error
    try:
        return MessageToDict(ExportTraceServiceRequest.FromString(body))
    except (DecodeError, ValueError) as error:
        raise InputError(f"the body is no OTLP request: {error}") from error


def _accepted(kind: str, rejected: list[str]) -> Response:
    """Exporters do not send again what was rejected here: it would be rejected again."""
    reason = "; ".join(rejected[:3])
    if kind == _JSON:
        partial = {"rejectedSpans": str(len(rejected)), "errorMessage": reason}
        return JSONResponse({"partialSuccess": partial} if rejected else {})
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    response = ExportTraceServiceResponse()
    if rejected:
        response.partial_success.rejected_spans = len(rejected)
        response.partial_success.error_message = reason
    return Response(response.SerializeToString(), media_type=_PROTOBUF)
