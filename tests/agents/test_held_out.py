"""Sessions that are held out, through each door: memory tells them nothing, and records them."""

# ruff: noqa: F811, as fixtures are arguments
from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client

from hepm import Memory
from hepm.agents.guard import Access
from hepm.graph.trials import CONTROL, MEMORY, Trial
from hepm.memory.session import HELD_OUT
from hepm.types import HINT
from tests.agents.made_up_repository import sessions
from tests.agents.serving import serving
from tests.agents.test_coding_advice import Hooks, taught  # noqa: F401
from tests.agents.test_coding_advice import memory as coding_memory  # noqa: F401
from tests.agents.test_proxy import TEXT, WISH
from tests.agents.test_proxy import memory as told_memory  # noqa: F401
from tests.loopback import Loopback, completion
from tests.runs import stored_run

HOLDOUT = 0.5
ARMS = pytest.mark.parametrize("arm", [CONTROL, MEMORY])


@pytest.fixture
def memory(told_memory: Memory, tmp_path: Path) -> Iterator[Memory]:
    """A memory that knows what comes next, of which half of the sessions are held out."""
    told_memory.close()
    with Memory.open(tmp_path / "m.hepm", speak="weighed", holdout=HOLDOUT) as memory:
        yield memory


def id_in(memory: Memory, arm: str) -> str:
    """An id of a session that draws an arm."""
    names = (f"s{number}" for number in count())
    return next(name for name in names if memory.sessions.draw_arm(name, HOLDOUT) == arm)


def trial_of(memory: Memory, name: str) -> Trial:
    stored = stored_run(memory, name)
    trial = Trial.of(stored)
    assert trial is not None
    return trial


def test_a_client_that_sends_a_request_again_stays_in_its_arm_and_cannot_choose_it(
    memory: Memory, loopback: Loopback, tmp_path: Path
) -> None:
    wishes = {"X-Hepm-Tags": '{"hepm:trial": "memory"}', "X-Hepm-Holdout": "0", "X-Hepm-Arm": MEMORY}
    name = id_in(memory, CONTROL)
    for _ in range(2):  # as after a restart
        with serving(memory, upstream=loopback.url) as (_, url):
            loopback.replies = [completion("done")] * 3
            body = {"model": "small", "messages": [WISH]}
            for _ in range(3):
                httpx2.post(f"{url}/v1/chat/completions", json=body, headers={"X-Hepm-Session": name, **wishes})
    with Memory.open(tmp_path / "m.hepm", holdout=HOLDOUT) as other, serving(other) as (_, url):
        httpx2.post(f"{url}/outcome", json={"session": name, "success": True})
        assert trial_of(other, name).arm == CONTROL
        assert (other.sessions.uplift().sessions, other.sessions.uplift().controls) == (1, 1)
    assert not any(HINT in str(request.body["messages"]) for request in loopback.requests)


@ARMS
def test_hooks_tell_a_control_no_lesson_and_no_warning(coding_memory: Memory, arm: str) -> None:
    coding_memory.holdout = HOLDOUT
    hooks, told = Hooks(coding_memory), 0
    for session in sessions(24, seed=2):
        in_arm = coding_memory.sessions.draw_arm(session.id, HOLDOUT) == arm
        told += sum(bool(text) for _, text in hooks.play(session) if in_arm)
    assert (told == 0) == (arm == CONTROL)


async def _talk(url: str, name: str) -> dict[str, Any]:
    async with Client(f"{url}/mcp") as client:
        asked = {"session_id": name, "history": ["get_order"], "state": TEXT}
        found = {"suggested": await client.call_tool("suggest_next_tools", asked)}
        searched = {"query": TEXT, "session_id": name}
        found["searched"] = await client.call_tool("search_experience", searched)
        found["failed"] = await client.call_tool("what_failed_here", asked)
        found["nameless"] = await client.call_tool("search_experience", {"query": TEXT})
        said = {"session_id": name, "summary": TEXT}
        found["summarised"] = await client.call_tool("summarize_the_task", said)
        ended = {"session_id": name, "success": True, "calls": ["get_order", "refund"]}
        found["ended"] = await client.call_tool("record_outcome", ended)
        return found


@ARMS
def test_no_tool_of_mcp_tells_a_control_anything(memory: Memory, arm: str) -> None:
    name = id_in(memory, arm)
    with serving(memory) as (_, url):
        got = asyncio.run(_talk(url, name))
    told = arm == MEMORY
    suggested = got["suggested"].structured_content
    assert (bool(suggested["tools"]), suggested["no_opinion"] == HELD_OUT) == (told, not told)
    searched = got["searched"].structured_content
    assert bool(searched["situations"]) == told
    failed = got["failed"].structured_content
    assert (failed["failed"], failed["no_opinion"] == HELD_OUT) == ([], not told)
    assert (HINT in str(got["summarised"].content)) == told
    assert "session_id" in str(got["nameless"].content)
    assert got["nameless"].is_error  # who does not say who it is has no arm
    trial = trial_of(memory, name)
    assert (trial.arm, trial.tokens > 0) == (arm, told)


def test_in_an_experiment_a_token_that_only_reads_is_told_nothing(memory: Memory) -> None:
    names = [id_in(memory, arm) for arm in (CONTROL, MEMORY)]
    tokens = {"a-token-that-reads": Access(write=False)}

    def asked(url: str, tool: str, **arguments: Any) -> str:
        params = {"name": tool, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
        return httpx2.post(f"{url}/mcp", json=body, headers=headers | {"X-Hepm-Token": "a-token-that-reads"}).text

    with serving(memory, tokens=tokens) as (_, url):
        for name in names:
            for tool, about in (
                ("suggest_next_tools", {"history": ["get_order"], "state": TEXT}),
                ("search_experience", {"query": TEXT}),
                ("summarize_the_task", {"summary": TEXT}),
            ):
                told = asked(url, tool, session_id=name, **about)
                assert '"isError":false' in told
                assert "refund" not in told.replace(TEXT, "")
    assert [memory.run(name) for name in names] == [None, None]
