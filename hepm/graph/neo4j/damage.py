"""Properties on a server that the model has otherwise, as Neo4j takes any value.

Whatever reads such a property may fail anywhere: an error that nothing expects is explained by them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

from hepm.cypher.model import INTERNAL, LESSONS, NODES, OPTIONAL, RELATIONSHIPS, Properties, PropertyType
from hepm.errors import StoreDamagedError
from hepm.graph.rows import Header

Read: TypeAlias = Callable[..., Iterable[Sequence[Any]]]
"""Gives the rows of a named statement."""

_KINDS: Final[Mapping[PropertyType, tuple[str, Sequence[str]]]] = {
    "string": ("a text", ("STRING",)),
    "integer": ("a whole number", ("INTEGER",)),
    "float": ("a number", ("FLOAT", "INTEGER")),
    "boolean": ("true or false", ("BOOLEAN",)),
    "strings": ("a list of texts", ("LIST<STRING NOT NULL>", "LIST<NOTHING>")),
}
"""What a property of each type must be, in words and as Cypher's types."""
_NUMBERS: Final[frozenset[PropertyType]] = frozenset({"integer", "float"})
_SIGNED: Final = frozenset({"reward", "ended_at", "ended", "seen"})
_LEAST_FLOAT: Final = -1.7976931348623157e308  # below it is only what is infinite
_VECTORS: Final[Mapping[str, Mapping[str, int]]] = {
    "State": {"embedding": 1, "vector": 2},
    "Trajectory": {"said_vector": 2},
    **{kind: {"embedding": 1, "vector": 2} for kind in LESSONS},
}
"""Values for each number of a vector: a list of numbers has one, and bytes have two."""
_JSON: Final[Mapping[str, Mapping[str, tuple[str, type]]]] = {
    "Tool": {"parameters": ("a JSON object", dict), "former_parameters": ("a JSON object", dict)},
    "Trajectory": {"sequence": ("a JSON list of steps", list)},
    "Change": {"sources": ("a JSON list of texts, or null", str)},
    "Answer": {"usage": ("a JSON object, or empty", dict)},
}
"""What texts must be: a JSON object, or a list of what is of a type."""
_MOST: Final = 10_000  # nodes or relationships that one examination names


class Property(NamedTuple):
    """A damaged property.

    Attributes:
        label: Of its node, or the type of its relationship.
        held: What it holds, shortened; None if it is missing.
        must: What it must be.
        owner: Names the node, or the ends of the relationship.
        namespace: Of the node; "" if that is unknown.
    """

    label: str
    name: str
    held: str | None
    must: str
    owner: str
    namespace: str

    def __str__(self) -> str:
        if self.held is None:
            held = "missing"
        elif self.held == "a list":
            held = "a list"
        else:
            held = repr(self.held)
        return f"the {self.name} of the {self.label.lower()} {self.owner} is {held}, not {self.must}"


def damaged_properties(read: Read, *, dimensions: int) -> Iterator[Property]:
    """All damaged properties but those of the header; three passes over every node and one over every relationship."""
    yield from _damaged_nodes(read, dimensions)
    yield from _strayed_nodes(read)
    yield from _damaged_relationships(read)
    names = {label: list(must) for label, must in _JSON.items()}
    for label, name, text, owner, namespace in read("json_properties", model=names):
        must, kind = _JSON[label][name]
        if not _is_json(text, kind):
            yield Property(label, name, text[:60], must, owner or "?", namespace or "")


def _is_json(text: str, kind: type) -> bool:
    try:
        value: Any = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return False
    if kind is dict:
        return isinstance(value, dict)
    return isinstance(value, list) and all(isinstance(part, kind) for part in cast("list[object]", value))


def _damaged_nodes(read: Read, dimensions: int) -> Iterator[Property]:
    model: dict[str, object] = {}
    named_by: dict[str, list[str]] = {}
    for label in INTERNAL.keys() - RELATIONSHIPS.keys():
        model[label] = _specification(label, dimensions)
        named_by[label] = ["uid", "space", "namespace"]
        if label in ("Namespace", "Change"):  # they have no `uid`
            named_by[label] = list(INTERNAL[label])
    rows = read("damaged_nodes", model=model, own=named_by, most=_MOST)
    for label, names, values, owner, namespace in rows:
        for name, held in zip(names, values, strict=True):
            yield Property(label, name, held, _must(label, name, dimensions), owner or "?", namespace or "")


