"""Tools of a memory: `hepm tool list`, `alias` and `retire`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from hepm.cli import options
from hepm.cli.commands import Argument, Command
from hepm.cli.options import Place, json_option, place_options, plain, print_json
from hepm.text import on_one_line

if TYPE_CHECKING:
    from hepm.graph.rows import ToolRow
    from hepm.memory import Memory
    from hepm.types import ToolName

app = click.Group(
    "tool", help="Tools that runs called: other names, changes, and which are retired.", no_args_is_help=True
)


@app.command("list", cls=Command)
@json_option
@place_options
def list_(place: Place, as_json: bool) -> None:
    """List the tools with their calls, errors, other names and changes.
    Example: `hepm tool list --namespace retail`
    """
    with place.open() as memory:
        rows = memory.tools.list(namespace=place.namespace)
        said = remarks(memory, rows, place.namespace)
        store, names = memory.mirror(place.namespace).store, [row.name for row in rows]
        latest = store.latest_outcomes(names, namespace=place.namespace)
    # Most formats do not say whether a call failed; an answer in words is no record of it.
    errors = {row.name: row.errors if latest.get(row.name) else None for row in rows}
    if as_json:
        named = [{**row._asdict(), "errors": errors[row.name], "remarks": said.get(row.name, [])} for row in rows]
        print_json({"tools": named})
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("tool", "calls", "errors", ""):
        table.add_column(name, justify="right" if name in ("calls", "errors") else "left")
    for row in rows:
        marks = [*(["retired"] if row.retired else []), *(f"also {alias}" for alias in row.aliases)]
        about = "; ".join([*marks, *said.get(row.name, [])])
        failed = "not recorded" if errors[row.name] is None else f"{row.errors:,}"
        table.add_row(plain(row.name), f"{row.calls:,}", failed, plain(about))
    options.print_table(table)


def remarks(memory: Memory, rows: Sequence[ToolRow], namespace: str) -> dict[ToolName, list[str]]:
    """Which tools have begun to fail, and what changed in their descriptions, in sentences without the tool."""
    from hepm.graph.model_rows import day_of
    from hepm.graph.tool_life import what_changed

    drifts = memory.mirror(namespace).drifts([row.name for row in rows])
    found: dict[ToolName, list[str]] = {}
    for row in rows:
        drift = drifts.get(row.name)
        changed = what_changed(row) if row.changed_at else ""
        said = [
            *([str(drift)] if drift else []),
            *([f"changed on {day_of(row.changed_at)}: {changed}"] if changed else []),
        ]
        if said:
            found[row.name] = said
    return found


@app.command("alias", cls=Command)
@click.argument("alias", cls=Argument, help="The other name.")
@click.argument("tool", cls=Argument, required=False, default="", help="The tool's own name; left out with --undo.")
@click.option("--rename", is_flag=True, help="The tool's own name is new: it is called ALIAS so far.")
@click.option("--undo", is_flag=True, help="Make the alias a tool of its own again.")
@place_options
def alias(place: Place, alias: str, tool: str, rename: bool, undo: bool) -> None:
    """Make a name another name of a tool: all that was counted under it is counted under the tool.
    Example: `hepm tool alias search_flights_v1 search_flights --namespace travel`
    """
    if bool(tool) == undo:
        raise click.BadParameter("name the tool, or give --undo and the alias alone", param_hint="TOOL")
    if undo and rename:
        raise click.BadParameter("take one of --rename and --undo", param_hint="--rename")
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
    print(on_one_line(sentence))


@app.command("retire", cls=Command)
@click.argument("tool", cls=Argument, help="The tool.")
@click.option("--undo", is_flag=True, help="Suggest it as before.")
@place_options
def retire(place: Place, tool: str, undo: bool) -> None:
    """Never suggest a tool again. What is known of it stays.
    Example: `hepm tool retire search_flights_v1 --namespace travel`
    """
    with place.open() as memory:
        memory.tools.retire(tool, retired=not undo, namespace=place.namespace)
    print(on_one_line(f"{tool} is suggested again" if undo else f"{tool} is retired: it is never suggested"))
