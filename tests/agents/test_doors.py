"""The routes of `hepm serve` against the OpenAPI document that it serves."""

# ruff: noqa: F811, as fixtures are arguments
from __future__ import annotations

import json
from typing import Any

import httpx2
import jsonschema_rs
import pytest

from hepm import Memory
from hepm.agents.guard import Access
from hepm.web.server import Server
from tests.agents.serving import serving
from tests.agents.test_proxy import TOOLS, WISH, memory  # noqa: F401

TOKEN = "token-of-doors"


def test_every_route_is_in_the_document_that_is_served_without_a_token(memory: Memory) -> None:
    with serving(memory, tokens={TOKEN: Access()}) as (server, url):
        answer = httpx2.get(f"{url}/openapi.json")
        assert answer.headers["content-type"] == "application/json"
        known = routed(server)
    described: set[tuple[str, str]] = set()
    for path, methods in answer.json()["paths"].items():
        described |= {(path, method.upper()) for method in methods if method != "parameters"}
    assert described == known


def routed(server: Server) -> set[tuple[str, str]]:
    """Every path with each of its methods, but for the HEAD that any GET answers."""
    known: set[tuple[str, str]] = set()
    for route in server.app._app.routes:  # type: ignore[attr-defined]
        methods = route.methods if route.path.startswith("/v1") else route.methods - {"HEAD"}
        known |= {(route.path.replace(":path}", "}"), method) for method in methods}
    return known


CONVERSATION = {"session": "s", "messages": [WISH], "tools": TOOLS}
ASKED: list[tuple[str, str, Any]] = [
    ("POST", "/api/hint", CONVERSATION),
    ("POST", "/api/record", CONVERSATION),
    ("POST", "/outcome", {"session": "s", "success": True}),
    ("POST", "/shortlist", {"messages": "refund it", "tools": TOOLS}),
    ("GET", "/api/now", None),
    ("GET", "/api/graph", {"tool": "refund"}),
    ("GET", "/api/edge", {"source": "get_order", "target": "refund"}),
    ("GET", "/api/report", None),
    ("GET", "/api/runs", {"outcome": "succeeded"}),
    ("GET", "/api/run", {"id": "run-0"}),
    ("GET", "/api/advice", None),
    ("GET", "/api/lessons", {"kind": "principle"}),
    ("GET", "/health", None),
]


def test_each_answer_has_the_form_that_the_document_gives(memory: Memory) -> None:
    with serving(memory) as (_, url):
        document = httpx2.get(f"{url}/openapi.json").json()
        for method, path, asked in ASKED:
            given = {"params": asked} if method == "GET" else {"json": asked}
            answer = httpx2.request(method, url + path, **given)
            assert answer.status_code == 200, (path, answer.text)
            content = document["paths"][path][method.lower()]["responses"]["200"]["content"]
            schema = content["application/json"]["schema"] | {"components": document["components"]}
            jsonschema_rs.validate(schema, answer.json())


SPAN = {"traceId": "a" * 32, "spanId": "b" * 16, "name": "chat"}
LISTED = {"key": "gen_ai.operation.name", "value": {"arrayValue": {"values": []}}}


REFUSALS: list[tuple[str, str, Any, int, str]] = [
    ("GET", "/nothing", None, 404, "Not Found"),
    ("PUT", "/outcome", {}, 405, "Method Not Allowed"),
    ("GET", "/api/edge?source=refund", None, 400, "target: field required"),
    ("GET", "/api/lessons?kind=x", None, 400, "kind: input should be 'principle', 'experience' or 'notes'"),
    ("POST", "/api/lessons", {"kind": "principle", "id": "p-none", "retired": True}, 404, "p-none"),
    ("POST", "/api/lessons", {"kind": "notes", "id": "n", "retired": True}, 400, "kind: input should be"),
    ("POST", "/api/lessons", [], 400, "no JSON object"),
    ("POST", "/outcome", {"session": "run-0", "score": 1}, 400, 'neither "success" nor "reward" is given'),
    ("POST", "/api/hint", {"session": "s", "messages": []}, 400, "messages: list should have at least 1 item"),
    ("POST", "/api/record", {"session": "s", "messages": ["hi"]}, 400, "messages.0: input should be a valid dict"),
    ("POST", "/outcome", {"session": "none", "success": True}, 404, "'none'"),
]


def test_a_refusal_says_why_in_json(memory: Memory) -> None:
    with serving(memory) as (_, url):
        for method, path, body, status, said in REFUSALS:
            answer = httpx2.request(method, url + path, json=body)
            assert answer.status_code == status, (path, answer.text)
            assert said in answer.json()["error"]["message"]
            assert answer.json()["error"]["type"] == "hepm"
            assert status != 405 or "POST" in answer.headers["allow"]


@pytest.mark.parametrize(("path", "encoding"), [("/api/hint", "utf-16"), ("/hooks/claude-code", "utf-8-sig")])
def test_a_body_with_a_byte_order_mark_is_read_as_any_other(memory: Memory, path: str, encoding: str) -> None:
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "Refund parcel 7", "cwd": "/desk"}
    body = json.dumps(CONVERSATION if path == "/api/hint" else event).encode(encoding)
    with serving(memory) as (_, url):
        answer = httpx2.post(url + path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text


def test_a_span_whose_operation_is_a_list_is_taken_as_any_other(memory: Memory) -> None:
    spans = [SPAN | {"attributes": [LISTED]}]
    with serving(memory) as (_, url):
        taken = httpx2.post(f"{url}/otlp/v1/traces", json={"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
        odd = httpx2.post(f"{url}/otlp/v1/traces", json={"resourceSpans": [{"scopeSpans": "x"}]})
    assert (taken.status_code, taken.json()) == (200, {})
    assert odd.status_code == 400


# The command of schemathesis takes 3.5 s of processor time before its first request.
