"""Exports of Langfuse: observations, each with the id of what it is inside of, and scores.

Fields: https://langfuse.com/docs/api-and-data-platform.
"""

from __future__ import annotations

import re
from typing import Final

from hepm.ingest import fields
from hepm.ingest.formats.document import Document
from hepm.ingest.formats.message_layouts import is_langchain, parsed_json
from hepm.ingest.formats.spans import Spans, TraceSpan, messages_in, read_tool_message, span_reader, text_of
from hepm.ingest.records import Object, RecordError

_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_OBSERVATION: Final = frozenset({"id", "trace_id", "type", "start_time"})
_SCORE: Final = frozenset({"trace_id", "name", "value"})


def _snake(record: Object) -> Object:
    """The public API writes parentObservationId, the export to a bucket parent_observation_id."""
    return {_CAPITAL.sub(lambda match: f"_{match[1].lower()}", key): value for key, value in record.items()}


def _add_langfuse(record: Object, spans: Spans) -> None:
    """A trace with its observations and scores, an observation, or a score."""
    record = _snake(record)
    # A trace as the API returns it; exports to a bucket have an observation a line.
    if "observations" in record:
        trace = fields.text(record, "id")
        observations: list[Object] = [
            {**record, "type": "TRACE", "trace_id": trace, "start_time": record.get("timestamp")}
        ]
        # All are checked before the first is taken: a broken one rejects the whole trace.
        for value in fields.list_at(record, "observations"):
            observations.append(_snake(fields.as_object(value, "an observation")))
        # Observations inherit them from their trace.
        about = {key: record.get(key) for key in ("session_id", "user_id", "environment")}
        for observation in observations:
            spans.add(_observation({**about, **observation}))
        for score in fields.list_at(record, "scores"):
            if fields.is_object(score):
                _add_langfuse({**score, "trace_id": trace}, spans)
    elif record.keys() >= _OBSERVATION:
        spans.add(_observation(record))
    elif record.keys() >= _SCORE:
        label = fields.text(record, "string_value")
        value = record["value"]
        # Langfuse stores true as 1.
        if record.get("data_type") == "BOOLEAN" and value in (0, 1):
            value = bool(value)
        spans.add_score(fields.text(record, "trace_id"), (fields.text(record, "name"), value, label))
    else:
        raise RecordError("it is neither a trace, an observation nor a score of Langfuse")


def _observation(record: Object) -> TraceSpan:
    kind = fields.text(record, "type").upper()
    level = fields.text(record, "level")
    span = TraceSpan(
        fields.text(record, "trace_id"),
        fields.text(record, "id"),
        fields.text(record, "parent_observation_id"),
        fields.text(record, "session_id"),
        fields.unix_time(record.get("start_time")) or 0.0,
        fields.unix_time(record.get("end_time")),
        name=fields.text(record, "name"),
    )
    given = parsed_json(record.get("input"))
    answer = parsed_json(record.get("output"))
    model = ""
    if kind == "TOOL":
        span.kind = "tool"
        span.arguments = given
        span.error = level == "ERROR"
        span.result = text_of(answer) or fields.text(record, "status_message") or None
        if fields.is_object(answer) and is_langchain(answer):
            read_tool_message(span, answer)
    elif kind == "GENERATION":
        span.kind = "model"
        model = fields.text(record, "provided_model_name", "model")
        span.given = messages_in(given, "user")
        span.answer = messages_in(answer, "assistant")
        if fields.is_object(given):
            span.tools = fields.list_at(given, "tools")
    elif kind == "TRACE" or not span.parent:
        span.given = messages_in(given, "user")
        span.answer = messages_in(answer, "assistant")
    environment = fields.text(record, "environment")
    if environment == "default":  # what Langfuse writes where none is set
        environment = ""
    span.about = {
        "environment": environment,
        "user": fields.text(record, "user_id"),
        "model": model,
        "agent": span.name if kind == "AGENT" else "",
    }
    return span


def _is_langfuse(document: Document) -> bool:
    # Of either spelling: parentObservationId or parent_observation_id.
    keys = set(_snake(dict.fromkeys(document.keys)))
    return keys >= _OBSERVATION or {"id", "observations"} <= keys or ({"observation_id"} | _SCORE) <= keys


READER: Final = span_reader("langfuse", _is_langfuse, _add_langfuse)
