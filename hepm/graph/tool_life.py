"""Other names of tools, retired tools, and what changed in a tool's description.

Records stay as they were written. Aliases apply where a record becomes transitions, states and counts: the graph is
that of runs which always used the tool's own name.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hepm.errors import InputError
from hepm.graph.changes import count_again
from hepm.graph.delta import Delta
from hepm.graph.retract import retract_runs
from hepm.graph.rows import Aliases, Marks, RecordParser, ToolRow, call_text
from hepm.graph.transaction import Transaction, rows_naming
from hepm.types import END, START, SUMMARY_TOOL, Tool, ToolName, Trajectory, Turn, normal


@dataclass(frozen=True, slots=True)
class ToolNames:
    """The names of tools in one conversation.

    Attributes:
        aliases: Other names of tools.
        retired: Tools never to suggest.
        used: What the agent calls a tool, by the tool's own name, where the two differ.
        offered: Own names of the tools that the agent has; empty if they are not known.
    """

    aliases: Aliases = field(default_factory=dict[ToolName, ToolName])
    retired: frozenset[ToolName] = frozenset()
    used: Mapping[ToolName, ToolName] = field(default_factory=dict[ToolName, ToolName])
    offered: frozenset[ToolName] = frozenset()

    @classmethod
    def of(cls, marks: Marks, called: Iterable[ToolName], available: Iterable[ToolName]) -> ToolNames:
        """The names of an agent that called some tools, and has some.

        A tool that is available under several names goes by its own; one not known to be available by the last name
        that the agent called it by.
        """
        available = set(available)
        if not marks.aliases:
            return cls(marks.aliases, marks.retired, {}, frozenset(map(normal, available)))
        # A later name of a tool replaces an earlier one.
        used = {marks.aliases.get(name, name): name for name in (*called, *sorted(available))}
        for own in available:
            used.pop(own, None)
        offered = frozenset(marks.aliases.get(name, name) for name in map(normal, available))
        return cls(marks.aliases, marks.retired, used, offered)

    def own(self, name: ToolName) -> ToolName:
        """A tool's own name, by any of its names."""
        name = normal(name)
        return self.aliases.get(name, name)

    def shown(self, name: ToolName) -> ToolName:
        """A tool as the agent calls it, by any of its names."""
        own = self.aliases.get(name, name)
        return self.used.get(own, own)

    def spellings(self, name: ToolName) -> list[ToolName]:
        """All names of a tool, its own first."""
        own = self.own(name)
        return [own, *_aliases_of(own, self.aliases)]


def with_own_names(run: Trajectory, aliases: Aliases) -> Trajectory:
    """The run as if its agent had used each tool's own name."""
    if not aliases:
        return run
    turns: list[Turn] = []
    for turn in run.turns:
        calls = [replace(call, name=aliases.get(call.name, call.name)) for call in turn.calls]
        hinted = [aliases.get(name, name) for name in turn.hinted]
        turns.append(replace(turn, calls=tuple(calls), hinted=tuple(hinted)))
    return replace(run, turns=tuple(turns))


def add_alias(
    write: Transaction, alias: ToolName, tool: ToolName, replay: RecordParser, *, rename: bool = False
) -> None:
    """Make `alias` another name of `tool`: what was counted under it is counted under `tool` from now on.

    An alias of an alias is one of the tool itself, so that there are no chains.

    Args:
        rename: `alias` is the name a known tool had so far, and `tool` its new one.
    Raises:
        InputError: neither name is known, one is not a tool's, or the alias belongs to another tool.
    """
    alias, tool = normal(alias), normal(tool)
    before = write.aliases
    rows = {row.name: row for row in write.tools()}
    own = before.get(tool, tool)
    known = tool
    if rename:
        own, known = tool, alias
    if {alias, tool} & {START, END, SUMMARY_TOOL} or not alias.strip() or not tool.strip():
        raise InputError(f"{alias!r} or {tool!r} is not the name of a tool: nothing was changed.")
    if before.get(known, known) not in rows:
        raise unknown_tool(known, rows, write.namespace)
    if rename and tool in rows and before.get(alias) != tool:
        raise InputError(f"{tool!r} is a tool already. To count {alias!r} as the same tool, use `hepm tool alias`.")
    if alias == own:
        raise InputError(f"{alias!r} and {tool!r} are names of one tool already: nothing was changed.")
    # It is one already.
    if before.get(alias) == own:
        return
    if alias in before:
        raise InputError(f"{alias!r} is another name of {before[alias]!r}: remove it there with --undo first.")
    # Aliases of the alias become aliases of the tool.
    moved = {alias, *_aliases_of(alias, before)}
    _recount(write, moved, own, {**before, **dict.fromkeys(moved, own)}, replay)
    # Known as a tool so far, with calls or a description.
    former = rows.get(alias)
    if former is not None:
        _merge_tool(write, former, own, rename=rename)


