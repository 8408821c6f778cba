"""One small run in the layouts of tracing systems, made up for these tests."""

from __future__ import annotations

import base64
import json
from typing import Any

Record = dict[str, Any]

TRACE = "0af7651916cd43dd8448eb211c80319c"


def _value(value: Any) -> Record:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _pairs(value)}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(one) for one in value]}}
    return {"stringValue": value}


def _pairs(values: Record) -> list[Record]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def span(id: int, start: int, name: str = "", parent: int = 0, failed: bool = False, **more: Any) -> Record:
    """A span of OTLP; its attributes are in `attributes`, its events in `events`."""
    found: Record = {
        "traceId": TRACE, "spanId": f"{id:016x}", "name": name, "kind": 1,
        "startTimeUnixNano": str(start * 10**9), "endTimeUnixNano": str((start + 1) * 10**9),
        "attributes": _pairs(more.get("attributes", {})),
    }  # fmt: skip
    if parent:
        found["parentSpanId"] = f"{parent:016x}"
    if failed:
        found["status"] = {"code": 2}
    events = more.get("events", [])
    return found | {"events": [{"name": kind, "attributes": _pairs(of)} for kind, of in events]}


def export(*spans: Record, service: str = "shop") -> Record:
    """One OTLP request."""
    resource = {"attributes": _pairs({"service.name": service})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "x"}, "spans": list(spans)}]}]}


def text(role: str, said: str) -> Record:
    """A message of the GenAI conventions."""
    return {"role": role, "parts": [{"type": "text", "content": said}]}


def model(start: int, id: int, given: list[Record], *answer: Record) -> Record:
    """A span of a model's call."""
    about = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "some-model",
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": [{"role": "assistant", "parts": list(answer)}],
    }
    return span(id, start, "chat some-model", parent=1, attributes=about)


def tool(start: int, id: int, name: str, call: str, **more: Any) -> Record:
    """A span of a tool's call."""
    about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.id": call}
    about |= more.pop("about", {})
    return span(id, start, f"execute_tool {name}", parent=1, attributes=about, **more)


def call(id: str, name: str, arguments: Any) -> Record:
    """A part with a call."""
    return {"type": "tool_call", "id": id, "name": name, "arguments": arguments}


ASKED = [text("system", "Be kind."), text("user", "Where is my money?")]
CALLS = [call("a", "find_user", {"name": "Ann"}), call("b", "find_order", '{"n": 7}')]
RESULTS = {"role": "user", "parts": [{"type": "tool_call_response", "id": "a", "result": "user 7"}]}
SCORE = ("gen_ai.evaluation.result", {"gen_ai.evaluation.name": "solved", "gen_ai.evaluation.score.label": "pass"})
ROOT = span(
    1, 1, "invoke_agent desk", events=[SCORE],
    attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk", "gen_ai.conversation.id": "c-1"},
)  # fmt: skip
GEN_AI = [
    tool(3, 4, "find_order", "b", failed=True, events=[("exception", {"exception.message": "no such order"})]),
    tool(3, 3, "find_user", "a", about={"gen_ai.tool.call.result": "user 7"}),
    model(2, 2, ASKED, {"type": "text", "content": "I look."}, *CALLS),
    model(
        5, 5, [*ASKED, {"role": "assistant", "parts": CALLS}, RESULTS], {"type": "text", "content": "Not found."}
    ),
    ROOT,
]  # fmt: skip
"""A run of two parallel calls, one of which failed, in the order in which spans end."""


def protobuf_json(record: Record) -> Record:
    """The same as protobuf's own JSON: base64 ids, and enums by name."""
    one = json.loads(json.dumps(record))
    for each in one["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId", "parentSpanId"):
            if key in each:
                each[key] = base64.b64encode(bytes.fromhex(each[key])).decode()
        each["kind"] = "SPAN_KIND_INTERNAL"
        if "status" in each:
            each["status"] = {"code": "STATUS_CODE_ERROR"}
    return one


OPEN_INFERENCE = [
    span(2, 2, "ChatCompletion", attributes={
        "openinference.span.kind": "LLM", "llm.model_name": "some-model", "session.id": "c-1",
        "llm.input_messages.0.message.role": "system", "llm.input_messages.0.message.content": "Be kind.",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.contents.0.message_content.type": "text",
        "llm.input_messages.1.message.contents.0.message_content.text": "Where is my money?",
        "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "I look.",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "a",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "find_user",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"name": "Ann"}',
        "llm.output_messages.0.message.tool_calls.1.tool_call.function.name": "find_order",
        "llm.output_messages.0.message.tool_calls.1.tool_call.function.arguments": '{"n": 7}',
    }),
    span(3, 3, "find_user", attributes={
        "openinference.span.kind": "TOOL", "tool.name": "find_user", "input.value": '{"name": "Ann"}',
        "output.value": "user 7",
    }),
    span(4, 4, "find_order", failed=True, attributes={
        "openinference.span.kind": "TOOL", "tool.name": "find_order", "output.value": "no such order",
    }),
    span(5, 6, "ChatCompletion", attributes={
        "openinference.span.kind": "LLM", "annotation.name": "solved", "annotation.label": "pass",
        "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "Not found.",
    }),
]  # fmt: skip


