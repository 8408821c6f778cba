"""Tools that are called through one tool: `execute-tool(server, tool, args)` runs another tool each time.

Such a call is named "GATEWAY SERVER/TOOL", as a shell call is named by its program, wherever calls are made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from hepm.ingest.fields import value_at
from hepm.types import ToolName

_GATEWAY: Final = re.compile(
    r"(?:.*(?:__|[./:]))?(?:(?:call|execute|invoke|run|use)_?(?:mcp_?)?(?:tool|action)|mcp_?(?:tool_?)?(?:call|execute|run)"
    r"|composio_?execute_?tool)",
    re.IGNORECASE,
)
"""Names of gateways, with "_" for "-", behind the name of a server."""
_FAILED: Final = re.compile(
    r"\W*(?:error\W+)?(?:the )?(?:mcp )?(?:tool|server|action)(?: '?[\w./-]{1,100}'?)? (?:(?:call|execution|request) )?"
    r"(?:has )?(?:timed out|failed|not found|does not exist|is not available)\b"
    r"|\W*(?:error\W+)?(?:request|call) timed out",
    re.IGNORECASE,
)


def called_name(name: ToolName, arguments: Mapping[str, Any]) -> ToolName:
    """The name of a call in the graph: "execute-tool weather/forecast" for a gateway, else the tool's own."""
    if not is_gateway(name):
        return name
    from hepm.ingest.redact import default_redactor

    paths = "tool_name|toolName|tool_slug|action_name|actionName|tool|action|name|tool.name|params.name"
    inner = value_at(arguments, paths)
    server = value_at(arguments, "server_name|serverName|server|mcp_server|app_name|appName|toolkit|connector")
    if isinstance(server, str) and server and isinstance(inner, str):
        inner = f"{server}/{inner}"
    # Names of tools are stored as they are: no text that a model wrote, and no secret.
    is_name = isinstance(inner, str) and re.fullmatch(r"[\w.:/@-]{1,100}", inner)
    if not is_name or default_redactor().text(inner) != inner:
        return name
    return f"{name} {inner}"


def has_failed(name: ToolName, result: str | None) -> bool:
    """Whether a result says that the call timed out; of a gateway, also that the tool behind it failed."""
    match = _FAILED.match(result) if result and len(result) <= 300 else None
    return match is not None and (match[0].lower().endswith("timed out") or is_gateway(name))


@lru_cache(maxsize=4096)
def is_gateway(name: ToolName) -> bool:
    """Whether a tool runs other tools."""
    return _GATEWAY.fullmatch(name[:200].replace("-", "_")) is not None
