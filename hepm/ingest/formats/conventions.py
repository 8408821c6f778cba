"""What the attributes of a span say, whichever convention wrote them: one table, and the reader over it.

OpenTelemetry's GenAI conventions of all versions (https://github.com/open-telemetry/semantic-conventions-genai),
OpenInference (https://github.com/Arize-ai/openinference), OpenLLMetry (https://github.com/traceloop/openllmetry), the
AI SDK of Vercel, pydantic-ai, and Google's ADK. Langfuse, LangSmith and the OpenAI Agents SDK are given the names of
OpenInference by their readers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from hepm.ingest.fields import (
    Objects,
    as_list,
    as_object,
    as_text,
    is_list,
    is_object,
    list_at,
    parsed_json,
    plain_text,
    text_at,
    unix_time,
    value_at,
)
from hepm.ingest.formats.message_layouts import chat_messages, is_langchain, langchain_content
from hepm.ingest.formats.parts import counting_unread, result_text, unread_parts
from hepm.ingest.formats.spans import Score, TraceSpan
from hepm.ingest.records import ReadOptions, RecordError
from hepm.types import Object

Kind: TypeAlias = Literal["model", "tool", "other"]

_KIND_NAMES: Final = (
    "openinference.span.kind", "gen_ai.operation.name", "ai.operationId", "traceloop.span.kind", "llm.request.type",
)  # fmt: skip
"""Attributes that say what a span is of, surest first; a value that is in neither of the next two is of neither."""
_TOOL_KINDS: Final = ("TOOL", "EXECUTE_TOOL", "AI.TOOLCALL")
_MODEL_KINDS: Final = (
    "LLM", "CHAT", "COMPLETION", "TEXT_COMPLETION", "GENERATE_CONTENT", "AI.GENERATETEXT.DOGENERATE",
    "AI.STREAMTEXT.DOSTREAM", "AI.GENERATEOBJECT.DOGENERATE", "AI.STREAMOBJECT.DOSTREAM",
)  # fmt: skip

# Names of attributes, of which the first one counts that is there. Those that end in a dot begin the names of parts, an
# attribute each.
_TOOL_NAMES: Final = "gen_ai.tool.name|tool.name|ai.toolCall.name"
_ARGUMENTS: Final = (
    "gen_ai.tool.call.arguments|tool_call.function.arguments|tool.parameters|ai.toolCall.args|ai.toolCall.input|"
    "tool_arguments|gcp.vertex.agent.tool_call_args|traceloop.entity.input|input.value"
)
_RESULTS: Final = (
    "gen_ai.tool.call.result|ai.toolCall.result|ai.toolCall.output|tool_response|gcp.vertex.agent.tool_response|"
    "traceloop.entity.output|output.value"
)
_CALL_IDS: Final = "gen_ai.tool.call.id|tool_call.id|ai.toolCall.id|tool.id"
_GIVEN_TO_MODELS: Final = "gen_ai.input.messages|llm.input_messages.|gen_ai.prompt.|gen_ai.prompt|ai.prompt.messages"
_GIVEN: Final = (
    f"{_GIVEN_TO_MODELS}|ai.prompt|events|all_messages_events|pydantic_ai.all_messages|gcp.vertex.agent.llm_request|"
    "traceloop.entity.input|input.value"
)
_ANSWERS_OF_MODELS: Final = "gen_ai.output.messages|llm.output_messages.|gen_ai.completion.|gen_ai.completion"
_ANSWERS: Final = (
    f"{_ANSWERS_OF_MODELS}|ai.response.|ai.result.|gcp.vertex.agent.llm_response|final_result|traceloop.entity.output|"
    "output.value"
)
"""What a model, or an agent, read and wrote."""
_TOOLS: Final = "gen_ai.tool.definitions|llm.tools.|llm.request.functions.|ai.prompt.tools"
_SESSIONS: Final = (
    "gen_ai.conversation.id|session.id|ai.telemetry.metadata.sessionId|gcp.vertex.agent.session_id|"
    "traceloop.association.properties.session_id|traceloop.association.properties.thread_id|langfuse.session.id"
)
_MODELS: Final = "gen_ai.response.model|gen_ai.request.model|llm.model_name|ai.model.id"
_USERS: Final = (
    "user.id|enduser.id|ai.telemetry.metadata.userId|traceloop.association.properties.user_id|langfuse.user.id"
)
_VALUES: Final = {"string": str, "int": int, "double": float, "bool": bool, "bytes": str}


def attributes_of(given: Any) -> Object:
    """The attributes of a span or a resource by name, of an object or a list of pairs."""
    given = parsed_json(given)
    if is_object(given):
        return dict(_nested("", given))
    pairs = (as_object(pair, "an attribute") for pair in as_list(given or [], "'attributes'"))
    return {text_at(pair, "key"): otlp_value(pair.get("value")) for pair in pairs}


def _nested(prefix: str, given: Object) -> Iterator[tuple[str, Any]]:
    """Attributes, also by the whole names that some stores take apart: {"llm": {"model_name": …}}."""
    for key, value in given.items():
        yield prefix + key, value
        if is_object(value) and len(prefix) + len(key) < 200:  # characters of a name that is put together
            yield from _nested(f"{prefix}{key}.", value)


def otlp_value(value: Any) -> Any:
    """The value inside {"stringValue": …} or {"string_value": …}; integers are texts in OTLP."""
    if not is_object(value):
        return value
    for key, inner in value.items():
        kind = key.removesuffix("Value").removesuffix("_value")
        if kind in _VALUES:
            with suppress(TypeError, ValueError):
                return _VALUES[kind](inner)
        elif kind == "array":
            return list(map(otlp_value, list_at(as_object(inner, "a list"), "values")))
        elif kind == "kvlist":
            return attributes_of(list_at(as_object(inner, "an object"), "values"))
    return None


def _read_events(span: TraceSpan, about: Object, events: Iterable[tuple[str, Object]]) -> tuple[Objects, Objects]:
    """What events say a model read and answered; evaluations go to the span, exceptions to its attributes."""
    given: Objects = []
    answer: Objects = []
    for name, event in events:
        if name.startswith("gen_ai.evaluation"):
            span.scores += _scores(event)
        elif name == "exception":
            about |= {**event, **about}
        elif name.startswith("gen_ai."):
            more_given, more_answer = event_messages(name, event)
            given += more_given
            answer += more_answer
    return given, answer


def _kind_of(span: TraceSpan, about: Object) -> Kind:
    for key in _KIND_NAMES:
        if about.get(key):
            kind = str(about[key]).upper()
            if kind in _TOOL_KINDS:
                return "tool"
            return "model" if kind in _MODEL_KINDS else "other"
    if _text(about, f"{_TOOL_NAMES}|{_CALL_IDS}"):
        return "tool"
    of_models = f"{_GIVEN_TO_MODELS}|{_ANSWERS_OF_MODELS}|gcp.vertex.agent.llm_request"
    return "model" if span.parent.strip("0") and _first(about, of_models) is not None else "other"


def _read_tool(span: TraceSpan, about: Object) -> None:
    # Without what tracers put before a tool's name.
    name = re.sub(r"^(execute_tool|running tools?:|tool) (?=\S)", "", span.name)
    span.name = _text(about, f"{_TOOL_NAMES}|traceloop.entity.name") or name
    span.call_id = _text(about, _CALL_IDS)
    span.arguments = _arguments(_first(about, _ARGUMENTS))
    result = _unwrapped(parsed_json(_first(about, _RESULTS)))
    span.result = None if result is None else as_text(result)
    if is_object(result) and is_langchain(result):
        inner = langchain_content(result)
        span.call_id = text_at(inner, "tool_call_id") or span.call_id
        span.name = text_at(inner, "name") or span.name
        span.result = plain_text(inner.get("content"))
        if inner.get("status") == "error":
            span.error = True
    cause = _text(about, "error.type|exception.type")
    if cause and span.error is not False:
        span.error = True
        span.refused = re.search("Cancell?ed|Abort|Interrupt|Refused|Rejected|Denied", cause) is not None
    if span.error and not span.result:
        span.result = _text(about, "exception.message|error.message") or None


def _read_messages(span: TraceSpan, about: Object, logged: tuple[Objects, Objects]) -> None:
    """Take what a model read and answered from its attributes, else from what was `logged`."""
    system = parsed_json(_first(about, "gen_ai.system_instructions|system_instructions"))
    if is_list(system):
        system = {"role": "system", "parts": system}
    given = messages_in(_first(about, _GIVEN), "user") or logged[0]
    span.given = messages_in(system, "system") + given
    span.answer = messages_in(_first(about, _ANSWERS), "assistant") or logged[1]
    for name in _TOOLS.split("|"):
        for tool in map(parsed_json, _listed(about, name)):
            if is_object(tool):
                described = {key: parsed_json(value) for key, value in tool.items()}
                span.tools.append(described.get("json_schema", tool))


def event_messages(name: str, event: Object) -> tuple[Objects, Objects]:
    """What a model read and answered, by an event or a record of a log of the GenAI conventions."""
    body = {**event, "tool_calls": parsed_json(event.get("tool_calls"))}
    role = name.removeprefix("gen_ai.").removesuffix(".message")
    if name == "gen_ai.choice":
        message = parsed_json(body.get("message", body))
        if not is_object(message):
            message = {"content": result_text(message)}
        answer = {"role": "assistant", "tool_calls": body["tool_calls"], **message}
        return [], messages_in(_with_parts(answer), "assistant")
    if name.endswith(".message"):
        message = {"role": role, "tool_call_id": body.get("id"), **body}
        if role != "tool":  # whose results may be lists of anything
            message = _with_parts(message)
        return messages_in(message, role), []
    span = TraceSpan("", "", name=name)
    _read_messages(span, event, ([], []))
    return span.given, span.answer


def _scores(about: Object) -> Iterator[Score]:
    for prefix in ("gen_ai.evaluation", "annotation"):
        value = _first(about, f"{prefix}.score.value|{prefix}.score")
        label = _first(about, f"{prefix}.score.label|{prefix}.label")
        if isinstance(value, int | float) or isinstance(label, str):
            yield _text(about, f"{prefix}.name") or "score", value, label


def _value(about: Object, name: str) -> Any:
    """An attribute, or those whose names begin with one that ends in a dot, as the object or list that they spell."""
    if not name.endswith("."):
        return about.get(name)
    root: Object = {}
    for key, value in about.items():
        if key.startswith(name):
            *path, last = key[len(name) :].split(".")
            place = root
            for step in path:
                inner = place.setdefault(step, {})
                if not is_object(inner):
                    break
                place = inner
            else:
                place[last] = value
    if name in ("ai.response.", "ai.result."):
        return _vercel_answer(root)
    found = _with_lists(root)
    if not is_list(found) or name in _TOOLS:
        return found or None
    role = "assistant" if name in _ANSWERS else "user"
    return [{"role": role, **_with_parts(message)} for message in found if is_object(message)]


def _with_parts(message: Object) -> Object:
    """A message whose content is a list of parts that it holds as text."""
    content = message.get("contents") or parsed_json(message.get("content"))
    keys = {"type", "text", "toolUse", "toolResult"}
    if not is_list(content) or not all(is_object(part) and keys & part.keys() for part in content):
        return message
    return {**message, "content": content}


def _with_lists(value: Any) -> Any:
    """Objects whose keys are numbers as lists; without what OpenInference puts around messages, calls and parts."""
    if not is_object(value):
        return value
    if value and all(map(str.isdecimal, value)):
        return [_with_lists(value[key]) for key in sorted(value, key=lambda key: (len(key), key))]
    if len(value) == 1:
        [(key, inner)] = value.items()
        if key in ("message", "tool_call", "message_content", "tool"):
            return _with_lists(inner)
    return {key: _with_lists(inner) for key, inner in value.items()}


def _vercel_answer(answer: Object) -> Any:
    parts: Objects = [{**call, "type": "tool-call"} for call in _listed(answer, "toolCalls") if is_object(call)]
    text = answer.get("text", answer.get("object"))
    if text is not None:
        parts.insert(0, {"type": "text", "text": as_text(text)})
    return {"role": "assistant", "parts": parts} if parts else None


def _first(about: Object, names: str) -> Any:
    """The first value among the attributes "a|b" that is not null."""
    values = (_value(about, name) for name in names.split("|"))
    return next((value for value in values if value is not None), None)


def _text(about: Object, names: str) -> str:
    """The first text among the attributes "a|b"; "" without one."""
    return next((value for value in map(about.get, names.split("|")) if isinstance(value, str) and value), "")


def _listed(about: Object, name: str) -> list[Any]:
    value = parsed_json(_value(about, name))
    return value if is_list(value) else []


def _arguments(value: Any) -> Any:
    value = _unwrapped(parsed_json(value))
    if isinstance(value, str) and value[:1] == "{" and len(value) < 100_000:
        try:
            return ast.literal_eval(value)  # LangChain's tracers write a dictionary as Python does
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return value
    return value


def _unwrapped(value: Any) -> Any:
    """What OpenLLMetry puts beside facts of its own: {"inputs": {…}, "tags": […]}."""
    keys = {"inputs", "outputs", "output", "kwargs", "input_str", "args", "tags", "metadata", "name"}
    if is_object(value) and value.keys() <= keys:
        inner = value_at(value, "inputs|outputs|output|kwargs|input_str")
        if inner is not None:
            return parsed_json(inner)
    return value


def messages_in(value: Any, role: str) -> Objects:
    """The messages of a model's input or output; none where they cannot be read: the rest of the span can."""
    value = parsed_json(value)
    if is_object(value) and value.get("object") == "response":  # OpenAI's, whole
        value = value.get("output")
    items = list(filter(is_object, value)) if is_list(value) else []
    messages: Objects = []
    if any("event.name" in item for item in items):  # pydantic-ai's
        for item in items:
            messages += chain.from_iterable(event_messages(str(item.get("event.name")), item))
        return messages
    with counting_unread() as left_out:
        try:
            messages = chat_messages(value, role)
        except RecordError:
            left_out["messages that cannot be read"] += 1
    # As often as in one span: each repeats the messages before it.
    unread = unread_parts()
    unread |= left_out
    return messages