def console(record: Record) -> Record:
    """A span of OTLP as the console exporter writes it."""

    def plain(value: Record) -> Any:
        [(kind, inner)] = value.items()
        if kind == "arrayValue":
            return [plain(one) for one in inner["values"]]
        return {pair["key"]: plain(pair["value"]) for pair in inner["values"]} if kind == "kvlistValue" else inner

    def time(key: str) -> str:
        return f"2026-03-04T05:06:{int(record[key]) // 10**9:02}.000000Z"

    def attributes(of: Record) -> Record:
        return {pair["key"]: plain(pair["value"]) for pair in of["attributes"]}

    return {
        "name": record["name"],
        "context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{record['spanId']}", "trace_state": "[]"},
        "kind": "SpanKind.INTERNAL",
        "parent_id": f"0x{record['parentSpanId']}" if "parentSpanId" in record else None,
        "start_time": time("startTimeUnixNano"),
        "end_time": time("endTimeUnixNano"),
        "status": {"status_code": "ERROR" if "status" in record else "UNSET"},
        "attributes": attributes(record),
        "events": [{"name": event["name"], "attributes": attributes(event)} for event in record["events"]],
        "links": [],
        "resource": {"attributes": {"service.name": "shop"}, "schema_url": ""},
    }  # fmt: skip


def _langfuse(id: str, kind: str, second: int, given: Any, answer: Any, **more: Any) -> Record:
    return {
        "id": id, "traceId": TRACE, "type": kind, "startTime": f"2026-03-04T05:06:{second:02}Z",
        "endTime": f"2026-03-04T05:06:{second + 1:02}Z", "input": given, "output": answer, "level": "DEFAULT",
        "parentObservationId": "root", **more,
    }  # fmt: skip


_CHAT = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Where is my money?"}]
_ANSWER = {
    "role": "assistant",
    "content": "I look.",
    "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "find_user", "arguments": '{"name": "Ann"}'}},
        {"id": "b", "type": "function", "function": {"name": "find_order", "arguments": '{"n": 7}'}},
    ],
}
LANGFUSE: Record = {
    "id": TRACE, "name": "desk", "timestamp": "2026-03-04T05:06:01Z", "sessionId": "c-1", "userId": "ann",
    "input": "Where is my money?", "output": "Not found.", "environment": "shop",
    "observations": [
        _langfuse("root", "AGENT", 1, None, None, name="desk", parentObservationId=None),
        _langfuse("t1", "TOOL", 3, {"name": "Ann"}, "user 7", name="find_user"),
        _langfuse("t2", "TOOL", 3, {"n": 7}, None, name="find_order", level="ERROR", statusMessage="no such order"),
        _langfuse("m1", "GENERATION", 2, json.dumps(_CHAT), _ANSWER, name="llm", model="some-model"),
        _langfuse("m2", "GENERATION", 5, [*_CHAT, _ANSWER], {"role": "assistant", "content": "Not found."}),
    ],
    "scores": [{"name": "solved", "value": 1, "dataType": "BOOLEAN", "stringValue": "True"}],
}  # fmt: skip


def snake(record: Record) -> list[Record]:
    """The observations and scores of a trace as a blob export writes them."""

    def names(one: Record, **more: Any) -> Record:
        words = {key: "".join(f"_{c.lower()}" if c.isupper() else c for c in key) for key in one}
        return {words[key]: value for key, value in one.items()} | more

    about = {"session_id": "c-1", "user_id": "ann", "environment": "shop"}
    observations = [names(one, **about) for one in record["observations"]]
    return [*observations, *(names(one, trace_id=TRACE, id="s1", observation_id=None) for one in record["scores"])]


def _langsmith(id: str, kind: str, second: int, inputs: Any, outputs: Any, **more: Any) -> Record:
    return {
        "id": id, "trace_id": "r0", "parent_run_id": "r0" if id != "r0" else None, "run_type": kind, "name": kind,
        "start_time": f"2026-03-04T05:06:{second:02}.000001", "end_time": f"2026-03-04T05:06:{second + 1:02}.000001",
        "session_id": "of-the-project", "session_name": "shop", "inputs": inputs, "outputs": outputs, "error": None,
        "extra": {"metadata": {"thread_id": "c-1", "ls_model_name": "some-model", "user_id": "ann"}}, **more,
    }  # fmt: skip


def _constructor(kind: str, **kwargs: Any) -> Record:
    path = ["langchain", "schema", "messages", f"{kind}Message"]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": kwargs}


_PROMPT = [[_constructor("System", content="Be kind."), _constructor("Human", content="Where is my money?")]]
_REPLY = _constructor(
    "AI", content=[{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "a", "name": "find_user"}],
    tool_calls=[{"name": "find_user", "args": {"name": "Ann"}, "id": "a"},
                {"name": "find_order", "args": {"n": 7}, "id": "b"}],
)  # fmt: skip
LANGSMITH = [
    _langsmith("r0", "chain", 1, {"input": "Where is my money?"}, {"output": "Not found."}, name="desk",
               feedback=[{"key": "solved", "score": None, "value": "pass"}]),
    _langsmith("r2", "tool", 3, {"input": '{"name": "Ann"}'}, {"output": _constructor(
        "Tool", content="user 7", tool_call_id="a", status="success")}, name="find_user"),
    _langsmith("r3", "tool", 3, {"n": 7}, None, name="find_order", error="no such order"),
    _langsmith("r1", "llm", 2, {"messages": _PROMPT}, {"generations": [[{"text": "", "message": _REPLY}]]}),
    _langsmith("r4", "llm", 5, {"messages": _PROMPT}, {"choices": [{"message": {
        "role": "assistant", "content": "Not found."}}]}),
]  # fmt: skip
