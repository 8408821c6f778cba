"""BFCL multi-turn (Patil et al., ICML 2025): simulated classes, users who speak by script, states that are compared.

https://github.com/ShishirPatil/gorilla, as the PyPI package bfcl-eval
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hepm.evals.environments import Call, GoldTurn, Schema, Task
from hepm.evals.environments.packages import Package
from hepm.evals.environments.worker import WorkerEnvironment, schema_of
from hepm.ingest.formats.bfcl import json_schema, parse_call
from hepm.types import Tool

PACKAGE: Final = Package(("bfcl-eval==2026.3.23", "mpmath==1.3.0"), complete=True, size="10 MB")
PARTS: Final = ("", "miss_func", "miss_param", "long_context")


def bfcl(part: str) -> WorkerEnvironment:
    """The 200 tasks of a variant, with a family for each number, as the variants are of the same tasks."""
    name = "-".join(filter(None, ("bfcl", part)))
    return WorkerEnvironment(name, PACKAGE, side="bfcl_side", part=part or "base", task_of=_task, schema_of=_schema_of)


def _task(record: Mapping[str, Any]) -> Task:
    tools = {
        tool["name"]: Tool(tool["name"], tool["description"], json_schema(tool["parameters"]))
        for tool in record["function"]
    }
    gold = tuple(GoldTurn(tuple(_call(text, tools) for text in turn)) for turn in record["ground_truth"])
    request = "\n".join(message["content"] for message in record["question"][0])
    return Task(record["id"], request, family=record["id"].rpartition("_")[2], gold=gold)


def _call(text: str, tools: dict[str, Tool]) -> Call:
    call = parse_call(text, tools)
    return Call(call.name, call.arguments)


def _schema_of(tool: Mapping[str, Any]) -> Schema:
    parameters = json_schema(tool["parameters"])
    return schema_of({"name": tool["name"], "description": tool["description"], "parameters": parameters})
