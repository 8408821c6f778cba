"""Runs of a loop on LiteLLM's SDK with `HepmLogger`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it is downloaded at import

import litellm

from hepm import Memory
from hepm.agents.litellm import HepmLogger
from tests.agents.adapters.desk import drive, get_order, get_photo, refund, wish

TOOLS = {tool.__name__: tool for tool in (get_order, get_photo, refund)}


def specs() -> list[Any]:
    parcel = {"type": "object", "properties": {"parcel": {"type": "integer"}}}
    return [{"type": "function", "function": {"name": name, "parameters": parcel}} for name in TOOLS]


def request(url: str, messages: list[Any], session: str) -> dict[str, Any]:
    given = {"model": "openai/small", "api_base": url, "api_key": "k", "messages": messages, "tools": specs()}
    return {**given, **({"metadata": {"session_id": session}} if session else {})}


def answered(messages: list[Any], message: Any) -> bool:
    """Add a reply and the results of its calls; whether there were any."""
    messages.append(message.model_dump(exclude_none=True))
    for call in message.tool_calls or ():
        try:
            result = TOOLS[call.function.name](**json.loads(call.function.arguments))
        except LookupError as error:
            result = str(error)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return bool(message.tool_calls)


def loop(url: str, session: str = "s1", *, stream: bool = False) -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": wish(7)}]
    while True:
        got: Any = litellm.completion(**request(url, messages, session), stream=stream)
        got = litellm.stream_chunk_builder(list(got), messages=messages) if stream else got
        if not answered(messages, got.choices[0].message):
            return messages


async def aloop(url: str, session: str = "s1", parcel: int = 7) -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": wish(parcel)}]
    while answered(messages, (await litellm.acompletion(**request(url, messages, session))).choices[0].message):
        pass
    return messages


def installed(memory: Memory, **options: Any) -> HepmLogger:
    """A logger that is LiteLLM's only one."""
    litellm.logging_callback_manager._reset_all_callbacks()
    litellm.callbacks = [logger := HepmLogger(memory, **options)]
    return logger


def finished(logger: HepmLogger, *sessions: str) -> None:
    """LiteLLM calls back on other threads: wait for the last reply, and give the outcomes."""
    for _ in range(200):
        if not logger.runs or all(run.replied for run in logger.runs._runs.values()):
            break
        time.sleep(0.02)
    for session in sessions:
        logger.finish(session, success=True)


def once(memory: Memory, url: str) -> Any:
    logger = installed(memory)
    messages = loop(url)
    finished(logger, "s1")
    return messages


def streamed(memory: Memory, url: str) -> Any:
    logger = installed(memory)
    messages = loop(url, stream=True)
    finished(logger, "s1")
    return messages


def together(memory: Memory, url: str) -> Any:
    logger = installed(memory, idle_s=0)

    async def all_of_them() -> Any:
        found = await asyncio.gather(*(aloop(url, "", number) for number in (1, 2, 3)))
        await asyncio.sleep(0.5)
        return found

    found = asyncio.run(all_of_them())
    finished(logger)
    logger.runs.store_idle()
    return [messages[-1]["content"] for messages in found]


def broken(memory: Memory, url: str) -> Any:
    installed(memory)
    memory.close()
    return loop(url)[-1]["content"]


def repeated(memory: Memory, url: str) -> Any:
    """Each request fails once, and no one waits for the last reply."""
    logger = installed(memory)
    messages: list[Any] = [{"role": "user", "content": wish(7)}]
    while True:
        for _ in range(2):
            with contextlib.suppress(litellm.InternalServerError):
                got: Any = litellm.completion(**request(url, messages, ""), max_retries=0)
                break
        if not answered(messages, got.choices[0].message):
            break
    [run] = logger.runs.under_way("default")
    logger.finish(run.id, success=True)
    return messages


if __name__ == "__main__":
    drive(once, streamed, together, broken, repeated)
