"""What a hostile client, page or endpoint can do to `hepm serve`: the routes come from the application itself."""

# ruff: noqa: F811, as fixtures are arguments
from __future__ import annotations

import itertools
import json
import re
from typing import Any

import httpx2
import pytest

from hepm import Memory, from_messages
from hepm.agents import guard
from hepm.agents.guard import Access
from hepm.web.server import Server
from tests.agents.raw import RawEndpoint, answer_to, request_bytes, status_of
from tests.agents.serving import serving
from tests.agents.test_proxy import TOOLS, WISH, memory  # noqa: F401
from tests.runs import exported_runs, stored_run

DESK, ALL, READER = "desk-token-1", "all-token-22", "reader-token"
TOKENS = {DESK: Access(frozenset({"desk"})), ALL: Access(), READER: Access(frozenset({"desk"}), write=False)}

SECRET = "zq9-of-the-shop"
CLIENT = httpx2.Client(timeout=30, limits=httpx2.Limits(max_keepalive_connections=0))
CHAT: dict[str, Any] = {"model": "small", "messages": [WISH], "tools": TOOLS}


def routes(server: Server) -> list[tuple[str, str]]:
    """Every path with every method that the application knows."""
    found: list[tuple[str, str]] = []
    for route in server.app._app.routes:  # type: ignore[attr-defined]
        path = route.path.replace("{agent}", "claude-code")
        path = re.sub(r"\{[^}]*\}", "chat/completions" if path.startswith("/v1") else "x", path)
        found += [(path, method) for method in sorted(route.methods or {"GET", "POST", "DELETE"}) if method != "HEAD"]
    assert {"/v1/chat/completions", "/mcp", "/hooks/claude-code", "/outcome", "/metrics"} <= {path for path, _ in found}
    return found


