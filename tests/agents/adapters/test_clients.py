"""Real clients speak through `hepm serve` as they do without it."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from mcp import Client, StdioServerParameters

from hepm import Memory, Trajectory
from hepm.types import BLOCK_END, BLOCK_START, HINT
from tests.agents.adapters import clients
from tests.agents.adapters.frameworks import drive
from tests.agents.adapters.test_frameworks import runs_in, script, seed
from tests.agents.serving import serving
from tests.loopback import Loopback, Reply, Request

WAYS = {
    "": ("openai_chat", "openai_chat_stream", "openai_async", "openai_responses", "openai_responses_stream",
         "openai_responses_unstored", "openai_previous_response"),
    "pydantic_ai": ("pydantic_ai_chat", "pydantic_ai_chat_stream", "pydantic_ai_responses",
                    "pydantic_ai_responses_stream"),
    "openai_agents": ("agents_chat", "agents_chat_stream", "agents_responses", "agents_responses_stream"),
    "langchain": ("langchain_chat", "langchain_chat_stream", "langchain_responses", "langchain_responses_stream"),
    "litellm": ("litellm_chat", "litellm_chat_stream"),
}  # fmt: skip
CLIENTS = [
    pytest.param(
        way,
        framework,
        marks=[pytest.mark.xdist_group(f"{framework} client"), *([pytest.mark.exhaustive] if framework else [])],
    )
    for framework, ways in WAYS.items()
    for way in ways
]


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


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Spoken]]:
    """All ways of a framework in one process."""
    known: dict[str, dict[str, Spoken]] = {}

    def speak(framework: str) -> dict[str, Spoken]:
        if framework not in known:
            known[framework] = speak_all(framework, tmp_path_factory.mktemp("clients"))
        return known[framework]

    return speak


def speak_all(framework: str, folder: Path) -> dict[str, Spoken]:
    models: dict[str, tuple[Model, Model]] = {}
    urls: dict[str, dict[str, str]] = {}
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        for way in WAYS[framework]:
            seed(folder / f"{way}.hepm")
            models[way] = Model(), Model()
            for model in models[way]:
                stack.callback(model.stop)
            memory = stack.enter_context(Memory.open(folder / f"{way}.hepm", speak="weighed"))
            _, url = stack.enter_context(serving(memory, upstream=models[way][1].url))
            urls[way] = {"direct": models[way][0].url, "served": f"{url}/v1"}
        if framework:
            reported = drive(framework, "clients", urls)
            found = {name: one["returned"] for name, one in reported.items()}
        else:
            for way, address in urls.items():
                for place in address:
                    found[f"{way} {place}"] = json.loads(json.dumps(getattr(clients, way)(address[place]), default=str))
    result: dict[str, Spoken] = {}
    for way, (direct, served) in models.items():
        with Memory.open(folder / f"{way}.hepm", speak="weighed") as memory:
            memory.sessions.store_abandoned(idle_s=0)
        got = found[f"{way} direct"], found[f"{way} served"]
        result[way] = Spoken(direct.requests, served.requests, *got, runs_in(folder / f"{way}.hepm"))
    return result


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


@pytest.mark.parametrize(("way", "framework"), CLIENTS)
def test_a_client_speaks_through_hepm_as_without_it_but_for_the_hint(spoken: Any, way: str, framework: str) -> None:
    it: Spoken = spoken(framework)[way]
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


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["chat/completions", "responses"])
def test_the_bytes_of_a_reply_are_the_upstreams(tmp_path: Path, path: str, stream: bool) -> None:
    seed(tmp_path / "m.hepm")
    model = Model()
    given = [{"role": "user", "content": clients.wish(7)}]
    body = {"model": "small", "stream": stream, "messages" if path.startswith("chat") else "input": given}
    try:
        with (
            Memory.open(tmp_path / "m.hepm", speak="weighed") as memory,
            serving(memory, upstream=model.url) as (_, url),
        ):
            direct = httpx2.post(f"{model.url}/{path}", json=body)
            served = httpx2.post(f"{url}/v1/{path}", json=body)
    finally:
        model.stop()
    assert served.headers["content-type"] == direct.headers["content-type"]
    if path == "responses":  # it repeats the instructions of its request
        assert re.sub(rb'"instructions": "[^"]*", ', b"", served.content) == direct.content
    else:
        assert served.content == direct.content


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.exhaustive)])
def test_the_client_of_mcp_asks_and_records_over_standard_input(tmp_path: Path, mode: str) -> None:
    seed(tmp_path / "m.hepm")
    (tmp_path / "hepm.toml").write_text('[serve]\nspeak = "weighed"\n')

    async def talk() -> tuple[str, Any]:
        command = [sys.executable, "-m", "hepm", "mcp", "--store", str(tmp_path / "m.hepm")]
        async with Client(
            StdioServerParameters(command=command[0], args=command[1:], cwd=tmp_path), mode=mode
        ) as client:
            asked = {"session_id": "s1", "history": ["get_order", "get_photo"]}
            found = await client.call_tool("suggest_next_tools", asked)
            done = {"session_id": "s1", "success": True, "calls": ["get_order", "refund"]}
            assert not (await client.call_tool("record_outcome", done)).is_error
            return client.protocol_version, found.structured_content

    version, found = asyncio.run(talk())
    assert (version >= "2026-07-28") == (mode == "auto")
    assert found["tools"][0]["tool"] == "refund"
    [run] = runs_in(tmp_path / "m.hepm")
    assert [call.name for call in run.calls()] == ["get_order", "refund"]
