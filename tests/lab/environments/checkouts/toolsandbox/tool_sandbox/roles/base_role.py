"""A stand-in of hepm's own, not ToolSandbox: see ../../../README.md."""

from __future__ import annotations

from typing import Any

from tool_sandbox.common.execution_context import RoleType, get_current_context
from tool_sandbox.common.message_conversion import Message


def set_wifi_status(on: bool) -> None:
    """Turn wifi on or off."""
    get_current_context().setting["wifi"] = on


def get_wifi_status() -> bool:
    """Whether wifi is on."""
    return get_current_context().setting["wifi"]


def end_conversation() -> None:
    """End the conversation."""
    get_current_context().active = False


TOOLS: dict[str, Any] = {one.__name__: one for one in (set_wifi_status, get_wifi_status, end_conversation)}


class BaseRole:
    """Reads and writes the messages of the current context."""

    role_type: Any = None

    @staticmethod
    def get_messages() -> list[Message]:
        return [Message(**row) for row in get_current_context().messages]

    @staticmethod
    def add_messages(messages: list[Message]) -> None:
        get_current_context().messages += [vars(one) for one in messages]

    @classmethod
    def get_available_tools(cls) -> dict[str, Any]:
        context = get_current_context()
        allowed = [n for n in context.tool_allow_list if (n == "end_conversation") == (cls.role_type == RoleType.USER)]
        return {context.scrambled.get(name, name): TOOLS[name] for name in allowed}
