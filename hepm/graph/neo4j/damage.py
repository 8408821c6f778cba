"""Properties on a server that the model has otherwise, as Neo4j takes any value: find them, and reset them.

Whatever reads such a property may fail anywhere. So an error that nothing expects is explained by them, and a repair
resets them before anything else is read.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from hepm.cypher import statement
from hepm.cypher.model import INTERNAL, LESSONS, NODES, OPTIONAL, RELATIONSHIPS, Properties, PropertyType
from hepm.errors import StoreDamagedError
from hepm.graph.lessons.rows import from_record
from hepm.graph.neo4j.connection import Connection, rows_of, uid
from hepm.graph.rows import Header
from hepm.types import SUCCESS_FROM

if TYPE_CHECKING:
    import neo4j
    from hepm.graph.neo4j.login import Login

Read: TypeAlias = Callable[..., Iterable[Sequence[Any]]]
"""Gives the rows of a named statement."""

_KINDS: Final[Mapping[PropertyType, tuple[str, Sequence[str], object]]] = {
    "string": ("a text", ("STRING",), ""),
    "integer": ("a whole number", ("INTEGER",), 0),
    "float": ("a number", ("FLOAT", "INTEGER"), 0.0),
    "boolean": ("true or false", ("BOOLEAN",), True),
    "strings": ("a list of texts", ("LIST<STRING NOT NULL>", "LIST<NOTHING>"), []),
}
"""What a property of each type must be, in words and as Cypher's types, and what it is set to if it is not."""
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
_RESET: Final[Mapping[tuple[str, str], object]] = {
    ("Tool", "parameters"): "{}",
    ("Tool", "former_parameters"): "{}",
    ("Trajectory", "sequence"): "[]",
    ("Change", "sources"): "null",
    ("Change", "rewritten"): 2,
}
_NAMING: Final = frozenset({"id", "uid", "space", "namespace", "seq", "changed", "record"})
_RECOVERED: Final = "recovered"  # the namespace of what names none
_MOST: Final = 10_000  # nodes or relationships that one examination names


class Property(NamedTuple):
    """A damaged property.

    Attributes:
        element: The database's own name of its node or relationship.
        label: Of its node, or the type of its relationship.
        held: What it holds, shortened; None if it is missing.
        must: What it must be.
        owner: Names the node, or the ends of the relationship.
        namespace: Of the node; "" if that is unknown.
        space: The same as nodes hold it.
        record: Of the lesson or the run.
    """

    element: str
    label: str
    name: str
    held: str | None
    must: str
    owner: str
    namespace: str
    space: str = ""
    record: str = ""

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
    for element, label, name, text, owner, namespace in read("json_properties", model=names):
        must, kind = _JSON[label][name]
        if not _is_json(text, kind):
            yield Property(element, label, name, text[:60], must, owner or "?", namespace or "")


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
    for element, label, names, values, owner, namespace, space, record in rows:
        for name, held in zip(names, values, strict=True):
            must = _must(label, name, dimensions)
            yield Property(element, label, name, held, must, owner or "?", namespace or "", space or "", record or "")


def _strayed_nodes(read: Read) -> Iterator[Property]:
    """Nodes whose namespace is not there, or whose space is not that of their namespace."""
    labels = ["Tool", "State", "Trajectory", *LESSONS]
    rows = read("strayed_nodes", labels=labels, most=_MOST)
    for element, label, is_known, owner, namespace, space, record in rows:
        if is_known:
            name, held, must = "space", space, "that of its namespace"
        else:
            name, held, must = "namespace", namespace, "a namespace"
        yield Property(element, label, name, held, must, owner or "?", namespace or "", space or "", record or "")


def _damaged_relationships(read: Read) -> Iterator[Property]:
    model: dict[str, object] = {}
    for label in RELATIONSHIPS:
        if properties_of(label):
            model[label] = _specification(label, 0)
    rows = read("damaged_relationships", model=model, most=_MOST)
    for element, label, names, values, owner, namespace in rows:
        for name, held in zip(names, values, strict=True):
            yield Property(element, label, name, held, _must(label, name, 0), owner, namespace or "")


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


