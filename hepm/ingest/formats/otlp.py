"""Spans of OpenTelemetry: OTLP requests with spans or log records, and spans alone, as exporters print or store them.

OTLP comes with hex ids and integer enums (the Collector's file exporter), or base64 ids and names of enums (protobuf's
own JSON). Spans alone are of the console exporter, of Phoenix, Jaeger and other stores. What their attributes say is
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
    list_at,
    object_at,
    objects_at,
    parsed_json,
    text_at,
    unix_time,
    value_at,
)
from hepm.ingest.formats.conventions import event_messages, read_span
from hepm.ingest.formats.document import Document
from hepm.ingest.formats.spans import Spans, TraceSpan, first_inside, span_reader
from hepm.ingest.records import ReadOptions, RecordError
from hepm.types import Object

_GROUPS: Final = "resourceSpans|resource_spans|resourceLogs|resource_logs"
_SCOPES: Final = "scopeSpans|scope_spans|instrumentationLibrarySpans|scopeLogs|scope_logs"
_RECORDS: Final = "spans|logRecords|log_records"
_VALUES: Final = {
    "stringValue": str, "intValue": int, "doubleValue": float, "boolValue": bool, "bytesValue": str,
    "string_value": str, "int_value": int, "double_value": float, "bool_value": bool,
}  # fmt: skip

_TRACE: Final = "traceId|trace_id|traceID|context.trace_id|context.traceId"
_ID: Final = "spanId|span_id|spanID|context.span_id|context.spanId|id"
_PARENT: Final = "parentSpanId|parent_span_id|parent_id|parentId|parentSpanContext.spanId"
_NAME: Final = "name|operationName|span_name"
_START: Final = ("startTimeUnixNano|start_time_unix_nano", "start_time|startTime|timestamp")
_END: Final = ("endTimeUnixNano|end_time_unix_nano", "end_time|endTime")
_LOGGED: Final = ("timeUnixNano|observedTimeUnixNano|time_unix_nano", "timestamp|observed_timestamp")
"""Where times are: nanoseconds, and any others."""
_ATTRIBUTES: Final = "attributes|tags|span_attributes"
_STATUS: Final = "status.code|status.status_code|status_code|statusCode"
_FAILED: Final = frozenset({"2", "STATUS_CODE_ERROR", "ERROR", "STATUSCODE.ERROR"})
_WRAPPERS: Final = "data|spans"
_LONGEST_NAME: Final = 200  # characters of an attribute's name that is put together


def spans_of(export: Object, options: ReadOptions) -> Iterator[TraceSpan | RecordError]:
    """The spans with a meaning for agents in one OTLP request, and its log records of messages as spans of the kind
    "event"; a RecordError for each that cannot be read."""
    for resource, record in _records(export):
        try:
            span = _span(as_object(record, "a span"), attributes(resource), options)
            if span is not None:
                yield span
        except RecordError as error:
            yield error


def _records(export: Object) -> Iterator[tuple[Any, Any]]:
    """Each span or log record of a request, with the attributes of its resource; or the one span that it is."""
    if value_at(export, _GROUPS) is not None:
        for group in _objects(export, _GROUPS):
            for scope in _objects(group, _SCOPES):
                for record in _listed(scope, _RECORDS, "'spans'"):
                    yield value_at(group, "resource.attributes"), record
    elif is_list(value_at(export, _WRAPPERS)):
        for inner in _objects(export, _WRAPPERS):
            yield from _records(inner)
    elif export:
        yield value_at(export, "resource.attributes|resource"), export


def _objects(owner: Object, paths: str) -> Objects:
    """The objects in the list at the first of some paths; [] if there is none."""
    what = repr(paths.partition("|")[0])
    return [as_object(element, f"an element of {what}") for element in _listed(owner, paths, what)]


def _listed(owner: Object, paths: str, what: str) -> list[Any]:
    value = value_at(owner, paths)
    return [] if value is None else as_list(value, what)


def attributes(given: Any) -> Object:
    """The attributes of a span or a resource by name, of an object or a list of pairs."""
    given = parsed_json(given)
    by_name: Object = {}
    if is_object(given):
        _add_nested(by_name, "", given)
        return by_name
    for pair in as_list(given or [], "'attributes'"):
        attribute = as_object(pair, "an attribute")
        by_name[text_at(attribute, "key")] = _value(attribute.get("value"))
    return by_name


def _add_nested(by_name: Object, prefix: str, given: Object) -> None:
    """Take attributes, also by the whole names that some stores take apart: {"llm": {"model_name": …}}."""
    for key, value in given.items():
        by_name[prefix + key] = value
        if is_object(value) and len(prefix) + len(key) < _LONGEST_NAME:
            _add_nested(by_name, f"{prefix}{key}.", value)


def _value(value: Any) -> Any:
    """The value inside {"stringValue": …} and the like; integers are texts in OTLP."""
    if not is_object(value):
        return value
    for kind, make in _VALUES.items():
        if kind in value:
            try:
                return make(value[kind])
            except (TypeError, ValueError):
                return None
    for kind in ("arrayValue", "array_value"):
        if kind in value:
            return list(map(_value, list_at(object_at(value, kind), "values")))
    for kind in ("kvlistValue", "kvlist_value"):
        if kind in value:
            return attributes(list_at(object_at(value, kind), "values"))
    return None


def _span(record: Object, resource: Object, options: ReadOptions) -> TraceSpan | None:
    """A span; None of a log record that is none of messages."""
    about = attributes(value_at(record, _ATTRIBUTES))
    span = TraceSpan(_hex(value_at(record, _TRACE), "'traceId'"), _hex(value_at(record, _ID), "'spanId'"))
    if "body" in record:
        return _event(span, record, about, options)
    parent = value_at(record, _PARENT)
    for reference in objects_at(record, "references", "a reference"):  # Jaeger's
        parent = parent or reference.get("spanID")
    if parent:
        span.parent = _hex(parent, "'parentSpanId'")
    span.start = _time(record, _START) or 0.0
    span.end = _time(record, _END)
    duration = record.get("duration")
    if span.end is None and isinstance(duration, int | float):  # microseconds
        span.end = span.start + duration / 1e6
    span.name = text_at(record, *_NAME.split("|"))
    if span.end:  # a span that did not end has no error yet
        status = value_at(record, _STATUS) or about.get("otel.status_code")
        span.error = str(status).upper() in _FAILED or about.get("error") is True
    events: list[tuple[str, Object]] = []
    for event in objects_at(record, "events", "an event"):
        events.append((text_at(event, "name"), attributes(event.get("attributes"))))
    return read_span(span, about, events, resource, options)


def _event(span: TraceSpan, record: Object, about: Object, options: ReadOptions) -> TraceSpan | None:
    """A record of a log, as far as it holds messages of the span that it was written in."""
    name = str(record.get("eventName") or record.get("event_name") or about.get("event.name") or "")
    if not name.startswith("gen_ai."):
        return None
    body = parsed_json(_value(record["body"]) or record["body"])
    if not is_object(body):
        body = {"content": body}
    span.kind = "event"
    span.start = _time(record, _LOGGED) or 0.0
    for message in event_messages(name, {**about, **body}, options.unread):
        (span.answer if message.get("choice") else span.given).append(message)
    return span


def _hex(id: Any, what: str) -> str:
    if not isinstance(id, str) or not id:
        raise RecordError(f"a span has no {what}")
    if len(id) in (12, 24):  # base64 of 8 or 16 bytes
        try:
            return base64.b64decode(id, validate=True).hex()
        except (binascii.Error, ValueError):
            raise RecordError(f"{what} is {id[:40]!r}, neither hex nor base64") from None
    return id.lower().removeprefix("0x")


def _time(record: Object, paths: tuple[str, str]) -> float | None:
    """Unix seconds of a time in any unit, as a text too; 0 stands for an absent one in protobuf."""
    try:
        return int(value_at(record, paths[0])) / 1e9 or None
    except (TypeError, ValueError, OverflowError):
        return unix_time(value_at(record, paths[1]))


def _recognises(document: Document) -> bool:
    record = first_inside(document.first, "data", "spans")
    is_alone = value_at(record, _TRACE) and value_at(record, _ID) and value_at(record, _ATTRIBUTES) is not None
    # Of objects over several lines, as the console exporter prints them, only the keys are known.
    is_printed = {"context", "start_time", "attributes", "parent_id"} <= document.keys
    return bool(document.keys & set(_GROUPS.split("|")) or is_printed or is_alone)


def _add(spans: Spans, record: Object) -> Iterator[str]:
    for span in spans_of(record, spans.options):
        if isinstance(span, RecordError):
            yield str(span)
        else:
            spans.add(span)


READER: Final = span_reader("otlp", _recognises, _add)
