"""Lessons as rows: experiences, principles and preference notes in one shape, which every store can keep."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from hepm.cypher.model import NODES, OF_EVERY_KIND, PropertyType
from hepm.graph.delta import Names
from hepm.graph.rows import Float32Array, Values
from hepm.graph.stored_vectors import from_bytes
from hepm.types import END, Object, ToolName, followed

_log = logging.getLogger("hepm")

Kind: TypeAlias = Literal["experience", "principle", "notes"]
KINDS: Final[tuple[Kind, ...]] = ("experience", "principle", "notes")
APPROVED: Final = "review"
"""In the place of an evolution: a person approved the lesson, so that all sessions get it, whoever's runs taught it."""
PENDING: Final = "pending"
"""Why searches do not find a lesson that a model, an agent or an import wrote, and no person approved."""
OUTDATED: Final = "outdated"
"""Why a lesson is retired that its runs no longer teach. It is found again if runs teach it again."""
_PYTHON_TYPES: Final[Mapping[PropertyType, Any]] = {
    "string": str,
    "integer": int,
    "float": int | float,
    "boolean": bool,
    "strings": tuple,
}

_LATER: Final = {
    "preconditions": (),
    "after": (),
    "says": (),
    "facts": (),
    "first_turn": 0,
    "last_turn": 0,
    "tried": 0,
    "worked": 0,
    "only_user": "",
    "condition": "",
}
"""What experiences or principles of before lack, with what it means that they do."""

Value: TypeAlias = str | int | float | bool | tuple[str, ...]


class Source(NamedTuple):
    """A run that taught a lesson. A lesson in its `words` is deleted with it, other lessons with their last run."""

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


FOLLOWED_BY: Final = "followed_by"
FAILS_AFTER: Final = "fails_after"
"""Predicates of triples about tools: (a, followed_by, b) advises b after a, (b, fails_after, a) warns of it."""


class NextCall(NamedTuple):
    """A call after a tool, which a triple advises or warns of."""

    after: ToolName
    tool: ToolName
    advised: bool


def next_calls(triples: Iterable[Triple]) -> Iterator[NextCall]:
    """What triples say about the next tool: (a, followed_by, b) and (b, fails_after, a) are both about b after a."""
    for subject, predicate, object in triples:
        if predicate == FOLLOWED_BY:
            yield NextCall(subject, object, True)
        elif predicate == FAILS_AFTER:
            yield NextCall(object, subject, False)


class Uses(NamedTuple):
    """In how many runs a lesson was shown, how many of those did not ignore it and have an outcome, and succeeded."""

    shown: int = 0
    uses: int = 0
    successes: int = 0

    @property
    def score(self) -> float:
        """s(p) = (c_succ + 1) / (c_use + 2), in (0, 1) (EvolveR 3.2.1, equation 2)."""
        return (self.successes + 1) / (self.uses + 2)


UNUSED: Final = Uses()  # a lesson that was never shown


@dataclass(frozen=True, slots=True)
class LessonRow:
    """One lesson.

    Attributes:
        id: A hash of the words: equal lessons are stored once.
        text: The text that its vector is computed from.
        properties: The fields of its kind (see `hepm.experience.lessons`).
        user: The user the notes are about.
        prior: Uses brought along from another store.
        made_by, retired_by: Evolutions; or `APPROVED`.
        retired: Why searches no longer find it: "superseded", "outdated", "pruned", "revised", "deleted",
            `PENDING`; "" if live.
    """

    kind: Kind
    id: str
    text: str
    properties: Mapping[str, Value] = field(default_factory=dict[str, Value])
    user: str = ""
    sources: tuple[Source, ...] = ()
    tools: Names = ()
    parents: tuple[Parent, ...] = ()
    triples: tuple[Triple, ...] = ()
    prior: Uses = UNUSED
    made_by: str = ""
    retired: str = ""
    retired_by: str = ""

    @property
    def live(self) -> bool:
        """Whether it may be shown: not retired, not pending."""
        return not self.retired

    @property
    def is_retired(self) -> bool:
        """Whether it is neither live nor pending."""
        return self.retired not in ("", PENDING)

    @property
    def run_ids(self) -> set[str]:
        """The runs that taught it."""
        return {source.run for source in self.sources}

    @property
    def parent_ids(self) -> set[str]:
        """The lessons that it was made of."""
        return {parent.id for parent in self.parents}

    @property
    def columns(self) -> Values:
        """The properties of its node in a graph that derive from it."""
        return {
            **self.properties,
            "id": self.id,
            "text": self.text,
            "user": self.user,
            "live": self.live,
            "retired": self.retired,
            "made_by": self.made_by,
            "runs": [source.run for source in self.sources],
            "tools": self.tools,
        }

    def heeded_by(self, edges: Iterable[tuple[ToolName, ToolName]], aliases: Mapping[ToolName, ToolName]) -> bool:
        """Whether a run that took these edges did what it says, tools under their own names.

        It called what is advised or, where nothing is, not what is warned of. Always, if nothing was counted for the
        lesson, or it is not about next tools: EvolveR and PRIME credit every lesson that was given.
        """
        if not self.properties.get("tried"):
            return True
        calls = list(next_calls(self.triples))
        places = {aliases.get(call.after, call.after) for call in calls}
        advised = {aliases.get(call.tool, call.tool) for call in calls if call.advised}
        warned = {aliases.get(call.tool, call.tool) for call in calls if not call.advised}
        called = {target for source, target in edges if source in places}
        # Who stopped called nothing from there.
        if END in advised:
            return not called
        if advised:
            return followed(advised, called) is True
        return called.isdisjoint(warned) and (END not in warned or bool(called))

    def with_sources(self, more: Sequence[Source]) -> LessonRow:
        """The same lesson with further runs that taught it; its words stay those of the first."""
        known = self.run_ids
        # Only one run's words can be in it: the first one's.
        new = {source.run: source._replace(words=False) for source in more if source.run not in known}
        if not new:
            return self
        return replace(self, sources=(*self.sources, *new.values()))

    def with_counts(self, properties: Mapping[str, Value]) -> LessonRow:
        """The same lesson with the counts of these properties, which are newer, and their conditions, if any."""
        if not properties.get("tried"):
            return self
        # They change as runs come in, and are no part of a lesson's words.
        counted = ("tried", "worked", "after", "says", "facts", "condition")
        newer = {name: properties[name] for name in counted if name in properties}
        return replace(self, properties={**self.properties, **newer})