def reset(tx: neo4j.ManagedTransaction, properties: Iterable[Property]) -> None:
    """Reset damaged properties, so that a rebuild can make what derives from records."""
    by_element: defaultdict[str, list[Property]] = defaultdict(list)
    for prop in properties:
        by_element[prop.element].append(prop)
    names_of_spaces = {space: name for name, space in rows_of(tx.run(statement("namespaces"))) if isinstance(name, str)}
    dropped_links: list[dict[str, object]] = []
    dropped_nodes: list[dict[str, object]] = []
    reset_nodes: list[dict[str, object]] = []
    for number, (element, damaged) in enumerate(by_element.items(), 1):
        if not _is_derived(damaged):
            ((run, lesson, name),) = rows_of(tx.run(statement("last_rows"), space=damaged[0].space))
            known = names_of_spaces.get(damaged[0].space) or name
            values = _values(damaged, known=known if isinstance(known, str) else "", last=(run, lesson), number=number)
            reset_nodes.append({"element": element, "values": values})
        elif damaged[0].label in RELATIONSHIPS:
            dropped_links.append({"element": element})
        else:
            dropped_nodes.append({"element": element})
    # Relationships first: a node is only deleted without them.
    tx.run(statement("drop_relationships"), rows=dropped_links).consume()
    tx.run(statement("drop_elements"), rows=dropped_nodes).consume()
    tx.run(statement("reset_nodes"), rows=reset_nodes).consume()
    if any(row["values"].get("namespace") == _RECOVERED for row in cast("list[Any]", reset_nodes)):
        # The namespace needs its counters.
        tx.run(statement("set_last_lesson"), space=uid(_RECOVERED), namespace=_RECOVERED, seq=0).consume()


def _is_derived(damaged: Sequence[Property]) -> bool:
    """Whether a rebuild makes the node or relationship anew, or it means nothing without what is damaged."""
    label = damaged[0].label
    names = {prop.name for prop in damaged}
    # A vector that is missing waits for `reembed`: nothing else of the node is lost.
    if names <= _VECTORS.get(label, {}).keys():
        return False
    if label == "Tool":
        return bool(names & {"name", "uid", "space", "namespace"})
    if label in ("Answer", "Showing"):
        return not names <= {"usage", "told"}
    if label == "Change":
        return "revision" in names
    return label not in ("Trajectory", "Namespace", *LESSONS)


def _values(damaged: Sequence[Property], *, known: str, last: tuple[int, int], number: int) -> dict[str, object]:
    """What the damaged properties of a node that stays are set to, with those that name it.

    Args:
        known: The namespace of its space; "" if that is unknown.
        last: Numbers of the last run and of the last lesson in it.
        number: Of the node among those that are reset.
    """
    node = damaged[0]  # what it tells of its node is the same in all of them
    names = {prop.name for prop in damaged}
    vectors = _VECTORS.get(node.label, {}).keys()
    values: dict[str, object] = {}
    for name in names - vectors:
        values[name] = None
        if name not in OPTIONAL[node.label]:
            values[name] = _RESET.get((node.label, name), _KINDS[properties_of(node.label)[name]][2])
    if names & vectors:
        values |= dict.fromkeys(vectors)
    if node.label == "Namespace":
        right = {"name": known or _RECOVERED, "space": uid(node.owner), "last_run": last[0], "last_lesson": last[1]}
        return {**values, **{name: value for name, value in right.items() if name in names}}
    if node.label in ("Trajectory", *LESSONS) and names & _NAMING:
        namespace = node.namespace
        if "namespace" in names:
            namespace = known or _RECOVERED
        values |= _names(node, names, namespace, last[node.label in LESSONS] + number)
    return values


