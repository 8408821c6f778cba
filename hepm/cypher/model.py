"""The graph model of docs/graph-model.md: the properties of each label and type, and what a query returns of them.

Both engines have the same names. A store in Neo4j has more properties on its nodes, which no answer shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal, NamedTuple, TypeAlias, cast

PropertyType: TypeAlias = Literal["string", "integer", "float", "boolean", "strings"]
Properties: TypeAlias = Mapping[str, PropertyType]

LESSONS: Final = ("Experience", "Principle", "Notes")


def _properties(text: str) -> dict[str, PropertyType]:
    parts = (part.split() for part in text.split(","))
    return {name: cast("PropertyType", kind) for name, kind in parts}


_LESSON: Final = _properties(
    "namespace string, id string, seq integer, text string, user string, runs strings, tools strings, live boolean, "
    "retired string, made_by string, shown integer, uses integer, successes integer, score float, record string"
)

NODES: Final[Mapping[str, Properties]] = {
    "Tool": _properties(
        "namespace string, name string, description string, parameters string, calls integer, errors integer"
    ),
    "State": _properties(
        "namespace string, id integer, summary string, sources strings, targets strings, success boolean, "
        "count integer, seen float, trajectory string, step integer"
    ),
    "Trajectory": _properties(
        "namespace string, id string, seq integer, environment string, task string, model string, user string, "
        "source string, success boolean, reward float, steps integer, ended_at float, day string, tools strings, "
        "counted boolean, said string, record string"
    ),
    "Experience": _LESSON
    | _properties(
        "situation string, action string, outcome string, lesson string, zone string, stage string, reward float, "
        "environments strings, first_turn integer, last_turn integer, preconditions strings, distilled_by string, "
        "generation integer"
    ),
    "Principle": _LESSON | _properties("kind string, environments strings, distilled_by string"),
    "Notes": _LESSON | _properties("version integer, written_by string"),
    "User": _properties("namespace string, id string"),
    "Concept": _properties("namespace string, name string"),
    "Showing": _properties("namespace string, run string, told boolean"),
}


class Relationship(NamedTuple):
    """A relationship type, from nodes with any of its sources as label to nodes with any of its targets."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    properties: Properties

    def ends(self) -> Iterator[tuple[str, str]]:
        """Pairs of labels that it may connect."""
        return product(self.sources, self.targets)


_DISTILLED: Final = ("Experience", "Principle")

RELATIONSHIPS: Final[Mapping[str, Relationship]] = {
    "NEXT": Relationship(
        ("Tool",),
        ("Tool",),
        _properties(
            "support integer, failures integer, unlabelled integer, inverse_steps integer, weight float, "
            "failure_share float, states integer, summaries strings"
        ),
    ),
    "AFTER": Relationship(("State",), ("Tool",), {}),
    "BEFORE": Relationship(("State",), ("Tool",), {}),
    "TOOK": Relationship(("Trajectory",), ("Tool",), _properties("after string")),
    "FROM": Relationship(LESSONS, ("Trajectory",), _properties("reward float, words boolean")),
    "ABOUT": Relationship(LESSONS, ("Tool",), {}),
    "EVOLVED_FROM": Relationship(_DISTILLED, _DISTILLED, _properties("operator string")),
    "PREFERS": Relationship(("User",), ("Notes",), {}),
    "REVISES": Relationship(("Notes",), ("Notes",), {}),
    "MENTIONS": Relationship(("Principle",), ("Concept",), {}),
    "RELATES": Relationship(("Concept",), ("Concept",), _properties("predicate string, principle string")),
    "SHOWED": Relationship(("Showing",), LESSONS, _properties("success boolean")),
}


class Table(NamedTuple):
    """Rows of one shape: the nodes of a label, or the relationships of a type from one label to another.

    Attributes:
        name: The label or the type.
        ends: Labels of both ends; None for nodes.
    """

    name: str
    ends: tuple[str, str] | None = None


TABLES: Final = (
    *map(Table, NODES),
    *(Table(name, ends) for name, relationship in RELATIONSHIPS.items() for ends in relationship.ends()),
)
"""All tables of the model, nodes before the relationships that connect them."""

PROPERTIES: Final[Mapping[str, Properties]] = NODES | {
    name: relationship.properties for name, relationship in RELATIONSHIPS.items()
}
"""Properties by label or type."""

Value: TypeAlias = "bool | int | float | str | Sequence[Value] | Mapping[str, Value] | None"
"""A plain value. A node is {"labels", "properties"}, a relationship {"type", "properties"}, a path {"nodes",
"relationships"}; properties are those of docs/graph-model.md, without the embedding."""


@dataclass(frozen=True, slots=True)
class Result:
    """Rows of a query; `truncated` if there were more than the limit."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    truncated: bool = False

    def dicts(self) -> list[dict[str, Value]]:
        """Rows by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def entity(names: Sequence[str], properties: Mapping[str, Value], *, is_node: bool) -> dict[str, Value]:
    """A node by its labels, or a relationship by its type. Of the model's own only the model's properties are kept."""
    name = next((name for name in names if name in PROPERTIES), None)
    known = properties if name is None else PROPERTIES[name]
    kept = {key: properties[key] for key in known if properties.get(key) is not None}
    if not is_node:
        return {"type": names[0], "properties": kept}
    return {"labels": sorted(names) if name is None else [name], "properties": kept}


def to_json(value: Value) -> Value:
    """The value with texts in place of the numbers that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_json(item) for item in value]
    return value
