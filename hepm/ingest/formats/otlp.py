"""Spans of OpenTelemetry: OTLP requests with spans or log records, and spans alone, as exporters print or store them.

OTLP comes with hex ids and integer enums (the Collector's file exporter), or base64 ids and names of enums (protobuf's
own JSON). Spans alone are of the console exporter, of Phoenix and other stores. What their attributes say is
in `hepm.ingest.formats.conventions`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any, Final

from hepm.ingest.fields import (
    Objects,
    as_list,
    as_object,
    is_list,
    is_object,
    objects_at,
    parsed_json,
    text_at,
    value_at,
)
from hepm.ingest.formats.conventions import (
    SpanLayout,
    attributes_of,
    event_messages,
    otlp_value,
    time_at,
)
from hepm.ingest.formats.document import Document
from hepm.ingest.formats.spans import Spans, TraceSpan, span_reader
from hepm.ingest.records import ReadOptions, RecordError
from hepm.types import Object

_GROUPS: Final = "resourceSpans|resource_spans|resourceLogs|resource_logs"
_WRAPPERS: Final = "data|spans"
_LAYOUT: Final = SpanLayout(
    trace="traceId|trace_id|context.trace_id|context.traceId",
    id="spanId|span_id|context.span_id|context.spanId|id",
    parent="parentSpanId|parent_span_id|parent_id|parentId|parentSpanContext.spanId",
    name="name|span_name",
    start="startTimeUnixNano|start_time_unix_nano|start_time|startTime|timestamp",
    end="endTimeUnixNano|end_time_unix_nano|end_time|endTime",
    status="status.code|status.status_code|status_code|statusCode",
    failed=("2", "STATUS_CODE_ERROR", "ERROR", "STATUSCODE.ERROR"),
    more="attributes|span_attributes",
)


def spans_of(export: Object, options: ReadOptions) -> Iterator[TraceSpan | RecordError]:
    """The spans with a meaning for agents in one OTLP request, and its log records of messages as spans of the kind
    "event"; a RecordError for each that cannot be read."""
    for resource, record in _records(export):
        try:
            span = _span(as_object(record, "a span"), attributes_of(resource), options)
            if span is not None:
                yield span
        except RecordError as error:
            yield error


def _records(export: Object) -> Iterator[tuple[Any, Any]]:
    """Each span or log record of a request, with the attributes of its resource; or the one span that it is."""
    if value_at(export, _GROUPS) is not None:
        for group in _objects(export, _GROUPS):
            for scope in _objects(group, "scopeSpans|scope_spans|instrumentationLibrarySpans|scopeLogs|scope_logs"):
                for record in as_list(value_at(scope, "spans|logRecords|log_records") or [], "'spans'"):
                    yield value_at(group, "resource.attributes"), record
    elif is_list(value_at(export, _WRAPPERS)):
        for inner in _objects(export, _WRAPPERS):
            yield from _records(inner)
    elif export:
        yield value_at(export, "resource.attributes|resource"), export


def _objects(owner: Object, paths: str) -> Objects:
    """The objects in the list at the first of some paths; [] if there is none."""
    what = repr(paths.partition("|")[0])
    return [as_object(element, f"an element of {what}") for element in as_list(value_at(owner, paths) or [], what)]


def _span(record: Object, resource: Object, options: ReadOptions) -> TraceSpan | None:
    """A span; None of a log record that is none of messages."""
    ids = {"traceId": _LAYOUT.trace, "spanId": _LAYOUT.id, "parentSpanId": _LAYOUT.parent}
    record = {**record, **{key: _hex(value_at(record, paths), repr(key)) for key, paths in ids.items()}}
    for key in ("traceId", "spanId"):
        if not record[key]:
            raise RecordError(f"a span has no {key!r}")
    if "body" in record:
        return _event(record, options)
    events = [
        (text_at(event, "name"), attributes_of(event.get("attributes")))
        for event in objects_at(record, "events", "an event")
    ]
    return _LAYOUT.read(record, options, events, resource)


def _event(record: Object, options: ReadOptions) -> TraceSpan | None:
    """A record of a log, as far as it holds messages of the span that it was written in."""
    about = attributes_of(value_at(record, _LAYOUT.more))
    name = str(record.get("eventName") or record.get("event_name") or about.get("event.name") or "")
    if not name.startswith("gen_ai."):
        return None
    body = parsed_json(otlp_value(record["body"]) or record["body"])
    if not is_object(body):
        body = {"content": body}
    times = "timeUnixNano|observedTimeUnixNano|time_unix_nano|timestamp|observed_timestamp"
    span = TraceSpan(record["traceId"], record["spanId"], kind="event", start=time_at(record, times) or 0.0)
    span.given, span.answer = event_messages(name, {**about, **body})
    return span


def _hex(id: Any, what: str) -> str:
    if not isinstance(id, str):
        return ""
    if len(id) in (12, 24):  # base64 of 8 or 16 bytes
        try:
            return base64.b64decode(id, validate=True).hex()
        except (binascii.Error, ValueError):
            raise RecordError(f"{what} is {id[:40]!r}, neither hex nor base64") from None
    return id.lower().removeprefix("0x")


def _recognises(document: Document) -> bool:
    record = document.first
    for key in ("data", "spans"):
        listed = value_at(record, key)
        if is_list(listed):
            record = next(iter(listed), None)
    is_alone = all(value_at(record, path) is not None for path in (_LAYOUT.trace, _LAYOUT.id, _LAYOUT.more))
    return bool(document.keys & set(_GROUPS.split("|"))) or is_alone


def _add(spans: Spans, record: Object) -> None:
    refused: set[str] = set()
    for span in spans_of(record, spans.options):
        if isinstance(span, RecordError):
            refused.add(str(span))
        else:
            spans.add(span)
    if refused:
        raise RecordError("; ".join(sorted(refused)[:3]))


READER: Final = span_reader("otlp", _recognises, _add)
