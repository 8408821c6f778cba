"""What happens to lessons when they are learned, shown, credited and forgotten: the same for every store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from hepm.graph.lessons.rows import UNUSED, HeldLesson, LessonRow, Showing, Uses, from_record
from hepm.graph.lessons.store import Changed, LessonChange, LessonTransaction
from hepm.graph.rows import TextEmbedder
from hepm.graph.stored_vectors import FloatArray


def change_lessons(write: LessonTransaction, change: LessonChange, vectors: Mapping[str, FloatArray]) -> Changed:
    """Carry out a change (see `LessonStore.change`)."""
    if change.drop:
        write.drop(change.drop)
    _set_retired(write, change)
    _unlink(write, change)
    return _put(write, change, vectors)


def _set_retired(write: LessonTransaction, change: LessonChange) -> None:
    reasons = change.retire or {}
    known = write.get({*reasons, *change.revive})
    rows = [
        replace(known[name].row, retired=why, retired_by=change.by)
        for name, why in reasons.items()
        if name in known and known[name].row.live
    ]
    rows += [replace(known[name].row, retired="", retired_by="") for name in change.revive if name in known]
    write.put(rows, {})


def _unlink(write: LessonTransaction, change: LessonChange) -> None:
    gone = change.unlink or {}
    known = write.get(gone)
    kept = {
        name: tuple(source for source in stored.row.sources if source.words or source.run not in gone[name])
        for name, stored in known.items()
    }
    write.put([replace(known[name].row, sources=sources) for name, sources in kept.items()], {})


def _put(write: LessonTransaction, change: LessonChange, vectors: Mapping[str, FloatArray]) -> Changed:
    rows: dict[str, LessonRow] = {}
    for row in change.put:
        rows[row.id] = rows[row.id].with_sources(row.sources) if row.id in rows else row
    known = write.get({*rows, *(parent.id for row in rows.values() for parent in row.parents)})
    runs = write.stored_outcomes({source.run for row in rows.values() for source in row.sources})
    new: list[LessonRow] = []
    merged: list[LessonRow] = []
    refused: list[str] = []
    for name, row in rows.items():
        stored = known.get(name)
        if stored is not None:
            if _words(stored.row) != _words(row):
                refused.append(name)
            elif (both := stored.row.with_sources(row.sources)) != stored.row:
                merged.append(both)
        elif change.imported:
            new.append(row)
        elif _stands(row, runs.keys(), known.keys() | rows.keys()):
            new.append(replace(row, sources=tuple(source for source in row.sources if source.run in runs)))
        else:
            refused.append(name)
    write.put([*new, *merged], vectors)
    return Changed(tuple(row.id for row in new), tuple(row.id for row in merged), tuple(refused))


def _words(row: LessonRow) -> tuple[str, str, str]:
    return row.kind, row.user, row.text


def _stands(row: LessonRow, runs: Collection[str], lessons: Collection[str]) -> bool:
    """Whether the runs whose words it is in, or one of them where the words are nobody's, and its parents are there."""
    sources = [source.run in runs for source in row.sources]
    in_words = [source.run in runs for source in row.sources if source.words or row.user]
    return all(in_words) and (any(sources) or not sources) and all(parent.id in lessons for parent in row.parents)


def show(write: LessonTransaction, run: str, lessons: Sequence[str]) -> int:
    """Remember what was shown in a run (see `LessonStore.show`)."""
    before = {showing.lesson for showing in write.showings([run])}
    fresh = [name for name in write.get(lessons) if name not in before]
    if not fresh:
        return 0
    success = write.stored_outcomes([run]).get(run)
    if success is None:
        success = write.told_outcomes([run]).get(run)
    write.put_showings([Showing(run, name, success) for name in fresh])
    write.credit({name: Uses(1, *_credit(success)) for name in fresh})
    return len(fresh)


def settle(write: LessonTransaction, outcomes: Mapping[str, bool]) -> int:
    """Credit what was shown in runs with how they ended (see `LessonStore.settle`)."""
    if not outcomes:
        return 0
    changed: list[Showing] = []
    more: Counter[tuple[str, int]] = Counter()
    for showing in write.showings(list(outcomes)):
        success = outcomes[showing.run]
        if success == showing.success:
            continue
        changed.append(showing._replace(success=success))
        for place, (now, before) in enumerate(zip(_credit(success), _credit(showing.success), strict=True)):
            more[showing.lesson, place] += now - before
    write.put_showings(changed)
    write.credit({showing.lesson: Uses(0, more[showing.lesson, 0], more[showing.lesson, 1]) for showing in changed})
    return len(changed)


