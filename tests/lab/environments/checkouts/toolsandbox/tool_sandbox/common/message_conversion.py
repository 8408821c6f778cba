"""A stand-in of hepm's own, not ToolSandbox: see ../../../README.md."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass
class Message:
    """One message of a role to another."""

    sender: Any
    recipient: Any
    content: str
    openai_tool_call_id: str = ""
    openai_function_name: str = ""
    tool_call_exception: str | None = None
    conversation_active: bool = True
    visible_to: Any = None


def openai_tool_call_to_python_code(tool_call: Any, available: set[str], execution_facing_tool_name: str | None) -> str:
    """The call as code; its id becomes part of a variable's name."""
    assert tool_call.function.name in available
    assert tool_call.id.isidentifier()
    name = execution_facing_tool_name or tool_call.function.name
    return f"{name}(**{json.loads(tool_call.function.arguments)})"
