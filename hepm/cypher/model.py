"""The graph model of docs/graph-model.md, as tables: which label has which property, of which type.

Both engines hold the same names. A store in Neo4j keeps some more on its nodes, for itself; no answer shows those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

PropertyType: TypeAlias = Literal["string", "integer", "float", "boolean", "strings"]

NODES: Final[Mapping[str, Mapping[str, PropertyType]]] = {
    "Tool": {
        "namespace": "string",
        "name": "string",
        "description": "string",
        "parameters": "string",
        "calls": "integer",
        "errors": "integer",
    },
    "State": {
        "namespace": "string",
        "id": "integer",
        "summary": "string",
        "sources": "strings",
        "targets": "strings",
        "success": "boolean",
        "count": "integer",
        "seen": "float",
        "trajectory": "string",
        "step": "integer",
    },
    "Trajectory": {
        "namespace": "string",
        "id": "string",
        "seq": "integer",
        "environment": "string",
        "task": "string",
        "model": "string",
        "user": "string",
        "source": "string",
        "success": "boolean",
        "reward": "float",
        "steps": "integer",
        "ended_at": "float",
        "day": "string",
        "tools": "strings",
        "counted": "boolean",
        "said": "string",
        "record": "string",
    },
}

RELATIONSHIPS: Final[Mapping[str, tuple[str, str, Mapping[str, PropertyType]]]] = {
    "NEXT": (
        "Tool",
        "Tool",
        {
            "support": "integer",
            "failures": "integer",
            "unlabelled": "integer",
            "inverse_steps": "integer",
            "weight": "float",
            "failure_share": "float",
            "states": "integer",
            "summaries": "strings",
        },
    ),
    "AFTER": ("State", "Tool", {}),
    "BEFORE": ("State", "Tool", {}),
    "TOOK": ("Trajectory", "Tool", {"after": "string"}),
}


def properties_of(name: str) -> Mapping[str, PropertyType]:
    """What a label's nodes, or relationships of a type, hold; empty for a name that the model lacks."""
    if name in NODES:
        return NODES[name]
    return RELATIONSHIPS[name][2] if name in RELATIONSHIPS else {}


def type_of(name: str) -> PropertyType | None:
    """The type of a property, where it is the same wherever it stands; else None."""
    tables = [*NODES.values(), *(table for _, _, table in RELATIONSHIPS.values())]
    found: set[PropertyType] = {table[name] for table in tables if name in table}
    return found.pop() if len(found) == 1 else None
