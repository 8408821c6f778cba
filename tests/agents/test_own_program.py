"""Programs that call a model themselves, through /api/hint and /api/record."""

# ruff: noqa: F811, as fixtures are arguments
from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import httpx2

from hepm import Memory
from hepm.agents.guard import Access
from tests.agents.serving import serving
from tests.agents.test_proxy import TOOLS, WISH, memory  # noqa: F401
from tests.faults.killing_servers import Served
from tests.runs import stored_run

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


def test_a_server_says_on_standard_error_that_a_run_begins_and_is_stored(tmp_path: Path) -> None:
    served = Served(tmp_path / "m.hepm", "http://127.0.0.1:1/v1")
    try:
        post(served.url, "/api/hint", [WISH])
        post(served.url, "/outcome", success=True)
    finally:
        assert served.kill(signal.SIGTERM) == 0
    assert served.said[0].endswith("INFO run 'ticket-7' of 'default' begins (api)\n")
    assert served.said[1].endswith("INFO run 'ticket-7' of 'default' is stored with its outcome\n")


def test_a_session_of_another_token_is_refused(memory: Memory) -> None:
    tokens = {"token-of-ann-1": Access(name="ann"), "token-of-eve-2": Access(name="eve")}
    with serving(memory, tokens=tokens) as (_, url):
        answers: list[int] = []
        for token in tokens:
            headers = {"x-hepm-token": token}
            body = {**SESSION, "messages": [WISH]}
            answers.append(httpx2.post(f"{url}/api/hint", json=body, headers=headers).status_code)
    assert answers == [200, 409]
