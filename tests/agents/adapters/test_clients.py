"""Real clients speak through `hepm serve` as they do without it."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp import Client, StdioServerParameters

from hepm import Memory, Trajectory
from hepm.types import BLOCK_END, BLOCK_START, HINT
from tests.agents.adapters import clients
from tests.agents.adapters.test_frameworks import runs_in, script, seed
from tests.agents.serving import serving
from tests.loopback import Loopback, Reply, Request

WAYS = (
    *("openai_chat", "openai_chat_stream", "openai_responses", "openai_responses_stream"),
    *("openai_responses_unstored", "openai_previous_response"),
)


def numbered(results: int, reply: Reply) -> Reply:
    """A reply whose ids depend on the turn alone, so that two conversations are equal."""
    text = re.sub(r"call_\d+_", f"call_{results}_", json.dumps(reply.body))
    return replace(reply, body=json.loads(re.sub(r"chatcmpl-\d+", f"chatcmpl-{results}", text)))


class Model(Loopback):
    """Plays `script`; it keeps the conversations of `previous_response_id`."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, list[Any]] = {}
        self.script = self.answer

    def answer(self, request: Request) -> Reply:
        body = request.body
        given = body.get("messages") or body["input"]
        given = [given] if isinstance(given, str) else given
        whole = [*self.kept.get(body.get("previous_response_id") or "", []), *given]
        results = len(re.findall(r'"role": "tool"|"function_call_output"', json.dumps(whole)))
        reply = numbered(results, script(replace(request, body={**body, "messages": whole})))
        self.kept[f"resp_{results}"] = whole
        return reply


class Spoken(NamedTuple):
    """A conversation without hepm and through it: requests that came, and what the client got."""

    direct: list[Request]
    served: list[Request]
    direct_got: Any
    served_got: Any
    runs: list[Trajectory]


def speak(way: str, folder: Path) -> Spoken:
    seed(folder / "m.hepm")
    direct, served = Model(), Model()
    try:
        with (
            Memory.open(folder / "m.hepm", speak="weighed") as memory,
            serving(memory, upstream=served.url) as (_, url),
        ):
            ask = getattr(clients, way)
            got = [json.loads(json.dumps(ask(address), default=str)) for address in (direct.url, f"{url}/v1")]
    finally:
        direct.stop()
        served.stop()
    with Memory.open(folder / "m.hepm", speak="weighed") as memory:
        memory.sessions.store_abandoned(idle_s=0)
    return Spoken(direct.requests, served.requests, *got, runs_in(folder / "m.hepm"))


def without_hint(value: Any) -> Any:
    """A request without what hepm adds to it: lines, and messages that are nothing else."""
    if isinstance(value, str):
        return re.sub(rf"(\n\n)?({BLOCK_START}\n)?{HINT}.*(\n{BLOCK_END})?", "", value)
    if isinstance(value, list):
        changed = [(one, without_hint(one)) for one in value]
        return [new for old, new in changed if new == old or any(new.get(key) for key in ("content", "text", "output"))]
    if isinstance(value, dict):
        changed = {key: (old, without_hint(old)) for key, old in value.items()}
        return {key: new for key, (old, new) in changed.items() if new or new == old}
    return value


@pytest.mark.parametrize("way", WAYS)
def test_a_client_speaks_through_hepm_as_without_it_but_for_the_hint(tmp_path: Path, way: str) -> None:
    it = speak(way, tmp_path)
    assert len(it.direct) == len(it.served) == 3
    hints = [json.dumps(hinted.body).count(HINT) for hinted in it.served]
    assert hints == [1, 1, 0]  # in the end, no tool is left that was not called
    for plain, hinted in zip(it.direct, it.served, strict=True):
        assert without_hint(hinted.body) == plain.body
    assert it.served_got == it.direct_got
    assert "refunded 7" in json.dumps(it.served_got)
    [run] = it.runs
    called = [[call.name for call in turn.calls] for turn in run.turns if turn.calls]
    assert called == [["get_photo", "get_order"], ["refund"]]
    assert run.turns[-1].text == "refunded 7"
    assert HINT not in repr(run)


def test_the_client_of_mcp_asks_and_records_over_standard_input(tmp_path: Path) -> None:
    seed(tmp_path / "m.hepm")
    (tmp_path / "hepm.toml").write_text('[serve]\nspeak = "weighed"\n')

    async def talk() -> tuple[str, Any]:
        command = [sys.executable, "-m", "hepm", "mcp", "--store", str(tmp_path / "m.hepm")]
        async with Client(StdioServerParameters(command=command[0], args=command[1:], cwd=tmp_path)) as client:
            asked = {"session_id": "s1", "history": ["get_order", "get_photo"]}
            found = await client.call_tool("suggest_next_tools", asked)
            done = {"session_id": "s1", "success": True, "calls": ["get_order", "refund"]}
            assert not (await client.call_tool("record_outcome", done)).is_error
            return client.protocol_version, found.structured_content

    version, found = asyncio.run(talk())
    assert version >= "2026-07-28"
    assert found["tools"][0]["tool"] == "refund"
    [run] = runs_in(tmp_path / "m.hepm")
    assert [call.name for call in run.calls()] == ["get_order", "refund"]
