"""What a store of the tool graph promises. Every store passes tests/graph/test_store_contract.py.

All methods take a namespace and see nothing outside it. Methods are safe to call from several threads; a read never
waits for a write. Lists come sorted as the docstring says, and are empty where nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from hepm.errors import InputError
from hepm.graph.delta import Edge, Run
from hepm.graph.stored_vectors import FloatArray
from hepm.types import Evidence, Tool, ToolName

if TYPE_CHECKING:
    from hepm.graph.writes import LessonStore

Counting: TypeAlias = Literal["all", "shortest"]
"""Which runs count: all, or of a task's successful runs the shortest alone (H-EPM, appendix D)."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a store says of itself.

    Attributes:
        embedder: Name of the embedder its vectors come from; "" while it holds none.
        dimensions: Their size; 0 while it holds none.
        revision: Grows by one with every write.
        states_per_move: How many distinct states are kept with text and vector on one move.
        lessons_removed: Grows whenever lessons are deleted: a mirror then reads them all again.
    """

    schema_version: int
    embedder: str
    dimensions: int
    revision: int
    counting: Counting
    states_per_move: int
    lessons_removed: int


class Known(NamedTuple):
    """A stored run: the digest of its content, and how it ended."""

    digest: str
    success: bool | None


class EdgeRow(NamedTuple):
    """One edge as stored; `inverse_steps` in units of 2^-32 (see `hepm.graph.weights`)."""

    source: ToolName
    target: ToolName
    support: int
    inverse_steps: int
    failures: int
    unlabelled: int


class ToolRow(NamedTuple):
    """One tool as stored; `parameters` is JSON text."""

    name: ToolName
    description: str
    parameters: str
    calls: int
    errors: int


@dataclass(frozen=True, slots=True)
class StateRow:
    """One remembered state: where it stands, and how many near-identical ones were merged into it."""

    id: int
    sources: tuple[ToolName, ...]
    targets: tuple[ToolName, ...]
    success: bool
    key: int
    count: int
    seen: float
    trajectory: str
    step: int
    summary: str


class RunRow(NamedTuple):
    """What rankers look up of a labelled run, without its record.

    Attributes:
        sequence: As `hepm.graph.delta.sequence_of` writes it.
        vector: Of what the user said; None where there is none.
    """

    seq: int
    id: str
    success: bool
    sequence: str
    vector: FloatArray | None


class HeldRun(NamedTuple):
    """A stored run as it lies there.

    Attributes:
        told: Everything that stands beside its record, by the names of `Store.told_of`.
        vector: Of what the user said, in bytes as stored.
    """

    id: str
    record: str
    counted: bool
    told: Mapping[str, object]
    vector: bytes | None


class HeldState(NamedTuple):
    """A state as it lies there; one that is not `kept` went over the bound and has no summary."""

    row: StateRow
    kept: bool
    vector: bytes | None


@dataclass(frozen=True, slots=True)
class StateBatch:
    """States with their vectors, by id.

    Attributes:
        vectors_ND: Shape (N, dimensions), unit length; a state that has no vector yet is left out of the batch.
    """

    rows: Sequence[StateRow]
    vectors_ND: FloatArray


def batch_of(rows: Sequence[Sequence[Any]], dimensions: int, read: Callable[[Sequence[Any]], StateRow]) -> StateBatch:
    """States of rows that end with the vector in bytes; one of another size is left out, as if it had none."""
    right = [row for row in rows if len(row[-1]) == 2 * dimensions]
    vectors = np.frombuffer(b"".join([row[-1] for row in right]), dtype="<f2").astype(np.float32)
    return StateBatch([read(row) for row in right], vectors.reshape(len(right), dimensions))


@dataclass(frozen=True, slots=True)
class Change:
    """What one revision touched.

    Attributes:
        sources: Tools whose outgoing edges or states changed; None where anything may have.
        rewritten: Whether something was taken away or replaced; else it only added.
    """

    revision: int
    namespace: str
    sources: tuple[ToolName, ...] | None
    rewritten: bool


@dataclass(frozen=True, slots=True)
class Added:
    """What became of a batch, by trajectory id."""

    stored: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """Which trajectories to forget: those that match every part that is given; None matches all.

    Raises:
        InputError: a part is empty. A variable that was never set is likelier than all runs that name no user.
    """

    trajectory: str | None = None
    environment: str | None = None
    task: str | None = None
    user: str | None = None

    def __post_init__(self) -> None:
        for part in fields(self):
            if getattr(self, part.name) == "":
                raise InputError(
                    f"the {part.name} whose runs are to be forgotten is empty: nothing was forgotten. "
                    "Name it, or leave it out."
                )


def no_text(error: UnicodeEncodeError) -> InputError:
    """What to say where a store is given text that cannot be written as UTF-8."""
    at = error.object[max(error.start - 20, 0) : error.start + 20]
    return InputError(f"{at!r} holds half of a surrogate pair, which is no character: it cannot be stored.")


@dataclass(frozen=True, slots=True)
class Totals:
    """How much a namespace holds; of lessons those that are found."""

    trajectories: int
    successes: int
    failures: int
    unlabelled: int
    tools: int
    edges: int
    states: int
    experiences: int
    principles: int
    notes: int


class TextEmbedder(Protocol):
    """What stores need of an embedder (see `hepm.embed.Embedder`)."""

    @property
    def name(self) -> str: ...  # noqa: D102  # said there
    def embed(self, texts: Sequence[str], /) -> FloatArray: ...  # noqa: D102  # said there


Replay: TypeAlias = Callable[[Sequence[str]], tuple[Sequence[Run], Mapping[str, FloatArray]]]
"""Reads stored records again: their runs, and a vector for each of their texts (see `Store.add`).

