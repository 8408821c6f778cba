"""Traces of OpenTelemetry: OTLP JSON and the console exporter's layout, GenAI and OpenInference attributes.

https://github.com/open-telemetry/semantic-conventions-genai and https://github.com/Arize-ai/openinference. OTLP comes
with hex ids and integer enums (the Collector's file exporter), or base64 ids and names of enums (protobuf's own JSON).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any, Final

from hepm.ingest import fields
from hepm.ingest.formats.document import Document, Reader
from hepm.ingest.formats.message_layouts import parsed_json
from hepm.ingest.formats.spans import Spans, TraceSpan, messages_in, text_of
from hepm.ingest.records import Item, Object, ReadOptions, RecordError

_SPANS: Final = ("resourceSpans", "resource_spans")
_SCOPES: Final = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
# Values of gen_ai.operation.name; "invoke_agent" is a span around these.
_MODEL_OPERATIONS: Final = frozenset({"chat", "text_completion", "generate_content"})
_MESSAGES: Final = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions")
_SESSIONS: Final = ("gen_ai.conversation.id", "session.id")
_USERS: Final = ("user.id", "enduser.id")
_MODELS: Final = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_NO_SERVICE: Final = "unknown_service"
_VALUES: Final = {"stringValue": str, "intValue": int, "doubleValue": float, "boolValue": bool, "bytesValue": str}
_EVALUATIONS: Final = ("gen_ai.evaluation", "annotation")


def spans_of(export: Object, options: ReadOptions) -> Iterator[TraceSpan | RecordError]:
    """The spans with a meaning for agents in one OTLP request; a RecordError for each that cannot be read."""
    # protobuf's JSON writes resourceSpans, but some exporters keep the names of the .proto file.
    spans_key = _SPANS[1] if _SPANS[0] not in export and _SPANS[1] in export else _SPANS[0]
    for resource_spans in fields.list_at(export, spans_key):
        group = fields.as_object(resource_spans, "an element of 'resourceSpans'")
        resource = attributes(fields.list_at(fields.object_at(group, "resource"), "attributes"))
        scopes = _first(group, *_SCOPES)
        if scopes is None:
            continue
        for scope in fields.as_list(scopes, "'scopeSpans'"):
            for span in fields.list_at(fields.as_object(scope, "an element of 'scopeSpans'"), "spans"):
                try:
                    yield _span(fields.as_object(span, "a span"), resource, options)
                except RecordError as error:
                    yield error


def attributes(pairs: list[Any]) -> Object:
    """The attributes of a span or a resource by name."""
    by_name: Object = {}
    for pair in pairs:
        attribute = fields.as_object(pair, "an attribute")
        by_name[fields.text(attribute, "key")] = _value(attribute.get("value"))
    return by_name


def _value(value: Any) -> Any:
    """The value inside {"stringValue": …} and the like; integers are texts in OTLP."""
    if not fields.is_object(value):
        return value
    for kind, make in _VALUES.items():
        if kind in value:
            try:
                return make(value[kind])
            except (TypeError, ValueError):
                return None
    if "arrayValue" in value:
        return list(map(_value, fields.list_at(fields.object_at(value, "arrayValue"), "values")))
    if "kvlistValue" in value:
        return attributes(fields.list_at(fields.object_at(value, "kvlistValue"), "values"))
    return None


def _span(span: Object, resource: Object, options: ReadOptions) -> TraceSpan:
    events: list[tuple[str, Object]] = []
    for value in fields.list_at(span, "events"):
        event = fields.as_object(value, "an event")
        events.append((fields.text(event, "name"), attributes(fields.list_at(event, "attributes"))))
    status = fields.object_at(span, "status").get("code")
    end = _seconds(span.get("endTimeUnixNano", span.get("end_time_unix_nano")))
    error = None
    if end:
        error = status in (2, "STATUS_CODE_ERROR")
    return _read_span(
        TraceSpan(
            _hex(span.get("traceId", span.get("trace_id")), "'traceId'"),
            _hex(span.get("spanId", span.get("span_id")), "'spanId'"),
            _hex(span.get("parentSpanId", span.get("parent_span_id")) or "0" * 16, "'parentSpanId'"),
            start=_seconds(span.get("startTimeUnixNano", span.get("start_time_unix_nano"))) or 0.0,
            end=end,
            name=fields.text(span, "name"),
            error=error,
        ),
        attributes(fields.list_at(span, "attributes")),
        events,
        resource,
        options,
    )


def _console_span(span: Object, options: ReadOptions) -> TraceSpan:
    """A span as `span.to_json()` and the console exporter write it."""
    context = fields.object_at(span, "context")
    records = [fields.as_object(event, "an event") for event in fields.list_at(span, "events")]
    parent = fields.text(span, "parent_id").removeprefix("0x")
    read = TraceSpan(
        _hex(fields.text(context, "trace_id").removeprefix("0x"), "'trace_id'"),
        _hex(fields.text(context, "span_id").removeprefix("0x"), "'span_id'"),
        parent,
        start=fields.unix_time(span.get("start_time")) or 0.0,
        end=fields.unix_time(span.get("end_time")),
        name=fields.text(span, "name"),
    )
    if read.end:  # a span that did not end has no error yet
        read.error = fields.object_at(span, "status").get("status_code") == "ERROR"
    about = fields.object_at(span, "attributes")
    events = [(fields.text(record, "name"), fields.object_at(record, "attributes")) for record in records]
    resource = fields.object_at(fields.object_at(span, "resource"), "attributes")
    return _read_span(read, about, events, resource, options)


def _hex(id: Any, what: str) -> str:
    if type(id) is not str or not id:
        raise RecordError(f"a span has no {what}")
    if len(id) in (12, 24):  # base64 of 8 or 16 bytes
        try:
            return base64.b64decode(id, validate=True).hex()
        except (binascii.Error, ValueError):
            raise RecordError(f"{what} is {id[:40]!r}, neither hex nor base64") from None
    return id.lower()


def _seconds(nanoseconds: Any) -> float | None:
    try:
        # 0 stands for an absent time in protobuf.
        return int(nanoseconds) / 1e9 or None
    except (TypeError, ValueError, OverflowError):
        return None


def _read_span(
    span: TraceSpan, about: Object, events: list[tuple[str, Object]], resource: Object, options: ReadOptions
) -> TraceSpan:
    """Fill in what the attributes say."""
    for name, event in events:
        # Some instrumentations put the messages of a model into an event.
        for key in _MESSAGES:
            if key in event and key not in about:
                about[key] = event[key]
        if name.startswith("gen_ai.evaluation"):
            span.scores += _scores(event)
    span.scores += _scores(about)
    for key in (options.reward_key, options.success_key, options.label_key):
        if isinstance(about.get(key), bool | int | float | str):
            span.scores.append((key, about[key], None))
    # The first is of the GenAI conventions, the second of OpenInference.
    operation = _text(about, "gen_ai.operation.name")
    kind = str(about.get("openinference.span.kind", "")).upper()
    if operation == "execute_tool" or kind == "TOOL":
        _read_tool_span(span, about, events, has_kind=bool(kind))
    elif operation in _MODEL_OPERATIONS or kind == "LLM":
        _read_model_span(span, about)
    elif not span.parent.strip("0"):  # a root's parent is empty, or zeros
        span.given = messages_in(about.get("input.value"), "user")
        span.answer = messages_in(about.get("output.value"), "assistant")
    service = _text(resource, "service.name")
    if service.startswith(_NO_SERVICE):  # "unknown_service:python"
        service = ""
    model = ""
    if span.kind == "model":
        model = _text(about, *_MODELS)
    span.session = _text(about, *_SESSIONS)
    span.about = {
        "environment": service,
        "user": _text(about, *_USERS),
        "model": model,
        "agent": _text(about, "gen_ai.agent.name", "agent.name"),
    }
    return span


def _read_tool_span(span: TraceSpan, about: Object, events: list[tuple[str, Object]], *, has_kind: bool) -> None:
    span.kind = "tool"
    span.name = _text(about, "gen_ai.tool.name", "tool.name") or span.name.removeprefix("execute_tool ")
    span.call_id = _text(about, "gen_ai.tool.call.id", "tool_call.id", "tool.id")
    span.arguments = parsed_json(_first(about, "gen_ai.tool.call.arguments", "tool_call.function.arguments"))
    if span.arguments is None and has_kind:
        span.arguments = parsed_json(about.get("input.value"))
    span.result = text_of(_first(about, "gen_ai.tool.call.result", "output.value"))
    if about.get("error.type"):
        span.error = True
    if span.error and span.result is None:
        for name, event in events:
            if name == "exception":
                span.result = _text(event, "exception.message") or None
                break


def _read_model_span(span: TraceSpan, about: Object) -> None:
    span.kind = "model"
    system = messages_in(_message(about.get("gen_ai.system_instructions"), "system"), "system")
    given = about.get("gen_ai.input.messages") or _unflattened(about, "llm.input_messages.")
    span.given = system + messages_in(given, "user")
    answer = about.get("gen_ai.output.messages") or _unflattened(about, "llm.output_messages.")
    span.answer = messages_in(answer, "assistant")
    span.tools = _tools(about)


def _message(parts: Any, role: str) -> Any:
    """One message around a list of parts; anything else as it is."""
    parts = parsed_json(parts)
    if fields.is_list(parts):
        return [{"role": role, "parts": parts}]
    return parts


def _scores(about: Object) -> list[tuple[str, Any, Any]]:
    scores: list[tuple[str, Any, Any]] = []
    for prefix in _EVALUATIONS:
        value = _first(about, f"{prefix}.score.value", f"{prefix}.score")
        label = _first(about, f"{prefix}.score.label", f"{prefix}.label")
        if isinstance(value, int | float) or isinstance(label, str):
            scores.append((_text(about, f"{prefix}.name") or "score", value, label))
    return scores


def _unflattened(about: Object, prefix: str) -> list[Object]:
    """OpenInference's messages, whose parts are an attribute each: llm.input_messages.0.message.role."""
    messages: dict[int, Object] = {}
    calls: dict[tuple[int, int], Object] = {}
    for key, value in about.items():
        if not key.startswith(prefix):
            continue
        # "0.message.tool_calls.1.tool_call.function.name" of the first message's second call.
        number, _, rest = key[len(prefix) :].partition(".message.")
        if not number.isdecimal():
            continue
        message = messages.setdefault(int(number), {"role": "user", "content": ""})
        path = rest.split(".")
        if rest in ("role", "content", "tool_call_id"):
            message[rest] = value
        elif path[0] == "contents" and path[-1] == "text" and isinstance(value, str):
            message["content"] = "\n".join(filter(None, (str(message["content"]), value)))
        elif path[0] == "tool_calls" and len(path) > 3 and path[1].isdecimal():
            call = calls.setdefault((int(number), int(path[1])), {"id": None, "function": {"name": None}})
            if path[-1] == "id":
                call["id"] = value
            else:
                call["function"][path[-1]] = value
    for number, call_number in sorted(calls):
        messages[number].setdefault("tool_calls", []).append(calls[number, call_number])
    return [messages[number] for number in sorted(messages)]


