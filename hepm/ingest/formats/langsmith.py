"""Exports of LangSmith: runs, each with the id of its parent, and feedback.

Fields: https://docs.langchain.com/langsmith/run-data-format.
"""

from __future__ import annotations

from typing import Any, Final

from hepm.ingest.fields import is_object, object_at, objects_at, parsed_json, text_at, value_at
from hepm.ingest.formats.conventions import SpanLayout
from hepm.ingest.formats.spans import Spans, span_reader
from hepm.types import Object

_LAYOUT: Final = SpanLayout(
    trace="trace_id|id",
    parent="parent_run_id",
    # Not the run's own session_id, which is that of its project.
    session="extra.metadata.thread_id|extra.metadata.session_id|extra.metadata.conversation_id",
    kind="run_type",
    kinds={"llm": "LLM", "chat_model": "LLM"},
    attributes={
        "user.id": "extra.metadata.user_id",
        "llm.model_name": "extra.metadata.ls_model_name",
        "gen_ai.tool.definitions": "extra.invocation_params.tools",
        # The model's id of the call, by which its result finds it.
        "tool_call.id": "extra.tool_call_id",
        "exception.message": "error",
        "input.value": "inputs",
        "output.value": "outputs",
    },
    service="session_name",
)


def _add_langsmith(spans: Spans, record: Object) -> None:
    """A run, with its child runs if it has them."""
    inputs = parsed_json(record.get("inputs"))
    outputs = parsed_json(record.get("outputs"))
    if record.get("run_type") == "tool":
        inputs, outputs = _only_value(inputs), _only_value(outputs or None)
    span = _LAYOUT.read({**record, "inputs": inputs, "outputs": outputs}, spans.options)
    if not span.parent:
        span.about["agent"] = span.name
    spans.add(span)
    # Evaluations: an export has their means by name ("feedback_stats"), or each of them ("feedback").
    for name, stats in object_at(record, "feedback_stats").items():
        if value_at(stats, "avg") is not None:
            spans.add_score(span.trace, (name, stats["avg"], None))
    for feedback in objects_at(record, "feedback", "a feedback"):
        spans.add_score(span.trace, (text_at(feedback, "key"), feedback.get("score"), feedback.get("value")))
    # A child run need not name its trace.
    for child in objects_at(record, "child_runs", "a child run"):
        _add_langsmith(spans, {"trace_id": span.trace, **child})


def _only_value(value: Any) -> Any:
    """What is under the one key that tracers put around a value that is no object: {"output": "sunny"}."""
    if is_object(value) and len(value) == 1 and value.keys() <= {"input", "output", "result"}:
        return parsed_json(next(iter(value.values())))
    return value


READER: Final = span_reader("langsmith", lambda document: {"run_type", "inputs"} <= document.keys, _add_langsmith)
