"""Runs of the OpenAI Agents SDK with `HepmRunHooks`."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    set_trace_processors,
)
from openai import AsyncOpenAI

from hepm import Memory
from hepm.agents.openai_agents import HepmRunHooks
from tests.agents.adapters.desk import drive, get_order, get_photo, refund, wish

set_trace_processors([])  # the SDK's own would send traces to OpenAI


def agent_of(url: str, *, handle: bool = True, responses: bool = False) -> Agent[Any]:
    photo = function_tool(get_photo) if handle else function_tool(get_photo, failure_error_function=None)
    client = AsyncOpenAI(base_url=url, api_key="k")
    model = (OpenAIResponsesModel if responses else OpenAIChatCompletionsModel)("small", client)
    tools = [function_tool(get_order), photo, function_tool(refund)]
    return Agent("desk", instructions="Help.", model=model, model_settings=ModelSettings(store=False), tools=tools)


def seen(result: Any) -> Any:
    return [result.final_output, result.to_input_list()]


async def run(memory: Memory, url: str, parcel: int = 7, *, responses: bool = False) -> Any:
    async with memory.session() as session:
        hepm = HepmRunHooks(session)
        agent = agent_of(url, responses=responses)
        result = await Runner.run(agent, wish(parcel), hooks=hepm, run_config=hepm.run_config())
        await session.afinish(success="refunded" in result.final_output)
    return seen(result)


def once(memory: Memory, url: str) -> Any:
    with memory.session() as session:
        hepm = HepmRunHooks(session)
        result = Runner.run_sync(agent_of(url), wish(7), hooks=hepm, run_config=hepm.run_config())
        session.finish(success=True)
    return seen(result)


def streamed(memory: Memory, url: str) -> Any:
    async def read() -> Any:
        async with memory.session() as session:
            hepm = HepmRunHooks(session)
            result = Runner.run_streamed(agent_of(url), wish(7), hooks=hepm, run_config=hepm.run_config())
            async for _ in result.stream_events():
                pass
            await session.afinish(success=True)
            return seen(result)

    return asyncio.run(read())


def raising(memory: Memory, url: str) -> Any:
    try:
        with memory.session() as session:
            hepm = HepmRunHooks(session)
            agent = agent_of(url, handle=False)
            Runner.run_sync(agent, wish(7), hooks=hepm, run_config=hepm.run_config())
    except Exception as error:
        return str(error)


def together(memory: Memory, url: str) -> Any:
    async def all_of_them() -> Any:
        return await asyncio.gather(*(run(memory, url, number) for number in (1, 2, 3)))

    return [output for output, _ in asyncio.run(all_of_them())]


def broken(memory: Memory, url: str) -> Any:
    hepm = HepmRunHooks(memory.session())
    memory.close()
    return seen(Runner.run_sync(agent_of(url), wish(7), hooks=hepm, run_config=hepm.run_config()))


def own_session(memory: Memory, url: str) -> Any:
    filtered = list[Any]()

    def own_filter(data: Any) -> Any:
        filtered.append(len(data.model_data.input))
        return data.model_data

    with memory.session(id="mine", task="broken parcel", user="ann") as session:
        hepm = HepmRunHooks(session)
        config = hepm.run_config(RunConfig(call_model_input_filter=own_filter))
        Runner.run_sync(agent_of(url), wish(7), hooks=hepm, run_config=config)
        session.finish(success=True)
    return filtered


def thread(memory: Memory, url: str) -> Any:
    kept = SQLiteSession("thread-1")
    result: Any = None
    for text in (wish(7), "Thank you."):
        with memory.session() as session:
            hepm = HepmRunHooks(session)
            result = Runner.run_sync(agent_of(url), text, session=kept, hooks=hepm, run_config=hepm.run_config())
    return seen(result)


def kept(memory: Memory, url: str) -> Any:
    """The server keeps the conversation."""
    with memory.session() as session:
        hepm = HepmRunHooks(session)
        agent = agent_of(url, responses=True)
        agent.model_settings.store = True
        given: Any = {"hooks": hepm, "run_config": hepm.run_config(), "auto_previous_response_id": True}
        result = Runner.run_sync(agent, wish(7), **given)
    return seen(result)


if __name__ == "__main__":
    drive(once, streamed, raising, together, broken, own_session, thread, kept)
