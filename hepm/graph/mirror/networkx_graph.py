"""The mirror as a read-only NetworkX graph, with the labels, types and properties of docs/reference/graph-model.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import networkx as nx

from hepm.cypher.model import NODES, PROPERTIES
from hepm.errors import InputError
from hepm.graph.lessons.rows import KINDS, LABELS, Kind
from hepm.graph.rows import EdgeRow, StateRow, ToolRow
from hepm.graph.weights import edge_weights
from hepm.types import START, ToolName

if TYPE_CHECKING:
    from hepm.graph.mirror.lesson_mirror import LessonMirror
    from hepm.graph.mirror.namespace_mirror import NamespaceMirror, Rows


GRAPH_LABELS: Final = ("Tool", "State", *LABELS.values())


class Attributes(dict[str, Any]):
    """Of one node or edge, shared by all graphs that have it; a copy is an ordinary dictionary."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise nx.NetworkXError("this graph is read-only: copy it with nx.DiGraph(graph), and change the copy.")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = _refuse
    setdefault = update = _refuse  # pyright: ignore[reportAssignmentType] - of many forms

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


_Outgoing: TypeAlias = dict[Any, Attributes]
_Node: TypeAlias = tuple[Any, Attributes, _Outgoing]
"""A node, and its edges, also to nodes of other labels."""

_AFTER, _BEFORE, _BOTH = [Attributes(type=name) for name in ("AFTER", "BEFORE", "AFTER|BEFORE")]
_NONE: Final[_Outgoing] = {}  # what all nodes share that no edge leads to


class NetworkXMirror:
    """One namespace as graphs, each of one revision; the next one shares with it what did not change."""

    def __init__(self, mirror: NamespaceMirror) -> None:
        self._mirror = mirror
        self._next: dict[ToolName, tuple[float, Rows, _Outgoing]] = {}
        self.at = lru_cache(maxsize=2)(self._make)

    def _make(self, revision: int, labels: frozenset[str], c: float, lessons: LessonMirror) -> nx.DiGraph[Any]:
        """See `hepm.Memory.graph`."""
        unknown = labels.difference(GRAPH_LABELS)
        if unknown:
            raise InputError(f"labels are a list of {', '.join(GRAPH_LABELS)}: {min(unknown)!r} is none of these.")
        nodes: dict[Any, Attributes] = {}
        after: dict[Any, _Outgoing] = {}
        for node, attributes, outgoing in self._nodes(labels, c, lessons):
            nodes[node], after[node] = attributes, outgoing
        before = dict.fromkeys(nodes, _NONE)
        for source, outgoing in after.items():
            if not outgoing.keys() <= nodes.keys():
                after[source] = {target: outgoing[target] for target in outgoing if target in nodes}
            for target, attributes in after[source].items():
                if before[target] is _NONE:
                    before[target] = {}
                before[target][source] = attributes
        graph: nx.DiGraph[Any] = nx.DiGraph()
        # As NetworkX makes its own views: adding edges would copy their attributes.
        about = {"namespace": self._mirror.name, "revision": revision, "c": c}  # writers of files pop from it
        vars(graph).update(_node=nodes, _adj=after, _succ=after, _pred=before, graph=about)
        nx.freeze(graph)  # pyright: ignore[reportUnknownMemberType]
        return graph

    def _nodes(self, labels: frozenset[str], c: float, lessons: LessonMirror) -> Iterator[_Node]:
        if "Tool" in labels:
            yield from self._tools(c)
        if "State" in labels:
            yield from map(_state_node, self._mirror.store.iter_states(namespace=self._mirror.name))
        for kind in KINDS:
            if LABELS[kind] in labels:
                yield from self._lessons(kind, lessons)

    def _tools(self, c: float) -> Iterator[_Node]:
        rows = self._mirror.all_rows()
        tools = self._mirror.store.tools(namespace=self._mirror.name)
        for tool in [*tools, ToolRow(START, "", "{}", 0, 0)]:
            if tool.calls or rows.get(tool.name):
                values = tool._asdict() | {"aliases": tool.aliases or None, "changed_at": tool.changed_at or None}
                values["retired"] = "by hand" if tool.retired else None
                yield tool.name, _attributes("Tool", values), self._steps(tool.name, rows.get(tool.name, []), c)

    def _lessons(self, kind: Kind, lessons: LessonMirror) -> Iterator[_Node]:
        aliases = self._mirror.marks.aliases
        made_of = "REVISES" if kind == "notes" else "EVOLVED_FROM"
        for seq, row, uses, _ in lessons.all(kind, retired=True):
            tools = [aliases.get(tool, tool) for tool in row.tools]
            outgoing: _Outgoing = dict.fromkeys(tools, Attributes(type="ABOUT"))
            for parent in row.parents:
                former = lessons.get(parent.id)
                if former is not None:
                    outgoing[LABELS[former.row.kind], parent.id] = _attributes(made_of, parent._asdict())
            values = row.columns | uses._asdict() | {"seq": seq, "score": uses.score}
            yield (LABELS[kind], row.id), _attributes(LABELS[kind], values), outgoing

    def _steps(self, source: ToolName, rows: Rows, c: float) -> _Outgoing:
        """NEXT, made again if its counts changed."""
        made = self._next.get(source)
        if made is None or made[:2] != (c, rows):
            outgoing: _Outgoing = {}
            weights = edge_weights([(row[2], row[3]) for row in rows], c=c)
            for row, weight in zip(map(EdgeRow._make, rows), weights, strict=True):
                share = row.failures / max(1, row.support + row.failures)
                values = row._asdict() | {"weight": weight, "failure_share": share}
                outgoing[row.target] = _attributes("NEXT", values)
            made = self._next[source] = c, rows, outgoing
        return made[2]


def _state_node(state: StateRow) -> _Node:
    outgoing = dict.fromkeys(state.sources, _AFTER)
    between = outgoing.keys() & state.targets  # two calls of one tool: one edge stands for both
    outgoing |= dict.fromkeys(state.targets, _BEFORE)
    outgoing |= dict.fromkeys(between, _BOTH)
    # `asdict` would copy every value, and take most of the time.
    values = {name: getattr(state, name) for name in state.__slots__}
    return ("State", state.id), _attributes("State", values), outgoing


def _attributes(kind: str, values: Mapping[str, Any]) -> Attributes:
    """What a label or type has of the values, in the graph model."""
    known = {name: values[name] for name in PROPERTIES[kind] if values.get(name) is not None}
    tag = "label" if kind in NODES else "type"
    return Attributes({tag: kind, **known})
