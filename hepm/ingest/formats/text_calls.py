"""Calls that models write into their texts, in the forms that no server took out, and results in answers to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from hepm.ingest.fields import Objects, is_list, value_at
from hepm.ingest.records import decoded_text
from hepm.types import Object

MARKS: Final = ("<tool_call>", "<function=", "<invoke name=", "[TOOL_CALLS]", "<|python_tag|>", "<tool_response>")
"""One of these is in each text with calls or results."""

# Hermes and Qwen: <tool_call>{"name": …}</tool_call>; the last one may be cut off.
_BLOCK: Final = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
# Qwen's coders and Llama: <function=NAME>…</function>; Anthropic's text form: <invoke name="NAME">…</invoke>.
_FUNCTION: Final = re.compile(
    r"<(?:function=|invoke name=)\"?([^\s<>\"]{1,200})\"?>(.*?)(?:</function>|</invoke>|\Z)", re.DOTALL
)
# None looks past the next one, or a text of beginnings alone would take quadratic time.
_PARAMETER: Final = re.compile(
    r"<parameter(?:=| name=)\"?([^\s<>\"]{1,200})\"?>\n?((?:(?!<parameter(?:=| name=)).)*?)\n?</parameter>"
    r"|<arg_key>((?:(?!<arg_key>).)*?)</arg_key>\s*<arg_value>((?:(?!<arg_key>).)*?)</arg_value>",  # GLM
    re.DOTALL,
)
# Mistral and Llama: a list or an object behind a mark.
_MARKED: Final = re.compile(r"(?:\[TOOL_CALLS\]|<\|python_tag\|>)\s*(?=[\[{])(.*)\Z", re.DOTALL)
_AROUND: Final = re.compile(r"</?(?:function_calls|tool_calls)>|</tool_call>")
_RESPONSE: Final = re.compile(r"<tool_response>\s*(.*?)\s*(?:</tool_response>|\Z)", re.DOTALL)


def calls_in(text: str) -> tuple[str, Objects]:
    """The text without its calls, and the calls; one that cannot be read stays in the text."""
    calls: Objects = []

    def take(match: re.Match[str]) -> str:
        found = list(_calls(match))
        calls.extend(found)
        return "" if found else match[0]

    for form in (_BLOCK, _FUNCTION, _MARKED):
        text = form.sub(take, text)
    if calls:
        text = _AROUND.sub("", text)
    return text.strip(), calls


def results_in(text: str) -> tuple[str, list[str]]:
    """The text without the results in it, and the results."""
    return _RESPONSE.sub("", text).strip(), _RESPONSE.findall(text)


def _calls(match: re.Match[str]) -> Iterator[Object]:
    if match.re is _FUNCTION:
        yield _call(match[1], _arguments(match[2]))
        return
    inner = match[1].strip()
    function = _FUNCTION.search(inner)
    if function:
        yield _call(function[1], _arguments(function[2]))
        return
    try:
        values: Any = decoded_text(inner)
    except (ValueError, RecursionError):
        name, _, rest = inner.partition("\n")
        if "<arg_key>" in rest:
            yield _call(name.strip(), _arguments(rest))
        return
    if not is_list(values):
        values = [values]
    for value in values:
        name = value_at(value, "name|function.name")
        if isinstance(name, str):
            yield _call(name, value_at(value, "arguments|parameters|function.arguments|args"))


def _arguments(text: str) -> Any:
    """Parameters as tags, else the JSON that stands in their place."""
    arguments: Object = {}
    for match in _PARAMETER.finditer(text):
        arguments[match[1] or match[3].strip()] = match[2] if match[1] else match[4]
    return arguments or text.strip()


def _call(name: str, arguments: Any) -> Object:
    return {"function": {"name": name, "arguments": arguments}}
