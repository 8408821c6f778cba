"""Exports of LangSmith: runs, each with the id of its parent, and feedback.

Fields: https://docs.langchain.com/langsmith/run-data-format.
"""

from __future__ import annotations

from typing import Any, Final

from hepm.ingest import fields
from hepm.ingest.formats.message_layouts import is_langchain, parsed_json
from hepm.ingest.formats.spans import Spans, TraceSpan, messages_in, read_tool_message, span_reader, text_of
from hepm.ingest.records import Object

# Keys of LangSmith's metadata that group traces into threads.
_SESSIONS: Final = ("thread_id", "session_id", "conversation_id")
_ONE_VALUE: Final = ("input", "output", "result")


def _add_langsmith(record: Object, spans: Spans) -> None:
    """A run, with its child runs if it has them."""
    kind = fields.text(record, "run_type")
    inputs = parsed_json(record.get("inputs"))
    outputs = parsed_json(record.get("outputs"))
    extra = fields.object_at(record, "extra")
    metadata = fields.object_at(extra, "metadata")
    trace = fields.text(record, "trace_id", "id")
    span = TraceSpan(
        trace,
        fields.text(record, "id"),
        fields.text(record, "parent_run_id"),
        _conversation_of(metadata),
        fields.unix_time(record.get("start_time")) or 0.0,
        fields.unix_time(record.get("end_time")),
        name=fields.text(record, "name"),
    )
    model = ""
    if kind == "tool":
        span.kind = "tool"
        span.arguments = _only_value(inputs)
        # The model's id of the call, by which its result finds it.
        span.call_id = fields.text(extra, "tool_call_id")
        # {} is no output, and as a text it would look like one.
        output = _only_value(outputs or None)
        span.result = text_of(output)
        span.error = bool(record.get("error"))
        if fields.is_object(output) and is_langchain(output):
            read_tool_message(span, output)
        span.result = span.result or fields.text(record, "error") or None
    elif kind in ("llm", "chat_model"):
        span.kind = "model"
        model = fields.text(metadata, "ls_model_name")
        span.given = messages_in(inputs, "user")
        span.answer = messages_in(outputs, "assistant")
        parameters = fields.object_at(extra, "invocation_params")
        span.tools = fields.list_at(parameters, "tools")
    elif not span.parent:
        span.given = messages_in(inputs, "user")
        span.answer = messages_in(outputs, "assistant")
    project = record.get("session_name")
    if not isinstance(project, str) or project == "default":
        project = ""
    span.about = {
        "environment": project,
        "user": fields.text(metadata, "user_id"),
        "model": model,
        "agent": "" if span.parent else span.name,
    }
    spans.add(span)
    _add_feedback(record, trace, spans)
    # A child run need not name its trace.
    for child in fields.list_at(record, "child_runs"):
        _add_langsmith({"trace_id": trace, **fields.as_object(child, "a child run")}, spans)


def _conversation_of(metadata: Object) -> str:
    # Not the run's own session_id, which is that of its project.
    for key in _SESSIONS:
        value = metadata.get(key)
        if isinstance(value, str) and value:
            return value
    return ""


def _add_feedback(record: Object, trace: str, spans: Spans) -> None:
    """Take evaluations: an export has their means by name ("feedback_stats"), or each of them ("feedback")."""
    for name, stats in fields.object_at(record, "feedback_stats").items():
        if fields.is_object(stats) and stats.get("avg") is not None:
            spans.add_score(trace, (name, stats["avg"], None))
    for value in fields.list_at(record, "feedback"):
        feedback = fields.as_object(value, "a feedback")
        spans.add_score(trace, (fields.text(feedback, "key"), feedback.get("score"), feedback.get("value")))


def _only_value(value: Any) -> Any:
    """What is under the one key that tracers put around a value that is no object: {"output": "sunny"}."""
    if fields.is_object(value) and len(value) == 1:
        [(key, inner)] = value.items()
        if key in _ONE_VALUE:
            return parsed_json(inner)
    return value


READER: Final = span_reader("langsmith", lambda document: {"run_type", "inputs"} <= document.keys, _add_langsmith)
