"""The versions of the notes on each user: read, and written one after the other by however many writers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from hepm.errors import StoreError
from hepm.experience.lessons import Notes, notes_id
from hepm.experience.library import Library
from hepm.experience.notes.lines import Draft, lines_of, text_of
from hepm.graph.lessons.store import LessonChange

_TRIES: Final = 32
_AT_ONCE: Final = 16  # versions looked up at once

Outcome: TypeAlias = Literal["written", "unchanged", "refused", "forgotten"]


@dataclass(frozen=True, slots=True)
class Reflected:
    """What came of reflecting on a session.

    Attributes:
        outcome: "written": a new version; "unchanged": the notes say it all; "refused": a rewrite that is not taken;
            "forgotten": the user, or the session, was forgotten meanwhile.
        notes: The newest ones; None where there are none.
        draft: What was written, or would have been.
    """

    outcome: Outcome
    notes: Notes | None
    draft: Draft


@dataclass(frozen=True, slots=True)
class Session:
    """The run that notes are written after.

    Attributes:
        run: Its id; "" for none.
        stored: Whether it is known to be stored: then nothing is written once it is not.
    """

    run: str = ""
    stored: bool = False


class NoteVersions:
    """Versions of notes in a namespace: numbered from 1 without a gap, and never changed."""

    def __init__(self, library: Library, namespace: str) -> None:
        self._library = library
        self._namespace = namespace

    def newest_known(self, user: str) -> Notes | None:
        """The newest notes in memory."""
        version = self._newest_mirrored(user)
        stored = self._library.lessons(self._namespace).get(notes_id(user, version)) if version else None
        return None if stored is None else Notes.of(stored.row)

    def newest(self, user: str) -> Notes | None:
        """The newest notes as the store has them now, whoever wrote them."""
        version = self._newest_mirrored(user)
        found = self.from_version(user, max(version, 1))
        if not found and version > 1:
            found = self.from_version(user, 1)  # forgotten, and perhaps begun anew
        while len(found) == _AT_ONCE and (more := self.from_version(user, found[-1].version + 1)):
            found = more
        return found[-1] if found else None

    def from_version(self, user: str, first: int) -> list[Notes]:
        """Some versions from this one on; [] where there are none."""
        ids = [notes_id(user, version) for version in range(first, first + _AT_ONCE)]
        stored = self._library.store.lessons.get(ids, namespace=self._namespace)
        return sorted((Notes.of(one.row) for one in stored), key=lambda notes: notes.version)

    def revise(
        self, user: str, make: Callable[[Notes | None], Draft], *, written_by: str, session: Session
    ) -> Reflected:
        """Write what `make` makes of the newest notes; of newer ones, where another writer was faster.

        Raises:
            StoreError: others were faster each time.
        """
        begun = False
        for _ in range(_TRIES):
            before = self.newest(user)
            linked = bool(session.run and self._library.store.find_known([session.run], namespace=self._namespace))
            if (before is None and begun) or (session.stored and not linked):
                return Reflected("forgotten", before, Draft(()))
            begun = before is not None
            session = Session(session.run, session.stored or linked)
            draft = make(before)
            if draft.refused:
                return Reflected("refused", before, draft)
            if list(draft.lines) == (lines_of(before.text) if before else []):
                return Reflected("unchanged", before, draft)
            version = before.version + 1 if before else 1
            after = Notes(user, text_of(draft.lines), version, written_by, session.run if linked else "")
            if self._write(before, after):
                return Reflected("written", after, draft)
        raise StoreError(f"the notes on {user!r} were rewritten {_TRIES} times meanwhile; try again.")

    def _write(self, before: Notes | None, after: Notes) -> bool:
        changed = self._library.change(LessonChange(put=[after.row()]), namespace=self._namespace)
        if after.id in changed.refused:
            return False
        # Not in one change: a version that is refused must not take the one before away.
        if before is not None:
            self._library.change(LessonChange(retire={before.id: "revised"}), namespace=self._namespace)
        return True

    def _newest_mirrored(self, user: str) -> int:
        """The number of the newest version in memory, 0 for none: doubled, then halved, as there are no gaps."""
        lessons = self._library.lessons(self._namespace)

        def there(version: int) -> bool:
            return lessons.get(notes_id(user, version)) is not None

        if not there(1):
            return 0
        low, high = 1, 2
        while there(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if there(middle) else (low, middle)
        return low