def ask(url: str, path: str, method: str, body: Any = None, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return CLIENT.request(method, f"{url}{path}", json=body or {}, headers=named)


# Tokens


def test_no_route_answers_without_the_right_token(
    memory: Memory, endpoint: RawEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "GUESSES", 1e9)
    wrong = ["", "wrong-token", DESK[:-1], DESK + "x", DESK.upper(), f"{DESK}, {DESK}", "\x00" * 8, "ü" * 8]
    with serving(memory, upstream=endpoint.url, tokens=TOKENS) as (server, url):
        for path, method in routes(server):
            for token in wrong:
                for header in ("authorization: Bearer ", "x-hepm-token: ", "authorization: "):
                    answer = answer_to(url, request_bytes(path, b"{}", header + token, method=method))
                    # 400: no header may hold NUL
                    expected = {200 if path in guard.OPEN and method == "GET" else 401, 400}
                    assert status_of(answer) in expected, (path, method, token, header, answer[:300])
                    assert DESK.encode() not in answer
    assert endpoint.taken == []


def test_a_token_that_may_not_write_changes_nothing_behind_any_route(
    memory: Memory,
    endpoint: RawEndpoint,
) -> None:
    before = list(memory.export(namespace="desk"))
    with serving(memory, upstream=endpoint.url, tokens=TOKENS) as (server, url):
        for path, method in routes(server):
            body = CHAT | {"session": "s", "success": True, "session_id": "s", "hook_event_name": "UserPromptSubmit"}
            answer = ask(url, f"/desk{path}", method, body, x_hepm_token=READER, x_hepm_session="s")
            assert answer.status_code < 500
        outcome = {"session_id": "s", "success": True, "calls": ["refund"]}
        reader = {"x_hepm_token": READER, "x_hepm_namespace": "desk"}
        assert "may not write" in mcp_call(url, "record_outcome", outcome, **reader)
        asked = mcp_call(url, "summarize_the_task", {"session_id": "s", "summary": "x"}, **reader)
        assert '"isError":false' in asked  # it answers, and records nothing
        assert len(server.runs) == 0
    assert list(memory.export(namespace="desk")) == before
    assert endpoint.taken == []


def mcp_call(url: str, name: str, arguments: dict[str, Any], path: str = "/mcp", **headers: str) -> str:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    named = {"accept": "application/json, text/event-stream", "mcp_protocol_version": "2025-06-18"} | headers
    return ask(url, path, "POST", body, **named).text


ANN, EVE = "token-of-ann-1", "token-of-eve-2"
NAMED = {ANN: Access(name="ann"), EVE: Access(name="eve")}


def test_each_run_keeps_the_name_of_the_token_that_began_it(memory: Memory, endpoint: RawEndpoint) -> None:
    with serving(memory, upstream=endpoint.url, tokens={**NAMED, ALL: Access()}) as (server, url):
        for token, session in ((ANN, "a"), (EVE, "e"), (ALL, "unnamed"), (EVE, "a")):
            ask(url, "/v1/chat/completions", "POST", CHAT, x_hepm_token=token, x_hepm_session=session)
        hook = {"session_id": "hooked", "hook_event_name": "UserPromptSubmit", "prompt": "Refund it.", "cwd": "/w"}
        assert ask(url, "/hooks/claude-code", "POST", hook, x_hepm_token=EVE).status_code == 200
        notes = {"session_id": "told", "summary": "x"}
        assert 'isError":false' in mcp_call(url, "summarize_the_task", notes, x_hepm_token=EVE)
        for session in ("a", "e", "unnamed", "hooked", "told"):
            ask(url, "/outcome", "POST", {"session": session, "success": True}, x_hepm_token=ANN)
        assert len(server.runs) == 0
    runs = {run["id"]: run["tags"]["hepm:token"] for run in exported_runs(memory) if run.get("tags")}
    assert ALL not in runs["unnamed"]
    assert runs.pop("unnamed").startswith("token-")
    assert {key: runs[key] for key in ("a", "e", "hooked", "told")} == {
        "a": "ann",
        **dict.fromkeys(("e", "hooked", "told"), "eve"),
    }


def test_the_runs_of_a_distrusted_token_never_count_and_it_labels_no_others(
    memory: Memory, endpoint: RawEndpoint
) -> None:
    before = memory.totals()
    with serving(memory, upstream=endpoint.url, tokens=NAMED, distrust=("eve",)) as (_, url):
        for token, session in ((ANN, "a"), (EVE, "e"), (EVE, "rests")):
            ask(url, "/v1/chat/completions", "POST", CHAT, x_hepm_token=token, x_hepm_session=session)
        refused = ask(url, "/outcome", "POST", {"session": "a", "success": False}, x_hepm_token=EVE)
        assert (refused.status_code, "labels no other's" in refused.text) == (404, True)
        for token, session in ((EVE, "e"), (ANN, "a"), (ANN, "rests")):
            said = ask(url, "/outcome", "POST", {"session": session, "success": True}, x_hepm_token=token)
            assert said.status_code == 200
        again = ask(url, "/outcome", "POST", {"session": "a", "reward": 0.1}, x_hepm_token=EVE)
        assert again.status_code == 404
    runs = {run["id"]: run for run in exported_runs(memory)}
    assert (runs["a"]["success"], "success" in runs["e"], "success" in runs["rests"]) == (True, False, False)
    assert "hepm:distrusted" in runs["e"]["tags"]
    after = memory.totals()
    assert (after.successes, after.failures) == (before.successes + 1, before.failures)
    assert sorted(memory.forget(token="eve")) == ["e", "rests"]


# Namespaces


@pytest.fixture
def two(memory: Memory) -> Memory:
    """A memory with a namespace that the token of the desk does not open."""
    call = {"id": "1", "type": "function", "function": {"name": SECRET, "arguments": "{}"}}
    messages = [WISH, {"role": "assistant", "content": SECRET, "tool_calls": [call]}]
    for namespace in ("shop", "Desk", "desk2"):
        for number in range(5):
            memory.ingest(from_messages(messages, id=f"{SECRET}-{number}", success=True), namespace=namespace)
    memory.ingest(from_messages([WISH], id="own"), namespace="desk")
    return memory


def test_a_token_neither_reads_nor_writes_another_namespace(two: Memory, endpoint: RawEndpoint) -> None:
    others = {name: list(two.export(namespace=name)) for name in ("shop", "Desk", "desk2", "default")}
    names = ["shop", "Desk", "DESK", "desk2", "default", "", "desk%00", "desk%20", "%64%65%73%6b2", "desk%2F..%2Fshop"]
    names += ["desk/../shop", "/shop", "shop/", "..", "d%C3%AAsk", "desk\u200b"]
    body = CHAT | {"session": f"{SECRET}-0", "success": False, "session_id": f"{SECRET}-0"}
    body |= {"namespace": "shop", "hook_event_name": "UserPromptSubmit", "prompt": "x"}
    raw = json.dumps(body).encode()
    with serving(two, upstream=endpoint.url, tokens=TOKENS) as (server, url):
        for path, method in routes(server):
            sent = [request_bytes(f"/{name}{path}", raw, f"x-hepm-token: {DESK}", method=method) for name in names]
            sent += [
                request_bytes(place + path, raw, f"x-hepm-token: {DESK}", f"x-hepm-namespace: {name}", method=method)
                for place in ("", "/shop")
                for name in (*names, "desk, shop", "desk\r\nx-hepm-namespace: shop", "shop\r\nx-hepm-namespace: desk")
            ]
            for one in sent:
                answer = answer_to(url, one)
                assert SECRET.encode() not in answer.replace(f"{SECRET}-0".encode(), b""), (one[:200], answer[:500])
                assert status_of(answer) < 500, (one[:200], answer[:500])
        assert {run.namespace for run in server.runs._runs.values()} <= {"desk"}
    for name, runs in others.items():
        assert list(two.export(namespace=name)) == runs
    for one in endpoint.taken:
        assert SECRET not in one.body.decode().replace(f"{SECRET}-0", ""), "a hint from another namespace"
        assert b"token" not in one.head


def test_the_tools_of_mcp_read_the_namespace_of_the_token_alone(two: Memory) -> None:
    with serving(two, tokens=TOKENS) as (_, url):
        for name, arguments in {
            "suggest_next_tools": {"session_id": f"{SECRET}-0", "history": []},
            "search_experience": {"query": WISH["content"]},
            "find_tools": {"query": WISH["content"]},
            "summarize_the_task": {"session_id": f"{SECRET}-0", "summary": WISH["content"]},
            "record_outcome": {"session_id": f"{SECRET}-1", "success": False},
        }.items():
            wide = arguments | {"namespace": "shop", "ns": "shop", "_meta": {"namespace": "shop"}}
            inside = mcp_call(url, name, wide, x_hepm_token=DESK, x_hepm_namespace="desk")
            assert SECRET not in inside.replace(f"{SECRET}-1", ""), inside
            assert "error" in mcp_call(url, name, arguments, x_hepm_token=DESK, x_hepm_namespace="shop")
            assert "error" in mcp_call(url, name, arguments, path="/shop/mcp", x_hepm_token=DESK)
        about = {"session_id": "a", "history": []}
        assert SECRET in mcp_call(url, "suggest_next_tools", about, x_hepm_token=ALL, x_hepm_namespace="shop")
    stored = stored_run(two, f"{SECRET}-1", namespace="shop")
    assert stored.outcome.success is True


def test_metrics_tell_a_token_of_its_own_namespaces_and_names_cannot_forge_lines(
    two: Memory, endpoint: RawEndpoint
) -> None:
    forged = 'desk"} 1 hepm_forged_total{x="'
    with serving(two, upstream=endpoint.url, tokens=TOKENS) as (_, url):
        for namespace in ("desk", "shop", forged):
            ask(url, "/v1/chat/completions", "POST", CHAT, x_hepm_token=ALL, x_hepm_namespace=namespace)
        own = ask(url, "/metrics", "GET", x_hepm_token=DESK, x_hepm_namespace="desk").text
        whole = ask(url, "/metrics", "GET", x_hepm_token=ALL).text
    assert 'hepm_runs_total{namespace="desk"} 1' in own
    assert "shop" not in own
    assert 'namespace="shop"' in whole
    line = re.compile(r'#.*|hepm_\w+(\{namespace="(\\.|[^"\\])*"\})? \d+')
    assert [text for text in whole.splitlines() if not line.fullmatch(text)] == []


# Pages and other machines


def test_a_page_with_a_name_of_its_own_for_this_machine_is_refused(memory: Memory, endpoint: RawEndpoint) -> None:
    hosts = ("evil.example", "127.0.0.1.evil.example", "localhost.", "0.0.0.0", "[::2]", "", "2130706433")
    with serving(memory, upstream=endpoint.url) as (server, url):
        for host, (path, method) in itertools.product(hosts, routes(server)):
            answer = answer_to(url, request_bytes(path, b"{}", method=method, host=host))
            assert status_of(answer) == 421, (host, path, method, answer)
    assert endpoint.taken == []


def test_a_page_of_another_site_or_another_port_is_refused(memory: Memory, endpoint: RawEndpoint) -> None:
    headers = (
        "origin: https://evil.example",
        "origin: null",
        "origin: http://localhost.evil.example",
        "origin: http://127.0.0.1@evil.example",
        "origin: http://127.0.0.1:3000",
        "origin: http://localhost:{port}",
        "origin: https://127.0.0.1",
        "sec-fetch-site: cross-site",
        "sec-fetch-site: same-site",
        "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate",
    )
    with serving(memory, upstream=endpoint.url) as (server, url):
        port = url.rpartition(":")[2]
        for header, (path, method) in itertools.product(headers, routes(server)):
            if "navigate" in header and method == "GET":  # a link
                continue
            line = header.format(port=port)
            answer = answer_to(url, request_bytes(path, b"{}", line, method=method, host=f"127.0.0.1:{port}"))
            assert status_of(answer) == 403, (header, path, method, answer)
            assert b"access-control-allow" not in answer.lower()
        assert len(server.runs) == 0
    assert endpoint.taken == []


def test_an_upgrade_to_websocket_is_refused_in_a_sentence(memory: Memory, endpoint: RawEndpoint) -> None:
    upgrade = ("upgrade: websocket", "sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==")
    with serving(memory, upstream=endpoint.url) as (_, url):
        for path in ("/", "/v1/realtime", "/mcp", "/hooks/claude-code"):
            sent = request_bytes(path, b"", *upgrade, method="GET").replace(b": close", b": Upgrade")
            answer = answer_to(url, sent, timeout_s=0.2)
            assert 400 <= status_of(answer) < 500, answer
            assert b"WebSocket" in answer
    assert endpoint.taken == []


# What passes to the endpoint


PATHS: dict[str, str | None] = {
    "/v1/../admin": None,
    "/v1/%2e%2e/admin": None,
    "/v1/a/%2E./%2e%2E/%2e%2e/admin": None,
    "/v1/..%2fadmin": None,
    "/v1/..%5cadmin": None,
    "/v1/./models": None,
    "/desk/v1/../../admin": None,
    "/v1/..;/admin": "/v1/..;/admin",
    "/v1//evil.example/x": "/v1//evil.example/x",
    "/v1/http://evil.example/": "/v1/http://evil.example/",
    "/v1/@evil.example/": "/v1/@evil.example/",
    "/v1/files/a%2Fb%3Fc%23d": "/v1/files/a%2Fb%3Fc%23d",
    "/v1/x%0d%0ax-evil:%201": None,
    "/v1/models?a=..&b=%0d%0a&c=%E4": "/v1/models?a=..&b=%0d%0a&c=%E4",
    "/desk/v1/models": "/v1/models",
}


def test_a_path_reaches_the_endpoint_as_written_or_not_at_all(memory: Memory, endpoint: RawEndpoint) -> None:
    with serving(memory, upstream=endpoint.url) as (_, url):
        for path, reaches in PATHS.items():
            answer = answer_to(url, request_bytes(path, method="GET"))
            assert status_of(answer) in ({200} if reaches else {400, 404}), (path, answer)
    expected = [f"GET {reaches} HTTP/1.1" for reaches in PATHS.values() if reaches]
    assert [one.head.split(b"\r\n")[0].decode() for one in endpoint.taken] == expected


def test_hepms_tokens_stay_here_and_the_endpoints_key_goes_there_alone(
    memory: Memory,
    endpoint: RawEndpoint,
) -> None:
    key = "sk-upstream-0042"
    ways = [
        (f"authorization: Bearer {DESK}",),
        (f"authorization: bearer   {DESK}",),
        (f"x-hepm-token: {DESK}", f"authorization: Bearer {ALL}"),
        (f"x-hepm-token: {DESK}", "authorization: Bearer sk-of-the-client", f"authorization: Bearer {ALL}"),
        (f"x-hepm-token: {DESK}", f"api-key: {DESK}", f"cookie: token={READER}"),
        (f"x-hepm-token: {DESK}", "connection: x-private", "x-private: 1", "proxy-authorization: Basic eA=="),
    ]
    secrets = (DESK.encode(), ALL.encode(), READER.encode(), b"x-private", b"proxy-auth", b"x-hepm")
    with serving(memory, upstream=endpoint.url, upstream_key=key, tokens=TOKENS) as (_, url):
        for way in ways:
            answer = answer_to(url, request_bytes("/desk/v1/chat/completions", json.dumps(CHAT).encode(), *way))
            assert status_of(answer) == 200
            assert key.encode() not in answer
        session = answer.split(b"x-hepm-session: ")[1].split(b"\r\n")[0].decode()
        outcome = json.dumps({"session": session, "success": True}).encode()
        answer_to(url, request_bytes("/desk/outcome", outcome, f"x-hepm-token: {DESK}"))
    for way, one in zip(ways, endpoint.taken, strict=True):
        assert not any(secret in one.head.lower() for secret in secrets), (way, one.head)
        expected = "sk-of-the-client" if "sk-of" in str(way) else key
        assert one.head.count(b"authorization: Bearer " + expected.encode()) == 1, one.head
    assert key not in "".join(memory.export(namespace="desk"))


def test_an_endpoints_cookies_are_not_sent_for_another_client(memory: Memory, endpoint: RawEndpoint) -> None:
    endpoint.answer = b"HTTP/1.1 200 OK\r\nset-cookie: who=first; path=/\r\ncontent-length: 2\r\n\r\n{}"
    with serving(memory, upstream=endpoint.url) as (_, url):
        first = answer_to(url, request_bytes("/v1/models", method="GET"))
        answer_to(url, request_bytes("/v1/models", method="GET"))
    assert b"set-cookie: who=first" in first
    assert b"cookie" not in endpoint.taken[1].head
    assert b"user-agent" not in endpoint.taken[1].head, "a header that the client did not send"
