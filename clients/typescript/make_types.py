"""Write `src/api.ts` from the OpenAPI document of `hepm serve` and its tools of MCP: run by `make reference`."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from hepm import Memory
from hepm.agents.mcp import mcp_server
from hepm.agents.runs import LiveRuns
from hepm.web.options import ServeOptions
from hepm.web.server import Server

TARGET = Path(__file__).parent / "src" / "api.ts"
HEAD = """\
// Made by make_types.py from the OpenAPI document of `hepm serve` and its tools of MCP: do not edit.
"""
OTHERS = ("/v1", "/mcp", "/hooks/", "/otlp/", "/metrics", "/openapi.json")
"""Paths whose form is another's, or which an agent has no use for."""
PLAIN = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "object",
}
NAME = re.compile(r"[A-Za-z_]\w*")


def made() -> str:
    """The module, of a server with an empty memory."""
    with tempfile.TemporaryDirectory() as folder, Memory.open(Path(folder) / "none.hepm") as memory:
        document = Server(LiveRuns(memory), ServeOptions()).document
        tools = asyncio.run(mcp_server(LiveRuns(memory)).list_tools())
    named: dict[str, Any] = document["components"]["schemas"]
    operations: list[str] = []
    for path, methods in document["paths"].items():
        if path == "/" or path.startswith(OTHERS):
            continue
        for method, operation in methods.items():
            name = f"{method.upper()} {path}"
            operations.append(_member(name, operation["summary"], _taken(operation), _given(operation)))
    calls: list[str] = []
    for tool in tools:
        if tool.name != "record_outcome":  # POST /outcome does it
            given = tool.output_schema or {}
            named |= given.get("$defs", {})
            about = (tool.description or "").partition("\n")[0]
            calls.append(_member(tool.name, about, _type(tool.input_schema, 2), _type(given, 2)))
    body = "\n".join(
        [
            "/** What each operation takes, as its query or body, and gives. */\nexport interface Operations {",
            *(
                *operations,
                "}\n\n/** What each tool of MCP takes and gives. */\nexport interface Tools {",
                *calls,
                "}\n",
            ),
        ]
    )
    parts: list[str] = []
    for name in _used(body, named):
        parts.append(f"{_comment(named[name].get('description'), 0)}export interface {name} {_type(named[name], 0)}\n")
    return "\n".join([HEAD, *parts, body])


def _member(name: str, about: str, takes: str, gives: str) -> str:
    return f"{_comment(about, 1)}  {json.dumps(name)}: {{\n    takes: {takes};\n    gives: {gives};\n  }};"


def _used(text: str, named: dict[str, Any]) -> list[str]:
    """The names of the schemas that a text needs, and those that they need."""
    needed: set[str] = set()
    left = set(NAME.findall(text)) & named.keys()
    while left:
        name = left.pop()
        needed.add(name)
        left |= (set(NAME.findall(_type(named[name], 0))) & named.keys()) - needed
    return sorted(needed)


def _taken(operation: dict[str, Any]) -> str:
    if "requestBody" in operation:
        return _type(operation["requestBody"]["content"]["application/json"]["schema"], 2)
    query = [parameter for parameter in operation.get("parameters", ()) if parameter.get("in") == "query"]
    if not query:
        return "undefined"
    required = [parameter["name"] for parameter in query if parameter["required"]]
    return _type({"properties": {one["name"]: one["schema"] for one in query}, "required": required}, 2)


def _given(operation: dict[str, Any]) -> str:
    return _type(operation["responses"]["200"]["content"]["application/json"]["schema"], 2)


def _type(schema: dict[str, Any], depth: int) -> str:
    """A JSON schema as a type of TypeScript."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "const" in schema or "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
    if "properties" in schema:
        return _object(schema, depth)
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(one, depth) for one in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"Array<{_type(schema.get('items', {}), depth)}>"
    plain = PLAIN.get(schema.get("type", ""), "unknown")
    if plain == "object":
        values = schema.get("additionalProperties")
        plain = f"Record<string, {_type(values, depth) if isinstance(values, dict) else 'unknown'}>"
    return plain


def _object(schema: dict[str, Any], depth: int) -> str:
    required = schema.get("required", ())
    pad = "  " * (depth + 1)
    lines = ["{"]
    for name, member in schema["properties"].items():
        key = name if NAME.fullmatch(name) else json.dumps(name)
        optional = "" if name in required else "?"
        lines.append(
            f"{_comment(member.get('description'), depth + 1)}{pad}{key}{optional}: {_type(member, depth + 1)};"
        )
    if schema.get("additionalProperties") is True:
        lines.append(f"{pad}[other: string]: unknown;")
    return "\n".join([*lines, "  " * depth + "}"])


def _comment(text: str | None, depth: int) -> str:
    if not text:
        return ""
    pad = "  " * depth
    lines = text.strip().replace("*/", "* /").splitlines()
    if len(lines) == 1:
        return f"{pad}/** {lines[0]} */\n"
    return "\n".join([f"{pad}/**", *(f"{pad} * {line}".rstrip() for line in lines), f"{pad} */", ""])


if __name__ == "__main__":
    TARGET.write_text(made(), "utf-8")
