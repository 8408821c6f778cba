"""What `hepm export` writes and an import reads back the same: runs, and what a store holds beside them.

One a line (see docs/reference/formats.md): tools first, then runs (`hepm.ingest.formats.hepm`), then lessons, reported
outcomes, what was shown of lessons, and answers of models, each under a key of its own that no run has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from hepm.graph.lessons.rows import Answer, Exposure, LessonRow, Reported, from_record, to_record
from hepm.graph.rows import ToolRow
from hepm.graph.store import Store
from hepm.ingest.fields import as_object, flag_at, is_object, list_at, number_at, object_at, string_at
from hepm.ingest.formats.document import Document, Reader
from hepm.ingest.formats.hepm import (
    VERSION,
    check_version,
    encode,
    parse_stored,
    run_of_record,
    tool_of_record,
)
from hepm.ingest.records import Items, RecordError, Rejection
from hepm.types import Object, Tool

Content: TypeAlias = ToolRow | LessonRow | Reported | Exposure | Answer


_parameters: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class Carried(Rejection):
    """A line of an export that is no run: whoever reads runs passes it over, an import stores its content."""

    content: Content


def exported_lines(store: Store, *, namespace: str) -> Iterator[str]:
    """Everything that a namespace holds and that cannot be made again, in the order in which it is read back."""
    for tool in store.tools(namespace=namespace):
        # The calls of a tool are counted again from the runs: one of which nothing else is known needs no line.
        if not tool.calls or tool != ToolRow(tool.name, "", "{}", tool.calls, tool.errors):
            yield _line(tool)
    for run_id, record, _ in store.iter_records(namespace=namespace):
        parse_stored(run_id, record)  # a damaged line would be found only when it is needed
        yield record
    # All are read before the first is written, so that they belong together while others write to the store.
    lessons = [held.row for held in store.lessons.list(namespace=namespace)]
    outcomes = [Reported(*outcome) for outcome in store.lessons.outcomes(namespace=namespace).items()]
    exposures = store.lessons.exposures(namespace=namespace)
    answers = store.lessons.all_answers(namespace=namespace)
    yield from map(_line, [*lessons, *outcomes, *exposures, *answers])


def _read(document: Document) -> Items:
    for number, value in document.records:
        kind = next((key for key in _READ if is_object(value) and key in value), "")
        if not kind:  # a run
            yield document.built(number, value, run_of_record)  # which keeps the id and source it was stored with
            continue
        try:
            check_version(value)
            content = _READ[kind](as_object(value[kind], repr(kind)))
        except (RecordError, ValueError, RecursionError) as error:
            yield document.rejected(number, f"its {kind} cannot be read: {error}")
            continue
        reason = f"it is no run, but a line of an export ({kind}): see `hepm import`"
        yield Carried(document.name, number, reason, content)


def _line(content: Content) -> str:
    # Lessons bring their own JSON.
    if isinstance(content, LessonRow):
        return f'{{"hepm":{VERSION},"lesson":{to_record(content)}}}'
    values: Object = content._asdict()
    if isinstance(content, ToolRow):
        # Stored as text, and readable in an export.
        for key in ("parameters", "former_parameters"):
            values[key] = json.loads(values[key])
        # They are counted again from the runs.
        del values["calls"], values["errors"]
    return encode({"hepm": VERSION, _KEYS[type(content)]: values})


def _tool(record: Object) -> ToolRow:
    tool = tool_of_record(record)
    return ToolRow(
        tool.name,
        tool.description,
        _parameters(tool.parameters),
        calls=0,
        errors=0,
        described_at=number_at(record, "described_at") or 0.0,
        changed_at=number_at(record, "changed_at") or 0.0,
        former_description=string_at(record, "former_description"),
        former_parameters=_parameters(object_at(record, "former_parameters")),
        retired=flag_at(record, "retired") is True,
        aliases=tuple(sorted([Tool(name).name for name in list_at(record, "aliases")])),
    )


def _row(kind: Any, needed: Sequence[str], record: Object) -> Content:
    """A row of texts, and of a flag "success"; RecordError if one that is needed is empty."""
    values: Object = {}
    for name in kind._fields:
        values[name] = flag_at(record, name) if name == "success" else string_at(record, name)
        if name in needed and values[name] in ("", None):
            raise RecordError(f"{name!r} is empty")
    if values.get("usage"):
        as_object(json.loads(values["usage"]), "'usage'")
    return kind(**values)


_READ: Final[Mapping[str, Callable[[Object], Content]]] = {
    "tool": _tool,
    "lesson": lambda record: from_record(json.dumps(record)),
    "reported": partial(_row, Reported, ("run", "success")),
    "showing": partial(_row, Exposure, ("run", "lesson")),
    "answer": partial(_row, Answer, ("key", "step")),
}
_KEYS: Final = {ToolRow: "tool", Reported: "reported", Exposure: "showing", Answer: "answer"}

READER: Final = Reader("hepm", lambda document: "hepm" in document.keys, _read)
