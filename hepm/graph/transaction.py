"""A write transaction: what a database must do, and what every one does the same way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import Any, Final

from hepm.graph.delta import Delta, RunRecord, StateMove, StatePlace, StateSeen
from hepm.graph.lessons.rows import LessonRow, to_record
from hepm.graph.lessons.transaction import LessonTransaction
from hepm.graph.rows import (
    Aliases,
    Float32Array,
    Header,
    Known,
    Row,
    Selection,
    StoredRun,
    TextVectors,
    ToolRow,
    Values,
    Vectored,
    known_runs,
    tool_row,
)
from hepm.graph.stored_vectors import to_bytes, vector_bytes
from hepm.types import ToolName

_PUT_VECTORS: Final = {
    "state": ("put_state_vectors", "of", "vector"),
    "run": ("put_run_vectors", "of", "said_vector"),
    "lesson": ("put_lesson_vectors", "lesson", "vector"),
}
"""The statement for each kind of vector, and its parameters for the key and for the vector."""


def rows_naming(member: str, names: Iterable[str]) -> list[Values]:
    """Rows of a statement that each name one node."""
    return [{member: name} for name in names]


class Transaction(ABC):
    """A write transaction on a namespace: all of it is stored, or nothing.

    `hepm.graph.changes` adds, removes and recounts runs by these operations alone. `SQLiteTransaction` and
    `Neo4jTransaction` implement them, and inherit what is written once over named statements.

    Attributes:
        header: As it was when the transaction began, under the store's write lock.
        aliases: Other names of tools; records are counted under the tools' own.
        sources: Tools whose outgoing edges or states changed.
        rewritten: Whether something was removed or replaced, not only added.
        removed: Whether that was a run with a label.
        last_run: The row number that was given to a run last.
        shown: Whether any lesson was shown in the namespace.
    """

    header: Header
    aliases: Aliases
    last_run: int
    shown: bool = True

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.lessons = LessonTransaction(self)
        self.sources: set[ToolName] = set()
        self.rewritten = False
        self.removed = False

    # What each database does in its own way

    @abstractmethod
    def of(self, namespace: str) -> Transaction:
        """The same transaction on another namespace."""

    @abstractmethod
    def rows(self, name: str, /, **values: Any) -> list[Row]:
        """The rows of a named statement."""

    @abstractmethod
    def write(self, name: str, /, rows: Iterable[Values] = ({},)) -> object:
        """Run a named statement for each row; lessons, runs, tools, users and answers are named by their ids."""

    @abstractmethod
    def ask(self, name: str, rows: Iterable[Values], /) -> list[Row]:
        """The rows that a named statement returns for all of `rows`, each named as in `write`."""

    @abstractmethod
    def set_header(self, **values: object) -> None:
        """Set fields of the header."""

    @abstractmethod
    def note_change(self, *, everything: bool = False) -> None:
        """Write the journal entry from which mirrors learn what to read again."""

    @abstractmethod
    def add_states(self, rows: Sequence[Mapping[str, Any]], vectors: TextVectors) -> None:
        """Add states, or merge them into equal ones, each move within its bound.

        Args:
            rows: Of each its move, key and the fields of `StateSeen`.
            vectors: By the texts of the states.
        """

    # What is written once, over named statements

    def lesson_row(self, row: LessonRow, vectors: TextVectors) -> Values:
        """What a store keeps of a lesson."""
        return {
            "lesson": row.id,
            "kind": row.kind,
            "user": row.user,
            "live": row.live,
            "record": to_record(row),
            "runs": [source.run for source in row.sources],
            **row.prior._asdict(),
            "vector": vector_bytes(vectors, row.text),
        }

    def put_lessons(self, rows: Sequence[LessonRow], vectors: TextVectors) -> None:
        """Insert or rewrite lessons, with vectors by text; their uses stay."""
        self.write("put_lessons", [self.lesson_row(row, vectors) for row in rows])

    def run_row(self, run: RunRecord) -> Values:
        """What a store keeps beside the record of a run."""
        return {"run": run.id, **run.columns}

    def is_candidate(self, run: RunRecord | StoredRun) -> bool:
        """Whether a run counts only if it is the shortest successful one of its task."""
        return self.header.counting == "shortest" and bool(run.success and run.task)

    def insert_runs(self, runs: Sequence[RunRecord], vectors: TextVectors) -> None:
        """Store the rows of new runs, not their counts; a candidate does not count yet."""
        rows: list[Values] = []
        for run in runs:
            self.last_run += 1
            rows.append(
                {
                    **self.run_row(run),
                    "seq": self.last_run,
                    "counted": not self.is_candidate(run),
                    "record": run.record,
                    "said_vector": vector_bytes(vectors, run.said),
                }
            )
        self.write("add_runs", rows)

    def restate_runs(self, runs: Sequence[tuple[StoredRun, RunRecord]]) -> None:
        """Set what derives from the records of stored runs, and whether they count."""
        rows = [{**self.run_row(run), "seq": stored.seq, "counted": stored.counted} for stored, run in runs]
        self.write("restate_runs", rows)

    def drop_runs(self, ids: Sequence[str]) -> None:
        """Delete the rows of runs, not their counts."""
        self.write("drop_runs", rows_naming("run", ids))

    def apply(self, delta: Delta, vectors: TextVectors) -> None:
        """Add counts and states; `vectors` by the texts of the states."""
        self._add_tools(delta)
        run_edges: list[Values] = []
        # The outcome of a run with a tool is stored once, with the first of the run's edges to the tool.
        waiting = dict(delta.outcomes)
        for (source, target), runs in sorted(delta.run_edges.items()):
            for run in runs:
                ended, failed = waiting.pop((target, run), (None, None))
                run_edges.append({"run": run, "after": source, "tool": target, "ended": ended, "failed": failed})
        self.write("add_run_edges", run_edges)
        states: list[Values] = []
        for (move, key), state in delta.states.items():
            self.sources.update(move.sources)
            states.append({**move._asdict(), "key": key, **vars(state)})
        self.add_states(states, vectors)

    def drop_counts(self, delta: Delta, ids: Collection[str]) -> None:
        """Take back the counts of runs and the edges that they took; delete tools and edges that nothing holds.

        Args:
            delta: Of negative counts.
        """
        self._add_tools(delta)
        # Edges first, then the tools that they alone held.
        self.write("drop_run_edges", rows_naming("run", ids))
        self.write("drop_empty_tools", rows_naming("tool", set(delta.tools).union(*delta.run_edges)))

    def _add_tools(self, delta: Delta) -> None:
        self.write("add_tools", delta.tool_rows())
        self.sources |= delta.touched_tools

    def reduce_states(self, states: Mapping[StatePlace, StateSeen]) -> Iterable[tuple[StatePlace, int, str, bool]]:
        """Reduce the counts of states; the count that each has left, whose text it has, and whether it kept that."""
        places = list(states)
        rows: list[Values] = []
        for at, (move, key) in enumerate(places):
            self.sources.update(move.sources)
            rows.append({"at": at, **move._asdict(), "key": key, "count": states[move, key].count})
        for at, count, run, kept_text in self.ask("reduce_states", rows):
            yield places[at], count, run, kept_text

    def textless(self, moves: Iterable[StateMove]) -> dict[StatePlace, tuple[int, str, int]]:
        """Count, run and step of the states without a text that belong to the latest of their moves."""
        asked = list(moves)
        bound = self.header.states_per_move
        rows = [{"at": at, **move._asdict(), "bound": bound} for at, move in enumerate(asked)]
        return {(asked[at], key): (count, run, step) for at, key, count, run, step in self.ask("textless_states", rows)}

    def drop_states(self, places: Iterable[StatePlace]) -> None:
        """Delete states."""
        self.write("drop_states", [{**move._asdict(), "key": key} for move, key in places])

    def clear(self) -> None:
        """Delete all that is counted from the records; tools keep their descriptions and marks."""
        self.rewritten = True
        for statement in ("clear_states", "clear_edges", "clear_run_edges", "clear_run_vectors", "reset_tools"):
            self.write(statement)
        self.write("drop_empty_tools", rows_naming("tool", [tool.name for tool in self.tools()]))

    def how_rewritten(self, *, everything: bool) -> int:
        """For the journal: 0 if something was only added, 1 if texts were replaced, 2 if labelled runs were removed."""
        return 2 if everything or self.removed else int(self.rewritten)

    def known(self, ids: Sequence[str]) -> dict[str, Known]:
        """Those of the ids that are stored."""
        return known_runs(self.rows("find_runs", runs=list(ids)))

    def held(self, ids: Sequence[str]) -> list[StoredRun]:
        """Those of the runs that are stored, by id."""
        return self.stored(self.rows("stored_runs", runs=list(ids)))

    def select(self, selection: Selection) -> list[StoredRun]:
        """The stored runs that match, by id."""
        if selection.trajectory is not None and selection == Selection(selection.trajectory):
            return self.held([selection.trajectory])  # a search for anything else reads the whole namespace
        return self.stored(self.rows("select_runs", **asdict(selection)))

    def records_of(self, ids: Iterable[str]) -> list[str]:
        """The records of stored runs."""
        return [record for _, record in self.rows("records_of", runs=list(ids))]

    def put_vectors(self, of: Vectored, vectors: Mapping[Any, Float32Array]) -> None:
        """Attach vectors to states by id, runs by row number or lessons by id; missing ones are ignored."""
        statement, key_parameter, vector_parameter = _PUT_VECTORS[of]
        self.write(
            statement, [{key_parameter: key, vector_parameter: to_bytes(vector)} for key, vector in vectors.items()]
        )

    def tools(self) -> list[ToolRow]:
        """All tools."""
        return list(map(tool_row, self.rows("tools")))

    def copy_tools(self, tools: Sequence[ToolRow]) -> None:
        """Set everything about tools but their counts."""
        self.write("copy_tools", [{"tool": tool.name, **tool._asdict()} for tool in tools])
        # A statement of its own, which retiring and aliases use too.
        self.mark_tools((tool.name, tool.retired, tool.aliases) for tool in tools)

    def mark_tools(self, marks: Iterable[tuple[ToolName, bool, Sequence[ToolName]]]) -> None:
        """Set whether tools are retired, and their aliases."""
        rows = [{"tool": tool, "retired": retired, "aliases": list(aliases)} for tool, retired, aliases in marks]
        self.write("mark_tools", rows)

    def stored(self, rows: Iterable[Sequence[Any]]) -> list[StoredRun]:
        """Runs of stored rows, by id."""
        # In the order of the columns of `stored_runs` and of the statements like it.
        return sorted(map(StoredRun._make, rows), key=attrgetter("id"))
