"""Learning, showing, crediting and forgetting lessons in one write transaction: the same for every store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hepm.graph.lessons.rows import (
    UNUSED,
    Answer,
    LessonRow,
    Reported,
    Showing,
    StoredLesson,
    Uses,
    from_record,
    showings_of,
    stored_lessons,
)
from hepm.graph.rows import Float32Array, TextEmbedder


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
        self.put([one.row for one in known if not set(one.row.tools).isdisjoint(tools)], {})

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
        return {one.row.id: one for one in stored_lessons(self.rows("find_lessons", ids=wanted))} if wanted else {}

    def _outcomes(self, runs: Iterable[str]) -> dict[str, bool | None]:
        """Outcomes of stored runs by id; runs that are not stored are left out."""
        rows = self.rows("find_runs", ids=list(runs))
        return {run: None if success is None else bool(success) for run, _, success, *_ in rows}

    def _reported(self, runs: Sequence[str]) -> dict[str, bool]:
        return {run: bool(success) for run, success in self.rows("told_outcomes_of", runs=runs)}

    def showings(self, runs: Sequence[str]) -> list[Showing]:
        """What was shown in runs."""
        return showings_of(self.rows("showings_in", runs=runs))

    def change(self, change: LessonChange, vectors: Mapping[str, Float32Array]) -> Changed:
        """See `LessonStore.change`."""
        self._drop(change.drop)
        reasons, unlink = change.retire or {}, change.unlink or {}
        known = self.get({*reasons, *change.revive})
        rows = [
            replace(known[name].row, retired=why, retired_by=change.by)
            for name, why in reasons.items()
            if name in known and known[name].row.live
        ]
        rows += [replace(known[name].row, retired="", retired_by="") for name in change.revive if name in known]
        self.put(rows, {})
        unlinked = [
            replace(one.row, sources=tuple(s for s in one.row.sources if s.words or s.run not in unlink[name]))
            for name, one in self.get(unlink).items()
        ]
        self.put(unlinked, {})
        put: dict[str, LessonRow] = {}
        for row in change.put:
            put[row.id] = put[row.id].with_sources(row.sources) if row.id in put else row
        known = self.get({*put, *(parent.id for row in put.values() for parent in row.parents)})
        runs = self._outcomes({source.run for row in put.values() for source in row.sources})
        new: list[LessonRow] = []
        merged: list[LessonRow] = []
        refused: list[str] = []
        for name, row in put.items():
            there = [source for source in row.sources if source.run in runs]
            gone = [source for source in row.sources if source.run not in runs]
            if name in known:
                stored = known[name].row
                # What searches compare of an experience is no part of its id, and changed once.
                same_words = row.kind == "experience" or stored.text == row.text
                if (stored.kind, stored.user) != (row.kind, row.user) or not same_words:
                    refused.append(name)
                elif (
                    both := replace(stored, text=row.text).with_sources(row.sources).with_counts(row.properties)
                ) != stored:
                    merged.append(both)
            elif change.imported:
                new.append(row)
            elif (
                (there or not row.sources)
                and not any(source.words or row.user for source in gone)
                and all(parent.id in known or parent.id in put for parent in row.parents)
            ):
                new.append(replace(row, sources=tuple(there)))
            else:
                refused.append(name)
        self.put([*new, *merged], vectors)
        return Changed(tuple(row.id for row in new), tuple(row.id for row in merged), tuple(refused))

    def carry(
        self,
        lessons: Sequence[LessonRow],
        vectors: Mapping[str, Float32Array],
        reported: Sequence[Reported],
        showings: Sequence[Showing],
        answers: Sequence[Answer],
    ) -> int:
        """See `LessonStore.carry`."""
        changed = self.change(LessonChange(put=lessons, imported=True), vectors)
        before = self._reported([one.run for one in reported])
        new = {run: success for run, success in reported if before.get(run) != success}
        if new:
            self.tell(new)
        runs = list(dict.fromkeys(one.run for one in showings))
        known = {(one.run, one.lesson) for one in self.showings(runs)}
        held = self.get(one.lesson for one in showings)
        fresh = {one[:2]: one for one in showings if one.lesson in held and one[:2] not in known}
        for one, right in wrong_showings(fresh.values(), self._outcomes(runs), self._reported(runs)):
            fresh[one[:2]] = one._replace(success=right)
        self.write("put_showings", [one._asdict() for one in fresh.values()])
        self._credit(recount(fresh.values()))
        self.put_answers(answers)
        return len(changed.new)

    def show(self, run: str, lessons: Sequence[str]) -> int:
        """See `LessonStore.show`."""
        before = {showing.lesson for showing in self.showings([run])}
        fresh = [name for name in self.get(lessons) if name not in before]
        if not fresh:
            return 0
        success = self._outcomes([run]).get(run)
        if success is None:
            success = self._reported([run]).get(run)
        self.write("put_showings", [Showing(run, name, success)._asdict() for name in fresh])
        self._credit(dict.fromkeys(fresh, Uses.of(success)))
        return len(fresh)

    def settle(self, outcomes: Mapping[str, bool]) -> int:
        """Credit what was shown in stored runs with their outcomes."""
        shown = self.showings(list(outcomes)) if outcomes else []
        changed = [one for one in shown if one.success != outcomes[one.run]]
        more: defaultdict[str, Uses] = defaultdict(Uses)
        for run, lesson, before in changed:
            more[lesson] = more[lesson].plus(Uses.of(outcomes[run])).plus(Uses.of(before), -1)
        self.write("put_showings", [{**one._asdict(), "success": outcomes[one.run]} for one in changed])
        self._credit(more)
        return len(changed)

    def tell(self, outcomes: Mapping[str, bool]) -> int:
        """See `LessonStore.settle`."""
        before = self._reported(list(outcomes))
        changed = [{"run": run, "success": how} for run, how in outcomes.items() if before.get(run) != how]
        self.write("put_told_outcomes", changed)
        return self.settle(outcomes)

    def forget_from(self, runs: Sequence[str]) -> bool:
        """Delete what was learned from runs, shown in them and asked about them; whether any lesson was touched."""
        gone = set(runs)
        touched = [one.row for one in stored_lessons(self.rows("lessons_from", runs=runs), damaged=runs)]
        lost = {
            row.id
            for row in touched
            if any(source.words and source.run in gone for source in row.sources)
            or (not row.user and all(source.run in gone for source in row.sources))
        }
        stay = [row for row in touched if row.id not in lost]
        rest = [replace(row, sources=tuple(one for one in row.sources if one.run not in gone)) for row in stay]
        # Lessons that one of the lost superseded are found again.
        successors = {(parent.id, row.made_by) for row in touched if row.id in lost for parent in row.parents}
        freed = [
            replace(one.row, retired="", retired_by="")
            for name, one in self.get(name for name, _ in successors if name not in lost).items()
            if one.row.retired == "superseded" and (name, one.row.retired_by) in successors
        ]
        showings = self.showings(runs)
        more: defaultdict[str, Uses] = defaultdict(Uses)
        for showing in showings:
            more[showing.lesson] = more[showing.lesson].plus(Uses.of(showing.success), -1)
        self.put([*rest, *freed], {})
        self._credit(more)
        self.write("drop_showings", [{"run": run} for run in runs])
        self.drop_answers_about(runs)
        self._drop(lost)
        return bool(touched or showings)

    def forget_user(self, user: str) -> list[str]:
        """See `LessonStore.forget_user`."""
        names = [name for (name,) in self.rows("lessons_of_user", user=user)]
        self._drop(names)
        self.write("drop_answers_of", [{"user": user}])
        return names

    def mend(self, embedder: TextEmbedder | None) -> None:
        """Rebuild everything derived from the records, and the uses from the showings; drop unreadable lessons."""
        rows: dict[str, LessonRow] = {}
        lost: list[str] = []
        for _, name, record, *_ in self.rows("lessons", newer_than=-1):
            try:
                row = from_record(record)
            except ValueError:
                lost.append(name)
                continue
            if row.id != name:
                lost.append(name)
            rows.setdefault(row.id, row)
        self._drop(lost)
        vectors: dict[str, Float32Array] = {}
        if embedder is not None and rows:
            texts = sorted({row.text for row in rows.values()})
            vectors = dict(zip(texts, embedder.embed(texts), strict=True))
            self.write("drop_lesson_vectors")
            self.write("count_removal")
        self.write("drop_orphan_answers")
        self.put(list(rows.values()), vectors)
        showings = showings_of(self.rows("showings"))
        runs = list(dict.fromkeys(showing.run for showing in showings))
        wrong = wrong_showings(showings, self._outcomes(runs), self._reported(runs))
        self.write("put_showings", [{**showing._asdict(), "success": right} for showing, right in wrong])
        counted = recount(showings_of(self.rows("showings")))
        off = {
            one.row.id: counted.get(one.row.id, UNUSED).plus(one.row.prior).plus(one.uses, -1)
            for one in stored_lessons(self.rows("lessons", newer_than=-1))
        }
        self._credit({name: more for name, more in off.items() if more != UNUSED})


def wrong_showings(
    showings: Iterable[Showing], stored: Mapping[str, bool | None], reported: Mapping[str, bool]
) -> list[tuple[Showing, bool | None]]:
    """Showings whose outcome is neither that of the stored run nor the reported one, each with the right one."""
    wrong: list[tuple[Showing, bool | None]] = []
    for showing in showings:
        right = [how for how in (stored.get(showing.run), reported.get(showing.run)) if how is not None] or [None]
        if showing.success not in right:
            wrong.append((showing, right[0]))
    return wrong


def recount(showings: Iterable[Showing]) -> dict[str, Uses]:
    """The uses of each lesson by its showings."""
    found: defaultdict[str, Uses] = defaultdict(Uses)
    for showing in showings:
        found[showing.lesson] = found[showing.lesson].plus(Uses.of(showing.success))
    return dict(found)