def _tools(about: Object) -> list[Any]:
    listed = parsed_json(about.get("gen_ai.tool.definitions"))
    schemas: list[Any] = []
    if fields.is_list(listed):
        schemas = listed
    else:
        # OpenInference has an attribute for each tool: llm.tools.0.tool.json_schema.
        for key, value in about.items():
            if key.startswith("llm.tools.") and key.endswith("json_schema"):
                schemas.append(value)
    return [tool for tool in map(parsed_json, schemas) if fields.is_object(tool)]


def _first(about: Object, *keys: str) -> Any:
    """The first value among `keys` that is not null."""
    for key in keys:
        value = about.get(key)
        if value is not None:
            return value
    return None


def _text(about: Object, *keys: str) -> str:
    """The first text among `keys`; "" without one."""
    for key in keys:
        value = about.get(key)
        if isinstance(value, str) and value:
            return value
    return ""


def _recognises(document: Document) -> bool:
    keys = document.keys
    # The second is a span as the console exporter prints it.
    return any(key in keys for key in _SPANS) or {"context", "start_time", "attributes", "parent_id"} <= keys


def _read(document: Document, options: ReadOptions) -> Iterator[Item]:
    # All are collected first: the spans of a trace come in any order, over several lines.
    spans = Spans()
    for number, value in document.records():
        try:
            if isinstance(value, RecordError):
                raise value
            record = fields.as_object(value, "the record")
            if "context" in record:
                spans.add(_console_span(record, options))
                continue
            for span in spans_of(record, options):
                if isinstance(span, RecordError):
                    yield document.rejected(number, str(span))
                else:
                    spans.add(span)
        except RecordError as error:
            yield document.rejected(number, str(error))
    yield from spans.runs(document.name, options)


READER: Final = Reader("otlp", _recognises, _read)
