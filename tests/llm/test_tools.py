"""Tools that are offered, and the calls that come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hepm.llm import Client, MemoryLedger, Message, OfferedTool, Question, ToolsCalled
from tests.loopback import Loopback, completion

ONE = OfferedTool("ask_first", "Ask before you buy.")
TWO = OfferedTool("wait", "Wait.")


def choice(*tools: OfferedTool, **more: Any) -> Question[ToolsCalled]:
    return Question(
        "choose", "state", (Message("user", "Which apply?"),), ToolsCalled, tools=tools or (ONE, TWO), **more
    )


def test_the_tools_called_are_the_answer_in_the_order_of_the_calls(server: Loopback, client: Client):
    server.replies = [completion(None, tool_calls=[("wait", {}), ("ask_first", {"x": 1}), ("other", {})])]
    assert client.ask(choice()).names == ("wait", "ask_first", "other")
    offered = server.requests[0].body["tools"]
    assert [tool["function"]["name"] for tool in offered] == ["ask_first", "wait"]
    assert "response_format" not in server.requests[0].body


def test_a_choice_is_paid_for_once_and_other_tools_make_another_question(
    server: Loopback, open_client: Callable[..., Client]
):
    ledger = MemoryLedger()
    server.script = lambda _: completion(None, tool_calls=[("wait", {})])
    asked = [choice(), choice(TWO, ONE), choice(ONE), choice(ONE, replace(TWO, description="Hurry."))]
    for _ in range(2):
        for question in asked:
            assert open_client(ledger=ledger).ask(question).names == ("wait",)
    assert len(server.requests) == 4
