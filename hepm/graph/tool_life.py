"""Other names of tools, retired tools, and what changed in a tool's description.

Records stay as they were written. Aliases apply where a record becomes transitions, states and counts: the graph is
that of runs which always used the tool's own name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from hepm.errors import InputError
from hepm.graph.delta import Delta, RunRecord
from hepm.graph.retract import retract_runs
from hepm.graph.rows import Aliases, Marks, RecordParser, ToolRow, read_each
from hepm.graph.transaction import Transaction
from hepm.text import count_of
from hepm.types import START, SUMMARY_TOOL, Tool, ToolName, Trajectory, Turn, normal


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
            return cls(marks.aliases, marks.retired, offered=frozenset(map(normal, available)))
        used = {marks.aliases.get(name, name): name for names in (called, sorted(available)) for name in names}
        offered = frozenset(marks.aliases.get(name, name) for name in map(normal, available))
        used = {own: name for own, name in used.items() if own not in available}
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
        return [own, *(alias for alias, of in self.aliases.items() if of == own)]


def with_own_names(run: Trajectory, aliases: Aliases) -> Trajectory:
    """The run as if its agent had used each tool's own name; itself if no alias is in it."""
    if not aliases or not any(name in aliases for turn in run.turns for name in _names_in(turn)):
        return run

    def renamed(turn: Turn) -> Turn:
        calls = tuple(replace(call, name=aliases.get(call.name, call.name)) for call in turn.calls)
        return replace(turn, calls=calls, hinted=tuple(aliases.get(name, name) for name in turn.hinted))

    return replace(run, turns=tuple(map(renamed, run.turns)))


def _names_in(turn: Turn) -> Iterator[ToolName]:
    yield from turn.hinted
    for call in turn.calls:
        yield call.name


def own_names(runs: Sequence[RunRecord], aliases: Aliases) -> list[RunRecord]:
    """The runs with the descriptions of tools under their own names; these win over those under an alias."""
    lists: dict[int, tuple[Tool, ...]] = {}
    for run in runs:
        if id(run.tools) not in lists and any(tool.name in aliases for tool in run.tools):
            own = {tool.name for tool in run.tools}
            renamed = (replace(tool, name=aliases.get(tool.name, tool.name)) for tool in run.tools)
            kept = zip(run.tools, renamed, strict=True)
            lists[id(run.tools)] = tuple(new for old, new in kept if old.name == new.name or new.name not in own)
    return [run._replace(tools=lists.get(id(run.tools), run.tools)) for run in runs]


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
    known = alias if rename else tool
    if START in (alias, tool) or not alias.strip() or not tool.strip():
        raise InputError(f"{START!r} and names without a letter are no tools: nothing was changed.")
    if SUMMARY_TOOL in (alias, tool):
        raise InputError(f"{SUMMARY_TOOL!r} is how agents hand over summaries, and no tool: nothing was changed.")
    if before.get(known, known) not in rows:
        raise unknown_tool(known, rows, write.namespace)
    if rename and tool in rows and before.get(alias) != tool:
        raise InputError(f"{tool!r} is a tool already. To count {alias!r} as the same tool, use `hepm tool alias`.")
    given, tool = tool, tool if rename else before.get(tool, tool)
    if alias == tool:
        how = "one name" if alias == given else f"already names of one tool, {tool!r}"
        raise InputError(f"{alias!r} and {given!r} are {how}: nothing was changed.")
    if before.get(alias) == tool:
        return
    if alias in before:
        raise InputError(f"{alias!r} is another name of {before[alias]!r}: remove it there with --undo first.")
    moved = {alias, *(name for name, own in before.items() if own == alias)}
    former = rows.get(alias)
    _recount(write, moved, {**before, **dict.fromkeys(moved, tool)}, replay)
    if former is not None:
        delta = Delta()
        parameters = cast("Mapping[str, Any]", json.loads(former.parameters))
        delta.describe([Tool(tool, former.description, parameters)], former.described_at)
        write.apply(delta, {})
        write.mark_tools([(alias, False, ())])
        write.drop_tool(alias)
        if rename and former.retired:
            write.mark_tools([(tool, True, _names_of(write.aliases, tool))])


