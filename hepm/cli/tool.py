"""Tools of a memory: `hepm tool list`, `alias` and `retire`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hepm.cli.commands import argument, flag, group
from hepm.cli.options import json_option, print_json, print_rows, refuse, tell, with_memory
from hepm.text import day_of
from hepm.types import Objects

if TYPE_CHECKING:
    from hepm.memory import Memory

app = group("tool", "Tools that runs called: other names, changes, and which are retired.")


@app.command("list")
@json_option
@with_memory
def list_(memory: Memory, namespace: str, as_json: bool) -> None:
    """List the tools with their calls, errors, other names and changes.

    Example: `hepm tool list --namespace retail`
    """
    from hepm.graph.tool_life import what_changed
    from hepm.report.tools import tool_remarks

    rows = memory.tools.list(namespace=namespace)
    remarks = tool_remarks(memory.store, namespace=namespace)
    # Most formats do not record errors: an answer in words is no record of one.
    recorded = memory.store.latest_outcomes([row.name for row in rows], namespace=namespace)
    documents: Objects = []
    lines: list[list[str | int]] = []
    for row in rows:
        sentences = remarks[row.name]
        changed = what_changed(row)
        if row.changed_at and changed:
            sentences.append(f"changed on {day_of(row.changed_at)}: {changed}")
        errors = row.errors if recorded.get(row.name) else None
        documents.append({**row._asdict(), "errors": errors, "remarks": sentences})
        retired = ["retired"] if row.retired else []
        lines.append(
            [row.name, row.calls, "not recorded" if errors is None else errors, "; ".join([*retired, *sentences])]
        )
    if as_json:
        print_json({"tools": documents})
    else:
        print_rows(["tool", "calls", "errors", ""], lines)


@app.command("alias")
@argument("alias", "The other name.")
@argument("tool", "The tool's own name; left out with --undo.", required=False, default="")
@flag("--rename", "The tool's own name is new: it is called ALIAS so far.")
@flag("--undo", "Make the alias a tool of its own again.")
@with_memory
def alias(memory: Memory, namespace: str, alias: str, tool: str, rename: bool, undo: bool) -> None:
    """Make a name another name of a tool: all that was counted under it is counted under the tool.

    Example: `hepm tool alias search_flights_v1 search_flights --namespace travel`
    """
    # Exactly one of the two.
    refuse(bool(tool) == undo, "TOOL", "name the tool, or give --undo and the alias alone")
    refuse(undo and rename, "--rename", "take one of --rename and --undo")
    if undo:
        memory.tools.remove_alias(alias, namespace=namespace)
        tell(f"{alias} is a tool of its own")
    elif rename:
        memory.tools.rename(alias, tool, namespace=namespace)
        tell(f"{alias} is called {tool} now")
    else:
        memory.tools.add_alias(alias, tool, namespace=namespace)
        tell(f"{alias} is another name of {tool}")


@app.command("retire")
@argument("tool", "The tool.")
@flag("--undo", "Suggest it as before.")
@with_memory
def retire(memory: Memory, namespace: str, tool: str, undo: bool) -> None:
    """Never suggest a tool again. What is known of it stays.

    Example: `hepm tool retire search_flights_v1 --namespace travel`
    """
    memory.tools.retire(tool, retired=not undo, namespace=namespace)
    tell(f"{tool} is suggested again" if undo else f"{tool} is retired: it is never suggested")
