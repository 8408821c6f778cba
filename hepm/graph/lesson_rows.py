"""Lessons, users, concepts and exposures of a store, as the rows of the graph model (docs/reference/graph-model.md)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias, cast

from hepm.cypher.model import NODES, RELATIONSHIPS, PropertyType, Table
from hepm.graph.lessons.rows import LABELS, PYTHON_TYPES, LessonRow, StoredLesson, to_record
from hepm.graph.rows import Aliases
from hepm.graph.store import Store
from hepm.types import ToolName

Row: TypeAlias = tuple[object, ...]
Node: TypeAlias = tuple[str, int]
"""A label, and the node's number in its table."""


class LessonTables:
    """The tables that lessons fill, over all namespaces. Call `nodes` for each, `meet` for each run, then the rest."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._numbers: defaultdict[str, dict[tuple[str, str], int]] = defaultdict(dict)
        self._links: defaultdict[Table, dict[Row, None]] = defaultdict(dict)
        self._sources: defaultdict[tuple[str, str], list[tuple[Node, float | None, bool]]] = defaultdict(list)
        self._about: list[tuple[Node, str, ToolName]] = []
        self._aliases: dict[str, Aliases] = {}

    def nodes(self, namespace: str) -> Iterator[tuple[Table, Iterable[Row]]]:
        """Nodes of one namespace."""
        self._aliases[namespace] = self._store.marks(namespace=namespace).aliases
        lessons = self._store.lessons.list(namespace=namespace)
        known = {one.row.id: self._node(LABELS[one.row.kind], namespace, one.row.id) for one in lessons}
        for kind, label in LABELS.items():
            yield Table(label), map(partial(self._lesson, namespace), [one for one in lessons if one.row.kind == kind])
        for one in lessons:
            self._tie(namespace, one.row, known)
        notes = [one.row for one in lessons if one.row.kind == "notes"]
        revised = {row.parents[0].id for row in notes if row.parents}
        for row in notes:
            if row.id not in revised:
                self._link("PREFERS", self._node("User", namespace, row.user), known[row.id])
        users = sorted({row.user for row in notes})
        triples = (triple for one in lessons if one.row.kind == "principle" for triple in one.row.triples)
        concepts = dict.fromkeys(name for triple in triples for name in (triple.subject, triple.object))
        yield Table("User"), self._named("User", namespace, users)
        yield Table("Concept"), self._named("Concept", namespace, concepts)
        yield Table("Showing"), self._exposures(namespace, known)

    def _named(self, label: str, namespace: str, names: Iterable[str]) -> list[Row]:
        return [(self._node(label, namespace, name)[1], namespace, name) for name in names]

    def meet(self, namespace: str, run: str, number: int) -> None:
        """Link lessons to a stored run, by its number."""
        for lesson, reward, words in self._sources.pop((namespace, run), ()):
            self._link("FROM", lesson, ("Trajectory", number), reward, words)

    def relationships(self, tools: Mapping[tuple[str, ToolName], int]) -> Iterator[tuple[Table, Iterable[Row]]]:
        """Relationships of lessons; `tools` numbers the tools of the graph by namespace and name."""
        for lesson, namespace, tool in self._about:
            if (namespace, tool) in tools:
                self._link("ABOUT", lesson, ("Tool", tools[namespace, tool]))
        yield from self._links.items()

    def _node(self, label: str, namespace: str, name: str) -> Node:
        known = self._numbers[label]
        return label, known.setdefault((namespace, name), len(known))

    def _link(self, name: str, source: Node, target: Node, *properties: object) -> None:
        if source[0] in RELATIONSHIPS[name].sources and target[0] in RELATIONSHIPS[name].targets:
            self._links[Table(name, (source[0], target[0]))][source[1], target[1], *properties] = None

    def _tie(self, namespace: str, row: LessonRow, known: Mapping[str, Node]) -> None:
        lesson = known[row.id]
        for source in {source.run: source for source in row.sources}.values():
            self._sources[namespace, source.run].append((lesson, source.reward, source.words))
        own = (self._aliases[namespace].get(tool, tool) for tool in row.tools)
        self._about.extend((lesson, namespace, tool) for tool in dict.fromkeys(own))
        parents = [parent for parent in row.parents if parent.id in known]
        if row.kind == "notes":
            for parent in parents[:1]:
                self._link("REVISES", lesson, known[parent.id])
        else:
            for parent in {parent.id: parent for parent in parents}.values():
                self._link("EVOLVED_FROM", lesson, known[parent.id], parent.operator)
        for subject, predicate, object in row.triples if row.kind == "principle" else ():
            one, other = (self._node("Concept", namespace, name) for name in (subject, object))
            self._link("MENTIONS", lesson, one)
            self._link("MENTIONS", lesson, other)
            self._link("RELATES", one, other, predicate, row.id)

    def _lesson(self, namespace: str, stored: StoredLesson) -> Row:
        seq, row, uses, _ = stored
        label, number = self._node(LABELS[row.kind], namespace, row.id)
        counts = {**uses._asdict(), "score": uses.score}
        values = {**row.columns, "namespace": namespace, "seq": seq, **counts, "record": to_record(row)}
        return (number, *(_value(values.get(name), kind) for name, kind in NODES[label].items()))

    def _exposures(self, namespace: str, known: Mapping[str, Node]) -> Iterator[Row]:
        outcomes = self._store.lessons.outcomes(namespace=namespace)
        exposures = self._store.lessons.exposures(namespace=namespace)
        for run, lesson, success in exposures:
            if lesson in known:
                self._link("SHOWED", self._node("Showing", namespace, run), known[lesson], success)
        for run in dict.fromkeys((*(exposure.run for exposure in exposures), *outcomes)):
            yield self._node("Showing", namespace, run)[1], namespace, run, outcomes.get(run)


def _value(value: object, kind: PropertyType) -> object:
    """A value as its column takes it; nothing where it is of another type, as another program may have written it."""
    if kind == "strings":
        return cast("Sequence[str]", value) if isinstance(value, list | tuple) else ()
    if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value if type(value) is PYTHON_TYPES[kind] else None
