"""BFCL multi-turn: questions in one file, the right calls in possible_answer/, tools in multi_turn_func_doc/.

All are JSON lines. The right calls are written as Python; no run was recorded, so there are no results and no failures.
https://github.com/ShishirPatil/gorilla (berkeley-function-call-leaderboard), also as the PyPI wheel bfcl-eval
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any, Final

from hepm.ingest.fields import (
    Objects,
    as_list,
    as_object,
    is_list,
    is_object,
    list_at,
    plain_text,
    text_at,
    texts_in,
    value_at,
)
from hepm.ingest.formats.document import Document, Reader
from hepm.ingest.formats.turns import ROLES
from hepm.ingest.records import Items, RecordError, decoded_text
from hepm.ingest.tools import Tools, listed_tools
from hepm.types import JSON, Object, Outcome, Tool, ToolCall, Trajectory, Turn

_ANSWERS: Final = "possible_answer"
_DOCUMENTS: Final = "multi_turn_func_doc"
_DOCUMENT_OF: Final = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
    "WebSearchAPI": "web_search",
}
"""The file that describes the tools of each simulated class, from BFCL's constants."""


def _recognises(document: Document) -> bool:
    # ACEBench's definitions have the same keys, but a text as the question.
    is_question = document.file_name.startswith("BFCL_") or is_list(value_at(document.first, "question"))
    return ({"question", "id"} <= document.keys and is_question) or _is_companion(document)


def _is_companion(document: Document) -> bool:
    """Answers or descriptions of tools."""
    keys = document.keys
    folder = document.path.parent.name
    if folder == _ANSWERS:
        return "ground_truth" in keys and document.file_name.startswith("BFCL_")
    return folder == _DOCUMENTS and {"name", "parameters"} <= keys


def _read(document: Document) -> Items:
    """One run for each question. Every call is a turn of its own, since its author knew the one before."""
    if _is_companion(document):
        return
    answers = _beside(document, f"{_ANSWERS}/{document.file_name}")
    reason = ""
    if "involved_classes" not in document.keys or not str(value_at(document.first, "id")).startswith("multi_turn"):
        reason = "it holds other questions of BFCL; only the multi_turn files hold sequences of calls"
    elif not answers:
        reason = f"its right calls are missing or too large: they should lie beside it in {_ANSWERS}/"
    if reason:
        yield document.rejected(None, reason)
        return
    right_calls = {str(line.get("id")): line.get("ground_truth") for line in answers}

    @cache  # hundreds of questions name the same few classes
    def tools_of(class_name: str) -> Tools:
        return listed_tools(json_schema(_beside(document, f"{_DOCUMENTS}/{_DOCUMENT_OF.get(class_name)}.json")))

    def build(record: Object) -> Trajectory:
        """The run of a question, by its right calls; RecordError if it has none."""
        identity = text_at(record, "id")
        variant, _, task = identity.rpartition("_")  # "multi_turn_base_17"
        answer = right_calls.get(identity)
        if not is_list(answer):
            raise RecordError(f"possible_answer/ holds no calls for the question {identity!r}")
        excluded = list_at(record, "excluded_function")
        classes = texts_in(record.get("involved_classes"))
        tools = [tool for name in classes for tool in tools_of(name) if tool.name not in excluded]
        return document.run(
            "",
            tuple(_turns(list_at(record, "question"), answer, {tool.name: tool for tool in tools})),
            Outcome(None, True),
            environment=f"bfcl-{variant}",
            task=task,
            model="gold",
            tools=tuple(tools),
        )

    yield from document.each(build)


def _beside(document: Document, path: str) -> Objects:
    """The lines of a file beside this one that can be read; a question that misses a broken one is rejected."""
    lines: Objects = []
    for line in document.content_beside(path).splitlines():
        with suppress(RecordError, ValueError, RecursionError):
            lines.append(as_object(decoded_text(line.decode("utf-8", "replace")), "a line"))
    return lines


def json_schema(value: Any) -> Any:
    """A description of parameters, in which BFCL uses Python's names of types, as JSON Schema."""
    if is_list(value):
        return [json_schema(item) for item in value]
    if not is_object(value):
        return value
    schema: Object = {key: json_schema(item) for key, item in value.items()}
    # A parameter may be called "type", too: then its description stands there, an object.
    kind = schema.get("type")
    if kind == "any":
        del schema["type"]
    elif isinstance(kind, str):
        types = {"dict": "object", "float": "number", "tuple": "array", "list": "array"}
        schema["type"] = types.get(kind, kind)
    if schema.get("type") == "array":
        schema.setdefault("items", {})  # endpoints refuse an array without them
    return schema


def _turns(question: list[Any], answer: list[Any], tools: dict[str, Tool]) -> Iterator[Turn]:
    # Turns of the question without right calls are left out.
    for messages, calls in zip(question, answer, strict=False):
        for message in as_list(messages, "a turn of the question"):
            record = as_object(message, "a message")
            yield Turn(ROLES.get(text_at(record, "role"), "user"), plain_text(record.get("content")))
        for call in as_list(calls, "the calls of a turn"):
            yield Turn("assistant", "", (parse_call(call, tools),))


def parse_call(text: Any, tools: dict[str, Tool]) -> ToolCall:
    """A call from its Python text, such as ``sort('report.pdf')``, which is parsed and never run.

    Arguments without a name get it from the tool's description, else their position ("0", "1", ...).
    """
    if not isinstance(text, str):
        raise RecordError("a right call is not Python text")
    name, values, named = _parsed(text)
    properties = value_at(tools[name].parameters, "properties") if name in tools else None
    names = list(properties) if is_object(properties) else []
    # More values than the description has parameters.
    names += map(str, range(len(names), len(values)))
    return ToolCall(name, dict(zip(names, values, strict=False)) | named)


@lru_cache(maxsize=4096)  # the variants of a task share nearly all their calls
def _parsed(text: str) -> tuple[str, list[JSON], dict[str, JSON]]:
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        call = None
    if not isinstance(call, ast.Call):
        raise RecordError(f"{text[:60]!r} is not a call in Python")
    # "files.sort(…)" calls the tool that is described as "sort".
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    named = {keyword.arg or "**": _literal(keyword.value) for keyword in call.keywords}
    return name, [_literal(node) for node in call.args], named


def _literal(node: ast.expr) -> JSON:
    """The value of a literal as JSON has it; any other expression stays text."""
    try:
        return json.loads(json.dumps(ast.literal_eval(node), allow_nan=False))
    except (ValueError, TypeError, RecursionError, MemoryError):
        return ast.unparse(node)


READER: Final = Reader("bfcl", _recognises, _read)
