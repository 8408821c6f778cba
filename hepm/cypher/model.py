"""The graph model of docs/reference/graph-model.md: the properties of each label and type, and what queries return."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal, NamedTuple, TypeAlias, cast

PropertyType: TypeAlias = Literal["string", "integer", "float", "boolean", "strings"]
Properties: TypeAlias = Mapping[str, PropertyType]

LESSONS: Final = ("Experience", "Principle", "Notes")
EDGE_SUMMARIES: Final = 3  # that an edge NEXT has as its summaries, those that most runs held

_LESSON: Final = """
    namespace string, id string, seq integer, text string, user string, runs strings, tools strings, live boolean,
    retired string, made_by string, shown integer, uses integer, successes integer, score float, record string"""
_TAUGHT: Final = """
    environments strings, first_turn integer, last_turn integer, preconditions strings, after strings, says strings,
    facts strings, only_user string, condition string, tried integer, worked integer, distilled_by string"""
_NODES: Final = {
    "Tool": """
        namespace string, name string, description string, parameters string, calls integer, errors integer,
        retired string, aliases strings, changed_at float""",
    "State": """
        namespace string, id integer, summary string, sources strings, targets strings, success boolean,
        count integer, seen float, trajectory string, step integer""",
    "Trajectory": """
        namespace string, id string, seq integer, environment string, task string, model string, user string,
        source string, success boolean, reward float, steps integer, ended_at float, day string, tools strings,
        counted boolean, said string, record string""",
    "Experience": f"""{_LESSON},
        situation string, action string, outcome string, lesson string, zone string, stage string, reward float,
        {_TAUGHT}, generation integer""",
    "Principle": f"{_LESSON}, kind string, {_TAUGHT}",
    "Notes": f"{_LESSON}, version integer, written_by string",
    "User": "namespace string, id string",
    "Concept": "namespace string, name string",
    "Showing": "namespace string, run string, told boolean",
}
_RELATIONSHIPS: Final = {
    ("Tool", "NEXT", "Tool"): """
        support integer, failures integer, unlabelled integer, inverse_steps integer, weight float,
        failure_share float, states integer, summaries strings""",
    ("State", "AFTER", "Tool"): "",
    ("State", "BEFORE", "Tool"): "",
    ("Trajectory", "TOOK", "Tool"): "after string",
    ("Experience|Principle|Notes", "FROM", "Trajectory"): "reward float, words boolean",
    ("Experience|Principle|Notes", "ABOUT", "Tool"): "",
    ("Experience|Principle", "EVOLVED_FROM", "Experience|Principle"): "operator string",
    ("User", "PREFERS", "Notes"): "",
    ("Notes", "REVISES", "Notes"): "",
    ("Principle", "MENTIONS", "Concept"): "",
    ("Concept", "RELATES", "Concept"): "predicate string, principle string",
    ("Showing", "SHOWED", "Experience|Principle|Notes"): "success boolean",
}


def _properties(text: str) -> Properties:
    """Properties by name, of a text such as "id string, day string"; the empty text has none."""
    properties: dict[str, PropertyType] = {}
    for part in text.split(","):
        if part:
            name, kind = part.split()
            properties[name] = cast("PropertyType", kind)
    return properties


NODES: Final[Mapping[str, Properties]] = {label: _properties(text) for label, text in _NODES.items()}
OF_EVERY_KIND: Final = NODES["Experience"].keys() & NODES["Principle"].keys() & NODES["Notes"].keys()
"""Properties that the nodes of lessons of all kinds have."""


class Table(NamedTuple):
    """The nodes of a label, or the relationships of a type between two labels, its ends."""

    name: str
    ends: tuple[str, str] | None = None


def _tables() -> tuple[Table, ...]:
    tables = [Table(label) for label in NODES]
    for sources, name, targets in _RELATIONSHIPS:
        # The embedded engine has one table for each pair of labels.
        for ends in product(sources.split("|"), targets.split("|")):
            tables.append(Table(name, ends))
    return tuple(tables)


TABLES: Final = _tables()
"""All tables of the model, nodes before the relationships that connect them."""


def _all_properties() -> dict[str, Properties]:
    properties = dict(NODES)
    for (_, name, _), text in _RELATIONSHIPS.items():
        properties[name] = _properties(text)
    return properties


PROPERTIES: Final[Mapping[str, Properties]] = _all_properties()
"""Properties by label or type."""

Value: TypeAlias = "bool | int | float | str | Sequence[Value] | Mapping[str, Value] | None"
"""A plain value. A node is {"labels", "properties"}, a relationship {"type", "properties"}, a path {"nodes",
"relationships"}; properties are those of docs/reference/graph-model.md, without the embedding."""


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
    """A node by its labels, or a relationship by its type, with the properties of the model alone."""
    labels = sorted(names)
    known: Iterable[str] = properties
    for name in names:
        # A node of another application's label beside one of the model is one of the model.
        if name in PROPERTIES:
            labels = [name]
            known = PROPERTIES[name]
            break
    kept = {key: properties[key] for key in known if properties.get(key) is not None}
    if not is_node:
        return {"type": names[0], "properties": kept}
    return {"labels": labels, "properties": kept}


def to_json(value: Value) -> Value:
    """The value with texts in place of the numbers that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_json(item) for item in value]
    return value
