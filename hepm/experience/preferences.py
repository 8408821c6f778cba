"""What each user wants of the agent, kept as notes that every session refines (MultiSessionCollab 4.1)."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import Final, Literal, NamedTuple

from hepm.errors import (
    BudgetSpentError,
    EndpointRefusedError,
    InputError,
    LlmError,
    NotFoundError,
    StoreError,
)
from hepm.experience.distilling import DistillReport, Progress
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import EXTRACTIVE, HAND, Notes
from hepm.experience.notes import NOTES_CHARS, gather, lines_of, text_of
from hepm.experience.reflection import messages_of, picked, recalled, reflection_question, vetted
from hepm.experience.stated_preferences import statements_in
from hepm.graph.lessons.rows import StoredLesson
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.rows import LAST_ROW, RunFilter
from hepm.ingest.formats.turns import read_messages
from hepm.ingest.redact import Redactor
from hepm.llm import Client
from hepm.types import DEFAULT_NAMESPACE, Messages, Trajectory

_log = logging.getLogger("hepm")

STEP: Final = "preferences"
"""Marks runs that were reflected on."""

_TRIES: Final = 32  # as many writers may revise one user's notes at once


class Reflected(NamedTuple):
    """What became of the notes: "refused" if a model's fail the checks, "forgotten" if the user or session was."""

    outcome: Literal["written", "unchanged", "refused", "forgotten"]
    notes: Notes | None


def runs_of_users(bank: LessonBank, namespace: str, user: str | None = None) -> list[str]:
    """Every stored run that names a user, or one user, in order of arrival."""
    found = bank.store.runs_found(RunFilter(user=user), namespace=namespace, before=LAST_ROW, limit=LAST_ROW)
    return [run.id for run in reversed(found) if run.user]