def remove_alias(write: Transaction, alias: ToolName, replay: RecordParser) -> None:
    """Make an alias a tool of its own again; InputError if it is none."""
    alias = normal(alias)
    if alias not in write.aliases:
        raise InputError(f"{alias!r} is not another name of any tool in {write.namespace!r}.")
    after = {name: own for name, own in write.aliases.items() if name != alias}
    _recount(write, {alias}, after, replay)


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

    near = get_close_matches(tool, list(known), n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else " `hepm tool list` names them all."
    return InputError(f"no tool is called {tool!r} in {namespace!r}.{hint}")


def _names_of(aliases: Aliases, tool: ToolName) -> tuple[ToolName, ...]:
    return tuple(sorted(alias for alias, own in aliases.items() if own == tool))


def _recount(write: Transaction, names: Iterable[ToolName], after: Aliases, replay: RecordParser) -> None:
    """Count the runs that name a tool under these aliases: as before without them, and then with the new ones."""
    names = sorted(names)
    held = list({run.seq: run for name in names for run in write.runs_naming(name)}.values())
    counted = {run.id for run in held if run.counted}
    retract_runs(write, [run for run in held if run.counted], replay)
    before, write.aliases = write.aliases, after
    changed = {own for of in (before, after) for name, own in of.items() if before.get(name) != after.get(name)}
    delta = Delta()
    delta.describe([Tool(tool) for tool in changed], 0.0)  # a tool may be known by its aliases alone
    write.apply(delta, {})
    retired = {row.name: row.retired for row in write.tools()}
    write.mark_tools([(tool, retired.get(tool, False), _names_of(after, tool)) for tool in sorted(changed)])
    found, vectors = read_each([run.record for run in held], replay, after, success_from=write.header.success_from)
    pairs = [(one, run) for one, run in zip(held, found, strict=True) if isinstance(run, RunRecord)]
    write.restate_runs(pairs)
    for one, _ in pairs:
        if not one.counted:
            write.set_counted(one.id, False)
    write.apply(Delta.of([run for one, run in pairs if one.id in counted]), vectors)
    write.lessons.relink({*names, *changed})
    write.note_change(everything=True)


def what_changed(row: ToolRow) -> str:
    """What differs between a tool's description and its former one, in a few words; "" if nothing does."""
    found: list[str] = []
    if row.former_description and row.description != row.former_description:
        found.append("its description is another")
    now, before = _parameters(row.parameters), _parameters(row.former_parameters)
    if before and now != before:
        added, removed = sorted(now.keys() - before.keys()), sorted(before.keys() - now.keys())
        required = [name for name in added if now[name]]
        if required:
            found.append(f"{count_of(len(required), 'required parameter')} added ({', '.join(required)})")
        if optional := [name for name in added if not now[name]]:
            found.append(f"{count_of(len(optional), 'optional parameter')} added ({', '.join(optional)})")
        if removed:
            found.append(f"{count_of(len(removed), 'parameter')} removed ({', '.join(removed)})")
        if stricter := sorted(name for name in now.keys() & before.keys() if now[name] and not before[name]):
            found.append(f"now required: {', '.join(stricter)}")
        if looser := sorted(name for name in now.keys() & before.keys() if before[name] and not now[name]):
            found.append(f"no longer required: {', '.join(looser)}")
    if not found and row.former_parameters not in ("{}", row.parameters):
        found.append("its parameters are described differently")
    return "; ".join(found)


def _parameters(schema: str) -> dict[str, bool]:
    """Whether each parameter of a JSON Schema is required."""
    parsed: Any = json.loads(schema)
    if not isinstance(parsed, dict):
        return {}
    parsed = cast("dict[str, Any]", parsed)
    properties, required = parsed.get("properties"), parsed.get("required")
    names = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
    needed = cast("list[Any]", required) if isinstance(required, list) else []
    return {name: name in needed for name in names}
