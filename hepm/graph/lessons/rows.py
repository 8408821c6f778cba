"""Lessons as rows: experiences, principles and preference notes in one shape, which every store can keep.

What their properties mean is known in `hepm.experience`; here they are carried, found and credited.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from hepm.graph.score import score
from hepm.graph.stored_vectors import FloatArray
from hepm.types import ToolName

Kind: TypeAlias = Literal["experience", "principle", "notes"]
KINDS: Final[tuple[Kind, ...]] = ("experience", "principle", "notes")

Value: TypeAlias = str | int | float | bool | tuple[str, ...]


class Source(NamedTuple):
    """A run that a lesson stands on.

    Attributes:
        reward: As recorded; None where there is none.
        words: Whether the lesson's words come from it: such a lesson goes when the run is forgotten. Else the run only
            taught the same once more, or the words are those of nobody; then the lesson goes with its last run.
    """

    run: str
    reward: float | None = None
    words: bool = True


class Parent(NamedTuple):
    """A lesson that another one was made of, and how: "mutation", "crossover", "revision"."""

    id: str
    operator: str


class Triple(NamedTuple):
    """A statement about two things (EvolveR 3.2.1)."""

    subject: str
    predicate: str
    object: str


class Uses(NamedTuple):
    """How often a lesson was shown, and what came of it.

    Attributes:
        shown: Runs it was shown in.
        uses: Those of them whose outcome is known.
        successes: Those of them that succeeded.
    """

    shown: int = 0
    uses: int = 0
    successes: int = 0

    @property
    def score(self) -> float:
        """s(p), in (0, 1) (see `hepm.graph.score`)."""
        return score(self.successes, self.uses)

    def plus(self, other: Uses) -> Uses:
        """Both together."""
        return Uses(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


UNUSED: Final = Uses()


@dataclass(frozen=True, slots=True)
class LessonRow:
    """One lesson.

    Attributes:
        id: Equal for lessons of equal words, so that the same one is never stored twice.
        text: What its vector is of.
        properties: What its kind is made of; the same names in the graph.
        user: Whose it is, for notes; "" for what all may see.
        sources: Runs behind it.
        tools: What it is about.
        parents: Lessons it was made of.
        prior: Uses it brought along from another store.
        made_by: The evolution that made it; "" for one that was distilled or written.
        retired: Why it is no longer found: "superseded", "outdated", "pruned", "revised", "deleted"; "" while it is.
        retired_by: The evolution that retired it, which may be undone.
    """

    kind: Kind
    id: str
    text: str
    properties: Mapping[str, Value] = field(default_factory=dict[str, Value])
    user: str = ""
    sources: tuple[Source, ...] = ()
    tools: tuple[ToolName, ...] = ()
    parents: tuple[Parent, ...] = ()
    triples: tuple[Triple, ...] = ()
    prior: Uses = UNUSED
    made_by: str = ""
    retired: str = ""
    retired_by: str = ""

    @property
    def live(self) -> bool:
        """Whether it is found and shown."""
        return not self.retired

    def with_sources(self, more: Sequence[Source]) -> LessonRow:
        """The same lesson, taught by further runs too: the words stay those of the first."""
        known = {source.run for source in self.sources}
        new = {source.run: source._replace(words=False) for source in more if source.run not in known}
        return replace(self, sources=(*self.sources, *new.values())) if new else self


class StoredLesson(NamedTuple):
    """A lesson with what the store knows of it.

    Attributes:
        seq: Its place in the order of arrival.
        uses: What was observed, `row.prior` included.
        vector: Of its text; None where it has none yet.
    """

    seq: int
    row: LessonRow
    uses: Uses
    vector: FloatArray | None


class Showing(NamedTuple):
    """One lesson shown in one run; `success` is how the run ended, None while that is unknown."""

    run: str
    lesson: str
    success: bool | None


class Answer(NamedTuple):
    """What was paid for once: a model's answer to a question, found again by the question's key.

    Attributes:
        step: What it was asked for, such as "distil".
        run: The stored run that it is about, so that both are forgotten together; "" for none.
        usage: Tokens, as JSON.
        user: Whose notes it is about, in the same way; "" for nobody's.
    """

    key: str
    step: str
    run: str
    text: str
    usage: str
    user: str = ""


def to_record(row: LessonRow) -> str:
    """A row as JSON; equal rows give equal text."""
    told: dict[str, object] = {
        "kind": row.kind,
        "id": row.id,
        "text": row.text,
        "properties": row.properties,
        "user": row.user,
        "sources": row.sources,
        "tools": row.tools,
        "parents": row.parents,
        "triples": row.triples,
        "prior": row.prior,
        "made_by": row.made_by,
        "retired": row.retired,
        "retired_by": row.retired_by,
    }
    return json.dumps(told, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def from_record(record: str) -> LessonRow:
    """The row again."""
    told: dict[str, Any] = json.loads(record)
    properties: dict[str, Value | list[str]] = told["properties"]
    return LessonRow(
        kind=told["kind"],
        id=told["id"],
        text=told["text"],
        properties={name: tuple(v) if isinstance(v, list) else v for name, v in properties.items()},
        user=told["user"],
        sources=tuple(Source(*source) for source in told["sources"]),
        tools=tuple(told["tools"]),
        parents=tuple(Parent(*parent) for parent in told["parents"]),
        triples=tuple(Triple(*triple) for triple in told["triples"]),
        prior=Uses(*told["prior"]),
        made_by=told["made_by"],
        retired=told["retired"],
        retired_by=told["retired_by"],
    )
