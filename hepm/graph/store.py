"""What a store of the tool graph promises, and what every store does the same way.

All methods see nothing outside their namespace, and are safe to call from several threads; a read never waits for a
write. Every store passes tests/graph/test_store_contract.py.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, ClassVar, Final, TypeVar

import numpy as np

from hepm.errors import InputError
from hepm.graph.changes import Transaction, add_runs, described, forget_runs, rebuild, relabel_runs
from hepm.graph.delta import Edge, Run
from hepm.graph.drift import MOST_RUNS
from hepm.graph.lessons.rows import Answer, HeldLesson, LessonRow, Showing, StoredLesson, showings_of, stored_lessons
from hepm.graph.lessons.transaction import Changed, LessonChange
from hepm.graph.rows import (
    Added,
    Change,
    Counting,
    FloatArray,
    Header,
    HeldRun,
    Known,
    Marks,
    Replay,
    RunRow,
    Selection,
    StateBatch,
    StateRow,
    TextEmbedder,
    ToolRow,
    Totals,
    Vectored,
    Vectors,
    known_runs,
    marks_of,
    of_size,
    tool_row,
)
from hepm.graph.tool_life import add_alias, remove_alias, retire
from hepm.types import Evidence, Tool, ToolName

T = TypeVar("T")

_REEMBED_BATCH: Final = 1000


class Store(ABC):
    """Where the tool graph lives. `SQLiteStore` is the embedded default, `Neo4jStore` the one on a server.

    Reads are statements by name, in `sqlite/queries.sql` and `cypher/store/`; both return the same columns.

    Attributes:
        remote: Whether it may become unreachable while a process runs: mirrors then read it whole when they open.
        runs_a_batch: Runs per transaction: enough that its own cost is small.
    """

    remote: ClassVar[bool]
    runs_a_batch: ClassVar[int]

    @property
    def lessons(self) -> LessonStore:
        """Lessons from the runs."""
        return LessonStore(self)

    # The operations of one backend

    @property
    @abstractmethod
    def header(self) -> Header:
        """Read from the store on each access."""

    @abstractmethod
    def write(
        self, namespace: str, work: Callable[[Transaction], T], *, embedder: str | None = None, vectors: Vectors = ()
    ) -> T:
        """Run work in one write transaction: all of it is stored, or nothing. A server may run it again.

        Raises:
            EmbedderMismatchError: the store holds another embedder's vectors by now, or vectors of another size.
        """

    @abstractmethod
    def read(self, name: str, /, *, namespace: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of a named statement."""

    @abstractmethod
    def iterate(self, name: str, /, *, namespace: str) -> Iterator[Sequence[Any]]:
        """The rows of a named statement; lazy."""

    @abstractmethod
    def set_embedder(self, name: str, dimensions: int) -> None:
        """Name the embedder; every stored vector is dropped, as it belongs to the former one."""

    @abstractmethod
    def edges(self, *, namespace: str, sources: Sequence[ToolName] | None = None) -> list[tuple[Any, ...]]:
        """Edges in the order of `EdgeRow`'s fields, by source and target; only those of `sources` if given.

        Plain tuples: a mirror reads all edges, and naming their fields would double the time.
        """

    @abstractmethod
    def states_after(self, tool: ToolName, *, namespace: str, newer_than: int = 0) -> StateBatch:
        """States of successful runs whose sources hold `tool` and whose id is above `newer_than`, by id."""

    @abstractmethod
    def evidence(self, edges: Sequence[Edge], *, namespace: str, runs: int, summaries: int) -> list[Evidence]:
        """The first `runs` runs and `summaries` summaries behind each edge, in order of the edges.

        Runs: successful ones, the latest stored first. Summaries: each wording once, most often seen first, then
        latest, ties by text.
        """

    @abstractmethod
    def iter_runs(self, *, namespace: str) -> Iterator[HeldRun]:
        """Every stored run in order of arrival, whole; lazy."""

    @abstractmethod
    def columns_of(self, run: Run, *, namespace: str) -> Mapping[str, object]:
        """The columns that are stored with a run's record and derive from it."""

    @abstractmethod
    def held_lessons(self, *, namespace: str) -> Sequence[HeldLesson]:
        """Every lesson in order of arrival, readable or not."""

    @abstractmethod
    def lesson_columns(self, row: LessonRow, *, namespace: str) -> Mapping[str, object]:
        """The columns that are stored with a lesson's record and derive from it."""

    @abstractmethod
    def orphans(self, *, namespace: str) -> list[str]:
        """Sentences on rows that point to nothing, or lack what they must point to; empty when all is well."""

    @abstractmethod
    def close(self) -> None:
        """Release the store; safe to call twice."""

    @abstractmethod
    def _near(self, vector: FloatArray, namespace: str, limit: int) -> list[tuple[Any, ...]]:
        """Rows of embedded states by id, with the nearest `limit` among them."""

    # Writing

    def add(
        self,
        runs: Sequence[Run],
        vectors: Mapping[str, FloatArray],
        *,
        namespace: str,
        replay: Replay,
        embedder: str | None = None,
    ) -> Added:
        """Store a batch: atomic, idempotent by trajectory id, safe with many writers.

        A run whose id is stored with equal content is a duplicate; with other content a conflict, and is not stored. A
        stored run is replaced when it comes again with another label, so that a correction or a late label counts.

        A label of a rule or a judge replaces no given one.

        Args:
            vectors: Of state summaries and of `Run.said`, by `embedder`; a text without one waits for `reembed`.
        Raises:
            EmbedderMismatchError: as `write`, here and below.
        """
        work = partial(add_runs, runs=runs, vectors=vectors, replay=replay)
        return self.write(namespace, work, embedder=embedder, vectors=vectors.values())

    def relabel(
        self,
        runs: Sequence[Run],
        vectors: Mapping[str, FloatArray],
        *,
        namespace: str,
        replay: Replay,
        embedder: str | None = None,
    ) -> tuple[str, ...]:
        """Replace stored runs by their own records with another outcome, or with none; the ids of those.

        What is not stored, or has other content by now, is skipped; so is a label of a rule or a judge where one was
        given. A run that loses its label teaches nothing any more.
        """
        work = partial(relabel_runs, runs=runs, vectors=vectors, replay=replay)
        return self.write(namespace, work, embedder=embedder, vectors=vectors.values())

    def describe(self, tools: Sequence[Tool], *, namespace: str) -> None:
        """Set descriptions and parameters, replacing those from the runs so far."""

        def work(write: Transaction) -> None:
            for tool in tools:
                write.apply(described(replace(tool, name=write.aliases.get(tool.name, tool.name))), {})
            write.note_change()

        self.write(namespace, work)

    def copy_tools(self, rows: Sequence[ToolRow], *, namespace: str, replay: Replay) -> None:
        """Set everything about tools but their counts, as another store holds it."""

        def work(write: Transaction) -> None:
            write.copy_tools([row._replace(aliases=()) for row in rows])
            for row in rows:
                for alias in row.aliases:
                    add_alias(write, alias, row.name, replay)
            write.note_change(everything=True)

        self.write(namespace, work)

    def add_alias(
        self,
        alias: ToolName,
        tool: ToolName,
        *,
        namespace: str,
        replay: Replay,
        embedder: str | None = None,
        rename: bool = False,
    ) -> None:
        """Make `alias` another name of a tool (see `hepm.graph.tool_life.add_alias`)."""
        work = partial(add_alias, alias=alias, tool=tool, replay=replay, rename=rename)
        self.write(namespace, work, embedder=embedder)

    def remove_alias(self, alias: ToolName, *, namespace: str, replay: Replay, embedder: str | None = None) -> None:
        """Make an alias a tool of its own again."""
        self.write(namespace, partial(remove_alias, alias=alias, replay=replay), embedder=embedder)

    def retire(self, tool: ToolName, *, namespace: str, retired: bool = True) -> None:
        """Mark a tool as retired, or take the mark away."""
        self.write(namespace, partial(retire, tool=tool, retired=retired))

    def forget(self, selection: Selection, *, namespace: str, replay: Replay, embedder: str | None = None) -> list[str]:
        """Remove runs with all counts and lessons from them; every count goes back exactly. Ids of the removed, sorted.

        A selection by user only removes the user's notes too. A run whose record cannot be read is removed; its counts
        go with the next `rebuild`. `embedder` names the one of the vectors that `replay` makes.
        """
        return self.write(namespace, partial(forget_runs, selection=selection, replay=replay), embedder=embedder)

    def selected(self, selection: Selection, *, namespace: str) -> list[str]:
        """Ids of the runs that `forget` would remove, sorted."""
        return self.write(namespace, lambda write: [run.id for run in write.select(selection)])

    def rebuild(self, *, namespace: str, replay: Replay, embedder: TextEmbedder | None = None) -> None:
        """Recompute everything but the records from the records, in one transaction; vectors too with an `embedder`.

        `replay` embeds by it. Lessons whose record cannot be read are removed.

        Raises:
            StoreDamagedError: a record cannot be read; the text names its run, and nothing was changed.
        """
        name = None if embedder is None else embedder.name
        self.write(namespace, partial(rebuild, replay=replay, embedder=embedder), embedder=name)

    def put_vectors(
        self, of: Vectored, vectors: Mapping[Any, FloatArray], *, namespace: str, embedder: str | None = None
    ) -> None:
        """Attach vectors of `embedder` to states by id, runs by row number, lessons by id; missing ones are ignored."""

        def work(write: Transaction) -> None:
            write.put_vectors(of, vectors)
            write.note_change(everything=of != "lesson")

        self.write(namespace, work, embedder=embedder, vectors=vectors.values())

    def reembed(self, embedder: TextEmbedder, *, on_progress: Callable[[int, int], None] | None = None) -> int:
        """Give a vector to every state, run and lesson without one, in all namespaces; how many were written.

        Every batch is a transaction of its own: an interrupted call continues where it stopped.
        """
        waiting: list[tuple[str, Vectored, Any, str]] = []
        for name in self.namespaces():
            lessons = self.lessons.list(namespace=name)
            waiting.extend((name, "lesson", one.row.id, one.row.text) for one in lessons if one.vector is None)
            states = self.iter_states(namespace=name, without_vector=True)
            waiting.extend((name, "state", row.id, row.summary) for row in states)
            runs = self.read("runs_without_vector", namespace=name)
            waiting.extend((name, "run", number, said) for number, said in runs)
        done = 0
        for (name, of), group in groupby(waiting, key=itemgetter(0, 1)):
            while batch := list(islice(group, _REEMBED_BATCH)):
                vectors = embedder.embed([text for *_, text in batch])
                found = {key: vector for (*_, key, _), vector in zip(batch, vectors, strict=True)}
                self.put_vectors(of, found, namespace=name, embedder=embedder.name)
                done += len(batch)
                if on_progress is not None:
                    on_progress(done, len(waiting))
        return done

    # Reading

    def namespaces(self) -> list[str]:
        """Those that hold anything, by name."""
        return sorted(row[0] for row in self.read("namespaces", namespace=""))

    def totals(self, *, namespace: str) -> Totals:
        """Counts of everything."""
        return Totals(*self.read("totals", namespace=namespace)[0])

    def find_known(self, ids: Sequence[str], *, namespace: str) -> dict[str, Known]:
        """Those of the ids that are stored."""
        return known_runs(partial(self.read, namespace=namespace), ids)

    def iter_records(self, *, namespace: str) -> Iterator[tuple[str, str, bool]]:
        """Every stored trajectory's id and record in order of arrival, and whether it counts; lazy."""
        for name, record, counted in self.iterate("records", namespace=namespace):
            yield name, record, bool(counted)

    def unlabelled(
        self, *, namespace: str, before: int, environment: str | None, task: str | None, limit: int
    ) -> list[tuple[int, str, str]]:
        """Row number, id and record of runs of unknown outcome stored before row `before`, the latest first."""
        values = {"before": before, "environment": environment, "task": task, "limit": limit}
        return [(seq, name, record) for seq, name, record in self.read("unlabelled", namespace=namespace, **values)]

    def runs_by_task(self, *, namespace: str) -> list[tuple[Any, ...]]:
        """Environment, task ("" for none) and id of every stored run with an outcome, in that order."""
        return self.read("runs_by_task", namespace=namespace)

    def runs_beside(self, runs: Sequence[str], *, namespace: str, latest: int) -> list[tuple[Any, ...]]:
        """The same of the stored ones of `runs` and of their tasks' runs, the `latest` last stored of each outcome."""
        return self.read("runs_beside", namespace=namespace, ids=runs, latest=latest)

    def records_of(self, ids: Sequence[str], *, namespace: str) -> dict[str, str]:
        """Records of those of the runs that are stored, by id."""
        return dict(self.read("records_of", namespace=namespace, ids=ids))

    def run_edges(self, *, namespace: str) -> dict[Edge, list[str]]:
        """Ids of the stored runs that took each edge, sorted."""
        found = defaultdict[Edge, list[str]](list)
        for source, target, run in self.read("run_edges", namespace=namespace):
            found[source, target].append(run)
        return found

    def tools(self, *, namespace: str) -> list[ToolRow]:
        """All tools by name."""
        return list(map(tool_row, self.read("tools", namespace=namespace)))

    def latest_outcomes(self, tools: Sequence[ToolName], *, namespace: str) -> dict[ToolName, str]:
        """Whether the latest runs failed with each tool, as `hepm.graph.drift.drift_of` takes it.

        By the end of the runs; those of unknown end come first, in order of arrival.
        """
        rows = self.read("latest_outcomes", namespace=namespace, tools=tools, most=MOST_RUNS)
        return {tool: "".join(map(str, map(int, failed or ()))) for tool, failed in rows}

    def outcomes(self, *, namespace: str) -> dict[tuple[ToolName, str], tuple[float, bool]]:
        """By tool and run, when the run ended and whether its calls to the tool failed (see `Delta.outcomes`)."""
        rows = self.read("outcomes", namespace=namespace)
        return {(tool, run): (ended, bool(failed)) for tool, run, ended, failed in rows}

    def marks(self, *, namespace: str) -> Marks:
        """Aliases of tools, and the tools that are retired."""
        return marks_of(self.read("marked_tools", namespace=namespace))

    def states_newer_than(self, newer_than: int, *, namespace: str) -> StateBatch:
        """States of all labelled runs whose id is above `newer_than`, by id, without their summaries."""
        return self._batch(self.read("states_newer_than", namespace=namespace, newer_than=newer_than))

    def search_states(self, vector: FloatArray, *, namespace: str, limit: int) -> list[tuple[StateRow, float]]:
        """States of successful runs most similar to a vector of unit length, with their cosines; ties by id.

        A store with an index may miss one that is about as near as the last; it never gives fewer than there are.
        """
        batch = self._batch(self._near(vector, namespace, limit))
        if not batch.rows:
            return []
        cosines = batch.vectors_ND @ vector
        best = np.argsort(-cosines, kind="stable")[:limit]
        return [(batch.rows[at], float(cosines[at])) for at in best]

    def iter_states(self, *, namespace: str, without_vector: bool = False) -> Iterator[StateRow]:
        """All states that kept their text, by id; lazy."""
        for row in self.iterate("states", namespace=namespace):
            if not (without_vector and row[-1]):
                yield self._state(row)

    def iter_held_states(self, *, namespace: str) -> Iterator[tuple[StateRow, bool, bytes | None]]:
        """All states by id, whether each kept its text, and its vector as stored; lazy."""
        for row in self.iterate("held_states", namespace=namespace):
            yield self._state(row), row[-2] not in (None, False), row[-1]

    def runs_after(self, seq: int, *, namespace: str) -> list[RunRow]:
        """Labelled, counted runs stored after row `seq`, in order of arrival."""
        dimensions = self.header.dimensions
        return [
            RunRow(number, name, bool(success), sequence, of_size(vector, dimensions))
            for number, name, success, sequence, vector in self.read("runs_after", namespace=namespace, seq=seq)
        ]

    def changes_since(self, revision: int) -> list[Change] | None:
        """What later revisions changed, oldest first; None where the journal no longer reaches back that far."""
        rows = self.read("changes_since", namespace="", revision=revision)
        if self.header.revision > revision and (not rows or rows[0][0] != revision + 1):
            return None
        return [
            Change(number, namespace, None if (names := json.loads(sources)) is None else tuple(names), bool(rewritten))
            for number, namespace, sources, rewritten in rows
        ]

    def _check_counting(self, counting: Counting | None, where: str) -> None:
        stored = self.header.counting
        if counting not in (None, stored):
            self.close()
            raise InputError(
                f"{where} counts {stored!r} runs of a task, not {counting!r}. "
                "Open it without that option, or ingest into a new store."
            )

    def _batch(self, rows: Sequence[tuple[Any, ...]]) -> StateBatch:
        """States of rows that end with the vector in bytes; one of another size is left out, as if it had none."""
        size = self.header.dimensions
        right = [row for row in rows if len(row[-1]) == 2 * size]
        vectors = np.frombuffer(b"".join([row[-1] for row in right]), dtype="<f2").astype(np.float32)
        return StateBatch([self._state(row) for row in right], vectors.reshape(len(right), size))

    def _state(self, row: Sequence[Any]) -> StateRow:
        number, *sides, success = row[:4]
        sources, targets = (tuple(json.loads(side) if isinstance(side, str) else side) for side in sides)
        return StateRow(number, sources, targets, bool(success), *row[4:10])


