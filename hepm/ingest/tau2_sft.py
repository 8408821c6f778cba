"""The training set of tau2-bench: {"splits": {"train": [run, ...], "test": [...]}} in OpenAI chat form with tools.

It shows the agent's view only (no user-side calls), mixes the domains and names none of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from hepm.ingest.digest import identified
from hepm.ingest.document import Document
from hepm.ingest.records import (
    SOLVED,
    Item,
    Object,
    ReadOptions,
    RecordError,
    as_object,
    list_at,
    number_at,
    text_at,
)
from hepm.ingest.tools import ToolLists
from hepm.ingest.turns import chat_turns
from hepm.types import Outcome, Tool, Trajectory

NAME = "tau2-sft"

_TELLING_TOOLS: Final = {
    "get_order_details": "retail",
    "book_reservation": "airline",
    "toggle_airplane_mode": "telecom-solo",
    "get_customer_by_phone": "telecom",
}
"""A tool that only one domain has, the more telling ones first."""


def recognises(document: Document) -> bool:
    """Whether it is one object with splits."""
    return "splits" in document.keys and not document.is_list


def read(document: Document, options: ReadOptions) -> Iterator[Item]:
    """The runs of all splits; a record is named by its split and its number there."""
    tool_lists = ToolLists()
    split = ""

    def build(value: Any) -> Trajectory:
        record = as_object(value, "the record")
        return _trajectory(record, tool_lists.read(list_at(record, "tools")), split, document, options)

    for path, number, value in document.walk(("splits", "*")):
        if isinstance(value, RecordError):
            yield document.rejected(_record_name(path, number), str(value))
        elif len(path) == 2 and number:
            split = path[1]
            yield document.built(_record_name(path, number), value, build)
        elif not path:
            yield document.rejected(number, "it has no 'splits'")


def _record_name(path: tuple[str, ...], number: int | None) -> str:
    return f"{'/'.join(path[1:]) or 'splits'} {number}"


def _trajectory(
    record: Object, tools: tuple[Tool, ...], split: str, document: Document, options: ReadOptions
) -> Trajectory:
    names = {tool.name for tool in tools}
    reward = number_at(record, "reward")
    return identified(
        text_at(record, "simulation_id") if options.ids == "own" else "",
        chat_turns(list_at(record, "messages")),
        Outcome(reward, None if reward is None else reward >= SOLVED),
        environment=next((domain for tool, domain in _TELLING_TOOLS.items() if tool in names), ""),
        task=text_at(record, "task_id"),
        file_model=PurePosixPath(document.file_name).stem,
        tags={"split": split},
        source=document.name,
        tools=tools,
    )
