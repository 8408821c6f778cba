"""Attacks on `hepm serve` that once took hold, each bounded in count and time, and on this machine alone."""

# ruff: noqa: F811, as fixtures are arguments
from __future__ import annotations

import contextlib
import itertools
import json
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hepm import Memory, from_messages
from hepm.agents import runs
from hepm.agents.guard import Access
from hepm.agents.runs import LiveRuns
from hepm.errors import InputError
from hepm.web.options import ServeOptions
from hepm.web.server import Server
from tests.agents.raw import RawEndpoint, answer_to, request_bytes, status_of
from tests.agents.serving import serving, until
from tests.agents.test_proxy import TOOLS, WISH, memory  # noqa: F401
from tests.agents.test_two_doors import Doors
from tests.faults.places import files_limited_to
from tests.runs import stored_run

CHAT: dict[str, Any] = {"model": "small", "messages": [WISH], "tools": TOOLS}
JSON = {"content-type": "application/json"}
CLIENT = httpx2.Client(timeout=60, limits=httpx2.Limits(max_keepalive_connections=0))


def post(url: str, path: str, content: bytes, **headers: str) -> httpx2.Response:
    named = JSON | {name.replace("_", "-"): value for name, value in headers.items()}
    return CLIENT.post(url + path, content=content, headers=named)


# Pages


def test_what_a_page_may_send_without_asking_is_taken_at_no_door(memory: Memory, endpoint: RawEndpoint) -> None:
    kinds = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "")
    doors = ("/v1/chat/completions", "/hooks/claude-code", "/outcome", "/api/lessons")
    with serving(memory, upstream=endpoint.url) as (server, url):
        for kind, path in itertools.product(kinds, doors):
            sent = request_bytes(path, json.dumps(CHAT).encode(), f"content-type: {kind}")
            assert status_of(answer_to(url, sent)) == 415, (kind, path)
        assert len(server.runs) == 0
    assert endpoint.taken == []


def test_the_servers_own_page_and_uploads_and_links_pass(memory: Memory, endpoint: RawEndpoint) -> None:
    with serving(memory, upstream=endpoint.url) as (_, url):
        host = url.rpartition("/")[2]
        own = {"host": host, "origin": url, "sec-fetch-site": "same-origin"}
        visit = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert CLIENT.post(f"{url}/v1/chat/completions", json=CHAT, headers=own).status_code == 200
        assert CLIENT.post(f"{url}/v1/files", files={"file": b"x"}).status_code == 200
        assert CLIENT.post(f"{url}/v1/batches/b/cancel").status_code == 200
        assert CLIENT.get(f"{url}/metrics", headers=visit).status_code == 200
        assert CLIENT.get(f"{url}/", headers=visit).status_code == 200
        for path in ("/api/now", "/api/runs", "/desk/api/graph", "/api/run?id=run-0", "/api/lessons?kind=notes"):
            assert CLIENT.get(url + path, headers=visit).status_code == 403, path
            assert CLIENT.get(url + path, headers=visit | {"sec-fetch-site": "same-site"}).status_code == 403, path
            assert CLIENT.get(url + path, headers=own).status_code in (200, 400, 404), path
        assert CLIENT.get(f"{url}/v1/models", headers=visit).status_code == 403


def test_a_page_that_the_endpoint_sends_cannot_act_as_one_of_this_server(memory: Memory, endpoint: RawEndpoint) -> None:
    page = b"<script>fetch('/api/lessons')</script>"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-security-policy: default-src *\r\n"
    endpoint.answer = head + b"content-length: %d\r\n\r\n" % len(page) + page
    with serving(memory, upstream=endpoint.url) as (_, url):
        answer = CLIENT.get(f"{url}/v1/page")
    assert answer.headers.get_list("content-security-policy") == ["default-src *", "sandbox"]
    assert answer.headers["x-content-type-options"] == "nosniff"


# Replies


def test_a_redirect_to_another_host_is_a_bad_gateway(memory: Memory, endpoint: RawEndpoint) -> None:
    locations = ("http://evil.example/v1", "//evil.example/", "\\\\evil.example", "https:/evil.example")
    with serving(memory, upstream=endpoint.url) as (server, url):
        for location, status in itertools.product((*locations, "/\t/evil.example", endpoint.url), (301, 307)):
            lines = f"HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
            endpoint.answer = lines.encode()
            answer = post(url, "/v1/chat/completions", json.dumps(CHAT).encode())
            assert answer.status_code == 502, location
            assert "location" not in answer.headers
            assert "--upstream" in answer.text
        server.runs.wait_recorded()
        assert {run.waiting for run in server.runs.under_way("default")} == {0}