class SpanLayout(NamedTuple):
    """Where the records of a tracer keep what a span has: paths of keys, as `value_at` reads them.

    Attributes:
        start, end: Times in any unit; of a key that names nanoseconds, in those.
        kind, kinds: Where its type is, and what OpenInference calls the types; others have their own name, "" none.
        status, failed: Where it says how it ended, and what it says of one that failed.
        attributes: By the names of conventions.
        more: Where the attributes are that a span came to the tracer with.
    """

    trace: str = "trace_id"
    id: str = "id"
    parent: str = ""
    session: str = "-"
    start: str = "start_time"
    end: str = "end_time"
    name: str = "name"
    kind: str = "-"
    kinds: Mapping[str, str] = {}
    status: str = "level"
    failed: Container[str] = ("ERROR",)
    attributes: Mapping[str, str] = {}
    more: str = "-"
    service: str = "-"

    def read(
        self,
        record: Object,
        options: ReadOptions,
        events: Iterable[tuple[str, Object]] = (),
        resource: Object | None = None,
    ) -> TraceSpan:
        """The span of a record with its `events`, and the attributes of its `resource`; RecordError if it has no id."""
        about = attributes_of(value_at(record, self.more))
        for name, path in self.attributes.items():
            value = parsed_json(value_at(record, path))
            if value is not None:
                about[name] = value
        kind = text_at(record, self.kind)
        if kind:
            about["openinference.span.kind"] = self.kinds.get(kind, kind)
        span = TraceSpan(
            text_at(record, self.trace),
            text_at(record, self.id),
            text_at(record, self.parent),
            text_at(record, self.session),
            time_at(record, self.start) or 0.0,
            time_at(record, self.end),
            name=text_at(record, self.name),
        )
        if not span.trace or not span.id:
            raise RecordError("a span has no id, or none of its trace")
        status = str(value_at(record, self.status) or about.get("otel.status_code")).upper()
        failed = status in self.failed or bool(record.get("error")) or about.get("error") is True
        if failed or span.end is not None or about.get("output.value") is not None:
            span.error = failed  # of one that is under way nothing is known
        messages = _read_events(span, about, events)
        span.scores += _scores(about)
        for key in (options.reward_key, options.success_key, options.label_key):
            if isinstance(about.get(key), bool | int | float | str):
                span.scores.append((key, about[key], None))
        span.kind = _kind_of(span, about)
        if span.kind == "tool":
            _read_tool(span, about)
        elif span.kind == "model" or not span.parent.strip("0"):  # a root's parent is empty, or zeros
            _read_messages(span, about, messages)
        service = text_at(record, self.service) or _text(resource or {}, "service.name")
        if service == "default" or service.startswith("unknown_service"):  # what tracers write where none is set
            service = ""
        span.session = span.session or _text(about, _SESSIONS)
        span.about = {
            "environment": service,
            "user": _text(about, _USERS),
            "model": _text(about, _MODELS) if span.kind == "model" else "",
            "agent": span.name if kind.lower() == "agent" else _text(about, "gen_ai.agent.name|agent.name|agent_name"),
        }
        return span


def time_at(record: Object, path: str) -> float | None:
    """Unix seconds of the time at a path, in the unit that its key names, or any; None without one."""
    for name in path.split("|"):
        value = value_at(record, name)
        if value is not None and "nano" in name.lower():
            with suppress(TypeError, ValueError, OverflowError):
                return int(value) / 1e9 or None  # 0 stands for an absent one in protobuf
        elif value is not None:
            return unix_time(value)
    return None
