"""The routes of `hepm serve` against the OpenAPI document that it serves."""

# ruff: noqa: F811, as fixtures are arguments
from __future__ import annotations

import json

# ruff: noqa: F811, as fixtures are arguments
import signal
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import pytest

from hepm import Memory
from hepm.agents.guard import Access
from hepm.web.server import Server
from tests.agents.serving import serving
from tests.agents.test_proxy import TOOLS, WISH, memory  # noqa: F401  # noqa: F401
from tests.faults.killing_servers import Served
from tests.runs import stored_run

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
    ("GET", "/api/graph?tool=fly", None, 404, "no tool 'fly'"),
    ("GET", "/api/edge?source=refund", None, 400, "target: field required"),
    ("GET", "/api/lessons?kind=x", None, 400, "kind: input should be 'principle', 'experience' or 'notes'"),
    ("POST", "/api/lessons", {"kind": "principle", "id": "p-none", "retired": True}, 404, "p-none"),
    ("POST", "/api/lessons", {"kind": "notes", "id": "n", "retired": True}, 400, "kind: input should be"),
    ("POST", "/api/lessons", {"kind": "principle", "id": "\ud800", "retired": True}, 400, "unicode"),
    ("POST", "/api/lessons", [], 400, "no JSON object"),
    ("POST", "/outcome", {"session": "run-0", "score": 1}, 400, 'the object: neither "success" nor "reward"'),
    ("POST", "/api/hint", {"session": "s", "messages": []}, 400, "messages: list should have at least 1 item"),
    ("POST", "/api/record", {"session": "s", "messages": ["hi"]}, 400, "messages.0: input should be an object"),
    ("POST", "/api/hint", {"session": "s", "messages": [{}], "tools": ["a"]}, 400, "tools.0: input should be an obj"),
    ("POST", "/outcome", {"session": "s", "success": "yes"}, 400, "success: input should be a valid boolean"),
    ("POST", "/outcome", {"session": "none", "success": True}, 404, "'none'"),
]


def test_a_refusal_says_why_in_json(memory: Memory) -> None:
    with serving(memory) as (_, url):
        for method, path, body, status, said in REFUSALS:
            content = None if body is None else json.dumps(body)
            answer = httpx2.request(method, url + path, content=content, headers={"content-type": "application/json"})
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


# Programs that call a model themselves

SESSION = {"session": "ticket-7", "tools": TOOLS, "user": "ada"}


def called(id: str, name: str, result: str, **more: Any) -> list[Any]:
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": '{"parcel": 7}'}}
    answer = {"role": "tool", "tool_call_id": id, "content": result, **more}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, answer]


FOUND = [WISH, *called("c1", "get_order", "delivered")]
FAILED = [*FOUND, *called("c2", "refund", "no such account", is_error=True)]
ENDED = [*FAILED, {"role": "assistant", "content": "Nothing can be refunded."}]


def post(url: str, path: str, messages: Any = None, **more: Any) -> Any:
    body = {**SESSION, "messages": messages} if messages else {"session": "ticket-7"}
    answer = httpx2.post(url + path, json={**body, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_program_is_told_the_next_tool_and_its_run_is_stored_with_its_errors(memory: Memory) -> None:
    with serving(memory) as (_, url):
        hint = post(url, "/api/hint", [WISH])
        assert hint["present"].startswith("<hepm-memory>\nSuggested next tools: get_order")
        assert [tool["tool"] for tool in hint["tools"]] == ["get_order"]
        for known in (2, 3):  # sent again, as the answer was lost
            assert post(url, "/api/record", FOUND[:2]) == {"run": "ticket-7", "messages": known}
            assert "refund" in post(url, "/api/hint", FOUND)["present"]
        said = [{"role": "user", "content": f"{WISH['content']}\n{hint['present']}"}, *ENDED[1:]]
        post(url, "/api/record", said)  # with the hint in its messages
        post(url, "/outcome", success=False)
    run = stored_run(memory, "ticket-7")
    found, failed = [call for turn in run.turns for call in turn.calls]
    assert (found.name, found.arguments, found.result) == ("get_order", {"parcel": 7}, "delivered")
    assert (failed.name, failed.result, failed.error) == ("refund", "no such account", True)
    assert run.turns[-1].text == "Nothing can be refunded."
    assert (run.user, run.outcome.success) == ("ada", False)
    assert "Suggested" not in repr(run)


def test_a_server_says_on_standard_error_that_a_run_begins_goes_on_and_is_stored(tmp_path: Path) -> None:
    served = Served(tmp_path / "m.hepm", "http://127.0.0.1:1/v1")
    try:
        post(served.url, "/api/hint", [WISH])
        served.kill(signal.SIGTERM)
        served.start()
        post(served.url, "/api/hint", FOUND)
        assert post(served.url, "/outcome", success=True)["run"] == "ticket-7"
        post(served.url, "/api/hint", [{"role": "user", "content": "Where is parcel 9?"}])
        late = post(served.url, "/outcome", success=False)
        assert late == {"session": "ticket-7", "run": "ticket-7-2", "stored": True}
    finally:
        assert served.kill(signal.SIGTERM) == 0
    said = [line.partition("INFO ")[2].rstrip() for line in served.said]
    assert said == [
        "run 'ticket-7' of 'default' begins (api)",
        "run 'ticket-7' of 'default' goes on (api)",
        "run 'ticket-7' of 'default' is stored with its outcome",
        "run 'ticket-7-2' of 'default' begins (api)",
        "run 'ticket-7-2' of 'default' is stored with its outcome",
    ]


def test_a_session_of_another_token_is_refused(memory: Memory) -> None:
    tokens = {"token-of-ann-1": Access(name="ann"), "token-of-eve-2": Access(name="eve")}
    with serving(memory, tokens=tokens) as (_, url):
        answers: list[int] = []
        for token in tokens:
            headers = {"x-hepm-token": token}
            body = {**SESSION, "messages": [WISH]}
            answers.append(httpx2.post(f"{url}/api/hint", json=body, headers=headers).status_code)
    assert answers == [200, 409]