# Outcomes, hints and numbers


@pytest.mark.parametrize("session", ["run-0", "under way"])
def test_a_reward_that_is_not_finite_is_a_bad_request(memory: Memory, session: str) -> None:
    call = {"tool_name": "x", "tool_input": {}, "tool_use_id": "c", "tool_response": "ok"}
    event = {"session_id": "under way", "hook_event_name": "PostToolBatch", "tool_calls": [call]}
    memory.ingest(from_messages([WISH], id="run-0", success=True))
    with serving(memory) as (server, url):
        assert post(url, "/hooks/claude-code", json.dumps(event).encode()).status_code == 200
        for reward in ("Infinity", "-Infinity", "NaN", "1e999", "1" + "0" * 400):
            outcome = b'{"session": "%b", "reward": %b}' % (session.encode(), reward.encode())
            answer = post(url, "/outcome", outcome)
            assert answer.status_code == 400, answer.text
            assert "reward" in answer.json()["error"]["message"]
        assert len(server.runs) == 1
    stored = stored_run(memory, "run-0")
    assert (stored.outcome.success, stored.outcome.reward) == (True, None)


def test_a_tools_name_holds_nothing_invisible_in_a_hint(tmp_path: Path) -> None:
    for number, unseen in enumerate(("\u3164", "\u115f", "\uffa0", "\u1160")):
        with Memory.open(tmp_path / f"{number}.hepm", speak="weighed") as memory:
            call = {"id": "1", "type": "function", "function": {"name": f"refund{unseen}all", "arguments": "{}"}}
            messages = [WISH, {"role": "assistant", "content": "", "tool_calls": [call]}]
            for run in range(5):
                memory.ingest(from_messages(messages, id=f"r{run}", success=True))
            hint = memory.suggest(messages=[WISH]).prompt()
        assert "refund" in hint
        assert unseen not in hint
        assert f"\\u{ord(unseen):04x}" in hint


# Odd parts

LONG = "x" * 1_000_000
NESTED = json.loads("[" * 150 + "]" * 150)
GOOD = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"n": 7}'}}
ODD_CALLS: list[Any] = [
    None, 5, "get_order", {}, {"function": None}, {"function": {"name": ""}}, {"function": {"name": None}},
    {"function": {"name": 5}}, {"function": {"name": "<START>"}}, {"custom": 1}, [GOOD],
    {"id": "c2", "function": {"name": LONG, "arguments": "{}"}},
    {"id": "c3", "function": {"name": "deep", "arguments": json.dumps({"x": NESTED})}},
]  # fmt: skip
ODD_CONTENTS: list[Any] = [5, True, 1.5, [None], [5, {"type": "text", "text": "x"}], [{"type": "tool_use"}], {"a": 1}]
ODD_MESSAGES: list[Any] = [
    *({"role": "assistant", "content": "", "tool_calls": [one, GOOD]} for one in ODD_CALLS),
    *({"role": "assistant", "content": one, "tool_calls": [GOOD]} for one in ODD_CONTENTS),
    {"role": "assistant", "tool_calls": [GOOD, *({**GOOD, "function": {"name": f"t{n}"}} for n in range(300))]},
    {"role": "assistant", "tool_calls": {"0": GOOD}},
    {"role": "assistant", "function_call": 5, "tool_calls": [GOOD]},
    *({"role": "user", "content": one} for one in ODD_CONTENTS),
    *({"role": role, "content": 5} for role in ("system", "tool", "narrator")),
]


