"""Properties on a server that the model has otherwise, as Neo4j takes any value: find them, and reset them.

Whatever reads such a property may fail anywhere, as with the cells of a file (see `hepm.graph.sqlite.damage`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from hepm.cypher import statement
from hepm.cypher.model import LESSONS, NODES, RELATIONSHIPS, PropertyType
from hepm.errors import StoreDamagedError
from hepm.graph.header_faults import header_faults, mended_header
from hepm.graph.json_columns import MUST, is_json
from hepm.graph.lessons.rows import OF_EVERY_KIND, from_record
from hepm.graph.neo4j.connection import Connection, rows_of, uid
from hepm.graph.rows import Header

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
_OF_ALL: Final[Mapping[str, PropertyType]] = {"uid": "string", "space": "string", "namespace": "string"}
_FURTHER: Final[Mapping[str, Mapping[str, PropertyType]]] = {
    "Tool": {"described_at": "float", "former_description": "string", "former_parameters": "string"},
    "State": {"key": "integer", "move": "string", "kept": "boolean"},
    "Trajectory": {
        "digest": "string",
        "sequence": "string",
        "task_uid": "string",
        "token": "string",
        "level": "string",
        "arm": "string",
        "trial": "string",
        "refused": "string",
        "refusals": "integer",
    },
    **{kind: {"changed": "integer"} for kind in LESSONS},
    "Answer": dict.fromkeys(("key", "step", "run", "run_uid", "user", "user_uid", "text", "usage"), "string"),
    "NEXT": {"told_at": "integer"},
    "TOOK": {"edge": "string", "seq": "integer", "called": "string", "ended": "float", "failed": "boolean"},
}
"""Beside those of the model."""
_INTERNAL: Final[Mapping[str, Mapping[str, PropertyType]]] = {
    "Namespace": {
        "space": "string", "name": "string", "last_run": "integer", "last_state": "integer", "last_lesson": "integer",
    },
    "Change": {"revision": "integer", "namespace": "string", "sources": "string", "rewritten": "integer"},
}  # fmt: skip
_OF_ONE_KIND: Final[Mapping[str, frozenset[str]]] = {kind: frozenset(NODES[kind]) - OF_EVERY_KIND for kind in LESSONS}
"""Properties that not all kinds of lessons have."""
_MAY_LACK: Final[Mapping[str, frozenset[str]]] = {
    "Tool": frozenset({"retired", "aliases", "changed_at", "described_at", "former_description", "former_parameters"}),
    "State": frozenset({"summary"}),
    "Trajectory": frozenset(
        {
            "success",
            "reward",
            "ended_at",
            "day",
            "task_uid",
            "token",
            "level",
            "arm",
            "trial",
            "refused",
            "refusals",
        }
    ),
    **_OF_ONE_KIND,
    "Answer": frozenset({"run", "run_uid", "user", "user_uid"}),
    "Showing": frozenset({"told"}),
    "Namespace": frozenset({"last_lesson"}),
    "TOOK": frozenset({"called", "ended", "failed"}),
    "FROM": frozenset({"reward"}),
    "SHOWED": frozenset({"success"}),
}
_NUMBERS: Final[frozenset[PropertyType]] = frozenset({"integer", "float"})
_SIGNED: Final = frozenset({"reward", "ended_at", "ended", "seen"})
_LEAST_FLOAT: Final = -1.7976931348623157e308  # below it is only what is infinite
_VECTORS: Final[Mapping[str, Mapping[str, int]]] = {
    "State": {"embedding": 1, "vector": 2},
    "Trajectory": {"said_vector": 2},
    **{kind: {"embedding": 1, "vector": 2} for kind in LESSONS},
}
"""Values for each number of a vector: a list of numbers has one, and bytes have two."""
_JSON: Final[Mapping[str, Sequence[str]]] = {
    "Tool": ("parameters", "former_parameters"),
    "Trajectory": ("sequence",),
    "Change": ("sources",),
    "Answer": ("usage",),
}
_RESET: Final[Mapping[tuple[str, str], object]] = {
    ("Tool", "parameters"): "{}",
    ("Tool", "former_parameters"): "{}",
    ("Trajectory", "sequence"): "[]",
    ("Change", "sources"): "null",
    ("Change", "rewritten"): 2,
}
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
    for element, label, name, text, owner, namespace in read("json_properties", model=_JSON):
        must = MUST[label.lower(), name]
        if not is_json(text, must):
            yield Property(element, label, name, text[:60], must, owner or "?", namespace or "")


def _damaged_nodes(read: Read, dimensions: int) -> Iterator[Property]:
    model: dict[str, object] = {}
    named_by: dict[str, list[str]] = {}
    for label in (*NODES, "Answer", *_INTERNAL):
        model[label] = _specification(label, dimensions)
        named_by[label] = list(_INTERNAL.get(label, _OF_ALL))
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


def properties_of(label: str) -> dict[str, PropertyType]:
    """The properties of a label or a type, those that only hepm reads too; vectors apart."""
    if label in _INTERNAL:
        return dict(_INTERNAL[label])
    if label in RELATIONSHIPS:
        return {**RELATIONSHIPS[label].properties, **_FURTHER.get(label, {})}
    return {**NODES.get(label, {}), **_OF_ALL, **_FURTHER.get(label, {})}


def _specification(label: str, dimensions: int) -> dict[str, dict[str, object]]:
    """What the statements compare each property with."""
    specification: dict[str, dict[str, object]] = {}
    for name, kind in properties_of(label).items():
        types = [f"{cypher_type} NOT NULL" for cypher_type in _KINDS[kind][1]]
        if name == "rewritten":  # of older stores
            types.append("BOOLEAN NOT NULL")
        if name in _MAY_LACK.get(label, ()):
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
    spaces = _Spaces(tx)
    dropped_links: list[dict[str, object]] = []
    dropped_nodes: list[dict[str, object]] = []
    reset_nodes: list[dict[str, object]] = []
    for element, damaged in by_element.items():
        if not _is_derived(damaged):
            reset_nodes.append({"element": element, "values": _values(damaged, spaces)})
        elif damaged[0].label in RELATIONSHIPS:
            dropped_links.append({"element": element})
        else:
            dropped_nodes.append({"element": element})
    # Relationships first: a node is only deleted without them.
    tx.run(statement("drop_relationships"), rows=dropped_links).consume()
    tx.run(statement("drop_elements"), rows=dropped_nodes).consume()
    tx.run(statement("reset_nodes"), rows=reset_nodes).consume()
    # A namespace that was made for nodes of none needs its counter.
    for namespace in spaces.recovered:
        tx.run(statement("set_last_lesson"), space=uid(namespace), namespace=namespace, seq=0).consume()


def _is_derived(damaged: Sequence[Property]) -> bool:
    """Whether a rebuild makes the node or relationship anew, or it means nothing without what is damaged."""
    label = damaged[0].label
    names = {prop.name for prop in damaged}
    # A vector that is missing waits for `reembed`: nothing else of the node is lost.
    if names <= _VECTORS.get(label, {}).keys():
        return False
    if label == "Tool":
        return bool(names & {"name", *_OF_ALL})
    if label in ("Answer", "Showing"):
        return not names <= {"usage", "told"}
    if label == "Change":
        return "revision" in names
    return label not in ("Trajectory", "Namespace", *LESSONS)


class _Spaces:
    """What names the namespaces, and the next numbers in them."""

    def __init__(self, tx: neo4j.ManagedTransaction) -> None:
        self._tx = tx
        self._names: dict[str, str] = {}
        for name, space in rows_of(tx.run(statement("namespaces"))):
            if isinstance(name, str):
                self._names[space] = name
        self._last: dict[str, tuple[int, int, object]] = {}
        self.recovered: list[str] = []

    def name(self, space: str) -> str:
        """The namespace of a space; a new one if nothing says which it is."""
        # By its own node, else by what the runs in it say.
        name = self._names.get(space) or self.last(space)[2]
        if isinstance(name, str) and name:
            return name
        if "recovered" not in self.recovered:
            self.recovered.append("recovered")
        return "recovered"

    def last(self, space: str) -> tuple[int, int, object]:
        """The last run and the last lesson of a space, and the name that its runs hold."""
        if space not in self._last:
            ((run, lesson, name),) = rows_of(self._tx.run(statement("last_rows"), space=space))
            self._last[space] = run, lesson, name
        return self._last[space]

    def next(self, space: str, *, lesson: bool) -> int:
        """The number of a further run or lesson."""
        last_run, last_lesson, name = self.last(space)
        if lesson:
            self._last[space] = last_run, last_lesson + 1, name
            return last_lesson + 1
        self._last[space] = last_run + 1, last_lesson, name
        return last_run + 1


def _values(damaged: Sequence[Property], spaces: _Spaces) -> dict[str, object]:
    """What the damaged properties of a node that stays are set to, with those that name it."""
    node = damaged[0]  # what it tells of its node is the same in all of them
    names = {prop.name for prop in damaged}
    vectors = _VECTORS.get(node.label, {}).keys()
    values: dict[str, object] = {}
    for name in names - vectors:
        if name in _MAY_LACK.get(node.label, ()):
            values[name] = None
        else:
            usual = _KINDS[properties_of(node.label)[name]][2]
            values[name] = _RESET.get((node.label, name), usual)
    if names & vectors:
        values |= dict.fromkeys(vectors)
    if node.label == "Namespace":
        values |= _namespace_values(node, names, spaces)
    elif node.label in ("Trajectory", *LESSONS):
        values |= _name_values(node, names, spaces)
    return values


def _namespace_values(node: Property, names: set[str], spaces: _Spaces) -> dict[str, object]:
    run, lesson, name = spaces.last(node.space)
    usual = {"name": name or "recovered", "space": uid(node.owner), "last_run": run, "last_lesson": lesson}
    return {key: value for key, value in usual.items() if key in names}


def _name_values(node: Property, names: set[str], spaces: _Spaces) -> dict[str, object]:
    """The properties that name a run or a lesson, and its place among the others, as far as they are damaged."""
    is_lesson = node.label in LESSONS
    space = node.space
    if "space" in names and "namespace" not in names:
        space = uid(node.namespace)
    values: dict[str, object] = {}
    if "namespace" in names:
        namespace = spaces.name("" if "space" in names else space)
        space = uid(namespace)
        values["namespace"] = namespace
    if space != node.space or "space" in names:
        values["space"] = space
    if "seq" in names:
        values["seq"] = spaces.next(space, lesson=is_lesson)
    if "changed" in names:
        # Any revision will do: a rebuild writes every lesson again.
        values["changed"] = 1
    if is_lesson and names & {"id", "uid", "space", "namespace", "record"}:
        lesson_id = _lesson_id(node)
        values["id"] = lesson_id
        values["uid"] = uid(space, "lesson", lesson_id)
    else:
        for name in ("id", "uid"):
            if name in names:
                values[name] = f"damaged {node.element}"  # until the run's own record is read
    return values


def _lesson_id(node: Property) -> str:
    try:
        return from_record(node.record).id
    except ValueError:
        return f"damaged {node.element}"


# The header


_HEADER: Final[Mapping[str, type]] = {
    "schema_version": int,
    "embedder": str,
    "dimensions": int,
    "revision": int,
    "counting": str,
    "states_per_move": int,
    "lessons_removed": int,
    "success_from": float,
    "rewards_read": bool,
}


def header_of(row: Sequence[Any], where: str) -> Header:
    """The header in a row of the statement `memory`.

    Raises:
        StoreDamagedError: a property is not what it must be.
    """
    faults = _faults(dict(zip(_HEADER, row, strict=True)))
    if faults:
        raise StoreDamagedError(
            f"the header of the memory at {where} is damaged ({'; '.join(faults)}). Run `hepm doctor --repair`."
        )
    return Header(*row)


def _faults(held: Mapping[str, object]) -> list[str]:
    known = {key: value for key, value in held.items() if value is not None and key != "rewards_read"}
    faults: list[str] = []
    for key, value in known.items():
        if not _has_type(key, value):
            must = "a text" if _HEADER[key] is str else "a number"
            faults.append(f"its {key} is {value!r}, not {must}")
    if "schema_version" not in known:
        faults.append("its schema_version is missing")
    if faults:
        return faults
    return header_faults({key: str(value) for key, value in known.items() if key != "schema_version"})


def _has_type(key: str, value: object) -> bool:
    """Whether a value of the header is of its type; a whole number may stand for a float."""
    return type(value) is _HEADER[key] or (_HEADER[key] is float and type(value) is int)


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
        faults = _mend_header(tx, read, header[0][0])
        dimensions = header_of(read("memory")[0], login.uri).dimensions
        damaged = list(damaged_properties(read, dimensions=dimensions))
        reset(tx, damaged)
        return [*faults, *map(str, damaged)]

    try:
        return connection.write(work)
    finally:
        connection.close()


def _mend_header(tx: neo4j.ManagedTransaction, read: Read, held: Mapping[str, object]) -> list[str]:
    faults = _faults(held)
    if faults:
        ((revision, dimensions),) = read("last_revision")
        right = {key: str(value) for key, value in held.items() if _has_type(key, value)}
        mended = mended_header(right, dimensions=dimensions, revision=revision)
        values: dict[str, object] = {}
        for key, text in mended.items():
            if key in _HEADER:
                values[key] = _HEADER[key](text)
        if "success_from" not in mended:
            values["success_from"] = None
        if type(held.get("schema_version")) is not int:
            values["schema_version"] = 1  # what came since is looked at when it is opened
        tx.run(statement("reset_header"), values=values).consume()
    return [f"the header: {fault}" for fault in faults]
