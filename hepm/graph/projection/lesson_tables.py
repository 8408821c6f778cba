"""Lessons, users, concepts and exposures of a store, as the rows of the graph model (docs/reference/graph-model.md)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from hepm.cypher.model import NODES, RELATIONSHIPS, PropertyType, Table
from hepm.graph.lessons.rows import LABELS, PYTHON_TYPES, Kind, LessonRow, StoredLesson, to_record
from hepm.graph.rows import Aliases
from hepm.graph.store import Store
from hepm.types import ToolName

Row: TypeAlias = tuple[object, ...]
Node: TypeAlias = tuple[str, int]
"""A label, and the node's number in its table."""


class LessonTables:
    """The tables that lessons fill, over all namespaces.

    Call `nodes` for each namespace, `link_run` for each run, then `relationships`.
    """

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
        by_kind: dict[Kind, list[StoredLesson]] = {kind: [] for kind in LABELS}
        known: dict[str, Node] = {}
        for lesson in self._store.lessons.list(namespace=namespace):
            kind = lesson.row.kind
            by_kind[kind].append(lesson)
            known[lesson.row.id] = self._node(LABELS[kind], namespace, lesson.row.id)
        for kind, label in LABELS.items():
            yield Table(label), [self._lesson(namespace, lesson) for lesson in by_kind[kind]]
        for lessons in by_kind.values():
            for lesson in lessons:
                self._link_lesson(namespace, lesson.row, known)
        notes = [lesson.row for lesson in by_kind["notes"]]
        self._link_users(namespace, notes, known)
        yield Table("User"), self._named("User", namespace, sorted({row.user for row in notes}))
        concepts: dict[str, None] = {}
        for lesson in by_kind["principle"]:
            for triple in lesson.row.triples:
                concepts[triple.subject] = None
                concepts[triple.object] = None
        yield Table("Concept"), self._named("Concept", namespace, concepts)
        yield Table("Showing"), self._exposures(namespace, known)

    def _named(self, label: str, namespace: str, names: Iterable[str]) -> list[Row]:
        rows: list[Row] = []
        for name in names:
            _, number = self._node(label, namespace, name)
            rows.append((number, namespace, name))
        return rows

    def _link_users(self, namespace: str, notes: Sequence[LessonRow], known: Mapping[str, Node]) -> None:
        """Link each user to those of the notes that no other ones revise."""
        revised = {row.parents[0].id for row in notes if row.parents}
        for row in notes:
            if row.id not in revised:
                self._link("PREFERS", self._node("User", namespace, row.user), known[row.id])

    def link_run(self, namespace: str, run: str, number: int) -> None:
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

    def _link_lesson(self, namespace: str, row: LessonRow, known: Mapping[str, Node]) -> None:
        lesson = known[row.id]
        # A run, a tool or a parent that is named twice is linked once.
        for source in {source.run: source for source in row.sources}.values():
            self._sources[namespace, source.run].append((lesson, source.reward, source.words))
        aliases = self._aliases[namespace]
        for tool in dict.fromkeys(aliases.get(tool, tool) for tool in row.tools):
            self._about.append((lesson, namespace, tool))
        parents = {parent.id: parent for parent in row.parents if parent.id in known}
        if row.kind == "notes":
            for parent in list(parents)[:1]:
                self._link("REVISES", lesson, known[parent])
        else:
            for parent in parents.values():
                self._link("EVOLVED_FROM", lesson, known[parent.id], parent.operator)
        if row.kind == "principle":
            for triple in row.triples:
                subject = self._node("Concept", namespace, triple.subject)
                object = self._node("Concept", namespace, triple.object)
                self._link("MENTIONS", lesson, subject)
                self._link("MENTIONS", lesson, object)
                self._link("RELATES", subject, object, triple.predicate, row.id)

    def _lesson(self, namespace: str, stored: StoredLesson) -> Row:
        seq, row, uses, _ = stored
        label, number = self._node(LABELS[row.kind], namespace, row.id)
        values = {
            **row.columns,
            "namespace": namespace,
            "seq": seq,
            **uses._asdict(),
            "score": uses.score,
            "record": to_record(row),
        }
        columns: list[object] = [number]
        for name, kind in NODES[label].items():
            columns.append(_value(values.get(name), kind))
        return tuple(columns)

    def _exposures(self, namespace: str, known: Mapping[str, Node]) -> Iterator[Row]:
        outcomes = self._store.lessons.outcomes(namespace=namespace)
        exposures = self._store.lessons.exposures(namespace=namespace)
        for run, lesson, success in exposures:
            if lesson in known:
                self._link("SHOWED", self._node("Showing", namespace, run), known[lesson], success)
        runs = dict.fromkeys(exposure.run for exposure in exposures)
        runs.update(dict.fromkeys(outcomes))
        for run in runs:
            _, number = self._node("Showing", namespace, run)
            yield number, namespace, run, outcomes.get(run)


def _value(value: object, kind: PropertyType) -> object:
    """A value as its column takes it; nothing where it is of another type, as another program may have written it."""
    if kind == "strings":
        if isinstance(value, list | tuple):
            return cast("Sequence[str]", value)
        return ()
    if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not PYTHON_TYPES[kind]:
        return None
    return value