@pytest.mark.parametrize("who", ["client", "endpoint"])
def test_a_run_with_odd_parts_can_be_ended_and_holds_the_rest(memory: Memory, endpoint: RawEndpoint, who: str) -> None:
    wrong: list[Any] = []
    with serving(memory, upstream=endpoint.url) as (_, url):
        for number, odd in enumerate(ODD_MESSAGES):
            session = f"s{number}"
            messages: list[Any] = [WISH, {"role": "assistant", "content": "", "tool_calls": [GOOD]}]
            messages.append({"role": "tool", "tool_call_id": "c1", "content": "delivered"})
            if who == "client":
                messages.append(odd)
            else:
                body = json.dumps({"choices": [{"index": 0, "message": odd}]}).encode()
                head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
                endpoint.answer = head + body
            sent = json.dumps(CHAT | {"messages": messages}).encode()
            assert post(url, "/v1/chat/completions", sent, x_hepm_session=session).status_code == 200
            ended = post(url, "/outcome", json.dumps({"session": session, "success": True}).encode())
            stored = memory.run(session)
            if ended.status_code != 200 or stored is None or next(stored.calls()).arguments != {"n": 7}:
                wrong.append((str(odd)[:200], ended.text[:200]))
            elif max(len(call.name) for call in stored.calls()) > 256:
                wrong.append((str(odd)[:200], "the name is stored whole"))
    assert wrong == []


ODD_EVENTS: list[tuple[dict[str, Any], str]] = [
    ({"hook_event_name": "PostToolBatch", "tool_calls": [None]}, '"tool_calls"[0] is null'),
    ({"hook_event_name": "PostToolBatch", "tool_calls": 5}, '"tool_calls" is a number'),
    ({"hook_event_name": "PostToolBatch", "tool_calls": [{"tool_input": {}}]}, '"tool_name"'),
    ({"hook_event_name": "PostToolBatch", "tool_calls": [{"tool_name": 5}]}, '"tool_name" is a number'),
    ({"hook_event_name": "PostToolBatch", "tool_calls": [{"tool_name": LONG}]}, "1,000,000 characters"),
    ({"hook_event_name": "PostToolBatch", "tool_calls": [{"tool_name": "<START>"}]}, "<START>"),
    ({"hook_event_name": "PostToolUse", "tool_name": "Read", "tool_input": {"x": NESTED}}, "nested deeper"),
    ({"hook_event_name": "PostToolUseFailure", "tool_use_id": "c"}, '"tool_name"'),
    ({"hook_event_name": "UserPromptSubmit", "prompt": 5}, '"prompt" is a number'),
    ({"hook_event_name": "Stop", "last_assistant_message": ["x"]}, '"last_assistant_message" is a list'),
    ({"hook_event_name": "Stop", "session_id": ""}, '"session_id" is missing'),
    ({"hook_event_name": "Stop", "session_id": 5}, '"session_id" is a number'),
]


def test_a_hook_with_an_odd_part_is_refused_with_its_name_and_the_run_can_be_ended(memory: Memory) -> None:
    good = {"tool_name": "Read", "tool_input": {}, "tool_use_id": "a", "tool_response": "ok"}
    with serving(memory) as (_, url):

        def hook(event: dict[str, Any]) -> httpx2.Response:
            return post(url, "/hooks/claude-code", json.dumps({"session_id": "s", **event}).encode())

        assert hook({"hook_event_name": "PostToolBatch", "tool_calls": [good]}).status_code == 200
        for event, said in ODD_EVENTS:
            answer = hook(event)
            assert (answer.status_code, said in answer.json()["error"]["message"]) == (400, True), (event, answer.text)
            if isinstance(event.get("tool_calls"), list):
                mixed = event | {"tool_calls": [{**good, "tool_use_id": "b"}, *event["tool_calls"]]}
                assert hook(mixed).status_code == 400, "all of a batch, or nothing"
        assert post(url, "/outcome", b'{"session": "s", "success": true}').status_code == 200
    stored = stored_run(memory, "s")
    assert [call.name for call in stored.calls()] == ["Read"]


# Tokens and what they show

DESK, SHOP = "desk-token-1", "shop-token-1"
TOKENS = {DESK: Access(frozenset({"desk"})), SHOP: Access(frozenset({"shop"}))}


def test_a_short_or_odd_token_is_refused_at_the_start(memory: Memory) -> None:
    for token in ("a", "1234567", " padded-token ", "tökens-of-hepm", "token\nof-hepm"):
        with pytest.raises(InputError, match="at least 8 ASCII characters"):
            Server(LiveRuns(memory), ServeOptions(host="0.0.0.0"), tokens={token: Access()})


