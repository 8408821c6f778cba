"""Several doors on one session: what each was answered with 200 is stored, in one run that can be ended."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from hashlib import blake2b
from itertools import product
from typing import Any

import httpx2
import pytest

from hepm import Memory
from hepm.agents.guard import Access
from hepm.types import SUMMARY_TOOL
from hepm.web.server import Server
from tests.agents.raw import RawEndpoint
from tests.agents.serving import serving
from tests.agents.test_proxy import WISH
from tests.ingest.traces import export, span, text, tool

ANN, BOB, EVE = "token-of-ann", "token-of-bob", "token-of-eve"
TOKENS = {ANN: Access(name="ann"), BOB: Access(name="bob"), EVE: Access(name="eve")}


class Doors:
    """Each door of a server, which records calls of one session; a method answers with the status."""

    def __init__(self, memory: Memory, url: str = "", token: str = "") -> None:
        self.memory = memory
        self.url = url
        self._headers = {"x-hepm-token": token} if token else {}

    def _post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        return httpx2.post(self.url + path, json=body, headers={**self._headers, **headers}, timeout=60)

    def chat(self, session: str, names: Sequence[str]) -> int:
        messages: list[Any] = [WISH]
        for name in names:
            call = {"id": f"c-{name}", "type": "function", "function": {"name": name, "arguments": '{"n": 1}'}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"c-{name}", "content": "ok"})
        body = {"model": "m", "messages": messages}
        return self._post("/v1/chat/completions", body, **{"x-hepm-session": session}).status_code

    def responses(self, session: str, names: Sequence[str]) -> int:
        items: list[Any] = [WISH]
        for name in names:
            items.append({"type": "function_call", "call_id": f"c-{name}", "name": name, "arguments": '{"n": 1}'})
            items.append({"type": "function_call_output", "call_id": f"c-{name}", "output": "ok"})
        return self._post("/v1/responses", {"model": "m", "input": items}, **{"x-hepm-session": session}).status_code

    def otlp(self, session: str, names: Sequence[str]) -> int:
        trace = {"traceId": blake2b(session.encode(), digest_size=16).hexdigest()}
        known = {"gen_ai.conversation.id": session, "gen_ai.operation.name": "chat"}
        asked = {"gen_ai.input.messages": json.dumps([text("user", WISH["content"])])}
        spans = [span(1, 1, "chat", attributes=known | asked) | trace]
        for at, name in enumerate(names, 2):
            about = {"gen_ai.conversation.id": session, "gen_ai.tool.call.arguments": '{"n": 1}'}
            spans.append(tool(at, at, name, f"c-{name}", about=about) | trace)
        return self._post("/otlp/v1/traces", export(*spans)).status_code

    def hooks(self, session: str, names: Sequence[str]) -> int:
        call = {"tool_name": names[-1], "tool_input": {"n": 1}, "tool_use_id": f"c-{names[-1]}", "tool_response": "ok"}
        event = {"session_id": session, "hook_event_name": "PostToolBatch", "tool_calls": [call]}
        return self._post("/hooks/claude-code", event).status_code

    def mcp(self, session: str, names: Sequence[str]) -> int:
        params = {"name": SUMMARY_TOOL, "arguments": {"session_id": session, "summary": names[-1]}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
        result = self._post("/mcp", body, **headers).json()["result"]
        return 409 if result.get("isError") else 200

    def python(self, session: str, names: Sequence[str]) -> int:
        self.memory.session(id=session).record(names[-1], {"n": 1}, "ok")
        return 200

    def outcome(self, session: str) -> int:
        return self._post("/outcome", {"session": session, "success": True}).status_code


DOORS = ("chat", "responses", "otlp", "hooks", "mcp", "python")
REFUSED = {("otlp", "hooks"), *((door, "otlp") for door in ("chat", "responses", "hooks"))}
"""Pairs of which the second is refused: both would tell of the same calls, in no order that is known."""


def recorded(memory: Memory, session: str) -> list[str]:
    """Names of the calls of a stored run, and the text of each summary in the place of its name."""
    run = memory.run(session)
    if run is None:
        return []
    return [str(call.arguments["summary"]) if call.name == SUMMARY_TOOL else call.name for call in run.calls()]


def end(doors: Doors, server: Server, how: str, session: str) -> list[str]:
    """End a session by its outcome, or by a rest and then its outcome; what is wrong with that."""
    if how == "rest":
        server.runs.idle_s = 0
        server.runs.store_idle()
        doors.memory.sessions.store_abandoned(idle_s=0)
    status = doors.outcome(session)
    return [] if status == 200 or (how == "rest" and status == 404) else [f"/outcome answered {status}"]


@pytest.mark.parametrize("how", ["outcome", "rest", "restart"])
def test_what_two_doors_were_told_of_one_session_is_stored_once_and_in_order(
    memory: Memory, endpoint: RawEndpoint, how: str
) -> None:
    wrong: list[str] = []
    told: dict[str, list[str]] = {}
    with serving(memory, upstream=endpoint.url) as (server, url):
        doors = Doors(memory, url)
        for pair in product(DOORS, repeat=2) if how == "outcome" else itertools.pairwise([*DOORS, *DOORS[:1]]):
            session = "-".join(pair)
            told[session] = []
            names: dict[str, list[str]] = {door: [] for door in DOORS}
            for number, door in enumerate(pair):
                # A conversation is sent whole, as its client knows it.
                names[door].append(f"{door}_{number}")
                status = getattr(doors, door)(session, names[door])
                if status == 200:
                    told[session].append(names[door][-1])
                elif status != 409 or pair not in REFUSED:
                    wrong.append(f"{session}: {door} answered {status}")
        if how != "restart":
            for session in told:
                wrong += [f"{session}: {one}" for one in end(doors, server, how, session)]
    if how == "restart":
        with serving(memory, upstream=endpoint.url) as (server, url):
            doors.url = url
            for session in told:
                wrong += [f"{session}: {one}" for one in end(doors, server, how, session)]
    for session, names_told in told.items():
        found = recorded(memory, session)
        # A session of summaries alone, without an outcome, is no run.
        expected = [] if (session, how) == ("mcp-mcp", "rest") else names_told
        if sorted(found) != sorted(expected) or found != expected:
            wrong.append(f"{session}: told {expected}, stored {found}")
    assert {run.id for run in memory.runs()} <= {*told}
    assert wrong == []


@pytest.mark.parametrize("first", ["chat", "responses", "hooks", "mcp", "otlp"])
def test_a_session_belongs_to_the_token_that_began_it(memory: Memory, endpoint: RawEndpoint, first: str) -> None:
    with serving(memory, upstream=endpoint.url, tokens=TOKENS) as (server, url):
        assert getattr(Doors(memory, url, ANN), first)("s", ["own"]) == 200
        eve = Doors(memory, url, EVE)
        for door in ("chat", "responses", "hooks", "mcp", "otlp"):
            assert getattr(eve, door)("s", ["foreign"]) == 409, door
        server.runs.idle_s = 0
        if first != "mcp":  # a summary alone is no run
            server.runs.store_idle()
            assert eve.hooks("s", ["foreign"]) == 409, "also while it rests"
        assert Doors(memory, url, ANN).mcp("s", ["note"]) in (200, 409)
        assert Doors(memory, url, BOB).outcome("s") == 200, "who judges need not be who recorded"
    assert "foreign" not in recorded(memory, "s")
    assert "own" in recorded(memory, "s")


def test_no_conversation_is_recognised_by_what_another_token_sends(memory: Memory, endpoint: RawEndpoint) -> None:
    with serving(memory, upstream=endpoint.url, tokens=TOKENS) as (server, url):
        body = {"model": "m", "messages": [WISH]}
        for token in (ANN, EVE, ANN):
            headers = {"x-hepm-token": token}
            assert httpx2.post(f"{url}/v1/chat/completions", json=body, headers=headers).status_code == 200
        server.runs.wait_recorded()
        assert sorted(run.session.token for run in server.runs.under_way("default")) == ["ann", "eve"]


@pytest.mark.parametrize("order", [("hooks", "chat"), ("chat", "hooks")])
@pytest.mark.parametrize("restart", [False, True])
def test_a_call_that_two_doors_tell_of_counts_once(
    memory: Memory, endpoint: RawEndpoint, order: tuple[str, str], restart: bool
) -> None:
    with serving(memory, upstream=endpoint.url) as (_, url):
        doors = Doors(memory, url)
        assert getattr(doors, order[0])("s", ["get_order"]) == 200
        if not restart:
            assert getattr(doors, order[1])("s", ["get_order"]) == 200
            assert doors.outcome("s") == 200
    if restart:
        with serving(memory, upstream=endpoint.url) as (_, url):
            doors.url = url
            assert doors.chat("s", ["get_order"]) == 200
            assert doors.outcome("s") == 200
    assert recorded(memory, "s") == ["get_order"]


def test_a_traced_call_that_later_requests_hold_counts_once(memory: Memory, endpoint: RawEndpoint) -> None:
    with serving(memory, upstream=endpoint.url) as (_, url):
        doors = Doors(memory, url)
        assert doors.otlp("s", ["get_order"]) == 200
        for names in ([], ["get_order"], ["get_order", "refund"]):
            assert doors.chat("s", names) == 200
        assert doors.outcome("s") == 200
    assert recorded(memory, "s") == ["get_order", "refund"]