_FIELDS: Final = tuple([attribute.name for attribute in fields(LessonRow)])


class StoredLesson(NamedTuple):
    """A lesson with its place in the order of arrival, its uses (`row.prior` included) and its vector, if any."""

    seq: int
    row: LessonRow
    uses: Uses
    vector: Float32Array | None


class Exposure(NamedTuple):
    """One lesson shown in one run; `success` is how the run ended, None while that is unknown or if it was ignored."""

    run: str
    lesson: str
    success: bool | None


class Reported(NamedTuple):
    """The outcome that was reported of a run, stored or not."""

    run: str
    success: bool


class Answer(NamedTuple):
    """A model's answer under the key of its question; it is forgotten with the run or user it is about.

    Attributes:
        step: What it was asked for, such as "distill".
        usage: Tokens, as JSON.
    """

    key: str
    step: str
    run: str
    text: str
    usage: str
    user: str = ""


def to_record(row: LessonRow) -> str:
    """A row as JSON; equal rows give equal text."""
    # Named tuples become lists: shorter, and read back by position.
    values = {name: getattr(row, name) for name in _FIELDS}
    return json.dumps(values, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


@lru_cache(maxsize=1_000)  # uses of a lesson change more often than its record, which may name thousands of runs
def from_record(record: str) -> LessonRow:
    """Read `to_record`'s JSON; ValueError if it is no record of a lesson."""
    try:
        read: Object = json.loads(record)
        values = {name: read[name] for name in _FIELDS}
        # JSON has no tuples: what was one comes back as a list.
        for name, kind in (("sources", Source), ("parents", Parent), ("triples", Triple)):
            values[name] = tuple([kind(*each) for each in read[name]])
        values["tools"] = tuple(read["tools"])
        values["prior"] = Uses(*read["prior"])
        properties: dict[str, Value | list[str]] = read["properties"]
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in properties.items()}
        values["properties"] = given if read["kind"] == "notes" else {**_LATER, **given}
        row = LessonRow(**values)
        sound = _is_sound(row)
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"it lacks its {error}") from error
    if not sound:
        raise ValueError("its fields are of other kinds")
    return row


def _is_sound(row: LessonRow) -> bool:
    """Whether the values in a row have the types that they must have."""
    texts: list[object] = [row.text, row.user, row.retired, *row.tools, *row.run_ids]
    for items in (*row.parents, *row.triples):
        texts.extend(items)
    if not all(isinstance(text, str) for text in texts):
        return False
    for name, kind in NODES[row.kind.capitalize()].items():
        if name not in OF_EVERY_KIND and not isinstance(row.properties[name], _PYTHON_TYPES[kind]):
            return False
    return True


def stored_lessons(rows: Iterable[Sequence[Any]]) -> list[StoredLesson]:
    """Lessons of stored rows: number, id, record, shown, uses, successes, vector.

    One whose record cannot be read is left out with a warning.
    """
    lessons: list[StoredLesson] = []
    for seq, name, record, shown, uses, successes, stored in rows:
        try:
            row = from_record(record)
        except ValueError as error:
            _warn(name, str(error))
            continue
        vector = None if stored is None else from_bytes(stored)
        lessons.append(StoredLesson(seq, row, Uses(shown, uses, successes), vector))
    return lessons


def exposures_of(rows: Iterable[Sequence[Any]]) -> list[Exposure]:
    """Exposures of stored rows, by run and lesson."""
    return sorted(map(Exposure._make, rows), key=itemgetter(0, 1))


@lru_cache(maxsize=1_000)  # once in a process
def _warn(name: str, why: str) -> None:
    _log.warning("the record of the lesson %r cannot be read (%s); `hepm doctor --repair` removes it", name, why)
