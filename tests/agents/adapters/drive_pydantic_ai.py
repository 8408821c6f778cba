"""Runs of an agent of pydantic-ai with `HepmCapability`."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from hepm import Memory
from hepm.agents.pydantic_ai import HepmCapability
from tests.agents.adapters.desk import drive, get_order, get_photo, refund, wish


def retried_photo(parcel: int) -> str:
    """Look at the photo of a parcel."""
    try:
        return get_photo(parcel)
    except LookupError as error:
        raise ModelRetry(str(error)) from error


retried_photo.__name__ = "get_photo"


def agent_of(url: str, *capabilities: Any, photo: Any = retried_photo) -> Agent[None, str]:
    model = OpenAIChatModel("small", provider=OpenAIProvider(base_url=url, api_key="k"))
    return Agent(model, instructions="Help.", tools=[get_order, photo, refund], capabilities=capabilities)


def seen(result: Any) -> Any:
    return [result.output, result.all_messages_json().decode()]


def once(memory: Memory, url: str) -> Any:
    return seen(
        agent_of(url, HepmCapability(memory, outcome=lambda result: "refunded" in result.output)).run_sync(wish(7))
    )


def streamed(memory: Memory, url: str) -> Any:
    async def read() -> Any:
        async with agent_of(url, HepmCapability(memory, outcome=lambda result: True)).run_stream(wish(7)) as result:
            output = await result.get_output()
            return [output, result.all_messages_json().decode()]

    return asyncio.run(read())


def raising(memory: Memory, url: str) -> Any:
    try:
        agent_of(url, HepmCapability(memory), photo=get_photo).run_sync(wish(7))
    except LookupError as error:
        return str(error)


def together(memory: Memory, url: str) -> Any:
    agent = agent_of(url, HepmCapability(memory, outcome=lambda result: True))

    async def all_of_them() -> Any:
        return await asyncio.gather(*(agent.run(wish(number)) for number in (1, 2, 3)))

    return [one.output for one in asyncio.run(all_of_them())]


def broken(memory: Memory, url: str) -> Any:
    agent = agent_of(url, HepmCapability(memory, outcome=lambda result: True))
    memory.close()
    return seen(agent.run_sync(wish(7)))


def own_session(memory: Memory, url: str) -> Any:
    with memory.session(id="mine", task="broken parcel", user="ann") as session:
        result = agent_of(url).run_sync(wish(7), capabilities=[HepmCapability(session)])
        session.finish(success=True)
    return seen(result)


def thread(memory: Memory, url: str) -> Any:
    agent = agent_of(url, HepmCapability(memory))
    before = agent.run_sync(wish(7))
    return seen(agent.run_sync("Thank you.", message_history=before.all_messages()))


def inner(memory: Memory, url: str) -> Any:
    """An agent whose tool is an agent."""
    desk = agent_of(url, HepmCapability(memory))

    async def delegate(parcel: int) -> str:
        """Let the desk do it."""
        return (await desk.run(wish(parcel))).output

    model = OpenAIChatModel("small", provider=OpenAIProvider(base_url=url, api_key="k"))
    agent = Agent(model, tools=[delegate], capabilities=[HepmCapability(memory)])
    return seen(agent.run_sync(wish(7), conversation_id="thread-1"))


if __name__ == "__main__":
    drive(once, streamed, raising, together, broken, own_session, thread, inner)
