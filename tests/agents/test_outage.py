"""`hepm serve` while its Neo4j is down, and after."""

# ruff: noqa: F811, as fixtures are arguments
from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hepm import Memory
from tests.agents.raw import RawEndpoint
from tests.agents.serving import serving, until
from tests.agents.test_proxy import TOOLS, WISH
from tests.neo4j.conftest import Fallible, fallible, mortal  # noqa: F401
from tests.runs import trajectory


class Client:
    """Every door of a server, and how long the slowest answer took."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.slowest: dict[str, float] = {}

    def post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        started = time.monotonic()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named |= {"accept": "application/json, text/event-stream"}
        got = httpx2.post(self._url + path, json=body, headers=named, timeout=90)
        self.slowest[path] = max(self.slowest.get(path, 0.0), time.monotonic() - started)
        return got

    def ask(self, session: str = "") -> httpx2.Response:
        headers = {"x-hepm-session": session} if session else {}
        return self.post("/v1/chat/completions", {"model": "m", "messages": [WISH], "tools": TOOLS}, **headers)

    def hook(self, session: str, number: int) -> httpx2.Response:
        call = {"tool_name": f"Step{number}", "tool_input": {}, "tool_use_id": f"c{number}", "tool_response": "ok"}
        event = {"session_id": session, "hook_event_name": "PostToolBatch", "tool_calls": [call]}
        return self.post("/hooks/claude-code", event)

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        params = {"name": name, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return self.post("/mcp", body, mcp_protocol_version="2025-06-18").json()["result"]

    def outcome(self, session: str) -> httpx2.Response:
        return self.post("/outcome", {"session": session, "success": True})

    def health(self) -> dict[str, Any]:
        return httpx2.get(f"{self._url}/health", timeout=30).json()


@pytest.mark.parametrize("frozen", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_agents_go_on_while_neo4j_is_down_and_what_was_acknowledged_is_stored_after(
    fallible: Fallible, endpoint: RawEndpoint, tmp_path: Path, frozen: bool
) -> None:
    opened = Memory.open(fallible.uri, auth=fallible.auth, sessions=tmp_path / "sessions", poll_s=0.2, speak="weighed")
    with opened as memory, serving(memory, upstream=endpoint.url, idle_s=1_800, hint_timeout_s=1.0) as (_, url):
        memory.ingest([trajectory(f"run-{n}", "get_order", "refund", goal="Refund parcel 7.") for n in range(6)])
        client = Client(url)
        assert client.ask("before").status_code == 200
        assert client.hook("hooked", 0).status_code == 200
        assert client.health()["store"] == "ok"
        if frozen:
            fallible.freeze()
        else:
            fallible.kill()
        try:
            for number in range(2):  # before the silence is noticed, and after
                if number == 1:
                    assert until(lambda: "no answer" in client.health()["store"], 20)
                    client.slowest.clear()
                assert client.ask("before").status_code == 200
                assert client.ask(f"new-{number}").headers["x-hepm-session"] == f"new-{number}"
                assert "Suggested next tools" in endpoint.taken[-1].body.decode()
                assert client.ask().status_code == 200
                assert client.hook("hooked", number + 1).status_code == 200
                assert client.hook("hooked-later", number).status_code == 200
                assert not client.tool("summarize_the_task", session_id="mcp", summary="s").get("isError")
                assert not client.tool("suggest_next_tools", session_id="mcp", history=["get_order"]).get("isError")
                if number:
                    refused = client.outcome("before")
                    assert refused.status_code == 503
                    assert "does not answer" in refused.json()["error"]["message"]
            assert max(client.slowest.values()) < 1, client.slowest
        finally:
            fallible.start()
        assert until(lambda: client.health()["store"] == "ok")
        runs = ["before", "hooked", "hooked-later", "mcp", "new-0"]
        for run in runs:
            assert client.outcome(run).status_code == 200, client.outcome(run).text
        stored = {run: memory.run(run) for run in runs}
        for run, calls in {"hooked": 3, "hooked-later": 2, "mcp": 3, "before": 0, "new-0": 0}.items():
            found = stored[run]
            assert found is not None
            assert len(list(found.calls())) == calls
        assert memory.examine() == []
