"""Traces of the OpenAI Agents SDK, as its exporter sends them and `Span.export()` gives them: one a line, or in lists.

https://openai.github.io/openai-agents-python/tracing/.
"""

from __future__ import annotations

from typing import Final

from hepm.ingest.fields import is_list, objects_at, text_at, value_at
from hepm.ingest.formats.conventions import SpanLayout
from hepm.ingest.formats.document import Document
from hepm.ingest.formats.spans import Spans, TraceSpan, first_inside, span_reader
from hepm.ingest.records import RecordError
from hepm.types import Object

_OBJECTS: Final = ("trace", "trace.span")
_LAYOUT: Final = SpanLayout(
    parent="parent_id",
    start="started_at",
    end="ended_at",
    name="span_data.name",
    kind="span_data.type",
    kinds={"function": "TOOL", "generation": "LLM", "response": "LLM"},
    attributes={
        "llm.model_name": "span_data.model|span_data.response.model",
        "gen_ai.tool.definitions": "span_data.response.tools",
        "exception.message": "error.data.error|error.message",
        "input.value": "span_data.input",
        "output.value": "span_data.output|span_data.response",
    },
)


def _add(spans: Spans, record: Object) -> None:
    if record.get("object") == "trace.span":
        spans.add(_LAYOUT.read(record, spans.options))
    elif record.get("object") == "trace":
        trace = text_at(record, "id")
        about = {"agent": text_at(record, "workflow_name")}
        spans.add(TraceSpan(trace, trace, session=text_at(record, "group_id"), about=about))
    elif is_list(record.get("data")):
        for inner in objects_at(record, "data", "an element of 'data'"):
            _add(spans, inner)
    else:
        raise RecordError("it is neither a trace nor a span of the Agents SDK")


def _recognises(document: Document) -> bool:
    return value_at(first_inside(document.first, "data"), "object") in _OBJECTS


READER: Final = span_reader("openai-agents", _recognises, _add)
