"""The graph model of docs/graph-model.md, as tables: which label has which property, of which type.

Both engines hold the same names. A store in Neo4j keeps some more on its nodes, for itself; no answer shows those.
There nodes also carry labels that say what a property says, for Browser's styles: `BESIDE`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final, Literal, NamedTuple, TypeAlias, cast

from hepm.types import START

PropertyType: TypeAlias = Literal["string", "integer", "float", "boolean", "strings"]
Properties: TypeAlias = Mapping[str, PropertyType]

LESSON: Final = "Lesson"
"""What every lesson is called in Neo4j beside the label of its kind; the embedded engine knows it by LESSONS."""

LESSONS: Final = ("Experience", "Principle", "Notes")


def _properties(text: str) -> dict[str, PropertyType]:
    """Read names and types, written as in the headers of the library: "name string, calls integer"."""
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
    """A relationship type: nodes of each of its sources may lead to nodes of each of its targets."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    properties: Properties

    def ends(self) -> Iterator[tuple[str, str]]:
        """From which label to which it may lead."""
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


class Beside(NamedTuple):
    """A label that nodes of another label carry too in Neo4j, where a property has a value."""

    label: str
    of: tuple[str, ...]
    property: str
    value: str | bool


BESIDE: Final = (
    Beside("Start", ("Tool",), "name", START),
    Beside("Golden", ("Experience",), "zone", "golden"),
    Beside("Preference", ("Experience",), "zone", "preference"),
    Beside("Warning", ("Experience",), "zone", "warning"),
    Beside("Guiding", ("Principle",), "kind", "guiding"),
    Beside("Cautionary", ("Principle",), "kind", "cautionary"),
    Beside("Retired", LESSONS, "live", False),
)

TABLES: Final = (
    *map(Table, NODES),
    *(Table(name, ends) for name, relationship in RELATIONSHIPS.items() for ends in relationship.ends()),
)
"""All of the model, nodes before the relationships that lead to them."""


def properties_of(name: str) -> Properties:
    """What a label's nodes, or relationships of a type, hold; empty for a name that the model lacks."""
    if name in NODES:
        return NODES[name]
    return RELATIONSHIPS[name].properties if name in RELATIONSHIPS else {}
