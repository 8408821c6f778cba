"""The tools of a mirror as a NetworkX graph, with the properties of docs/reference/graph-model.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import networkx as nx

from hepm.cypher.model import PROPERTIES
from hepm.graph.rows import EdgeRow, ToolRow
from hepm.graph.weights import edge_weights
from hepm.types import START, Object

if TYPE_CHECKING:
    from hepm.graph.mirror.namespace_mirror import NamespaceMirror


def networkx_graph(mirror: NamespaceMirror, *, c: float, revision: int) -> nx.DiGraph[Any]:
    """See `hepm.Memory.graph`."""
    graph: nx.DiGraph[Any] = nx.DiGraph(namespace=mirror.name, revision=revision, c=c)
    rows = mirror.all_rows()
    for tool in [*mirror.store.tools(namespace=mirror.name), ToolRow(START, "", "{}", 0, 0)]:
        if tool.calls or tool.name in rows:
            graph.add_node(tool.name, label="Tool", **_attributes(tool))
    for source, edges in rows.items():
        weights = edge_weights([(edge[2], edge[3]) for edge in edges], c=c)
        for (_, target, *counts), weight in zip(edges, weights, strict=True):
            about: Object = dict(zip(EdgeRow._fields[2:], counts, strict=True))
            share = about["failures"] / max(1, about["support"] + about["failures"])
            graph.add_edge(source, target, type="NEXT", **about, weight=weight, failure_share=share)
    return graph


def _attributes(tool: ToolRow) -> Object:
    """What a tool has of the properties of the graph model."""
    values = tool._asdict() | {"aliases": tool.aliases or None, "changed_at": tool.changed_at or None}
    values["retired"] = "by hand" if tool.retired else None
    return {name: values[name] for name in PROPERTIES["Tool"] if values.get(name) is not None}
