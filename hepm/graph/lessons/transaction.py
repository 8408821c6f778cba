"""Store, show, credit and forget lessons in one write transaction: the same for every store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hepm.graph.lessons.rows import (
    UNUSED,
    Answer,
    Exposure,
    LessonRow,
    Reported,
    StoredLesson,
    Uses,
    exposures_of,
    from_record,
    stored_lessons,
)
from hepm.graph.rows import Float32Array, TextEmbedder, as_bool


@dataclass(frozen=True, slots=True)
class LessonChange:
    """A change of lessons, carried out whole or not at all.

    Attributes:
        put: New lessons, or known ones that further runs taught.
        retire: The reason by id.
        revive, drop: Ids of retired lessons to find again, and of lessons to delete.
        unlink: By id, runs that no longer stand behind a lesson; a run whose words it is in stays.
        by: The evolution that retires; "" for a hand or a rule.
        imported: The lessons come from another store; this one need not hold their runs.
    """

    put: Sequence[LessonRow] = ()
    retire: Mapping[str, str] | None = None
    revive: Sequence[str] = ()
    drop: Sequence[str] = ()
    unlink: Mapping[str, Collection[str]] | None = None
    by: str = ""
    imported: bool = False


class Changed(NamedTuple):
    """What a change did, by lesson id.

    Attributes:
        merged: Known before; further runs were linked.
        refused: Not stored: the run whose words they are or a parent is gone, or another lesson has their id.
    """

    new: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class LessonTransaction(ABC):
    """Lessons of one namespace inside a write transaction. Statements have the same names in every store."""

    @abstractmethod
    def rows(self, name: str, /, **values: Any) -> Iterable[Sequence[Any]]:
        """The rows of a named statement."""

    @abstractmethod
    def write(self, name: str, /, rows: Iterable[Mapping[str, object]] = ({},)) -> None:
        """Run a named statement for each row; lessons, runs, users and answers are named by their ids."""

    @abstractmethod
    def put(self, rows: Sequence[LessonRow], vectors: Mapping[str, Float32Array]) -> None:
        """Insert or rewrite rows, with vectors by text; uses stay."""

    def relink(self, tools: Collection[str]) -> None:
        """Link lessons about tools again, whose names now stand for others."""
        known = stored_lessons(self.rows("lessons", newer_than=-1))
        self.put([lesson.row for lesson in known if not set(lesson.row.tools).isdisjoint(tools)], {})

    def put_answers(self, answers: Sequence[Answer]) -> None:
        """See `LessonStore.put_answers`."""
        self.write("put_answers", [answer._asdict() for answer in answers])

    def drop_answers_about(self, runs: Sequence[str]) -> None:
        """Delete answers about runs, and the marks that a step has seen them."""
        self.write("drop_answers_about", [{"run": run} for run in runs])

    def _credit(self, more: Mapping[str, Uses]) -> None:
        self.write("credit_lessons", [{"lesson": name, **uses._asdict()} for name, uses in more.items()])

    def _drop(self, ids: Collection[str]) -> None:
        if ids:
            self.write("drop_lessons", [{"lesson": name} for name in ids])
            self.write("count_removal")

    def get(self, ids: Iterable[str]) -> dict[str, StoredLesson]:
        """Stored lessons by id."""
        wanted = list(dict.fromkeys(ids))
        if not wanted:
            return {}
        found = stored_lessons(self.rows("find_lessons", ids=wanted))
        return {lesson.row.id: lesson for lesson in found}

    def _outcomes(self, runs: Iterable[str]) -> dict[str, bool | None]:
        """Outcomes of stored runs by id; runs that are not stored are left out."""
        rows = self.rows("find_runs", ids=list(runs))
        return {run: as_bool(success) for run, _, success, *_ in rows}

    def _reported(self, runs: Sequence[str]) -> dict[str, bool]:
        return {run: bool(success) for run, success in self.rows("told_outcomes_of", runs=runs)}

    def exposures(self, runs: Sequence[str]) -> list[Exposure]:
        """What was shown in runs."""
        return exposures_of(self.rows("showings_in", runs=runs))

    def change(self, change: LessonChange, vectors: Mapping[str, Float32Array]) -> Changed:
        """See `LessonStore.change`."""
        self._drop(change.drop)
        self._retire_and_revive(change)
        self._unlink(change.unlink or {})

        # A lesson may come twice in a change, taught by different runs.
        put: dict[str, LessonRow] = {}
        for row in change.put:
            if row.id in put:
                put[row.id] = put[row.id].with_sources(row.sources)
            else:
                put[row.id] = row
        needed = set(put)
        runs: set[str] = set()
        for row in put.values():
            needed.update(parent.id for parent in row.parents)
            runs.update(source.run for source in row.sources)
        known = self.get(needed)
        stored_runs = self._outcomes(runs).keys()

        new: list[LessonRow] = []
        merged: list[LessonRow] = []
        refused: list[str] = []
        for row in put.values():
            if row.id in known:
                both = _merged(known[row.id].row, row)
                if both is None:
                    refused.append(row.id)
                elif both != known[row.id].row:
                    merged.append(both)
            elif change.imported:
                new.append(row)
            else:
                linked = _of_stored_runs(row, stored_runs)
                parents_stored = all(parent.id in known or parent.id in put for parent in row.parents)
                if linked is None or not parents_stored:
                    refused.append(row.id)
                else:
                    new.append(linked)
        self.put([*new, *merged], vectors)
        return Changed(tuple(row.id for row in new), tuple(row.id for row in merged), tuple(refused))

    def _retire_and_revive(self, change: LessonChange) -> None:
        reasons = change.retire or {}
        known = self.get({*reasons, *change.revive})
        rows: list[LessonRow] = []
        for lesson, reason in reasons.items():
            if lesson in known and known[lesson].row.live:
                rows.append(replace(known[lesson].row, retired=reason, retired_by=change.by))
        for lesson in change.revive:
            if lesson in known:
                rows.append(replace(known[lesson].row, retired="", retired_by=""))
        self.put(rows, {})

    def _unlink(self, unlink: Mapping[str, Collection[str]]) -> None:
        """Remove runs from the sources of lessons; a run whose words a lesson is in stays."""
        rows: list[LessonRow] = []
        for lesson, stored in self.get(unlink).items():
            kept = [source for source in stored.row.sources if source.words or source.run not in unlink[lesson]]
            rows.append(replace(stored.row, sources=tuple(kept)))
        self.put(rows, {})

    def carry(
        self,
        lessons: Sequence[LessonRow],
        vectors: Mapping[str, Float32Array],
        reported: Sequence[Reported],
        exposures: Sequence[Exposure],
        answers: Sequence[Answer],
    ) -> int:
        """See `LessonStore.carry`."""
        changed = self.change(LessonChange(put=lessons, imported=True), vectors)
        before = self._reported([report.run for report in reported])
        new_outcomes = {run: success for run, success in reported if before.get(run) != success}
        if new_outcomes:
            self.report_outcomes(new_outcomes)
        self._add_exposures(exposures)
        self.put_answers(answers)
        return len(changed.new)

    def _add_exposures(self, exposures: Sequence[Exposure]) -> None:
        """Store and credit those that are not stored yet, each with the outcome that its run has here."""
        runs = list(dict.fromkeys(exposure.run for exposure in exposures))
        stored = {(exposure.run, exposure.lesson) for exposure in self.exposures(runs)}
        lessons = self.get(exposure.lesson for exposure in exposures)
        fresh: dict[tuple[str, str], Exposure] = {}
        for exposure in exposures:
            key = exposure.run, exposure.lesson
            if exposure.lesson in lessons and key not in stored:
                fresh[key] = exposure
        for exposure, right in wrong_exposures(fresh.values(), self._outcomes(runs), self._reported(runs)):
            fresh[exposure.run, exposure.lesson] = exposure._replace(success=right)
        self.write("put_showings", [exposure._asdict() for exposure in fresh.values()])
        self._credit(recount(fresh.values()))

    def show(self, run: str, lessons: Sequence[str]) -> int:
        """See `LessonStore.show`."""
        shown_before = {exposure.lesson for exposure in self.exposures([run])}
        fresh = [lesson for lesson in self.get(lessons) if lesson not in shown_before]
        if not fresh:
            return 0
        success = self._outcomes([run]).get(run)
        if success is None:
            success = self._reported([run]).get(run)
        self.write("put_showings", [Exposure(run, lesson, success)._asdict() for lesson in fresh])
        self._credit(dict.fromkeys(fresh, Uses.of(success)))
        return len(fresh)

    def record_outcomes(self, outcomes: Mapping[str, bool]) -> int:
        """Credit what was shown in stored runs with their outcomes."""
        if not outcomes:
            return 0
        changed: list[Exposure] = []
        more: defaultdict[str, Uses] = defaultdict(Uses)
        for exposure in self.exposures(list(outcomes)):
            success = outcomes[exposure.run]
            if exposure.success != success:
                changed.append(exposure._replace(success=success))
                before, now = Uses.of(exposure.success), Uses.of(success)
                more[exposure.lesson] = more[exposure.lesson].plus(now).plus(before, -1)
        self.write("put_showings", [exposure._asdict() for exposure in changed])
        self._credit(more)
        return len(changed)

    def report_outcomes(self, outcomes: Mapping[str, bool]) -> int:
        """See `LessonStore.report_outcomes`."""
        before = self._reported(list(outcomes))
        changed = [{"run": run, "success": success} for run, success in outcomes.items() if before.get(run) != success]
        self.write("put_told_outcomes", changed)
        return self.record_outcomes(outcomes)

    def forget_from(self, runs: Sequence[str]) -> bool:
        """Delete what was learned from runs, shown in them and asked about them; whether any lesson was touched."""
        gone = set(runs)
        touched = [stored.row for stored in stored_lessons(self.rows("lessons_from", runs=runs), damaged=runs)]
        lost = {row.id for row in touched if _lost_with(row, gone)}
        changed: list[LessonRow] = []
        for row in touched:
            if row.id not in lost:
                kept = tuple(source for source in row.sources if source.run not in gone)
                changed.append(replace(row, sources=kept))
        changed += self._freed_by([row for row in touched if row.id in lost])

        exposures = self.exposures(runs)
        less: defaultdict[str, Uses] = defaultdict(Uses)
        for exposure in exposures:
            less[exposure.lesson] = less[exposure.lesson].plus(Uses.of(exposure.success), -1)
        self.put(changed, {})
        self._credit(less)
        self.write("drop_showings", [{"run": run} for run in runs])
        self.drop_answers_about(runs)
        self._drop(lost)
        return bool(touched or exposures)

    def _freed_by(self, lost: Sequence[LessonRow]) -> list[LessonRow]:
        """The lessons that one of the lost superseded, found again by searches."""
        lost_ids = {row.id for row in lost}
        superseded: set[tuple[str, str]] = set()
        for row in lost:
            superseded.update((parent.id, row.made_by) for parent in row.parents if parent.id not in lost_ids)
        freed: list[LessonRow] = []
        for lesson, stored in self.get(parent for parent, _ in superseded).items():
            row = stored.row
            if row.retired == "superseded" and (lesson, row.retired_by) in superseded:
                freed.append(replace(row, retired="", retired_by=""))
        return freed

    def forget_user(self, user: str) -> list[str]:
        """See `LessonStore.forget_user`."""
        lessons = [lesson for (lesson,) in self.rows("lessons_of_user", user=user)]
        self._drop(lessons)
        self.write("drop_answers_of", [{"user": user}])
        return lessons

    def mend(self, embedder: TextEmbedder | None) -> None:
        """Rebuild everything derived from the records, and the uses from the exposures; drop unreadable lessons."""
        rows = self._drop_unreadable()
        vectors: dict[str, Float32Array] = {}
        if embedder is not None and rows:
            texts = sorted({row.text for row in rows})
            vectors = dict(zip(texts, embedder.embed(texts), strict=True))
            self.write("drop_lesson_vectors")
            self.write("count_removal")
        self.write("drop_orphan_answers")
        self.put(rows, vectors)
        self._mend_exposures()
        self._mend_uses()

    def _drop_unreadable(self) -> list[LessonRow]:
        """Drop the lessons whose records cannot be read or have another id; the others."""
        rows: dict[str, LessonRow] = {}
        lost: list[str] = []
        for _, lesson, record, *_ in self.rows("lessons", newer_than=-1):
            try:
                row = from_record(record)
            except ValueError:
                lost.append(lesson)
                continue
            if row.id != lesson:
                lost.append(lesson)
            rows.setdefault(row.id, row)
        self._drop(lost)
        return list(rows.values())

    def _mend_exposures(self) -> None:
        exposures = exposures_of(self.rows("showings"))
        runs = list(dict.fromkeys(exposure.run for exposure in exposures))
        wrong = wrong_exposures(exposures, self._outcomes(runs), self._reported(runs))
        self.write("put_showings", [exposure._replace(success=right)._asdict() for exposure, right in wrong])

    def _mend_uses(self) -> None:
        counted = recount(exposures_of(self.rows("showings")))
        differences: dict[str, Uses] = {}
        for stored in stored_lessons(self.rows("lessons", newer_than=-1)):
            right = counted.get(stored.row.id, UNUSED).plus(stored.row.prior)
            if right != stored.uses:
                differences[stored.row.id] = right.plus(stored.uses, -1)
        self._credit(differences)


def _merged(stored: LessonRow, row: LessonRow) -> LessonRow | None:
    """A stored lesson with the runs and counts of another one of the same id; None if they are not the same lesson."""
    # What searches compare of an experience is no part of its id, and changed once.
    same_text = row.kind == "experience" or stored.text == row.text
    if not same_text or (stored.kind, stored.user) != (row.kind, row.user):
        return None
    return replace(stored, text=row.text).with_sources(row.sources).with_counts(row.properties)


def _of_stored_runs(row: LessonRow, stored_runs: Collection[str]) -> LessonRow | None:
    """A new lesson linked to the stored ones of its runs alone; None if it cannot stand on these."""
    stored = [source for source in row.sources if source.run in stored_runs]
    missing = [source for source in row.sources if source.run not in stored_runs]
    if row.sources and not stored:
        return None
    # A lesson in the words of a run goes with it, and one about a user needs all of its runs.
    if missing and (row.user or any(source.words for source in missing)):
        return None
    return replace(row, sources=tuple(stored))


def _lost_with(row: LessonRow, gone: Collection[str]) -> bool:
    """Whether a lesson goes with runs: its words are those of one of them, or no other run stands behind it."""
    if any(source.words and source.run in gone for source in row.sources):
        return True
    return not row.user and all(source.run in gone for source in row.sources)


def wrong_exposures(
    exposures: Iterable[Exposure], stored: Mapping[str, bool | None], reported: Mapping[str, bool]
) -> list[tuple[Exposure, bool | None]]:
    """Exposures whose outcome is neither that of the stored run nor the reported one, each with the right one."""
    wrong: list[tuple[Exposure, bool | None]] = []
    for exposure in exposures:
        outcomes = (stored.get(exposure.run), reported.get(exposure.run))
        right = [success for success in outcomes if success is not None] or [None]
        if exposure.success not in right:
            wrong.append((exposure, right[0]))
    return wrong


def recount(exposures: Iterable[Exposure]) -> dict[str, Uses]:
    """The uses of each lesson by its exposures."""
    uses: defaultdict[str, Uses] = defaultdict(Uses)
    for exposure in exposures:
        uses[exposure.lesson] = uses[exposure.lesson].plus(Uses.of(exposure.success))
    return dict(uses)