def _strayed_nodes(read: Read) -> Iterator[Property]:
    """Nodes whose namespace is not there, or whose space is not that of their namespace."""
    labels = ["Tool", "State", "Trajectory", *LESSONS]
    rows = read("strayed_nodes", labels=labels, most=_MOST)
    for label, is_known, owner, namespace, space in rows:
        if is_known:
            name, held, must = "space", space, "that of its namespace"
        else:
            name, held, must = "namespace", namespace, "a namespace"
        yield Property(label, name, held, must, owner or "?", namespace or "")


def _damaged_relationships(read: Read) -> Iterator[Property]:
    model: dict[str, object] = {}
    for label in RELATIONSHIPS:
        if properties_of(label):
            model[label] = _specification(label, 0)
    rows = read("damaged_relationships", model=model, most=_MOST)
    for label, names, values, owner, namespace in rows:
        for name, held in zip(names, values, strict=True):
            yield Property(label, name, held, _must(label, name, 0), owner, namespace or "")


def properties_of(label: str) -> Properties:
    """The properties of a label or a type, those that only hepm reads too; vectors apart."""
    own: Properties = NODES.get(label, {})
    if label in RELATIONSHIPS:
        own = RELATIONSHIPS[label].properties
    return {**own, **INTERNAL.get(label, {})}


def _specification(label: str, dimensions: int) -> dict[str, dict[str, object]]:
    """What the statements compare each property with."""
    specification: dict[str, dict[str, object]] = {}
    for name, kind in properties_of(label).items():
        types = [f"{cypher_type} NOT NULL" for cypher_type in _KINDS[kind][1]]
        if name == "rewritten":  # of older stores
            types.append("BOOLEAN NOT NULL")
        if name in OPTIONAL[label]:
            types.append("NULL")
        least: float | None = None
        if kind in _NUMBERS:
            least = _LEAST_FLOAT if name in _SIGNED else 0
        specification[name] = {"types": types, "least": least, "size": None}
    if dimensions:
        for name, values in _VECTORS.get(label, {}).items():
            specification[name] = {"size": values * dimensions}
    return specification


def _must(label: str, name: str, dimensions: int) -> str:
    if name in _VECTORS.get(label, ()):
        return f"a vector of {dimensions} numbers"
    kind = properties_of(label)[name]
    must = _KINDS[kind][0]
    if kind in _NUMBERS and name not in _SIGNED:
        must += " from 0"
    return must


# The header


class _Setting(NamedTuple):
    """A property of the header: its type, its least value, and what it must be."""

    kind: type
    least: float | None
    must: str


_HEADER: Final[Mapping[str, _Setting]] = {
    "schema_version": _Setting(int, 1, "a number from 1"),
    "embedder": _Setting(str, None, "a name"),
    "dimensions": _Setting(int, 0, "a number from 0"),
    "revision": _Setting(int, 0, "a number from 0"),
    "counting": _Setting(str, None, "'all' or 'shortest'"),
    "states_per_move": _Setting(int, 1, "a number from 1"),
    "lessons_removed": _Setting(int, 0, "a number from 0"),
    "success_from": _Setting(float, 1e-300, "a reward above 0 and at most 1"),
}
_LATER: Final = ("lessons_removed", "success_from")  # stores of before lack them


def header_of(row: Sequence[Any], where: str) -> Header:
    """The header in a row of the statement `memory`.

    Raises:
        StoreDamagedError: a property is not what it must be.
    """
    held = dict(zip(_HEADER, row, strict=False))
    faults: list[str] = []
    for name, setting in _HEADER.items():
        value = held.get(name)
        if value is None and name not in _LATER:
            faults.append(f"its {name} is missing")
        elif value is not None and not _fits(name, value):
            faults.append(f"its {name} is {value!r}, not {setting.must}")
    if not faults and (held["embedder"] == "") != (held["dimensions"] == 0):
        faults.append(f"its embedder is {held['embedder']!r}, with vectors of {held['dimensions']} numbers")
    if faults:
        what = "; ".join(faults)
        raise StoreDamagedError(f"the header of the memory at {where} is damaged ({what}). Correct its node :Memory.")
    return Header(*row)


def _fits(name: str, value: Any) -> bool:
    setting = _HEADER[name]
    # A whole number may stand for a float.
    if type(value) is not setting.kind and (setting.kind is not float or type(value) is not int):
        return False
    if name == "counting":
        return value in ("all", "shortest")
    if setting.least is None:
        return True
    return value >= setting.least and (name != "success_from" or value <= 1)