def _merge_tool(write: Transaction, former: ToolRow, own: ToolName, *, rename: bool) -> None:
    """Delete a tool whose runs are counted under another name now; its description is kept there."""
    delta = Delta()
    delta.describe(Tool(own, former.description, json.loads(former.parameters)), former.described_at)
    write.apply(delta, {})
    write.write("drop_tool", rows_naming("tool", [former.name]))
    if rename and former.retired:
        write.mark_tools([(own, True, _aliases_of(own, write.aliases))])


def remove_alias(write: Transaction, alias: ToolName, replay: RecordParser) -> None:
    """Make an alias a tool of its own again; InputError if it is none."""
    alias = normal(alias)
    if alias not in write.aliases:
        raise InputError(f"{alias!r} is not another name of any tool in {write.namespace!r}.")
    others = {name: own for name, own in write.aliases.items() if name != alias}
    _recount(write, {alias}, write.aliases[alias], others, replay)


def retire(write: Transaction, tool: ToolName, *, retired: bool) -> None:
    """Mark a tool as retired, or take the mark away; InputError if there is no such tool."""
    tool = normal(tool)
    tool = write.aliases.get(tool, tool)
    rows = {row.name: row for row in write.tools()}
    if tool not in rows:
        raise unknown_tool(tool, rows, write.namespace)
    if rows[tool].retired != retired:
        write.mark_tools([(tool, retired, rows[tool].aliases)])
        write.sources.add(tool)
        write.note_change()


def unknown_tool(tool: ToolName, known: Iterable[ToolName], namespace: str) -> InputError:
    """The error for a tool that is not in the memory, with the names most like it."""
    from difflib import get_close_matches

    hint = "`hepm tool list` names them all."
    near = get_close_matches(tool, list(known), n=3)
    if near:
        hint = f"Did you mean {' or '.join(near)}?"
    return InputError(f"no tool is called {tool!r} in {namespace!r}. {hint}")


def _aliases_of(tool: ToolName, aliases: Aliases) -> list[ToolName]:
    return sorted(alias for alias, own in aliases.items() if own == tool)


def _recount(
    write: Transaction, names: Collection[ToolName], own: ToolName, after: Aliases, replay: RecordParser
) -> None:
    """Count the runs that use one of these names under other aliases, of which only those of the tool `own` differ."""
    # A run may name several of them: each is counted again once.
    held = {run for name in names for run in write.stored(write.rows("runs_naming", text=call_text(name)))}
    retract_runs(write, [run for run in held if run.counted], replay)
    # From here on the transaction reads records with the new names.
    write.aliases = after
    delta = Delta()
    delta.describe(Tool(own))  # it may be known by its aliases alone
    write.apply(delta, {})
    retired = any(row.retired for row in write.tools() if row.name == own)
    write.mark_tools([(own, retired, _aliases_of(own, after))])
    count_again(write, held, replay)
    write.lessons.relink({*names, own})
    write.note_change(everything=True)


def what_changed(row: ToolRow) -> str:
    """What differs between a tool's description and its former one, in a few words; "" if nothing does."""
    changes: list[str] = []
    if row.former_description and row.description != row.former_description:
        changes.append("its description is another")
    now, before = _parameters(row.parameters), _parameters(row.former_parameters)
    if before:
        differ: dict[str, list[str]] = {"now required": [], "now optional": [], "removed": []}
        for name in sorted(now.keys() | before.keys()):
            kind = now.get(name, "removed")
            if kind != before.get(name):
                differ[kind].append(name)
        changes += [f"{kind}: {', '.join(names)}" for kind, names in differ.items() if names]
    if not changes and row.former_parameters not in ("{}", row.parameters):
        changes.append("its parameters are described differently")
    return "; ".join(changes)


def _parameters(schema: str) -> dict[str, str]:
    """Whether each parameter of a JSON Schema is required, as `what_changed` says it; none of a text that is none."""
    parsed: Any = json.loads(schema)  # as a run recorded it
    try:
        names: dict[str, str] = dict.fromkeys(parsed.get("properties") or (), "now optional")
        for name in names.keys() & (parsed.get("required") or ()):
            names[name] = "now required"
    except (AttributeError, TypeError):
        return {}
    return names