class LessonStore:
    """Lessons of a store. Methods see nothing outside their namespace, and are atomic."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def change(
        self, change: LessonChange, vectors: Mapping[str, FloatArray], *, namespace: str, embedder: str | None = None
    ) -> Changed:
        """Carry out a change; `vectors` maps texts to vectors of `embedder`, and a text without one waits.

        A lesson whose id is stored keeps its words, and the runs of both stand behind it; so does its being retired.

        Raises:
            EmbedderMismatchError: the store holds another embedder's vectors by now.
        """

        def work(write: Transaction) -> Changed:
            changed = write.lessons.change(change, vectors)
            write.note_change()
            return changed

        return self._store.write(namespace, work, embedder=embedder, vectors=vectors.values())

    def show(self, run: str, lessons: Sequence[str], *, namespace: str) -> int:
        """Record that lessons were shown in a run, credited with its outcome if that is known; how many were new.

        Ids that are gone are skipped.
        """
        return self._noted(namespace, lambda write: write.lessons.show(run, lessons))

    def settle(self, outcomes: Mapping[str, bool], *, namespace: str) -> int:
        """Credit what was shown in runs with their outcomes, which replace former ones; how many lessons were.

        Idempotent. An outcome that comes before what was shown waits for it.
        """
        return self._noted(namespace, lambda write: write.lessons.tell(outcomes))

    def forget_user(self, user: str, *, namespace: str) -> list[str]:
        """Remove every lesson of a user, older versions included, and answers about them; the ids of the lessons."""
        return self._noted(namespace, lambda write: write.lessons.forget_user(user))

    def put_answers(self, answers: Sequence[Answer], *, namespace: str) -> None:
        """Store or replace answers; not one about a forgotten run or user."""
        self._store.write(namespace, lambda write: write.lessons.put_answers(answers))

    def _noted(self, namespace: str, work: Callable[[Transaction], T]) -> T:
        def noted(write: Transaction) -> T:
            if changed := work(write):
                write.note_change()
            return changed

        return self._store.write(namespace, noted)

    def get(self, ids: Sequence[str], *, namespace: str) -> list[StoredLesson]:
        """Those of the ids that are stored, in order of arrival."""
        return stored_lessons(self._store.read("find_lessons", namespace=namespace, ids=ids))

    def from_runs(self, runs: Sequence[str], *, namespace: str) -> list[LessonRow]:
        """Lessons that name one of the runs, in order of arrival."""
        return [one.row for one in stored_lessons(self._store.read("lessons_from", namespace=namespace, runs=runs))]

    def showings(self, *, namespace: str) -> list[Showing]:
        """All that was shown, by run and lesson."""
        return showings_of(self._store.read("showings", namespace=namespace))

    def outcomes(self, *, namespace: str) -> dict[str, bool]:
        """Reported outcomes of runs that are not stored, by run."""
        return {run: bool(success) for run, success in sorted(self._store.read("told_outcomes", namespace=namespace))}

    def answers(self, keys: Sequence[str], *, namespace: str) -> list[Answer]:
        """Stored answers by key; unknown keys are skipped."""
        return sorted(Answer(*row) for row in self._store.read("find_answers", namespace=namespace, keys=keys))

    def all_answers(self, *, namespace: str) -> list[Answer]:
        """Every answer, by key."""
        return sorted(Answer(*row) for row in self._store.read("all_answers", namespace=namespace))

    def answered_runs(self, step: str, *, namespace: str) -> set[str]:
        """Runs that a step has an answer about."""
        return {run for (run,) in self._store.read("answered_runs", namespace=namespace, step=step)}

    def list(self, *, namespace: str, newer_than: int = 0) -> list[StoredLesson]:
        """Readable lessons that a revision above `newer_than` touched, in order of arrival."""
        return stored_lessons(self._store.read("lessons", namespace=namespace, newer_than=newer_than))
