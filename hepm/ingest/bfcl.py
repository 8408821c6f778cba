"""BFCL multi-turn: questions in one file, the right calls in possible_answer/, tools in multi_turn_func_doc/.

All are JSON lines. The right calls are written as Python; no run was recorded, so there are no results and no failures.
https://github.com/ShishirPatil/gorilla (berkeley-function-call-leaderboard), also as the PyPI wheel bfcl-eval
"""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from hepm.ingest.digest import identified
from hepm.ingest.document import Document, without_surrogates
from hepm.ingest.json_stream import DECODER
from hepm.ingest.records import (
    Item,
    Object,
    ReadOptions,
    RecordError,
    as_list,
    as_object,
    is_list,
    is_object,
    list_at,
    plain_text,
    text_at,
)
from hepm.ingest.turns import ROLES
from hepm.types import JSON, Outcome, Tool, ToolCall, Trajectory, Turn

NAME = "bfcl"

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
"""The file that describes the tools of each simulated class, as BFCL's constants say."""

_SCHEMA_TYPES: Final = {"dict": "object", "float": "number", "tuple": "array"}
"""BFCL writes Python's names of types; JSON Schema has its own."""


def recognises(document: Document) -> bool:
    """Whether it is a BFCL file: questions, their answers, or descriptions of tools."""
    keys = document.keys
    if "question" in keys and "id" in keys:
        # ACEBench's definitions have the same keys, but one text for a question.
        turns = document.first.get("question") if is_object(document.first) else None
        return is_list(turns) or document.file_name.startswith("BFCL_")
    return _is_companion(document)


def read(document: Document, options: ReadOptions) -> Iterator[Item]:
    """One run for each question, every gold call a turn of its own, since each was written knowing the one before."""
    del options
    if _is_companion(document):
        return
    if "involved_classes" not in document.keys or not _is_multi_turn(document.first):
        yield document.rejected(
            None, "it holds other questions of BFCL; only the multi_turn files hold sequences of calls"
        )
        return
    answers = document.source.sibling(f"{_ANSWERS}/{document.file_name}")
    if answers is None:
        yield document.rejected(
            None, f"its right calls are missing or too large: they should lie beside it in {_ANSWERS}/"
        )
        return
    gold = dict(_gold(answers))
    manual = _Manual(document)

    def build(value: Any) -> Trajectory:
        return _trajectory(as_object(value, "the question"), gold, manual, document)

    yield from document.each(build)


def _is_multi_turn(first: Any) -> bool:
    return is_object(first) and str(first.get("id")).startswith("multi_turn")


def _is_companion(document: Document) -> bool:
    keys = document.keys
    folder = document.source.path.parent.name
    if folder == _ANSWERS:
        return "ground_truth" in keys and document.file_name.startswith("BFCL_")
    return folder == _DOCUMENTS and "name" in keys and "parameters" in keys


def _gold(answers: bytes) -> Iterator[tuple[str, list[Any]]]:
    for value in _lines(answers):
        if is_object(value):
            identity, turns = value.get("id"), value.get("ground_truth")
            if type(identity) is str and is_list(turns):
                yield identity, turns


def _lines(content: bytes) -> Iterator[Any]:
    """The lines of a companion file that can be read; what a broken one leaves missing is told with its question."""
    for line in io.BytesIO(content):
        try:
            yield DECODER.decode(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue


class _Manual:
    """The tools of the simulated classes, read when first needed."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._files: dict[str, tuple[Tool, ...]] = {}

    def tools(self, classes: tuple[str, ...], excluded: frozenset[str]) -> tuple[Tool, ...]:
        """The tools of these classes but the excluded ones; () where their files are not there."""
        return tuple(tool for name in classes for tool in self._class(name) if tool.name not in excluded)

    def _class(self, name: str) -> tuple[Tool, ...]:
        if name not in self._files:
            file = _DOCUMENT_OF.get(name)
            content = self._document.source.sibling(f"{_DOCUMENTS}/{file}.json") if file else None
            self._files[name] = tuple(_described(content)) if content else ()
        return self._files[name]


def _described(content: bytes) -> Iterator[Tool]:
    for value in _lines(content):
        if is_object(value):
            record = as_object(without_surrogates(value), "a tool")
            try:
                parameters = _json_schema(record.get("parameters"))
                yield Tool(text_at(record, "name"), text_at(record, "description"), as_object(parameters, "parameters"))
            except (RecordError, ValueError):
                continue


def _json_schema(value: Any) -> Any:
    if is_list(value):
        return [_json_schema(item) for item in value]
    if not is_object(value):
        return value
    schema: Object = {key: _json_schema(item) for key, item in value.items()}
    if type(kind := schema.get("type")) is str:
        if kind == "any":
            del schema["type"]
        else:
            schema["type"] = _SCHEMA_TYPES.get(kind, kind)
    return schema


def _trajectory(record: Object, gold: dict[str, list[Any]], manual: _Manual, document: Document) -> Trajectory:
    identity = text_at(record, "id")
    variant, _, task = identity.rpartition("_")
    answer = gold.get(identity)
    if answer is None:
        raise RecordError(f"possible_answer/ holds no calls for the question {identity!r}")
    classes = tuple(text for text in list_at(record, "involved_classes") if type(text) is str)
    excluded = frozenset(text for text in list_at(record, "excluded_function") if type(text) is str)
    tools = manual.tools(classes, excluded)
    return identified(
        "",
        tuple(_turns(list_at(record, "question"), answer, {tool.name: tool for tool in tools})),
        Outcome(None, True),
        environment=f"bfcl-{variant}",
        task=task,
        model="gold",
        source=document.name,
        tools=tools,
    )


def _turns(question: list[Any], answer: list[Any], tools: dict[str, Tool]) -> Iterator[Turn]:
    for messages, calls in zip(question, answer, strict=False):
        for message in as_list(messages, "a turn of the question"):
            record = as_object(message, "a message")
            yield Turn(ROLES.get(text_at(record, "role"), "user"), plain_text(record.get("content")))
        for call in as_list(calls, "the calls of a turn"):
            yield Turn("assistant", "", (parse_call(call, tools),))


def parse_call(text: Any, tools: dict[str, Tool]) -> ToolCall:
    """A call from its Python text, such as ``sort('report.pdf')``; it is parsed and never run.

    Arguments without a name get it from the tool's description, else their position ("0", "1", ...).
    """
    if type(text) is not str:
        raise RecordError("a right call is not Python text")
    name, values, named = _parsed(text)
    arguments: dict[str, JSON] = {}
    if values:
        names = _parameter_names(tools.get(name))
        for position, value in enumerate(values):
            arguments[names[position] if position < len(names) else str(position)] = value
    arguments.update(named)
    return ToolCall(name, arguments)


@lru_cache(maxsize=4096)  # the variants of a task share nearly all their calls
def _parsed(text: str) -> tuple[str, list[JSON], dict[str, JSON]]:
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        call = None
    if not isinstance(call, ast.Call):
        raise RecordError(f"{text[:60]!r} is not a call in Python")
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    named = {keyword.arg or "**": _literal(keyword.value) for keyword in call.keywords}
    return name, [_literal(node) for node in call.args], named


def _parameter_names(tool: Tool | None) -> list[str]:
    properties = tool.parameters.get("properties") if tool else None
    return list(properties) if isinstance(properties, dict) else []


def _literal(node: ast.expr) -> JSON:
    """The value of a literal as JSON has it; any other expression stays text."""
    try:
        return json.loads(json.dumps(ast.literal_eval(node), allow_nan=False))
    except (ValueError, TypeError, RecursionError, MemoryError):
        return ast.unparse(node)
