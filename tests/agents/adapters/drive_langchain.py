"""Runs of LangChain's agent with `HepmMiddleware`."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import StructuredTool, ToolException
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from hepm import Memory
from hepm.agents.langchain import HepmMiddleware
from tests.agents.adapters.desk import drive, get_order, get_photo, refund, wish


def failing_photo(parcel: int) -> str:
    """Look at the photo of a parcel."""
    try:
        return get_photo(parcel)
    except LookupError as error:
        raise ToolException(str(error)) from error


def agent_of(url: str, middleware: HepmMiddleware, *, handle: bool = True, **more: Any) -> Any:
    photo = StructuredTool.from_function(failing_photo, name="get_photo", handle_tool_error=handle)
    model = ChatOpenAI(model="small", base_url=url, api_key="k")
    return create_agent(model, [get_order, photo, refund], system_prompt="Help.", middleware=[middleware], **more)


def asked(parcel: int = 7) -> Any:
    return {"messages": [("user", wish(parcel))]}


def seen(result: Any) -> Any:
    return [str(message.content) for message in result["messages"]]


def once(memory: Memory, url: str) -> Any:
    middleware = HepmMiddleware(memory, outcome=lambda state: "refunded" in state["messages"][-1].text)
    return seen(agent_of(url, middleware).invoke(asked()))


def streamed(memory: Memory, url: str) -> Any:
    middleware = HepmMiddleware(memory, outcome=lambda state: True)
    *_, last = agent_of(url, middleware).stream(asked(), stream_mode="values")
    return seen(last)


def raising(memory: Memory, url: str) -> Any:
    try:
        agent_of(url, HepmMiddleware(memory), handle=False).invoke(asked())
    except ToolException as error:
        return str(error)


def together(memory: Memory, url: str) -> Any:
    agent = agent_of(url, HepmMiddleware(memory, outcome=lambda state: True))

    async def all_of_them() -> Any:
        return await asyncio.gather(*(agent.ainvoke(asked(number)) for number in (1, 2, 3)))

    return [seen(one)[-1] for one in asyncio.run(all_of_them())]


def broken(memory: Memory, url: str) -> Any:
    middleware = HepmMiddleware(memory, outcome=lambda state: True)
    memory.close()
    return seen(agent_of(url, middleware).invoke(asked()))


def own_session(memory: Memory, url: str) -> Any:
    with memory.session(id="mine", task="broken parcel", user="ann") as session:
        result = agent_of(url, HepmMiddleware(session)).invoke(asked())
        session.finish(success=True)
    return seen(result)


def thread(memory: Memory, url: str) -> Any:
    agent = agent_of(url, HepmMiddleware(memory), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "thread-1"}}
    agent.invoke(asked(), config)
    return seen(agent.invoke({"messages": [("user", "Thank you.")]}, config))


def inner(memory: Memory, url: str) -> Any:
    """An agent whose tool is an agent."""
    desk = agent_of(url, HepmMiddleware(memory))

    def delegate(parcel: int) -> str:
        """Let the desk do it."""
        return desk.invoke(asked(parcel))["messages"][-1].text

    model = ChatOpenAI(model="small", base_url=url, api_key="k")
    middleware = HepmMiddleware(memory)
    agent = create_agent(model, [delegate], middleware=[middleware], checkpointer=InMemorySaver())
    return seen(agent.invoke(asked(), {"configurable": {"thread_id": "thread-1"}}))


if __name__ == "__main__":
    drive(once, streamed, raising, together, broken, own_session, thread, inner)
