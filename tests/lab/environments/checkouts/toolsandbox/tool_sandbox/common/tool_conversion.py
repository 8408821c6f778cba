"""A stand-in of hepm's own, not ToolSandbox: see ../../../README.md."""

from typing import Any


def convert_to_openai_tools(tools: dict[str, Any]) -> list[dict[str, Any]]:
    """Tools as endpoints take them."""
    parameters = {"type": "object", "properties": {"on": {"type": "boolean"}}}
    return [
        {"type": "function", "function": {"name": name, "description": tool.__doc__, "parameters": parameters}}
        for name, tool in tools.items()
    ]