It raises FormatError where a record is damaged, and any other error where its texts cannot be embedded.
"""


class Store(Protocol):
    """Where the tool graph lives. `SQLiteStore` is the embedded default, `Neo4jStore` the one on a server.

    Attributes:
        remote: Whether it may become unreachable while a process runs: mirrors then read it whole when they open.
        runs_a_batch: Runs a transaction: many enough that its own cost is small, few enough to be bearable.
    """

    @property
    def remote(self) -> bool: ...  # noqa: D102  # said above
    @property
    def runs_a_batch(self) -> int: ...  # noqa: D102  # said above

    @property
    def header(self) -> Header:
        """Read afresh."""
        ...

    @property
    def lessons(self) -> LessonStore:
        """What runs taught."""
        ...

    def set_embedder(self, name: str, dimensions: int) -> None:
        """Name the embedder; every stored vector is dropped, as it belongs to the former one."""
        ...

    def namespaces(self) -> list[str]:
        """Those that hold anything, by name."""
        ...

    def totals(self, *, namespace: str) -> Totals:
        """Counts of everything."""
        ...

    def find_known(self, ids: Sequence[str], *, namespace: str) -> dict[str, Known]:
        """What is stored under those of the ids that are."""
        ...

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
        `vectors` maps state summaries and `Run.said` to their vectors; a text without one waits for `reembed`.
        `embedder` names what they come from.

        Raises:
            EmbedderMismatchError: the store holds another embedder's vectors by now, or such of another size.
        """
        ...

    def describe(self, tools: Sequence[Tool], *, namespace: str) -> None:
        """Set descriptions and parameters, replacing what runs told of these tools."""
        ...

    def forget(self, selection: Selection, *, namespace: str, replay: Replay, embedder: str | None = None) -> list[str]:
        """Remove runs and all they added and taught; every count goes back exactly. Ids of the removed, sorted.

        A user who is selected alone loses their notes too.

        A run whose record cannot be read any more is removed too; its counts go with the next `rebuild`.
        `embedder` names what the vectors of `replay` come from.

        Raises:
            EmbedderMismatchError: the store holds another embedder's vectors by now.
        """
        ...

    def selected(self, selection: Selection, *, namespace: str) -> list[str]:
        """Ids of the runs that `forget` would remove, sorted."""
        ...

    def rebuild(self, *, namespace: str, replay: Replay, embedder: TextEmbedder | None = None) -> None:
        """Make everything but the records again from the records, in one transaction,
        and vectors where there is `embedder`.

        `replay` embeds by it. Lessons whose record cannot be read are removed: nothing is left of them.

        Raises:
            EmbedderMismatchError: the store holds another embedder's vectors by now.
            StoreDamagedError: a record cannot be read; the text names its run, and nothing was changed.
        """
        ...

    def iter_records(self, *, namespace: str) -> Iterator[tuple[str, str, bool]]:
        """Every stored trajectory's id and record in order of arrival, and whether it counts; lazy."""
        ...

    def iter_runs(self, *, namespace: str) -> Iterator[HeldRun]:
        """Every stored run in order of arrival, whole; lazy."""
        ...

    def told_of(self, run: Run, *, namespace: str) -> Mapping[str, object]:
        """What is to stand beside a run's record: all of it is read off the record."""
        ...

    def runs_by_task(self, *, namespace: str) -> list[tuple[str, str, str]]:
        """Environment, task and id of every stored run with an outcome, in that order; "" where it names no task."""
        ...

    def runs_beside(self, runs: Sequence[str], *, namespace: str, latest: int) -> list[tuple[str, str, str]]:
        """The same of the stored ones of `runs` and of the runs of their tasks, in that order.

        Of a task with very many runs, those that were stored last: `latest` of each outcome.
        """
        ...

    def records_of(self, ids: Sequence[str], *, namespace: str) -> dict[str, str]:
        """Records of those of the runs that are stored, by id."""
        ...

    def edges(self, *, namespace: str, sources: Sequence[ToolName] | None = None) -> list[tuple[object, ...]]:
        """Edges in the order of `EdgeRow`'s fields, by source and target; of `sources` alone where given.

        Plain tuples: an opening mirror reads them all, and naming their fields would double the time.
        """
        ...

    def passages(self, *, namespace: str) -> dict[Edge, list[str]]:
        """Ids of the runs that are known to have taken each edge, sorted."""
        ...

    def tools(self, *, namespace: str) -> list[ToolRow]:
        """All tools by name."""
        ...

    def states_after(self, tool: ToolName, *, namespace: str, newer_than: int = 0) -> StateBatch:
        """States of successful runs whose sources hold `tool` and whose id is above `newer_than`, by id."""
        ...

    def states_newer_than(self, newer_than: int, *, namespace: str) -> StateBatch:
        """States of all labelled runs whose id is above `newer_than`, by id, without their summaries."""
        ...

    def search_states(self, vector: FloatArray, *, namespace: str, limit: int) -> list[tuple[StateRow, float]]:
        """States of successful runs most similar to a vector of unit length, with their cosines; ties by id.

        A store with an index may miss one that is about as near as the last; it never gives fewer than there are.
        """
        ...

    def iter_states(self, *, namespace: str, without_vector: bool = False) -> Iterator[StateRow]:
        """All states that kept their text, by id; lazy."""
        ...

    def iter_held_states(self, *, namespace: str) -> Iterator[HeldState]:
        """All states by id, whole; lazy."""
        ...

    def put_vectors(self, vectors: Mapping[int, FloatArray], *, namespace: str, embedder: str | None = None) -> None:
        """Attach vectors of `embedder` to states by id, replacing earlier ones; ids that are gone are passed over.

        Raises:
            EmbedderMismatchError: the store holds another embedder's vectors by now, or such of another size.
        """
        ...

    def runs_without_vector(self, *, namespace: str) -> list[tuple[int, str]]:
        """Row number and user's words of runs that have words and no vector, in order of arrival."""
        ...

    def put_run_vectors(
        self, vectors: Mapping[int, FloatArray], *, namespace: str, embedder: str | None = None
    ) -> None:
        """Attach vectors of `embedder` to runs by row number; numbers that are gone are passed over.

        Raises:
            EmbedderMismatchError: as `put_vectors`.
        """
        ...

    def evidence(self, edges: Sequence[Edge], *, namespace: str, runs: int, summaries: int) -> list[Evidence]:
        """At most so many runs and summaries behind each edge, in order of the edges.

        Runs: successful ones that took it, the latest stored first. Summaries: what agents knew then, each
        wording once, most often seen first, then latest, ties by text.
        """
        ...

    def runs_after(self, seq: int, *, namespace: str) -> list[RunRow]:
        """Labelled, counted runs stored after row `seq`, in order of arrival."""
        ...

    def changes_since(self, revision: int) -> list[Change] | None:
        """What later revisions touched, oldest first; None where the journal no longer reaches back that far."""
        ...

    def orphans(self, *, namespace: str) -> list[str]:
        """Sentences on rows that point to nothing, or lack what they are to point to; empty when all is well."""
        ...

    def close(self) -> None:
        """Release the store; safe to call twice."""
        ...
