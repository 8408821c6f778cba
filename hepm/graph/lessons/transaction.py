"""Store, show, credit and forget lessons in one write transaction: the same for every store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from hepm.graph.lessons.rows import (
    APPROVED,
    OUTDATED,
    PENDING,
    Answer,
    Exposure,
    LessonRow,
    Source,
    StoredLesson,
    exposures_of,
    from_record,
    stored_lessons,
)
from hepm.graph.rows import Float32Array, TextEmbedder, TextVectors
from hepm.types import ToolName

if TYPE_CHECKING:
    from hepm.graph.transaction import Transaction


@dataclass(frozen=True, slots=True)
class LessonChange:
    """A change of lessons, carried out whole or not at all.

    Attributes:
        put: New lessons, or known ones that further runs taught.
        retire: The reason by id.
        revive, drop: Ids of retired lessons to find again, and of lessons to delete.
        by: The evolution that retires; "" for a hand or a rule.
        imported: The lessons come from another store; this one need not hold their runs.
    """

    put: Sequence[LessonRow] = ()
    retire: Mapping[str, str] | None = None
    revive: Sequence[str] = ()
    drop: Sequence[str] = ()
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


class LessonTransaction:
    """Lessons of one namespace inside a write transaction, over statements that have the same names in every store."""

    def __init__(self, write: Transaction) -> None:
        self._write = write

    def relink(self, tools: Collection[str]) -> None:
        """Link lessons about tools again, whose names now stand for others, and settle what was shown of them."""
        lessons = [lesson.row for lesson in stored_lessons(self._write.rows("lessons", newer_than=-1))]
        about = {row.id: row for row in lessons if not set(row.tools).isdisjoint(tools)}
        self._write.put_lessons(list(about.values()), {})
        # Also of runs that call none of them by its new name: what was advised to them is another call now.
        showings = exposures_of(self._write.rows("showings"))
        self.settle(sorted({shown.run for shown in showings if shown.lesson in about}))

    def put_answers(self, answers: Sequence[Answer]) -> None:
        """See `LessonStore.put_answers`."""
        self._write.write("put_answers", [answer._asdict() for answer in answers])

    def drop_answers_about(self, runs: Sequence[str]) -> None:
        """Delete answers about runs, and the marks that a step has seen them."""
        self._write.write("drop_answers_about", [{"run": run} for run in runs])

    def _put_exposures(self, exposures: Iterable[Exposure]) -> None:
        self._write.write("put_showings", [exposure._asdict() for exposure in exposures])

    def _drop(self, ids: Collection[str]) -> None:
        if ids:
            self._write.write("drop_lessons", [{"lesson": name} for name in ids])
            self._write.write("count_removal")

    def get(self, ids: Iterable[str]) -> dict[str, StoredLesson]:
        """Stored lessons by id."""
        distinct = list(dict.fromkeys(ids))
        if not distinct:
            return {}
        stored = stored_lessons(self._write.rows("find_lessons", lessons=distinct))
        return {lesson.row.id: lesson for lesson in stored}

    def _outcomes(self, runs: Iterable[str]) -> dict[str, bool | None]:
        """Outcomes of stored runs by id; runs that are not stored are left out."""
        return dict(self._write.rows("outcomes_of", runs=list(runs)))

    def _reported(self, runs: Sequence[str]) -> dict[str, bool]:
        """Outcomes that were reported of runs, by id; runs without one are left out."""
        return dict(self._write.rows("reported_outcomes_of", in_runs=runs))

    def exposures(self, runs: Sequence[str]) -> list[Exposure]:
        """What was shown in runs."""
        if not self._write.shown:
            return []
        return exposures_of(self._write.rows("showings_in", in_runs=runs))

    def change(self, change: LessonChange, vectors: TextVectors) -> Changed:
        """See `LessonStore.change`."""
        self._drop(change.drop)
        self._restate(change)

        # Drops and retirements come first: what is put may be about the same lessons.
        put = _each_once(change.put)
        known = self.get(set(put).union(*(row.parent_ids for row in put.values())))
        for row in put.values():
            # What needs no approval replaces what waits for it, of which only the words are the same.
            if row.live and row.id in known and known[row.id].row.retired == PENDING:
                del known[row.id]
        # Read once for all: a change may hold hundreds of lessons. Those that are known may name thousands of runs.
        runs = set[str]().union(*(row.run_ids for row in put.values() if row.id not in known))
        stored_runs = self._outcomes(runs).keys()

        new: dict[str, LessonRow] = {}
        merged: dict[str, LessonRow] = {}
        refused: list[str] = []
        for row in put.values():
            if row.id in known:
                stored = known[row.id].row
                both = _merged(stored if change.imported else _taught_again(stored, row), row)
                if both is None:
                    refused.append(row.id)
                elif both != stored:
                    merged[row.id] = both
            # The other store has checked it, and its runs may never come here.
            elif change.imported:
                new[row.id] = row
            else:
                linked = _of_stored_runs(row, stored_runs)
                if linked is None or not row.parent_ids <= known.keys() | put.keys():
                    refused.append(row.id)
                else:
                    new[row.id] = linked
        self._write.put_lessons([*new.values(), *merged.values()], vectors)
        return Changed(tuple(new), tuple(merged), tuple(refused))

    def _restate(self, change: LessonChange) -> None:
        """Retire some lessons and revive others."""
        retire = change.retire or {}
        rows: list[LessonRow] = []
        for lesson, stored in self.get({*retire, *change.revive}).items():
            row = stored.row
            # A retired lesson that comes again may be pending once more.
            if lesson in retire and (retire[lesson] == PENDING or not row.is_retired):
                row = replace(row, retired=retire[lesson], retired_by=change.by)
            elif lesson in change.revive:
                row = replace(row, retired="", retired_by=APPROVED if row.retired == PENDING else "")
            rows.append(row)
        self._write.put_lessons(rows, {})

    def show(self, exposures: Sequence[Exposure]) -> int:
        """Store what was shown, each lesson once a run, with the outcome of the run if that is known; how many are new.

        Lessons that are gone are skipped.
        """
        shown = self.exposures([exposure.run for exposure in exposures])
        stored = {(exposure.run, exposure.lesson) for exposure in shown}
        lessons = self.get(exposure.lesson for exposure in exposures)
        fresh: dict[tuple[str, str], Exposure] = {}
        for exposure in exposures:
            key = exposure.run, exposure.lesson
            if exposure.lesson in lessons and key not in stored:
                fresh[key] = exposure
        self._put_exposures(self._settled(list(fresh.values())))
        return len(fresh)

    def _settled(self, exposures: Sequence[Exposure]) -> list[Exposure]:
        """Exposures with how their runs ended: as stored, else as reported; None for lessons that the runs ignored."""
        if not exposures:
            return []
        runs = list(dict.fromkeys(exposure.run for exposure in exposures))
        outcomes = self._outcomes(runs)
        reported = self._reported(runs)
        edges: defaultdict[str, list[tuple[ToolName, ToolName]]] = defaultdict(list)  # of stored runs
        for source, target, run in self._write.rows("run_edges_of", runs=runs):
            edges[run].append((source, target))
        lessons = self.get(exposure.lesson for exposure in exposures if exposure.run in edges)
        settled: list[Exposure] = []
        for exposure in exposures:
            success = outcomes.get(exposure.run)
            if success is None:
                success = reported.get(exposure.run)
            if (
                exposure.run in edges
                and exposure.lesson in lessons
                and not lessons[exposure.lesson].row.heeded_by(edges[exposure.run], self._write.aliases)
            ):
                success = None
            settled.append(exposure._replace(success=success))
        return settled

    def settle(self, runs: Sequence[str]) -> int:
        """Credit what was shown in runs with how these ended; how many exposures that changed."""
        exposures = self.exposures(runs)
        # An outcome that comes twice counts once.
        changed = set(self._settled(exposures)) - set(exposures)
        self._put_exposures(sorted(changed))
        return len(changed)

    def report_outcomes(self, outcomes: Mapping[str, bool]) -> int:
        """See `LessonStore.report_outcomes`."""
        before = self._reported(list(outcomes))
        changed = {run: success for run, success in outcomes.items() if before.get(run) != success}
        self._write.write("put_reported_outcomes", [{"run": run, "success": changed[run]} for run in changed])
        return self.settle(list(outcomes))

    def forget_from(self, runs: Sequence[str]) -> bool:
        """Delete what was learned from runs, shown in them and asked about them; whether any lesson was touched."""
        gone = set(runs)
        touched = stored_lessons(self._write.rows("lessons_from", runs=runs))
        changed: list[LessonRow] = []
        lost: dict[str, LessonRow] = {}
        for stored in touched:
            row = stored.row
            if _lost_with(row, gone):
                # Its counts go with it; nothing of it is kept.
                lost[row.id] = row
            else:
                changed.append(replace(row, sources=tuple(source for source in row.sources if source.run not in gone)))
        # What a lost lesson had replaced is found again, or nothing would say it.
        changed += self._freed_by(lost)

        exposures = self.exposures(runs)
        self._write.put_lessons(changed, {})
        # A forgotten run no longer speaks for what it was shown.
        self._write.write("drop_showings", [{"run": run} for run in runs])
        self.drop_answers_about(runs)
        self._drop(lost)
        return bool(touched or exposures)

    def _freed_by(self, lost: Mapping[str, LessonRow]) -> list[LessonRow]:
        """The lessons that one of the lost superseded, found again by searches."""
        evolutions: defaultdict[str, set[str]] = defaultdict(set)  # that made lost lessons, by the lesson they changed
        for row in lost.values():
            for parent in row.parent_ids - lost.keys():
                evolutions[parent].add(row.made_by)
        freed: list[LessonRow] = []
        for lesson, stored in self.get(evolutions).items():
            row = stored.row
            # Only what the evolution itself retired: a lesson that was retired by hand stays so.
            if row.retired == "superseded" and row.retired_by in evolutions[lesson]:
                freed.append(replace(row, retired="", retired_by=""))
        return freed

    def forget_user(self, user: str) -> list[str]:
        """See `LessonStore.forget_user`."""
        lessons = [lesson for (lesson,) in self._write.rows("lessons_of_user", user=user)]
        self._drop(lessons)
        self._write.write("drop_answers_of", [{"user": user}])
        return lessons

    def mend(self, embedder: TextEmbedder | None) -> None:
        """Rebuild everything derived from the records, and the uses from the exposures; drop unreadable lessons."""
        rows: list[LessonRow] = []
        lost: list[str] = []
        for _, lesson, record, *_ in self._write.rows("lessons", newer_than=-1):
            try:
                rows.append(from_record(record))
            except ValueError:
                lost.append(lesson)
        self._drop(lost)
        vectors: dict[str, Float32Array] = {}
        if embedder is not None and rows:
            texts = sorted({row.text for row in rows})
            # Each text once: many lessons may share one.
            vectors = dict(zip(texts, embedder.embed(texts), strict=True))
            self._write.write("drop_lesson_vectors")
            self._write.write("count_removal")
        self._write.put_lessons(rows, vectors)
        self._put_exposures(self._settled(exposures_of(self._write.rows("showings"))))
        self._write.write("set_uses", [{"lesson": row.id, **row.prior._asdict()} for row in rows])


def _each_once(rows: Iterable[LessonRow]) -> dict[str, LessonRow]:
    """Lessons by id; one that comes twice in a change, taught by different runs, has the runs of both."""
    by_id: dict[str, LessonRow] = {}
    for row in rows:
        if row.id in by_id:
            by_id[row.id] = by_id[row.id].with_sources(row.sources)
        else:
            by_id[row.id] = row
    return by_id


def _taught_again(stored: LessonRow, row: LessonRow) -> LessonRow:
    """A stored lesson before the runs that teach it now are linked: live again, if its runs taught it no more.

    Of counted lessons, and of those, these runs replace the former ones; a run whose words it is in stays.
    """
    outdated = stored.retired == OUTDATED and row.live
    if outdated:
        stored = replace(stored, retired="", retired_by="")
    if outdated or row.properties.get("tried"):
        stored = replace(stored, sources=tuple(source for source in stored.sources if source.words))
    return stored


def _merged(stored: LessonRow, row: LessonRow) -> LessonRow | None:
    """A stored lesson with the runs and counts of another one of the same id; None if they are not the same lesson."""
    # What searches compare of an experience is no part of its id, and changed once.
    same_text = row.kind == "experience" or stored.text == row.text
    if not same_text or (stored.kind, stored.user) != (row.kind, row.user):
        return None
    both = replace(stored, text=row.text).with_sources(row.sources)
    # Counts come with the conditions that they are of, which were not approved.
    return both if row.retired == PENDING else both.with_counts(row.properties)


def _of_stored_runs(row: LessonRow, stored_runs: Collection[str]) -> LessonRow | None:
    """A new lesson linked to the stored ones of its runs alone; None if it cannot stand on these."""
    stored: list[Source] = []
    for source in row.sources:
        if source.run in stored_runs:
            stored.append(source)
        elif source.words or row.user:
            # A lesson in the words of a run goes with it, and one about a user needs all of its runs.
            return None
    if row.sources and not stored:
        return None
    return replace(row, sources=tuple(stored))


def _lost_with(row: LessonRow, gone: Set[str]) -> bool:
    """Whether a lesson goes with runs: its words are those of one of them, or no other run stands behind it."""
    if any(source.words and source.run in gone for source in row.sources):
        return True
    return not row.user and row.run_ids <= gone
