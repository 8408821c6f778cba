"""Exports of Langfuse and LangSmith: observations and runs, each with the id of what it is inside of.

Fields: https://langfuse.com/docs/api-and-data-platform and https://docs.langchain.com/langsmith/run-data-format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from hepm.ingest import fields
from hepm.ingest.formats.document import Document, Reader
from hepm.ingest.formats.message_layouts import is_langchain, langchain_content, parsed_json
from hepm.ingest.formats.spans import Spans, TraceSpan, messages_in, text_of
from hepm.ingest.records import Item, Object, ReadOptions, RecordError

_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_OBSERVATION: Final = frozenset({"id", "trace_id", "type", "start_time"})
_SCORE: Final = frozenset({"trace_id", "name", "value"})
# Keys of LangSmith's metadata that group traces into threads.
_SESSIONS: Final = ("thread_id", "session_id", "conversation_id")
_ONE_VALUE: Final = ("input", "output", "result")

Add = Callable[[Object, Spans], None]


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
            _read_tool_message(span, answer)
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


def _read_tool_message(span: TraceSpan, message: Object) -> None:
    """What LangChain's ToolMessage says of a call."""
    inner = langchain_content(message)
    span.call_id = fields.text(inner, "tool_call_id") or span.call_id
    span.result = fields.plain_text(inner.get("content"))
    if inner.get("status") == "error":
        span.error = True


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
        span.call_id = fields.text(extra, "tool_call_id")
        # {} is no output, and as a text it would look like one.
        output = _only_value(outputs or None)
        span.result = text_of(output)
        span.error = bool(record.get("error"))
        if fields.is_object(output) and is_langchain(output):
            _read_tool_message(span, output)
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
    for child in record.get("child_runs") or ():
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


def _reader(name: str, recognises: Callable[[Document], bool], add: Add) -> Reader:
    def read(document: Document, options: ReadOptions) -> Iterator[Item]:
        spans = Spans()
        for number, value in document.records():
            try:
                if isinstance(value, RecordError):
                    raise value
                add(fields.as_object(value, "the record"), spans)
            except (RecordError, RecursionError) as error:
                yield document.rejected(number, str(error) or "it is nested too deeply")
        yield from spans.runs(document.name, options)

    return Reader(name, recognises, read)


def _is_langfuse(document: Document) -> bool:
    # Of either spelling: parentObservationId or parent_observation_id.
    keys = set(_snake(dict.fromkeys(document.keys)))
    return keys >= _OBSERVATION or {"id", "observations"} <= keys or ({"observation_id"} | _SCORE) <= keys


LANGFUSE: Final = _reader("langfuse", _is_langfuse, _add_langfuse)
LANGSMITH: Final = _reader("langsmith", lambda it: {"run_type", "inputs"} <= it.keys, _add_langsmith)
