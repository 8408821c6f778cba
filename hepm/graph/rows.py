"""Values that stores take and return."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from hepm.errors import EmbedderMismatchError, FormatError, InputError, StoreVersionError
from hepm.graph.delta import Names, RunRecord
from hepm.types import RECORDED_BY, ToolName, Trajectory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

# numpy is imported where it is used: suggestions from counts alone start in half the time.
Float32Array: TypeAlias = "NDArray[np.float32]"
Vectors: TypeAlias = Iterable[Float32Array]
TextVectors: TypeAlias = "Mapping[str, Float32Array]"
"""Vectors by the texts that they are of."""
Row: TypeAlias = tuple[Any, ...]
"""What a statement returns."""
Values: TypeAlias = dict[str, Any]
"""What a statement takes, by name."""

Counting: TypeAlias = Literal["all", "shortest"]
"""Which runs count: all, or of a task's successful runs only the shortest (H-EPM, appendix D)."""
Vectored: TypeAlias = Literal["state", "run", "lesson"]
Aliases: TypeAlias = Mapping[ToolName, ToolName]
"""Other names of tools, each with the tool's own name, which is no alias itself."""


LAST_ROW: Final = (1 << 63) - 1
"""After every row number."""


class RecordParser(Protocol):
    """Parses stored records: their runs, and a vector for each of their texts. FormatError where one is damaged."""

    def __call__(  # noqa: D102
        self, records: Sequence[str], aliases: Aliases = ..., /
    ) -> tuple[Sequence[RunRecord], TextVectors]: ...


class RunJoiner(Protocol):
    """Joins a run with the record that is stored under its id; the record of the whole, None for another run."""

    def __call__(self, run: RunRecord, known: Known, record: str, /) -> str | None: ...  # noqa: D102


class TextEmbedder(Protocol):
    """The part of `hepm.embed.Embedder` that stores use."""

    @property
    def name(self) -> str:
        """Identifies its vectors."""
        ...

    def embed(self, texts: Sequence[str], /) -> Float32Array:
        """One unit vector per text, shape (N, D)."""
        ...


@dataclass(frozen=True, slots=True)
class Header:
    """The settings and the revision of a store.

    Attributes:
        embedder: Name of the embedder of its vectors; "" while it holds none.
        dimensions: Size of the vectors; 0 while it holds none.
        revision: Grows by one with every write.
        states_per_move: How many distinct states are kept with text and vector on one move.
        lessons_removed: Grows whenever lessons are deleted: a mirror then reads all lessons again.
        success_from: The reward from which on a run is a success, if it has no label.
    """

    schema_version: int
    embedder: str
    dimensions: int
    revision: int
    counting: Counting
    states_per_move: int
    lessons_removed: int
    success_from: float


class Known(NamedTuple):
    """A stored run: the digest of its content, its label, and whether a rule or judge gave it (`OUTCOME_BY`)."""

    digest: str
    success: bool | None
    derived: bool = False

    @classmethod
    def of(cls, run: RunRecord) -> Self:
        """The same of a run that will be stored."""
        return cls(run.digest, run.success, bool(run.outcome_by))


def known_runs(rows: Iterable[Sequence[Any]]) -> dict[str, Known]:
    """Stored runs by id, of rows of the statement `find_runs`."""
    return {run: Known(*about) for run, *about in rows}


class StoredRun(NamedTuple):
    """A stored run, as far as a change of the store reads it."""

    seq: int
    id: str
    environment: str
    task: str
    success: bool | None
    steps: int
    counted: bool
    record: str


