"""Tools of a memory: `hepm tool list`, `alias` and `retire`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hepm.cli import options
from hepm.cli.commands import argument, flag, group
from hepm.cli.options import StorePlace, json_option, place_options, print_json, refuse, tell
from hepm.text import count_of, day_of
from hepm.types import Object, ToolName

if TYPE_CHECKING:
    from hepm.graph.rows import ToolRow
    from hepm.memory import Memory

app = group("tool", "Tools that runs called: other names, changes, and which are retired.")


@app.command("list")
@json_option
@place_options
def list_(place: StorePlace, as_json: bool) -> None:
    """List the tools with their calls, errors, other names and changes.
    Example: `hepm tool list --namespace retail`
    """
    with place.open() as memory:
        rows = memory.tools.list(namespace=place.namespace)
        sentences = _remarks(memory, rows, place.namespace)
        names = [row.name for row in rows]
        # {"find": "001…"}: whether the latest calls failed, where runs say it. Most formats do not: an answer in words
        # is no record of it.
        latest = memory.store.latest_outcomes(names, namespace=place.namespace)
    if as_json:
        documents: list[Object] = []
        for row in rows:
            errors = row.errors if latest.get(row.name) else None
            documents.append({**row._asdict(), "errors": errors, "remarks": sentences[row.name]})
        print_json({"tools": documents})
        return
    lines: list[list[str | int]] = []
    for row in rows:
        # "retired; also search_v1; changed on 2026-03-04: a new parameter"
        marks = ["retired"] if row.retired else []
        marks += [f"also {alias}" for alias in row.aliases]
        errors = row.errors if latest.get(row.name) else "not recorded"
        lines.append([row.name, row.calls, errors, "; ".join([*marks, *sentences[row.name]])])
    options.print_rows(["tool", "calls", "errors", ""], lines)


def _remarks(memory: Memory, rows: Sequence[ToolRow], namespace: str) -> dict[ToolName, list[str]]:
    """Which tools have begun to fail or were refused, and what changed in their descriptions, in sentences without the
    tool."""
    from hepm.graph.tool_life import what_changed

    # One query for all: a store may know thousands of tools.
    drifts = memory.mirror(namespace).drifts([row.name for row in rows])
    refused: Counter[ToolName] = Counter()
    for runs_by_tool in memory.store.refusals(namespace=namespace).values():
        refused |= runs_by_tool  # the most after one tool: a run may have been refused it after several
    by_tool: dict[ToolName, list[str]] = {}
    for row in rows:
        sentences = by_tool[row.name] = list[str]()
        if row.name in drifts:
            sentences.append(str(drifts[row.name]))
        if refused[row.name]:
            sentences.append(f"users refused it in {count_of(refused[row.name], 'run')}")
        changed = what_changed(row)
        if row.changed_at and changed:
            sentences.append(f"changed on {day_of(row.changed_at)}: {changed}")
    return by_tool


@app.command("alias")
@argument("alias", "The other name.")
@argument("tool", "The tool's own name; left out with --undo.", required=False, default="")
@flag("--rename", "The tool's own name is new: it is called ALIAS so far.")
@flag("--undo", "Make the alias a tool of its own again.")
@place_options
def alias(place: StorePlace, alias: str, tool: str, rename: bool, undo: bool) -> None:
    """Make a name another name of a tool: all that was counted under it is counted under the tool.
    Example: `hepm tool alias search_flights_v1 search_flights --namespace travel`
    """
    # Exactly one of the two.
    refuse(bool(tool) == undo, "TOOL", "name the tool, or give --undo and the alias alone")
    refuse(undo and rename, "--rename", "take one of --rename and --undo")
    with place.open() as memory:
        if undo:
            memory.tools.remove_alias(alias, namespace=place.namespace)
            sentence = f"{alias} is a tool of its own"
        elif rename:
            memory.tools.rename(alias, tool, namespace=place.namespace)
            sentence = f"{alias} is called {tool} now"
        else:
            memory.tools.add_alias(alias, tool, namespace=place.namespace)
            sentence = f"{alias} is another name of {tool}"
    tell(sentence)


@app.command("retire")
@argument("tool", "The tool.")
@flag("--undo", "Suggest it as before.")
@place_options
def retire(place: StorePlace, tool: str, undo: bool) -> None:
    """Never suggest a tool again. What is known of it stays.
    Example: `hepm tool retire search_flights_v1 --namespace travel`
    """
    with place.open() as memory:
        memory.tools.retire(tool, retired=not undo, namespace=place.namespace)
    sentence = f"{tool} is retired: it is never suggested"
    if undo:
        sentence = f"{tool} is suggested again"
    tell(sentence)
