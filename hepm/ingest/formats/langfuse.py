"""Exports of Langfuse: observations, each with the id of what it is inside of, and scores.

Fields: https://langfuse.com/docs/api-and-data-platform.
"""

from __future__ import annotations

import re
from typing import Final

from hepm.ingest.fields import is_object, list_at, objects_at, text_at
from hepm.ingest.formats.conventions import SpanLayout
from hepm.ingest.formats.document import Document
from hepm.ingest.formats.spans import Spans, span_reader
from hepm.ingest.records import RecordError
from hepm.types import Object

_OBSERVATION: Final = frozenset({"id", "trace_id", "type", "start_time"})
_SCORE: Final = frozenset({"trace_id", "name", "value"})
_LAYOUT: Final = SpanLayout(
    parent="parent_observation_id",
    session="session_id",
    kind="type",
    # A span may be of anything: its attributes say what.
    kinds={"GENERATION": "LLM", "SPAN": "", "EVENT": ""},
    attributes={
        "user.id": "user_id",
        "llm.model_name": "provided_model_name|model",
        "exception.message": "status_message",
        "input.value": "input",
        "output.value": "output",
    },
    more="metadata.attributes",
    service="environment",
)


def _snake(record: Object) -> Object:
    """The public API writes parentObservationId, the export to a bucket parent_observation_id."""
    capital = r"(?<=[a-z0-9])[A-Z]"
    return {re.sub(capital, lambda match: f"_{match[0].lower()}", key): value for key, value in record.items()}


def _add_langfuse(spans: Spans, record: Object) -> None:
    """A trace with its observations and scores, an observation, or a score."""
    record = _snake(record)
    if is_object(record.get("trace")):  # as its page downloads it
        record = {**_snake(record["trace"]), **record}
    # A trace as the API returns it; exports to a bucket have an observation a line.
    if "observations" in record:
        trace = text_at(record, "id")
        whole: Object = {**record, "type": "TRACE", "trace_id": trace, "start_time": record.get("timestamp")}
        observations = [whole, *map(_snake, objects_at(record, "observations", "an observation"))]
        # Observations inherit them from their trace.
        about = {key: record.get(key) for key in ("session_id", "user_id", "environment")}
        # All are read before the first is taken: a broken one rejects the whole trace.
        for span in [_LAYOUT.read({**about, **observation}, spans.options) for observation in observations]:
            spans.add(span)
        for score in filter(is_object, list_at(record, "scores")):
            _add_langfuse(spans, {**score, "trace_id": trace})
    elif record.keys() >= _OBSERVATION:
        spans.add(_LAYOUT.read(record, spans.options))
    elif record.keys() >= _SCORE:
        label = text_at(record, "string_value")
        value = record["value"]
        # Langfuse stores true as 1.
        if record.get("data_type") == "BOOLEAN" and value in (0, 1):
            value = bool(value)
        spans.add_score(text_at(record, "trace_id"), (text_at(record, "name"), value, label))
    else:
        raise RecordError("it is neither a trace, an observation nor a score of Langfuse")


def _is_langfuse(document: Document) -> bool:
    # Of either spelling: parentObservationId or parent_observation_id.
    keys = set(_snake(dict.fromkeys(document.keys)))
    is_trace = "observations" in keys and bool(keys & {"id", "trace"})
    return is_trace or keys >= _OBSERVATION or ({"observation_id"} | _SCORE) <= keys


READER: Final = span_reader("langfuse", _is_langfuse, _add_langfuse)
