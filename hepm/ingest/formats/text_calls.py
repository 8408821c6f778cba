"""Calls that models write into their texts, in the forms of Hermes and Qwen, and results in answers to them."""

from __future__ import annotations

import re
from typing import Final

from hepm.ingest.fields import Objects, parsed_json, value_at

MARKS: Final = ("<tool_call>", "<function=", "<tool_response>")
"""One of these is in each text with calls or results."""

# <tool_call>{"name": …}</tool_call> or <function=NAME>…</function>, also inside it; the last may be cut off.
_CALL: Final = re.compile(
    r"<tool_call>(.*?)(?:</tool_call>|\Z)|<function=([^\s<>]{1,200})>(.*?)(?:</function>|\Z)", re.DOTALL
)

_RESPONSE: Final = re.compile(r"<tool_response>\s*(.*?)\s*(?:</tool_response>|\Z)", re.DOTALL)


def calls_in(text: str) -> tuple[str, Objects]:
    """The text without its calls, and the calls; one that cannot be read stays in the text."""
    calls: Objects = []

    def take(match: re.Match[str]) -> str:
        """Note a call; what is left of its text."""
        inner = match[1]
        function = match if inner is None else _CALL.search(inner)
        value = parsed_json((inner or "").strip())
        name = value_at(value, "name|function.name")
        arguments = value_at(value, "arguments|parameters|function.arguments|args")
        if function is not None:
            name, arguments = function[2], function[3]
        if not isinstance(name, str):
            return match[0]
        if isinstance(arguments, str):  # parameters as tags, else the JSON that stands in their place
            # It does not look past the next one, or a text of beginnings alone would take quadratic time.
            parameter = r"(?s)<parameter=([^\s<>]{1,200})>\n?((?:(?!<parameter=).)*?)\n?</parameter>"
            arguments = dict(re.findall(parameter, arguments)) or arguments.strip()
        calls.append({"function": {"name": name, "arguments": arguments}})
        return ""

    return _CALL.sub(take, text).strip(), calls


def results_in(text: str) -> tuple[str, list[str]]:
    """The text without the results in it, and the results."""
    return _RESPONSE.sub("", text).strip(), _RESPONSE.findall(text)
