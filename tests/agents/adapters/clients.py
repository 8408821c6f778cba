"""Real clients of OpenAI's API in a loop with tools: clients.py < {way: url}; each way prints what the client got."""

from __future__ import annotations

import asyncio
import json
import sys
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


def openai_chat(url: str) -> Any:
    import openai

    messages: list[Any] = [{"role": "user", "content": wish(7)}]
    with openai.OpenAI(base_url=url, api_key="k") as client:
        while True:
            got = client.chat.completions.create(model="small", messages=messages, tools=chat_tools())
            message = got.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return messages
            for call in message.tool_calls:
                result = result_of(call.function.name, call.function.arguments)  # pyright: ignore
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def openai_chat_stream(url: str) -> Any:
    import openai

    messages: list[Any] = [{"role": "user", "content": wish(7)}]
    with openai.OpenAI(base_url=url, api_key="k") as client:
        while True:
            with client.chat.completions.stream(model="small", messages=messages, tools=chat_tools()) as stream:
                message = stream.get_final_completion().choices[0].message
            calls = [call.model_dump(exclude={"function": {"parsed_arguments"}}) for call in message.tool_calls or ()]
            said = {"role": "assistant", "content": message.content}
            if not calls:
                return [*messages, said]
            messages.append({**said, "tool_calls": calls})
            for call in calls:
                result = result_of(call["function"]["name"], call["function"]["arguments"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def openai_async(url: str) -> Any:
    import openai

    async def run() -> Any:
        messages: list[Any] = [{"role": "user", "content": wish(7)}]
        async with openai.AsyncOpenAI(base_url=url, api_key="k") as client:
            while True:
                got = await client.chat.completions.create(model="small", messages=messages, tools=chat_tools())
                message = got.choices[0].message
                messages.append(message.model_dump(exclude_none=True))
                if not message.tool_calls:
                    return messages
                for call in message.tool_calls:
                    result = result_of(call.function.name, call.function.arguments)  # pyright: ignore
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    return asyncio.run(run())


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


# Frameworks


def _agents(url: str, *, responses: bool, stream: bool = False) -> Any:
    from agents import (
        Agent,
        OpenAIChatCompletionsModel,
        OpenAIResponsesModel,
        Runner,
        function_tool,
        set_trace_processors,
    )
    from openai import AsyncOpenAI

    set_trace_processors([])
    client = AsyncOpenAI(base_url=url, api_key="k")
    model = (OpenAIResponsesModel if responses else OpenAIChatCompletionsModel)("small", client)
    agent = Agent("desk", instructions="Help.", model=model, tools=[function_tool(tool) for tool in TOOLS.values()])

    async def run() -> Any:
        if not stream:
            return await Runner.run(agent, wish(7))
        result = Runner.run_streamed(agent, wish(7))
        async for _ in result.stream_events():
            pass
        return result

    return asyncio.run(run()).to_input_list()


def agents_chat(url: str) -> Any:
    return _agents(url, responses=False)


def agents_chat_stream(url: str) -> Any:
    return _agents(url, responses=False, stream=True)


def agents_responses(url: str) -> Any:
    return _agents(url, responses=True)


def agents_responses_stream(url: str) -> Any:
    return _agents(url, responses=True, stream=True)


def _langchain(url: str, *, stream: bool = False, **options: Any) -> Any:
    from langchain.agents import create_agent
    from langchain_core.tools import StructuredTool
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="small", base_url=url, api_key="k", streaming=stream, **options)  # pyright: ignore
    tools = [StructuredTool.from_function(tool) for tool in (get_order, refund)]

    def photo(parcel: int) -> str:
        """Look at the photo of a parcel."""
        return result_of("get_photo", json.dumps({"parcel": parcel}))

    tools.append(StructuredTool.from_function(photo, name="get_photo"))
    result = create_agent(model, tools, system_prompt="Help.").invoke({"messages": [("user", wish(7))]})
    return [[message.type, message.text, getattr(message, "tool_calls", [])] for message in result["messages"]]


def langchain_chat(url: str) -> Any:
    return _langchain(url)


def langchain_chat_stream(url: str) -> Any:
    return _langchain(url, stream=True)


def langchain_responses(url: str) -> Any:
    return _langchain(url, use_responses_api=True)


def langchain_responses_stream(url: str) -> Any:
    return _langchain(url, use_responses_api=True, stream=True)


def _pydantic_ai(url: str, *, responses: bool = False, stream: bool = False) -> Any:
    from pydantic_ai import Agent, Tool
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    def photo(parcel: int) -> str:
        """Look at the photo of a parcel."""
        return result_of("get_photo", json.dumps({"parcel": parcel}))

    provider = OpenAIProvider(base_url=url, api_key="k")
    model = (OpenAIResponsesModel if responses else OpenAIChatModel)("small", provider=provider)
    agent = Agent(model, instructions="Help.", tools=[get_order, refund, Tool(photo, name="get_photo")])

    async def run() -> Any:
        if not stream:
            return (await agent.run(wish(7))).all_messages()
        async with agent.run_stream(wish(7)) as result:
            await result.get_output()
            return result.all_messages()

    parts: list[Any] = [part for message in asyncio.run(run()) for part in message.parts]
    return [[part.part_kind, str(part.content if hasattr(part, "content") else part.args)] for part in parts]


def pydantic_ai_chat(url: str) -> Any:
    return _pydantic_ai(url)


def pydantic_ai_chat_stream(url: str) -> Any:
    return _pydantic_ai(url, stream=True)


def pydantic_ai_responses(url: str) -> Any:
    return _pydantic_ai(url, responses=True)


def pydantic_ai_responses_stream(url: str) -> Any:
    return _pydantic_ai(url, responses=True, stream=True)


def litellm_chat(url: str, *, stream: bool = False) -> Any:
    import os

    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    messages: list[Any] = [{"role": "user", "content": wish(7)}]
    while True:
        given: dict[str, Any] = {"model": "openai/small", "api_base": url, "api_key": "k", "tools": chat_tools()}
        got: Any = litellm.completion(**given, messages=messages, stream=stream)
        got = litellm.stream_chunk_builder(list(got), messages=messages) if stream else got
        message = got.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return messages
        for call in message.tool_calls:
            result = result_of(call.function.name, call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def litellm_chat_stream(url: str) -> Any:
    return litellm_chat(url, stream=True)


if __name__ == "__main__":
    for way, address in json.loads(sys.stdin.read()).items():
        for place in ("direct", "served"):
            got = globals()[way](address[place])
            print(json.dumps({"scenario": f"{way} {place}", "returned": got}, default=str), flush=True)