class RunAbout(NamedTuple):
    """A stored run without its steps.

    Attributes:
        request: What the user asked for first, cut; "" if it is not known.
    """

    seq: int
    id: str
    environment: str
    task: str
    model: str
    user: str
    success: bool | None
    steps: int
    ended_at: float | None
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which stored runs are listed; None matches all.

    Attributes:
        words: In the request, the id or the environment; or the task.
        outcome: "succeeded", "failed" or "unknown".
        tool: One that the run called.
        since, until: When it ended, Unix seconds; `until` itself is left out.
    """

    words: str | None = None
    outcome: str | None = None
    tool: ToolName | None = None
    user: str | None = None
    model: str | None = None
    since: float | None = None
    until: float | None = None


class EdgeRow(NamedTuple):
    """One edge; `inverse_steps` in units of 2^-32 (see `hepm.graph.weights`)."""

    source: ToolName
    target: ToolName
    support: int
    inverse_steps: int
    failures: int
    unlabelled: int


class ToolRow(NamedTuple):
    """One tool; `parameters` is JSON text.

    Attributes:
        described_at: When a run with this description ended, Unix seconds; 0 if unknown.
        changed_at: When a run first came with another description or other parameters than the former ones; 0 if none.
        retired: Never suggested any more.
        aliases: Other names under which records know it, sorted.
    """

    name: ToolName
    description: str
    parameters: str
    calls: int
    errors: int
    described_at: float = 0.0
    changed_at: float = 0.0
    former_description: str = ""
    former_parameters: str = "{}"
    retired: bool = False
    aliases: Names = ()


def tool_row(row: Sequence[Any]) -> ToolRow:
    """A tool as a store keeps it."""
    *values, aliases = row
    return ToolRow._make((*values, tuple(aliases)))


class Marks(NamedTuple):
    """Aliases of tools, and the tools that are retired."""

    aliases: Aliases
    retired: frozenset[ToolName]


def marks_of(rows: Iterable[Sequence[Any]]) -> Marks:
    """The marks in rows of a tool's name, whether it is retired, and its aliases."""
    aliases: dict[ToolName, ToolName] = {}
    retired: set[ToolName] = set()
    for tool, is_retired, names in rows:
        aliases.update(dict.fromkeys(names, tool))
        if is_retired:
            retired.add(tool)
    return Marks(aliases, frozenset(retired))


def call_text(tool: ToolName) -> str:
    """What the record of a run holds that calls a tool, as `hepm.ingest.formats.hepm.write_run` writes it."""
    return f'"name":{json.dumps(tool, ensure_ascii=False)}'


@dataclass(frozen=True, slots=True)
class StateRow:
    """One remembered state: its move, and how many near-identical ones were merged into it."""

    id: int
    sources: Names
    targets: Names
    success: bool
    key: int
    count: int
    seen: float
    trajectory: str
    step: int
    summary: str


@dataclass(frozen=True, slots=True)
class StateBatch:
    """States with their vectors, by id: shape (N, dimensions), unit length. States without a vector are left out."""

    rows: Sequence[StateRow]
    vectors_ND: Float32Array


class RunRow(NamedTuple):
    """The part of a labelled run that rankers read: `sequence` as in `Run.columns`, the vector of the user's words.

    `request` is what the user asked for first (see `hepm.graph.delta.request_of`).
    """

    seq: int
    id: str
    success: bool
    sequence: str
    environment: str
    task: str
    user: str
    request: str
    vector: Float32Array | None


class HeldRun(NamedTuple):
    """A stored run with its columns, as those of `RunRecord.columns`, and its vector in bytes as stored."""

    id: str
    record: str
    counted: bool
    columns: Mapping[str, object]
    vector: bytes | None


class RevisionChange(NamedTuple):
    """What one revision changed: tools whose outgoing edges or states changed; None if any may have.

    `rewritten` means that something was removed or replaced, not only added; `removed`, that it was a labelled run.
    """

    revision: int
    namespace: str
    sources: Names | None
    rewritten: bool
    removed: bool


class Added(NamedTuple):
    """What happened to the runs of a batch.

    Attributes:
        runs: Those that were stored, as they were stored last.
        duplicates, joined: Ids, one for each; what was `joined` went into one of the runs.
        conflicts: Runs with the id of another one.
    """

    runs: tuple[RunRecord, ...] = ()
    duplicates: tuple[str, ...] = ()
    conflicts: tuple[RunRecord, ...] = ()
    joined: tuple[str, ...] = ()

    @property
    def stored(self) -> tuple[str, ...]:
        """Ids of the runs that were stored."""
        return tuple([run.id for run in self.runs])


