"""The mirror as a NetworkX graph, with the labels, types and properties of docs/reference/graph-model.md."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import networkx as nx

from hepm.cypher.model import NODES, PROPERTIES
from hepm.errors import InputError
from hepm.graph.lessons.rows import KINDS, LABELS, Kind
from hepm.graph.rows import EdgeRow, StateRow, ToolRow
from hepm.graph.weights import edge_weights
from hepm.types import START, Object

if TYPE_CHECKING:
    from hepm.graph.mirror.lesson_mirror import LessonMirror
    from hepm.graph.mirror.namespace_mirror import NamespaceMirror


GRAPH_LABELS: Final = ("Tool", "State", *LABELS.values())

_Node: TypeAlias = tuple[Any, Object, Mapping[Any, Object]]
"""A node, its attributes, and those of its edges by target, also to nodes of other labels."""


def networkx_graph(
    mirror: NamespaceMirror, lessons: LessonMirror, labels: Collection[str], *, c: float, revision: int
) -> nx.DiGraph[Any]:
    """See `hepm.Memory.graph`."""
    unknown = set(labels).difference(GRAPH_LABELS)
    if unknown:
        raise InputError(f"labels are a list of {', '.join(GRAPH_LABELS)}: {min(unknown)!r} is none of these.")
    graph: nx.DiGraph[Any] = nx.DiGraph(namespace=mirror.name, revision=revision, c=c)
    edges: list[tuple[Any, Any, Object]] = []
    for node, attributes, outgoing in _nodes(mirror, lessons, labels, c):
        graph.add_node(node, **attributes)
        edges += [(node, target, about) for target, about in outgoing.items()]
    graph.add_edges_from(edge for edge in edges if edge[1] in graph)
    return graph


def _nodes(mirror: NamespaceMirror, lessons: LessonMirror, labels: Collection[str], c: float) -> Iterator[_Node]:
    if "Tool" in labels:
        yield from _tools(mirror, c)
    if "State" in labels:
        yield from map(_state, mirror.store.iter_states(namespace=mirror.name))
    for kind in KINDS:
        if LABELS[kind] in labels:
            yield from _lessons(kind, lessons, mirror.marks.aliases)


def _tools(mirror: NamespaceMirror, c: float) -> Iterator[_Node]:
    rows = mirror.all_rows()
    for tool in [*mirror.store.tools(namespace=mirror.name), ToolRow(START, "", "{}", 0, 0)]:
        edges = rows.get(tool.name, ())
        if not (tool.calls or edges):
            continue
        values = tool._asdict() | {"aliases": tool.aliases or None, "changed_at": tool.changed_at or None}
        values["retired"] = "by hand" if tool.retired else None
        outgoing: dict[Any, Object] = {}
        weights = edge_weights([(edge[2], edge[3]) for edge in edges], c=c)
        for (_, target, *counts), weight in zip(edges, weights, strict=True):
            about: Object = dict(zip(EdgeRow._fields[2:], counts, strict=True))
            share = about["failures"] / max(1, about["support"] + about["failures"])
            outgoing[target] = {"type": "NEXT", **about, "weight": weight, "failure_share": share}
        yield tool.name, _attributes("Tool", values), outgoing


def _state(state: StateRow) -> _Node:
    outgoing: dict[Any, Object] = {tool: {"type": "AFTER"} for tool in state.sources}
    for tool in state.targets:
        # Two calls of one tool: one edge stands for both.
        outgoing[tool] = {"type": "AFTER|BEFORE" if tool in outgoing else "BEFORE"}
    # `asdict` would copy every value, and take most of the time.
    values = {name: getattr(state, name) for name in state.__slots__}
    return ("State", state.id), _attributes("State", values), outgoing


def _lessons(kind: Kind, lessons: LessonMirror, aliases: Mapping[str, str]) -> Iterator[_Node]:
    made_of = "REVISES" if kind == "notes" else "EVOLVED_FROM"
    for seq, row, uses, _ in lessons.all(kind, retired=True):
        outgoing: dict[Any, Object] = {aliases.get(tool, tool): {"type": "ABOUT"} for tool in row.tools}
        for parent in row.parents:
            former = lessons.get(parent.id)
            if former is not None:
                outgoing[LABELS[former.row.kind], parent.id] = _attributes(made_of, parent._asdict())
        values = row.columns | uses._asdict() | {"seq": seq, "score": uses.score}
        yield (LABELS[kind], row.id), _attributes(LABELS[kind], values), outgoing


def _attributes(kind: str, values: Mapping[str, Any]) -> Object:
    """What a label or type has of the values, in the graph model."""
    known = {name: values[name] for name in PROPERTIES[kind] if values.get(name) is not None}
    tag = "label" if kind in NODES else "type"
    return {tag: kind, **known}