def tell(write: LessonTransaction, outcomes: Mapping[str, bool]) -> int:
    """The same, for runs that need not be stored: what is shown in them later is credited too."""
    before = write.told_outcomes(list(outcomes))
    write.put_outcomes({run: success for run, success in outcomes.items() if before.get(run) != success})
    return settle(write, outcomes)


def forget_lessons_from(write: LessonTransaction, runs: Sequence[str]) -> bool:
    """Remove what was learned from runs, shown in them and asked about them; whether any lesson was touched."""
    gone = set(runs)
    touched = write.from_runs(runs)
    theirs = [
        row.id
        for row in touched
        if any(source.words and source.run in gone for source in row.sources)
        or (not row.user and all(source.run in gone for source in row.sources))
    ]
    lost = set(theirs)
    rest = [
        replace(row, sources=tuple(source for source in row.sources if source.run not in gone))
        for row in touched
        if row.id not in lost
    ]
    showings = write.showings(runs)
    more: dict[str, Uses] = {}
    for showing in showings:
        uses = Uses(-1, *(-number for number in _credit(showing.success)))
        more[showing.lesson] = more.get(showing.lesson, UNUSED).plus(uses)
    write.put([*rest, *_freed(write, touched, lost)], {})
    write.credit(more)
    write.drop_runs(runs)
    write.drop(theirs)
    return bool(touched or showings)


def _freed(write: LessonTransaction, touched: Sequence[LessonRow], lost: set[str]) -> list[LessonRow]:
    """Lessons that one of the lost took the place of, found again from now on."""
    successors = {(parent.id, row.made_by) for row in touched if row.id in lost for parent in row.parents}
    known = write.get(name for name, _ in successors if name not in lost)
    return [
        replace(stored.row, retired="", retired_by="")
        for name, stored in known.items()
        if stored.row.retired == "superseded" and (name, stored.row.retired_by) in successors
    ]


def forget_user(write: LessonTransaction, user: str) -> list[str]:
    """Remove a user's own lessons (see `LessonStore.forget_user`)."""
    names = [*write.of_user(user)]
    write.drop(names)
    write.drop_answers_of(user)
    return names


def mend_lessons(write: LessonTransaction, embedder: TextEmbedder | None) -> None:
    """Make everything that is told of lessons again from their records, and their uses from what was shown.

    Those whose record cannot be read are removed.
    """
    rows: dict[str, LessonRow] = {}
    lost: list[str] = []
    for held in write.held():
        row = readable(held)
        if row is None or row.id != held.id:
            lost.append(held.id)
        if row is not None:
            rows.setdefault(row.id, row)
    write.drop(lost)
    vectors: dict[str, FloatArray] = {}
    if embedder is not None and rows:
        texts = sorted({row.text for row in rows.values()})
        vectors = dict(zip(texts, embedder.embed(texts), strict=True))
        write.drop_vectors()
    write.drop_orphans()
    write.put(list(rows.values()), vectors)
    _mend_showings(write)
    counted = recount(write.all_showings())
    more: dict[str, Uses] = {}
    for held in write.held():
        right = counted.get(held.id, UNUSED).plus(rows[held.id].prior)
        if right != held.uses:
            more[held.id] = Uses(*(a - b for a, b in zip(right, held.uses, strict=True)))
    write.credit(more)


def _mend_showings(write: LessonTransaction) -> None:
    showings = write.all_showings()
    runs = list(dict.fromkeys(showing.run for showing in showings))
    wrong = wrong_showings(showings, write.stored_outcomes(runs), write.told_outcomes(runs))
    write.put_showings([showing._replace(success=right) for showing, right in wrong])


def wrong_showings(
    showings: Iterable[Showing], stored: Mapping[str, bool | None], told: Mapping[str, bool]
) -> list[tuple[Showing, bool | None]]:
    """Showings whose outcome is neither that of the stored run nor what was told of it, with the right one."""
    wrong: list[tuple[Showing, bool | None]] = []
    for showing in showings:
        right = [how for how in (stored.get(showing.run), told.get(showing.run)) if how is not None] or [None]
        if showing.success not in right:
            wrong.append((showing, right[0]))
    return wrong


def readable(held: HeldLesson) -> LessonRow | None:
    """A lesson's row; None where its record is damaged."""
    try:
        return from_record(held.record)
    except ValueError:
        return None


def recount(showings: Iterable[Showing]) -> dict[str, Uses]:
    """What the showings say of each lesson's uses, for whoever checks the books."""
    found: dict[str, Uses] = {}
    for showing in showings:
        found[showing.lesson] = found.get(showing.lesson, UNUSED).plus(Uses(1, *_credit(showing.success)))
    return found


def _credit(success: bool | None) -> tuple[int, int]:
    return int(success is not None), int(success is True)
