"""The store of the tool graph: what every store does the same way on the operations of its database."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from hepm.errors import InputError
from hepm.graph.changes import add_runs, forget_runs, read_rewards, rebuild, restate
from hepm.graph.delta import COLUMNS, Delta, Edge, RunRecord, StatePlace, counted_by, request_of
from hepm.graph.drift import MOST_RUNS, Drift, Observation, drift_of, vouched_drift
from hepm.graph.lessons.store import LessonStore
from hepm.graph.rows import (
    Added,
    Counting,
    Float32Array,
    Header,
    HeldRun,
    Known,
    Marks,
    RecordParser,
    RevisionChange,
    Row,
    RunAbout,
    RunFilter,
    RunJoiner,
    RunRow,
    Selection,
    StateBatch,
    StateRow,
    TextEmbedder,
    TextVectors,
    ToolRow,
    Totals,
    Vectored,
    Vectors,
    batches,
    known_runs,
    marks_of,
    read_each,
    spread_over,
    tool_row,
)
from hepm.graph.stored_vectors import dimensions_of, of_size, vectors_of
from hepm.graph.tool_life import add_alias, remove_alias, retire
from hepm.graph.transaction import Transaction
from hepm.graph.trials import TrialSession, trial_session
from hepm.types import Evidence, Tool, ToolName

if TYPE_CHECKING:
    from hepm.cypher.model import Result

T = TypeVar("T")

_WITHOUT_VECTOR: Final[Mapping[Vectored, str]] = {
    "lesson": "lessons_without_vector",
    "state": "states_without_vector",
    "run": "runs_without_vector",
}
"""The statement for what waits for a vector: keys as `put_vectors` takes them, and texts."""


class Store(ABC):
    """Where the tool graph lives. `SQLiteStore` is the embedded default, `Neo4jStore` the one on a server.

    All methods see nothing outside their namespace, and are safe to call from several threads; a read never waits for a
    write. Reads are statements by name, in `sqlite/queries.sql` and `cypher/store/`; both return the same columns.
    Every store passes tests/graph/test_store_contract.py.

    Attributes:
        remote: Whether it may become unreachable while a process runs: mirrors then read it whole when they open.
        read_only: Whether this process may not write it.
        runs_a_batch: Runs per transaction: enough that its own cost is small.
    """

    # What each database does in its own way

    remote: ClassVar[bool]
    runs_a_batch: ClassVar[int]
    read_only = False

    @property
    @abstractmethod
    def header(self) -> Header:
        """Read from the store on each access."""

    @property
    @abstractmethod
    def upgraded_from(self) -> int:
        """The schema version that an upgrade began with; 0 if there was none, or it is settled."""

    @abstractmethod
    def settle_upgrade(self) -> None:
        """Note that what derives from the records is right after an upgrade."""

    @abstractmethod
    def write(
        self, namespace: str, work: Callable[[Transaction], T], *, embedder: str | None = None, vectors: Vectors = ()
    ) -> T:
        """Run work in one write transaction: all of it is stored, or nothing. A server may run it again.

        Raises:
            EmbedderMismatchError: the store holds another embedder's vectors by now, or vectors of another size.
        """

    @abstractmethod
    def read(self, name: str, /, *, namespace: str, **values: Any) -> list[Row]:
        """The rows of a named statement."""

    @abstractmethod
    def iterate(self, name: str, /, *, namespace: str, **values: Any) -> Iterator[Sequence[Any]]:
        """The rows of a named statement; lazy."""

    @abstractmethod
    def ask(self, text: str, parameters: Mapping[str, Any], *, timeout_s: float, limit: int) -> Result:
        """Run a user's Cypher query that only reads (see `hepm.cypher.engines`), in the dialect of the backend.

        Raises:
            QueryError: it would write, takes too long, or is no Cypher.
            MissingExtraError: the embedded engine is not installed.
        """

    def damage(self) -> list[str]:
        """Sentences on what is damaged in a file."""
        return []

    @abstractmethod
    def close(self) -> None:
        """Release the store; safe to call twice."""

    def near(self, vector: Float32Array, namespace: str, limit: int) -> list[Row]:
        """Rows of embedded states by id, with the nearest `limit` among them."""
        return self.read("embedded_states", namespace=namespace)

    # What is written once, over named statements

    @property
    def lessons(self) -> LessonStore:
        """Lessons from the runs."""
        return LessonStore(self)

    @property
    def secret(self) -> str:
        """A random text of this store that no client knows; made when it is first asked for, and then kept."""
        while True:
            for (secret,) in self.read("secret", namespace=""):
                if secret is not None:
                    return secret
            # Another process may be first: its secret stays.
            self.write("", lambda write: write.write("make_secret", [{"secret": token_hex(16)}]))

    # Writing

    def add(
        self,
        runs: Sequence[RunRecord],
        vectors: TextVectors,
        *,
        namespace: str,
        replay: RecordParser,
        embedder: str | None = None,
        relabel: bool = False,
        join: RunJoiner | None = None,
    ) -> Added:
        """Store a batch: atomic, idempotent by trajectory id, safe with many writers.

        A run whose id is stored with equal content is a duplicate; with other content a conflict, and is not stored,
        unless `join` makes a whole of both. A stored run is replaced when it comes again with another label, so that a
        correction or a late label counts.

        A label of a rule or a judge replaces no given one.

        Args:
            vectors: Of state summaries and of `Run.said`, by `embedder`; a text without one waits for `reembed`.
            relabel: Only replace stored runs, also by the same run without a label: it then teaches nothing any more.
        Raises:
            EmbedderMismatchError: as `write`, here and below.
        """
        return self.write(
            namespace,
            partial(add_runs, runs=runs, vectors=vectors, replay=replay, relabel=relabel, join=join),
            embedder=embedder,
            vectors=vectors.values(),
        )

    def describe(self, tools: Sequence[Tool], *, namespace: str) -> None:
        """Set descriptions and parameters, replacing those from the runs so far."""

        def work(write: Transaction) -> None:
            delta = Delta()
            for tool in tools:
                delta.describe(replace(tool, name=write.aliases.get(tool.name, tool.name)), time.time())
            write.apply(delta, {})
            write.note_change()

        self.write(namespace, work)

    def copy_tools(self, rows: Sequence[ToolRow], *, namespace: str, replay: RecordParser) -> None:
        """Set everything about tools but their counts, as another store holds it."""

        def work(write: Transaction) -> None:
            # Aliases are added one by one, as runs are counted anew with each.
            before = {tool.name: tool.aliases for tool in write.tools()}
            write.copy_tools([row._replace(aliases=before.get(row.name, ())) for row in rows])
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
        replay: RecordParser,
        embedder: str | None = None,
        rename: bool = False,
    ) -> None:
        """Make `alias` another name of a tool (see `hepm.graph.tool_life.add_alias`)."""
        self.write(
            namespace, partial(add_alias, alias=alias, tool=tool, replay=replay, rename=rename), embedder=embedder
        )

    def remove_alias(
        self, alias: ToolName, *, namespace: str, replay: RecordParser, embedder: str | None = None
    ) -> None:
        """Make an alias a tool of its own again."""
        self.write(namespace, partial(remove_alias, alias=alias, replay=replay), embedder=embedder)

    def retire(self, tool: ToolName, *, namespace: str, retired: bool = True) -> None:
        """Mark a tool as retired, or take the mark away."""
        self.write(namespace, partial(retire, tool=tool, retired=retired))

    def forget(
        self, selection: Selection, *, namespace: str, replay: RecordParser, embedder: str | None = None
    ) -> list[str]:
        """Remove runs with all counts and lessons from them; every count goes back exactly. Ids of the removed, sorted.

        A selection by user only removes the user's notes too. A run whose record cannot be read is removed; its counts
        go with the next `rebuild`. `embedder` names the one of the vectors that `replay` makes.
        """
        return self.write(namespace, partial(forget_runs, selection=selection, replay=replay), embedder=embedder)

    def selected(self, selection: Selection, *, namespace: str) -> list[str]:
        """Ids of the runs that `forget` would remove, sorted."""
        return [run.id for run in self.write(namespace, lambda write: write.select(selection))]

    def rebuild(self, *, namespace: str, replay: RecordParser, embedder: TextEmbedder | None = None) -> None:
        """Recompute everything but the records from the records, in one transaction; vectors too with an `embedder`.

        `replay` embeds by it. Lessons whose record cannot be read are removed.

        Raises:
            StoreDamagedError: a record cannot be read; the text names its run, and nothing was changed.
        """
        work = partial(rebuild, replay=replay, embedder=embedder)
        self.write(namespace, work, embedder=None if embedder is None else embedder.name)

    def read_rewards(self, success_from: float, *, replay: RecordParser) -> int:
        """Count rewards from `success_from` on as successes, in all namespaces or in none; how many runs that changed.

        Raises:
            InputError: it is not above 0 and at most 1.
        """
        if not 0 < success_from <= 1:
            raise InputError(f"a reward from which on runs succeed is above 0 and at most 1, not {success_from:g}.")

        def work(write: Transaction) -> int:
            if write.header.success_from == success_from:
                return 0
            changed = 0
            for namespace in _namespaces(write):
                changed += len(read_rewards(write.of(namespace), success_from, replay))
            write.set_header(success_from=float(success_from))
            return changed

        return self.write("", work)

    def set_embedder(self, name: str, dimensions: int) -> None:
        """Name the embedder; every stored vector is dropped, as it belongs to the former one."""

        def work(write: Transaction) -> None:
            # Read under the lock: another process may have been first, and stored vectors since.
            header = write.header
            if (header.embedder, header.dimensions) == (name, dimensions):
                return
            for namespace in _namespaces(write):
                write.of(namespace).note_change(everything=True)
            if header.embedder:
                for statement in ("drop_all_vectors", "drop_all_run_vectors", "drop_all_lesson_vectors"):
                    write.write(statement)
            write.set_header(embedder=name, dimensions=dimensions)

        self.write("", work)

    def restate(self, *, namespace: str, replay: RecordParser) -> int | None:
        """Set what is kept beside the records of runs by today's rules; how many runs that changed.

        None where counts or states would change, too: they are right after a `rebuild`. Damaged records are left alone.
        """
        aliases = self.marks(namespace=namespace).aliases
        success_from = self.header.success_from
        restated = 0
        for batch in batches(self.iter_runs(namespace=namespace), 500):  # runs that are read at once
            parsed, _ = read_each([held.record for held in batch], replay, aliases, success_from=success_from)
            others: list[RunRecord] = []
            for held, run in zip(batch, parsed, strict=True):
                if not isinstance(run, RunRecord) or held.columns == run.columns:
                    continue
                if counted_by(held.columns) != counted_by(run.columns):
                    return None
                others.append(run)
            if others:
                self.write(namespace, partial(restate, runs=others))
                restated += len(others)
        return restated

    def put_vectors(
        self, of: Vectored, vectors: Mapping[Any, Float32Array], *, namespace: str, embedder: str | None = None
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
        waiting: list[tuple[str, Vectored, dict[Any, str]]] = [
            (namespace, of, dict(rows))
            for namespace in self.namespaces()
            for of, statement in _WITHOUT_VECTOR.items()
            for rows in batches(self.read(statement, namespace=namespace), 1_000)
        ]
        total = sum(len(texts) for _, _, texts in waiting)
        done = 0
        for namespace, of, texts in waiting:
            vectors = dict(zip(texts, embedder.embed(list(texts.values())), strict=True))
            self.put_vectors(of, vectors, namespace=namespace, embedder=embedder.name)
            done += len(texts)
            if on_progress is not None:
                on_progress(done, total)
        return done

    # Reading

    def namespaces(self) -> list[str]:
        """Those that hold anything, by name."""
        return sorted(name for name, *_ in self.read("namespaces", namespace=""))

    def totals(self, *, namespace: str) -> Totals:
        """Counts of everything."""
        return Totals(*self.read("totals", namespace=namespace)[0])

    def find_known(self, ids: Sequence[str], *, namespace: str) -> dict[str, Known]:
        """Those of the ids that are stored."""
        return known_runs(self.read("find_runs", namespace=namespace, runs=list(ids)))

    def iter_records(self, *, namespace: str) -> Iterator[Sequence[Any]]:
        """Every stored trajectory's id and record in order of arrival, and whether it counts; lazy."""
        return self.iterate("records", namespace=namespace)

    def outcomes_by_level(self, levels: Sequence[str], *, namespace: str, most: int) -> dict[str, tuple[int, int]]:
        """Of the `most` latest sessions of each level with an outcome: how many succeeded, and how many there are."""
        rows = self.read("outcomes_by_level", namespace=namespace, levels=levels, most=most)
        return {level: (succeeded, sessions) for level, succeeded, sessions in rows}

    def trial_sessions(self, *, namespace: str) -> list[TrialSession]:
        """Sessions of experiments, in order of arrival."""
        return list(map(trial_session, self.read("trial_sessions", namespace=namespace)))

    def refusals(self, *, namespace: str) -> dict[ToolName, Counter[ToolName]]:
        """By tool, the calls that were refused after it, in how many of the latest runs with refusals; by own names."""
        aliases = self.marks(namespace=namespace).aliases
        refused: defaultdict[ToolName, Counter[ToolName]] = defaultdict(Counter)
        for (pairs,) in self.read("refusals", namespace=namespace, most=5_000):
            with suppress(ValueError, TypeError):  # of a damaged record `hepm doctor` says more
                for source, target in json.loads(pairs):
                    refused[aliases.get(source, source)][aliases.get(target, target)] += 1
        return dict(refused)

    def runs_by_task(self, *, namespace: str) -> list[Row]:
        """Environment, task ("" for none) and id of every stored run with an outcome, in that order."""
        return self.read("runs_by_task", namespace=namespace)

    def about_runs(self, ids: Sequence[str], *, namespace: str) -> dict[str, RunAbout]:
        """Those of the runs that are stored, without their steps, by id."""
        found = map(_run_about, self.read("about_runs", namespace=namespace, runs=ids))
        return {about.id: about for about in found}

    def runs_found(self, wanted: RunFilter, *, namespace: str, before: int, limit: int) -> list[RunAbout]:
        """The runs that a filter leaves, of those stored before row `before`, the latest first."""
        values = asdict(wanted)
        if wanted.words is not None:
            values["words"] = wanted.words.lower()
        return list(map(_run_about, self.read("runs_found", namespace=namespace, before=before, limit=limit, **values)))

    def outcomes_by_day(self, *, namespace: str) -> dict[int, tuple[int, int]]:
        """How many labelled runs succeeded and failed, by the day on which they ended, counted from 1970 in UTC."""
        rows = self.read("outcomes_by_day", namespace=namespace)
        return {day: (succeeded, failed) for day, succeeded, failed in rows}

    def models(self, *, namespace: str, most: int) -> list[str]:
        """The models of the `most` latest runs."""
        return [model for (model,) in self.read("models", namespace=namespace, most=most)]

    def tokens_of(self, ids: Sequence[str], *, namespace: str) -> dict[str, str]:
        """The names of the tokens that recorded stored runs at a server, by id; without runs that none recorded."""
        return dict(self.read("tokens_of", namespace=namespace, runs=ids))

    def latest_records(self, *, namespace: str, before: int, limit: int, unlabelled: bool = False) -> list[Row]:
        """Row number, id and record of runs stored before a row, the latest first; all, or of unknown outcome."""
        return self.read("latest_records", namespace=namespace, before=before, limit=limit, unlabelled=unlabelled)

    def records_of(self, ids: Sequence[str], *, namespace: str) -> dict[str, str]:
        """Records of those of the runs that are stored, by id."""
        return dict(self.read("records_of", namespace=namespace, runs=ids))

    def iter_runs(self, *, namespace: str) -> Iterator[HeldRun]:
        """Every stored run in order of arrival, whole; lazy."""
        for *values, record, counted, vector in self.iterate("held_runs", namespace=namespace):
            columns = dict(zip(COLUMNS, values, strict=True))
            yield HeldRun(columns["id"], record, counted, columns, vector)

    def tools(self, *, namespace: str) -> list[ToolRow]:
        """All tools by name."""
        return list(map(tool_row, self.read("tools", namespace=namespace)))

    def latest_outcomes(self, tools: Sequence[ToolName], *, namespace: str) -> dict[ToolName, str]:
        """Whether the latest trusted runs failed with each tool, as `hepm.graph.drift.drift_of` takes it.

        By the end of the runs; those of unknown end come first, in order of arrival.
        """
        return dict(self.read("latest_outcomes", namespace=namespace, tools=tools, most=MOST_RUNS))

    def drifts(self, tools: Sequence[ToolName], *, namespace: str) -> dict[ToolName, Drift | None]:
        """Which of the tools have begun to fail, by runs of more than one source (see `hepm.graph.drift`)."""
        drifts: dict[ToolName, Drift | None] = {}
        for tool, latest in self.latest_outcomes(tools, namespace=namespace).items():
            drifts[tool] = None
            # Most tools have not begun to fail: the sources of their runs need not be read.
            if drift_of(latest) is not None:
                rows = self.read("outcomes_of_tool", namespace=namespace, tool=tool, most=MOST_RUNS)
                drifts[tool] = vouched_drift(list(map(Observation._make, rows)))
        return drifts

    def evidence(self, edges: Sequence[Edge], *, namespace: str, runs: int, summaries: int) -> list[Evidence]:
        """The first `runs` runs and `summaries` summaries behind each edge, in order of the edges.

        Runs: successful ones, the latest stored first. Summaries: each wording once, most often seen first, then
        latest, ties by text.
        """
        rows = self.read("evidence", namespace=namespace, edges=edges, most_runs=runs, most_summaries=summaries)
        return [Evidence(tuple(ids), tuple(texts)) for _, ids, texts in rows]

    def marks(self, *, namespace: str) -> Marks:
        """Aliases of tools, and the tools that are retired."""
        return marks_of(self.read("marked_tools", namespace=namespace))

    def edges(self, *, namespace: str, sources: Sequence[ToolName] | None = None) -> list[Row]:
        """Edges in the order of `EdgeRow`'s fields, by source and target; only those of `sources` if given.

        Plain tuples: a mirror reads all edges, and naming their fields would double the time.
        """
        if sources is None:
            return self.read("edges", namespace=namespace)
        return self.read("edges_from", namespace=namespace, sources=list(sources))

    def states_after(self, tool: ToolName, *, namespace: str, newer_than: int = 0) -> StateBatch:
        """States of successful runs whose sources hold `tool` and whose id is above `newer_than`, by id."""
        return self._batch(self.read("states_after", namespace=namespace, tool=tool, newer_than=newer_than))

    def vectors_of_states(self, ids: Sequence[int], *, namespace: str) -> dict[str, Float32Array]:
        """The vectors of states, by text; those without one are left out."""
        dimensions = self.header.dimensions
        vectors: dict[str, Float32Array] = {}
        for text, stored in self.read("vectors_of_states", namespace=namespace, ids=list(ids)):
            vector = of_size(stored, dimensions)
            if vector is not None:
                vectors[text] = vector
        return vectors

    def search_states(self, vector: Float32Array, *, namespace: str, limit: int) -> list[tuple[StateRow, float]]:
        """States of successful runs most similar to a vector of unit length, with their cosines; ties by id.

        A store with an index may miss one that is about as near as the last; it never gives fewer than there are.
        """
        import numpy as np

        batch = self._batch(self.near(vector, namespace, limit))
        if not batch.rows:
            return []
        cosines = batch.vectors_ND @ vector
        best = np.argsort(-cosines, kind="stable")[:limit]
        return [(batch.rows[index], float(cosines[index])) for index in best]

    def iter_states(self, *, namespace: str) -> Iterator[StateRow]:
        """The states that kept their text, by id; lazy."""
        return map(self._state, self.iterate("states", namespace=namespace))

    def runs_after(self, seq: int, *, namespace: str) -> list[RunRow]:
        """Labelled, counted runs stored after row `seq`, in order of arrival."""
        return self._runs(self.read("runs_after", namespace=namespace, seq=seq))

    def latest_runs(self, *, namespace: str, before: int, most: int) -> list[RunRow]:
        """Labelled, counted runs stored before row `before`, the latest `most` of them, in order of arrival."""
        return self._runs(reversed(self.read("latest_runs", namespace=namespace, before=before, most=most)))

    def spread_runs(self, *, namespace: str, before: int, most: int) -> list[RunRow]:
        """At most `most` labelled, counted runs stored before row `before`, evenly spread, in order of arrival."""
        first = self.read("runs_from_points", namespace=namespace, points=[0], before=before)
        if not first:
            return []
        start = int(first[0][0])
        points = {start + offset for offset in spread_over(before - start, most)}
        return self._runs(self.read("runs_from_points", namespace=namespace, points=sorted(points), before=before))

    def latest_on_edges(self, edges: Mapping[Edge, int], *, namespace: str) -> list[RunRow]:
        """The latest runs that took each edge, about as many as given, in order of arrival, without their vectors."""
        # One statement for edges of which about as many runs are read: up to the next power of two.
        by_most = defaultdict[int, list[Edge]](list)
        for edge, most in edges.items():
            # For example 5 to 8 runs: all ask for 8, and what is too much is cut off below.
            by_most[1 << (most - 1).bit_length()].append(edge)
        seqs: set[int] = set()
        for most, alike in by_most.items():
            for source, target, numbers in self.read("latest_on_edges", namespace=namespace, edges=alike, most=most):
                seqs.update(numbers[: edges[source, target]])
        return self.runs_at(sorted(seqs), namespace=namespace)

    def runs_at(self, seqs: Sequence[int], *, namespace: str) -> list[RunRow]:
        """Those of the runs that are labelled and count, by row number, without their vectors."""
        return self._runs(self.read("runs_at", namespace=namespace, seqs=list(seqs)))

    def _runs(self, rows: Iterable[Sequence[Any]]) -> list[RunRow]:
        dimensions: int | None = None
        runs: list[RunRow] = []
        for seq, run_id, success, sequence, environment, task, user, said, stored in rows:
            vector = None
            if stored is not None:
                if dimensions is None:
                    dimensions = self.header.dimensions  # read only if a run has a vector
                vector = of_size(stored, dimensions)
            request = request_of(said)
            runs.append(RunRow(seq, run_id, success, sequence, environment, task, user or "", request, vector))
        return runs

    def states_at(self, places: Sequence[StatePlace], *, namespace: str) -> tuple[list[StatePlace], Float32Array]:
        """Those of the states that have a vector, and the vectors, shape (N, dimensions)."""
        size = self.header.dimensions
        rows = self.read("states_at", namespace=namespace, places=list(places))
        whole = [row for row in rows if dimensions_of(row[1]) == size]
        return [places[int(row[0])] for row in whole], vectors_of([row[1] for row in whole], size)

    def called_tools(self, *, namespace: str) -> set[ToolName]:
        """Tools that any run called."""
        return {name for (name,) in self.read("called_tools", namespace=namespace)}

    def changes_since(self, revision: int) -> list[RevisionChange] | None:
        """What later revisions changed, oldest first; None where the journal no longer reaches back that far."""
        rows = self.read("changes_since", namespace="", revision=revision)
        # Revisions have no gaps: the first one after `revision` is missing if the journal was cut.
        reaches_back = bool(rows) and rows[0][0] == revision + 1
        if not reaches_back and self.header.revision > revision:
            return None
        changes: list[RevisionChange] = []
        for number, namespace, sources, rewritten in rows:
            tools = json.loads(sources)
            if tools is not None:  # None: everything may have changed
                tools = tuple(tools)
            # See `Transaction.how_rewritten`.
            changes.append(RevisionChange(number, namespace, tools, bool(rewritten), int(rewritten) > 1))
        return changes

    def _check_counting(self, counting: Counting | None, where: str) -> None:
        stored = self.header.counting
        if counting not in (None, stored):
            self.close()
            raise InputError(
                f"{where} counts {stored!r} runs of a task, not {counting!r}. "
                "Open it without that option, or ingest into a new store."
            )

    def _batch(self, rows: Sequence[Row]) -> StateBatch:
        """States of rows that end with the vector in bytes; one of another size is left out, as if it had none."""
        size = self.header.dimensions
        whole = [row for row in rows if dimensions_of(row[-1]) == size]
        return StateBatch(list(map(self._state, whole)), vectors_of([row[-1] for row in whole], size))

    def _state(self, row: Sequence[Any]) -> StateRow:
        number, sources, targets = row[:3]
        return StateRow(number, tuple(sources), tuple(targets), *row[3:10])


def _namespaces(write: Transaction) -> list[str]:
    return sorted(name for name, *_ in write.rows("namespaces"))


def _run_about(row: Sequence[Any]) -> RunAbout:
    *about, said = row
    return RunAbout._make((*about, request_of(said or "")))
