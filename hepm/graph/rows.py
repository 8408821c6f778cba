"""Values that stores take and return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple, Protocol, TypeAlias

from hepm.errors import EmbedderMismatchError, InputError
from hepm.graph.delta import Run
from hepm.graph.stored_vectors import FloatArray
from hepm.types import ToolName

Counting: TypeAlias = Literal["all", "shortest"]
"""Which runs count: all, or of a task's successful runs only the shortest (H-EPM, appendix D)."""

Replay: TypeAlias = Callable[[Sequence[str]], tuple[Sequence[Run], Mapping[str, FloatArray]]]
"""Parses stored records: their runs, and a vector for each of their texts (see `Store.add`).

It raises FormatError where a record is damaged, and any other error where its texts cannot be embedded.
"""


Vectors: TypeAlias = Iterable[FloatArray]


class TextEmbedder(Protocol):
    """The part of `hepm.embed.Embedder` that stores use."""

    @property
    def name(self) -> str: ...  # noqa: D102
    def embed(self, texts: Sequence[str], /) -> FloatArray: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Header:
    """The settings and the revision of a store.

    Attributes:
        embedder: Name of the embedder of its vectors; "" while it holds none.
        dimensions: Size of the vectors; 0 while it holds none.
        revision: Grows by one with every write.
        states_per_move: How many distinct states are kept with text and vector on one move.
        lessons_removed: Grows whenever lessons are deleted: a mirror then reads all lessons again.
    """

    schema_version: int
    embedder: str
    dimensions: int
    revision: int
    counting: Counting
    states_per_move: int
    lessons_removed: int


class Known(NamedTuple):
    """A stored run: the digest of its content, and its outcome."""

    digest: str
    success: bool | None


class StoredRun(NamedTuple):
    """A stored run, as far as a change of the store reads it."""

    id: str
    environment: str
    task: str
    success: bool | None
    steps: int
    counted: bool
    record: str


class EdgeRow(NamedTuple):
    """One edge; `inverse_steps` in units of 2^-32 (see `hepm.graph.weights`)."""

    source: ToolName
    target: ToolName
    support: int
    inverse_steps: int
    failures: int
    unlabelled: int


class ToolRow(NamedTuple):
    """One tool; `parameters` is JSON text."""

    name: ToolName
    description: str
    parameters: str
    calls: int
    errors: int


@dataclass(frozen=True, slots=True)
class StateRow:
    """One remembered state: its move, and how many near-identical ones were merged into it."""

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
    """The part of a labelled run that rankers read.

    Attributes:
        sequence: As `hepm.graph.delta.sequence_of` writes it.
        vector: Of the user's words; None if there is none.
    """

    seq: int
    id: str
    success: bool
    sequence: str
    vector: FloatArray | None


class HeldRun(NamedTuple):
    """A stored run with everything that is stored of it.

    Attributes:
        columns: What is stored beside the record, by the names of `Store.columns_of`.
        vector: Of the user's words, in bytes as stored.
    """

    id: str
    record: str
    counted: bool
    columns: Mapping[str, object]
    vector: bytes | None


@dataclass(frozen=True, slots=True)
class StateBatch:
    """States with their vectors, by id.

    Attributes:
        vectors_ND: Shape (N, dimensions), unit length; a state without a vector is not in the batch.
    """

    rows: Sequence[StateRow]
    vectors_ND: FloatArray


class Change(NamedTuple):
    """What one revision changed.

    Attributes:
        sources: Tools whose outgoing edges or states changed; None if any may have.
        rewritten: Whether something was removed or replaced, not only added.
    """

    revision: int
    namespace: str
    sources: tuple[ToolName, ...] | None
    rewritten: bool


class Added(NamedTuple):
    """The trajectory ids of a batch by what happened to them."""

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


@dataclass(frozen=True, slots=True)
class Totals:
    """The counts of a namespace; only live lessons count."""

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


def no_text(error: UnicodeEncodeError) -> InputError:
    """The error for text that cannot be written as UTF-8."""
    at = error.object[max(error.start - 20, 0) : error.start + 20]
    return InputError(f"{at!r} holds half of a surrogate pair, which is no character: it cannot be stored.")


def check_embedder(embedder: str | None, vectors: Vectors, *, header: Header, where: str) -> None:
    """Refuse vectors that cannot be compared with the stored ones; called inside the transaction that writes them.

    Args:
        embedder: Name of the embedder of the vectors; None checks nothing.
        where: The store, for the error.
    Raises:
        EmbedderMismatchError: they are of another embedder, or of another size.
    """
    if embedder is None:
        return
    if embedder != header.embedder:
        raise EmbedderMismatchError(
            f"{where} was given vectors of {header.embedder!r} in the meantime, and these are of {embedder!r}. "
            "Nothing was changed; open the memory again."
        )
    if wrong := next((len(vector) for vector in vectors if len(vector) != header.dimensions), 0):
        raise EmbedderMismatchError(
            f"{where} holds vectors of {embedder!r} with {header.dimensions} numbers, and now {wrong} came under that "
            f"name: another model answers by it. Nothing was changed; run `hepm reembed --embedder {embedder}`."
        )
