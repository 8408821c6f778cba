"""Real clients of OpenAI's API in a loop with tools: clients.py < {way: url}; each way prints what the client got."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.agents.adapters.desk import get_order, get_photo, refund, wish

TOOLS: dict[str, Callable[[int], str]] = {tool.__name__: tool for tool in (get_order, get_photo, refund)}
PARCEL = {"type": "object", "properties": {"parcel": {"type": "integer"}}, "required": ["parcel"]}


def result_of(name: str, arguments: str) -> str:
    try:
        return TOOLS[name](**json.loads(arguments))
    except LookupError as error:
        return f"error: {error}"


# The openai client itself


def chat_tools() -> list[Any]:
    return [{"type": "function", "function": {"name": name, "parameters": PARCEL}} for name in TOOLS]


def response_tools() -> list[Any]:
    return [{"type": "function", "name": name, "parameters": PARCEL, "strict": False} for name in TOOLS]


def openai_chat(url: str, *, stream: bool = False) -> Any:
    import openai

    messages: list[Any] = [{"role": "user", "content": wish(7)}]
    with openai.OpenAI(base_url=url, api_key="k") as client:
        while True:
            asked: Any = {"model": "small", "messages": messages, "tools": chat_tools()}
            if stream:
                with client.chat.completions.stream(**asked) as events:
                    got: Any = events.get_final_completion()
            else:
                got = client.chat.completions.create(**asked)
            said = got.choices[0].message
            calls = [call.model_dump(exclude={"function": {"parsed_arguments"}}) for call in said.tool_calls or ()]
            messages.append({"role": "assistant", "content": said.content} | ({"tool_calls": calls} if calls else {}))
            if not calls:
                return messages
            for call in calls:
                result = result_of(call["function"]["name"], call["function"]["arguments"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def openai_chat_stream(url: str) -> Any:
    return openai_chat(url, stream=True)


def openai_responses(url: str, *, stream: bool = False, kept: bool = False, store: bool = True) -> Any:
    """With `kept`, the server keeps the conversation, and only new items are sent."""
    import openai

    items: list[Any] = [{"role": "user", "content": wish(7)}]
    last: Any = wish(7)
    before: Any = openai.omit
    seen: list[Any] = []
    with openai.OpenAI(base_url=url, api_key="k") as client:
        while True:
            given: dict[str, Any] = {"model": "small", "tools": response_tools(), "store": store}
            given |= {"input": last, "previous_response_id": before} if kept else {"input": items}
            if stream:
                with client.responses.stream(**given) as events:
                    for _ in events:
                        pass
                    got: Any = events.get_final_response()
            else:
                got = client.responses.create(**given)
            output = [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in got.output]
            calls = [item for item in got.output if item.type == "function_call"]
            answers = {call.call_id: result_of(call.name, call.arguments) for call in calls}
            results = [{"type": "function_call_output", "call_id": id, "output": text} for id, text in answers.items()]
            seen += [*output, *results]
            items += [*output, *results]
            last, before = results, got.id
            if not calls:
                return seen


def openai_responses_stream(url: str) -> Any:
    return openai_responses(url, stream=True)


def openai_responses_unstored(url: str) -> Any:
    return openai_responses(url, store=False)


def openai_previous_response(url: str) -> Any:
    return openai_responses(url, kept=True)