@dataclass(frozen=True)
class Preferences:
    """The notes on the users of a memory (see `hepm.Memory.preferences`).

    Notes are lines, a wish each, of 4,000 characters in all. Every change writes a new version: versions are numbered
    from 1 without a gap, and never changed. Secrets are removed from a conversation before it is read.
    """

    bank: LessonBank

    def reflect(
        self,
        user: str,
        conversation: Messages | Trajectory,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        model: Client | None = None,
    ) -> Reflected:
        """Note what a session says about how the user wants to be served.

        Without a model these are sentences in the user's own words. A model's notes are checked against the old ones
        and the user's words (see `hepm.experience.reflection`); if it gives none, LlmError is raised.

        Args:
            conversation: OpenAI chat messages, or a run.
            model: Its ledger is a `StoreLedger(..., "user")`, so that answers are forgotten with the notes.
        """
        _check_user(user)
        if isinstance(conversation, Trajectory):
            turns = conversation.turns
            session = conversation.id
        else:
            turns = read_messages(conversation)
            session = ""
        # Before a model reads it, and before lines are made of it.
        redact = Redactor().text
        clean = messages_of(replace(turn, text=redact(turn.text)) for turn in turns)
        texts = [turn.text for turn in clean if turn.role == "user"]

        def make(lines: Sequence[str]) -> list[str] | None:
            if model is None or not texts:  # then there is nothing to pay for
                return gather(lines, statements_in(texts))
            return vetted(model.ask(reflection_question(user, lines, clean)), lines, clean)

        author = EXTRACTIVE if model is None else model.endpoint.model
        done = self._revise(user, make, written_by=author, session=session, namespace=namespace)
        if session:
            self.bank.mark_done(STEP, [session], namespace=namespace)
        return done

    def reflect_all(
        self,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        model: Client | None = None,
        on_progress: Progress | None = None,
    ) -> DistillReport:
        """Reflect on stored runs of known users that were not reflected on, in order of arrival.

        New are versions of notes; merged are runs that changed none.
        """
        report = DistillReport()
        done = self.bank.store.lessons.answered_runs(STEP, namespace=namespace)
        # Listed before the first is read: a model may take hours, and no cursor should stay open so long.
        waiting = [name for name in runs_of_users(self.bank, namespace) if name not in done]
        # One is in memory at a time.
        stored = chain.from_iterable(self.bank.runs([name], namespace=namespace) for name in waiting)
        runs = filter(attrgetter("trusted"), stored)
        for run in runs:
            try:
                outcome = self.reflect(run.user, run, namespace=namespace, model=model).outcome
            except EndpointRefusedError:
                raise
            except BudgetSpentError:
                return report + DistillReport(unasked=1 + sum(1 for _ in runs))
            except LlmError as error:
                report += DistillReport(runs=1, failed=((run.id, str(error)),))
            else:
                refused = outcome in ("refused", "forgotten")
                report += DistillReport(1, new=outcome == "written", merged=outcome == "unchanged", refused=refused)
            if on_progress is not None:
                on_progress(report)
        return report

    def notes(self, user: str, *, namespace: str = DEFAULT_NAMESPACE) -> Notes | None:
        """The newest notes on a user; None if there are none. Answered from memory."""
        return next(reversed(self._versions(user, namespace)), None)

    def history(self, user: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[Notes]:
        """All versions, the first one first."""
        _check_user(user)
        self.bank.mirror.refresh()
        return list(self._versions(user, namespace))

    def _versions(self, user: str, namespace: str) -> Sequence[Notes]:
        return self.bank.lessons(namespace).cached(_versions_by_user, "notes").get(user, ())

    def recall(
        self,
        user: str,
        context: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        k: int = 3,
        model: Client | None = None,
    ) -> list[str]:
        """Lines of the notes that matter in a context, best first, chosen by a model or by similarity.

        If the model cannot be reached, similarity chooses, and a warning is logged.
        """
        notes = self.notes(user, namespace=namespace)
        lines = lines_of(notes.text) if notes else []
        if not lines or not context.strip():
            return []
        if model is not None:
            try:
                return picked(model, user, lines, Redactor().text(context), k)
            except LlmError as error:
                _log.warning("notes are recalled by similarity, as the model could not be asked: %s", error)
        return recalled(self.bank, lines, context, k)

    def edit(self, user: str, text: str, *, namespace: str = DEFAULT_NAMESPACE) -> Notes:
        """Write the notes by hand."""
        _check_user(user)
        # Before its lines are compared: long ones are cut, equal ones are one.
        lines = lines_of(text)
        if len(text_of(lines)) > NOTES_CHARS:
            raise InputError(f"the notes are too long; at most {NOTES_CHARS:,} characters are kept.")
        done = self._revise(user, lambda before: lines, written_by=HAND, namespace=namespace)
        if done.notes is None:
            raise NotFoundError(f"there are no notes on {user!r}.")
        return done.notes

    def forget(self, user: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[str]:
        """Remove all versions of the notes, and answers about them; ids of the removed. Runs stay, marked as done."""
        _check_user(user)
        self.bank.mark_done(STEP, runs_of_users(self.bank, namespace, user), namespace=namespace)
        try:
            return self.bank.store.lessons.forget_user(user, namespace=namespace)
        finally:
            self.bank.mirror.catch_up(defer=True)

    def _revise(
        self,
        user: str,
        make: Callable[[Sequence[str]], list[str] | None],
        *,
        written_by: str,
        namespace: str,
        session: str = "",
    ) -> Reflected:
        """Write what `make` gives for the newest lines, again if another writer was faster."""
        begun = linked = False
        for _ in range(_TRIES):
            self.bank.mirror.refresh()
            before = self.notes(user, namespace=namespace)
            was_linked = linked
            linked = bool(session and self.bank.store.find_known([session], namespace=namespace))
            # Notes that were there at the last try, or a run that was, and are gone: someone forgot them meanwhile.
            if (before is None and begun) or (was_linked and not linked):
                return Reflected("forgotten", before)
            begun = before is not None
            newest = before or Notes(user, "", version=0)
            old = lines_of(newest.text)
            lines = make(old)
            if lines is None:
                return Reflected("refused", before)
            if lines == old:
                return Reflected("unchanged", before)
            after = Notes(user, text_of(lines), newest.version + 1, written_by, session if linked else "")
            changed = self.bank.change(LessonChange(put=[after.row()]), namespace=namespace)
            if after.id not in changed.refused:
                # Not in one change: a version that is refused must not retire the one before.
                if before is not None:
                    self.bank.change(LessonChange(retire={before.id: "revised"}), namespace=namespace)
                return Reflected("written", after)
        raise StoreError(f"the notes on {user!r} were rewritten {_TRIES} times meanwhile; try again.")


def _versions_by_user(lessons: Collection[StoredLesson]) -> Mapping[str, list[Notes]]:
    versions: defaultdict[str, list[Notes]] = defaultdict(list)
    for notes in sorted(map(Notes.of, (stored.row for stored in lessons)), key=lambda notes: notes.version):
        versions[notes.user].append(notes)
    return versions


def _check_user(user: str) -> None:
    if not user.strip():
        raise InputError("whose notes? Name a user.")