def _names(node: Property, names: set[str], namespace: str, number: int) -> dict[str, object]:
    """The properties that name a run or a lesson, and its place among the others if that is damaged."""
    space = uid(namespace)
    values: dict[str, object] = {"namespace": namespace, "space": space}
    if "seq" in names:
        values["seq"] = number
    if "changed" in names:
        values["changed"] = 1  # any revision will do: a rebuild writes every lesson again
    damaged = f"damaged {node.element}"
    if node.label == "Trajectory":  # until its own record is read
        return values | dict.fromkeys(names & {"id", "uid"}, damaged)
    try:
        lesson = from_record(node.record).id
    except ValueError:
        lesson = damaged
    return values | {"id": lesson, "uid": uid(space, "lesson", lesson)}


# The header


class _Setting(NamedTuple):
    """A property of the header: its type, what it is set to if it is damaged, its least value, and what it must be."""

    kind: type
    usual: object
    least: float | None
    must: str


_HEADER: Final[Mapping[str, _Setting]] = {
    "schema_version": _Setting(int, 1, 1, "a number from 1"),  # what came since is looked at when it is opened
    "embedder": _Setting(str, "", None, "a name"),
    "dimensions": _Setting(int, 0, 0, "a number from 0"),
    "revision": _Setting(int, 0, 0, "a number from 0"),
    "counting": _Setting(str, "all", None, "'all' or 'shortest'"),
    "states_per_move": _Setting(int, 256, 1, "a number from 1"),
    "lessons_removed": _Setting(int, 1, 0, "a number from 0"),
    "success_from": _Setting(float, SUCCESS_FROM, 1e-300, "a reward above 0 and at most 1"),
}
_LATER: Final = ("lessons_removed", "success_from")  # stores of before lack them


def header_of(row: Sequence[Any], where: str) -> Header:
    """The header in a row of the statement `memory`.

    Raises:
        StoreDamagedError: a property is not what it must be.
    """
    faults = _faults(dict(zip(_HEADER, row, strict=False)))
    if faults:
        what = "; ".join(faults.values())
        raise StoreDamagedError(f"the header of the memory at {where} is damaged ({what}). Run `hepm doctor --repair`.")
    return Header(*row)


def _faults(held: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong in the header, by property."""
    faults: dict[str, str] = {}
    for name, setting in _HEADER.items():
        value = held.get(name)
        if value is None:
            if name not in _LATER:
                faults[name] = f"its {name} is missing"
        elif not _fits(name, value):
            faults[name] = f"its {name} is {value!r}, not {setting.must}"
    if not faults and (held["embedder"] == "") != (held["dimensions"] == 0):
        faults["dimensions"] = f"its embedder is {held['embedder']!r}, with vectors of {held['dimensions']} numbers"
    return faults


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


def mend_server(login: Login) -> list[str]:
    """Reset what a server holds that the model has otherwise; sentences on what that was.

    What derives from records is missing or wrong then, until a rebuild makes it.
    """
    connection = Connection(login)

    def work(tx: neo4j.ManagedTransaction) -> list[str]:
        def read(name: str, **values: object) -> list[tuple[Any, ...]]:
            return rows_of(tx.run(statement(name), values))

        header = read("header")
        if not header:
            return []
        # No writer may come between what is read here and what is set.
        tx.run(statement("lock")).consume()
        faults = _faults(header[0][0])
        if faults:
            _mend_header(tx, read, header[0][0], faults)
        dimensions = header_of(read("memory")[0], login.uri).dimensions
        damaged = list(damaged_properties(read, dimensions=dimensions))
        reset(tx, damaged)
        return [*(f"the header: {fault}" for fault in faults.values()), *map(str, damaged)]

    try:
        return connection.write(work)
    finally:
        connection.close()


def _mend_header(tx: neo4j.ManagedTransaction, read: Read, held: Mapping[str, Any], faults: Mapping[str, str]) -> None:
    ((revision, size),) = read("last_revision")
    values: dict[str, Any] = {name: _HEADER[name].usual for name in faults}
    if "revision" in faults:
        values["revision"] = revision
    if "dimensions" in faults:
        values["dimensions"] = size
    right = {**held, **values}
    # Without a name or a size, vectors are of no embedder.
    if not right["embedder"] or not right["dimensions"]:
        values |= {"embedder": "", "dimensions": 0}
    tx.run(statement("reset_header"), values=values).consume()