@dataclass(frozen=True, slots=True)
class Selection:
    """Which trajectories to forget: those that match every given part. None matches all; "" is an InputError.

    `token` names the token that recorded them at a server.
    """

    trajectory: str | None = None
    environment: str | None = None
    task: str | None = None
    user: str | None = None
    token: str | None = None

    def __post_init__(self) -> None:
        for part in fields(self):
            if getattr(self, part.name) == "":  # likelier a variable that was never set than all runs without a user
                raise InputError(
                    f"the {part.name} whose runs are to be forgotten is empty: nothing was forgotten. "
                    "Name it, or leave it out."
                )

    def matches(self, run: Trajectory) -> bool:
        """Whether a run matches every given part; none does if no part is given."""
        given = {part: value for part, value in asdict(self).items() if value is not None}
        of_run = {
            "trajectory": run.id,
            "environment": run.environment,
            "task": run.task,
            "user": run.user,
            "token": run.tags.get(RECORDED_BY),
        }
        return bool(given) and given.items() <= of_run.items()


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

    @property
    def labelled(self) -> int:
        """Runs with an outcome."""
        return self.successes + self.failures


def batches(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """The rows in lists of `size`, the last one shorter; lazy."""
    remaining = iter(rows)
    batch = list(islice(remaining, size))
    while batch:
        yield batch
        batch = list(islice(remaining, size))


def spread_over(size: int, count: int) -> list[int]:
    """Numbers below `size`, `count` of them, one in each of equal parts at uneven distances: logs may be periodic."""
    # Multiples of the golden ratio, modulo 1, never repeat and leave no large gap, however many there are.
    return [int((part + part * 0.6180339887498949 % 1) * size / count) for part in range(count)]


def read_each(
    records: Sequence[str], replay: RecordParser, aliases: Aliases, *, success_from: float
) -> tuple[Sequence[RunRecord | FormatError], TextVectors]:
    """The run of each record, or why it cannot be read; and the vectors of the texts of all.

    A run without a given label has the one that its reward stands for.
    """
    try:
        runs, vectors = replay(records, aliases)
        return [run.graded(success_from) for run in runs], vectors
    except FormatError as error:
        if len(records) == 1:
            return [error], {}
    # One of them is damaged: each is read alone, so that the others are read.
    all_runs: list[RunRecord | FormatError] = []
    all_vectors: dict[str, Float32Array] = {}
    for record in records:
        runs, vectors = read_each([record], replay, aliases, success_from=success_from)
        all_runs.extend(runs)
        all_vectors.update(vectors)
    return all_runs, all_vectors


def check_embedder(embedder: str | None, vectors: Vectors, *, header: Header, where: str) -> None:
    """Raise EmbedderMismatchError, in the transaction that writes vectors, if they are of another embedder or size."""
    if embedder is None:
        return
    if embedder != header.embedder:
        raise EmbedderMismatchError(
            f"{where} was given vectors of {header.embedder!r} in the meantime, and these are of {embedder!r}. "
            "Nothing was changed; open the memory again."
        )
    for vector in vectors:
        if len(vector) != header.dimensions:
            raise EmbedderMismatchError(
                f"{where} holds vectors of {embedder!r} with {header.dimensions} numbers, and now {len(vector)} came "
                f"under that name: another model answers by it. Nothing was changed; run "
                f"`hepm reembed --embedder {embedder}`."
            )


def check_schema(version: int, where: str, *, oldest: int, newest: int) -> None:
    """Raise StoreVersionError if a store is of a schema that this hepm cannot bring up to date."""
    if version > newest:
        raise StoreVersionError(
            f"{where} has schema version {version}, and this hepm knows up to {newest}. "
            "Upgrade hepm, or export the runs with the newer one and import them here."
        )
    if version < oldest:
        raise StoreVersionError(
            f"{where} has schema version {version}, and this hepm opens those from {oldest} on. "
            "Export the runs with the older hepm (`hepm export`), and import them into a new store."
        )


def no_text(error: UnicodeEncodeError) -> InputError:
    """The error for text that cannot be written as UTF-8."""
    around = error.object[max(error.start - 20, 0) : error.start + 20]
    return InputError(f"{around!r} holds half of a surrogate pair, which is no character: it cannot be stored.")