def test_a_client_with_a_wrong_token_or_with_its_providers_key_alone_learns_which_it_is(memory: Memory) -> None:
    sent = {"": "a token is needed", "authorization": "the key that was sent", "x-hepm-token": "the token in X-Hepm"}
    with serving(memory, tokens=TOKENS) as (_, url):
        for header, said in sent.items():
            headers = {header: "Bearer sk-of-a-provider"} if header else {}
            answer = CLIENT.get(f"{url}/desk/metrics", headers=headers)
            assert (answer.status_code, said in answer.json()["error"]["message"]) == (401, True), answer.text


def test_an_address_that_tries_tokens_is_stopped_and_known_agents_there_go_on(memory: Memory) -> None:
    with serving(memory, tokens=TOKENS) as (_, url):

        def status(token: str) -> int:
            return CLIENT.get(f"{url}/desk/metrics", headers={"x-hepm-token": token}).status_code

        assert status(DESK) == 200
        assert [status("") for _ in range(30)] == [401] * 30, "no token is no guess"
        assert [status(f"wrong-token-{number}") for number in range(25)] == [401] * 20 + [429] * 5
        assert status(SHOP) == 429, "a right guess is not told from a wrong one"
        assert status(DESK) == 200


# Health


def test_health_says_when_there_is_no_room_for_runs_and_when_there_is_again(memory: Memory) -> None:
    with serving(memory) as (_, url):

        def status() -> tuple[str, str]:
            health = CLIENT.get(f"{url}/health")
            assert health.status_code == 200, "agents go on"
            return health.json()["status"], health.json()["sessions"]

        assert status() == ("ok", "ok")
        with files_limited_to(4):
            assert until(lambda: status()[0] == "degraded")
            assert "cannot be kept" in status()[1]
        assert until(lambda: status() == ("ok", "ok"))


def test_a_door_that_can_keep_nothing_on_the_disk_says_so_and_nothing_is_lost_when_there_is_room(
    memory: Memory,
) -> None:
    doors = Doors(memory)
    with serving(memory) as (_, url):
        doors.url = url
        with files_limited_to(0):
            refused = {door: getattr(doors, door)(door, ["get_order"]) for door in ("hooks", "otlp", "mcp")}
        assert refused == {"hooks": 503, "otlp": 503, "mcp": 409}
        assert doors.hooks("hooks", ["refund"]) == 200
        assert doors.otlp("otlp", ["get_order", "refund"]) == 200
        for session in ("hooks", "otlp"):
            assert doors.outcome(session) == 200
    for session in ("hooks", "otlp"):
        stored = stored_run(memory, session)
        assert [call.name for call in stored.calls()] == ["get_order", "refund"]


def test_an_outcome_waits_for_no_store_that_hangs_and_is_stored_once(
    memory: Memory, endpoint: RawEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "STORE_S", 0.5)
    outcome = b'{"session": "s", "success": true}'
    before = memory.totals().trajectories
    with serving(memory, upstream=endpoint.url) as (_, url):
        post(url, "/v1/chat/completions", json.dumps(CHAT).encode(), x_hepm_session="s")
        with contextlib.closing(sqlite3.connect(tmp_path / "m.hepm", isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            for _ in range(6):  # more than the server has threads for it
                answer = post(url, "/outcome", outcome)
                assert answer.status_code == 503
                assert "Send its outcome again" in answer.text
            other.execute("ROLLBACK")
        assert until(lambda: post(url, "/outcome", outcome).status_code == 200)
    stored = stored_run(memory, "s")
    assert stored.outcome.success is True
    assert memory.totals().trajectories == before + 1


# Files


def test_what_runs_hold_is_on_disk_for_its_owner_alone(tmp_path: Path) -> None:
    store, before = tmp_path / "m.hepm", os.umask(0o022)
    try:
        with Memory.open(store, speak="weighed") as memory:
            memory.ingest(from_messages([WISH], id="r", success=True))
            memory.session(id="s").say("user", "x")
            memory.cypher("failing_tools")
            found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert {"m.hepm", "m.hepm-wal", "m.hepm-shm", "m.hepm-sessions"} <= found.keys()
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}
    store.chmod(0o640)
    with Memory.open(store, speak="weighed") as memory:
        assert memory.run("r") is not None
    assert stat.S_IMODE(store.stat().st_mode) == 0o640, "a mode that was given by hand stays"
