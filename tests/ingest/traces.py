"""Spans of OTLP, made up for these tests; the same run in the layouts of other systems is a golden file of each."""

from __future__ import annotations

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
