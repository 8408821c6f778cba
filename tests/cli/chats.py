"""Chat logs of a shop, made up: two ways through it, some of them walked in vain."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WAYS = {
    "return": ("find_user", "get_order", "return_items"),
    "cancel": ("find_user", "get_order", "cancel_order", "send_mail"),
}


def chat(
    name: str, tools: Sequence[str], *, task: str, success: bool | None = True, wish: str = "help"
) -> dict[str, Any]:
    """A run as an OpenAI chat: a wish, and one call a turn."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"I want to {wish} order {task}, please."}]
    for number, tool in enumerate(tools):
        call = {"id": f"c{number}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"{tool} done"},
        ]
    outcome = {} if success is None else {"success": success}
    return {"id": name, "task": task, "environment": "shop", "user": f"u-{task}", "messages": messages, **outcome}


def chats(tasks: int = 12) -> list[dict[str, Any]]:
    """For each task a run that came to its end and one that left the way halfway."""
    found: list[dict[str, Any]] = []
    for number in range(tasks):
        wish, tools = list(WAYS.items())[number % 2]
        task = f"{wish}-{number}"
        found.append(chat(f"good-{number}", tools, task=task, wish=wish))
        found.append(chat(f"bad-{number}", (*tools[:2], "give_up"), task=task, success=False, wish=wish))
    return found


def write(path: Path, records: Sequence[dict[str, Any]]) -> Path:
    """As JSON Lines."""
    path.write_text("".join(json.dumps(one) + "\n" for one in records), "utf-8")
    return path
