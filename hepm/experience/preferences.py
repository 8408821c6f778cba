"""Preferences: what each user wants of the agent, kept as notes that every session refines (MultiSessionCollab 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from hepm.errors import BudgetSpentError, EndpointRefusedError, InputError, LlmError
from hepm.experience.lessons import EXTRACTIVE, Notes, notes_id
from hepm.experience.library import Library
from hepm.experience.notes.lines import LINE_CHARS, NOTES_CHARS, Draft, gather, lines_of, text_of
from hepm.experience.notes.reflection import (
    picked,
    recall_question,
    recalled,
    reflection_question,
    user_texts,
    vetted,
)
from hepm.experience.notes.sessions import STEP, Progress, ReflectReport, runs_of_users, unseen
from hepm.experience.notes.versions import NoteVersions, Reflected, Session
from hepm.experience.notes.wishes import wishes_in
from hepm.ingest.redact import Redactor
from hepm.ingest.turns import read_messages
from hepm.llm import Client, Estimate
from hepm.types import DEFAULT_NAMESPACE, Trajectory, Turn

Conversation: TypeAlias = Sequence[object] | Trajectory | str
"""OpenAI chat messages, a run, or the id of a stored one."""

HAND: Final = "hand"
"""Who wrote notes that a person edited."""
RECALLED: Final = 3


class Preferences:
    """The notes on the users of a memory (see `hepm.Memory.preferences`).

    Notes are lines, a wish each, of 4,000 characters in all. Every change makes a version; none is ever changed.

    Args:
        redact: Takes secrets out of a conversation before it is read.
    """

    def __init__(self, library: Library, *, redact: Callable[[str], str] | None = None) -> None:
        self._library = library
        self._redact = redact or _without_secrets

    def reflect(
        self,
        user: str,
        conversation: Conversation,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        model: Client | None = None,
        session: str = "",
    ) -> Reflected:
        """Write down what a session told of how the user wants to be served.

        Without a model these are sentences in the user's own words (see `hepm.experience.notes.wishes`). With one it is
        what it writes, held against the old notes and the user's words (see `hepm.experience.notes.reflection`). Where
        another writer was faster, the session is reflected on once more, with the newer notes.

        Args:
            model: Where its ledger is a `StoreLedger(..., "user")`, answers are kept as soon as the user has notes, and
                forgotten with them.
            session: The run that it was, where it is stored or will be.

        Raises:
            LlmError: the model gave no answer; the notes stay as they are.
            InputError: nobody's notes, no such run, or no conversation.
        """
        _check_user(user)
        turns, run = self._turns(conversation, namespace)
        where = Session(session or run, stored=isinstance(conversation, str) and not session)
        return self._reflect(user, turns, where, namespace=namespace, model=model)

    def _reflect(
        self,
        user: str,
        turns: Sequence[Turn],
        session: Session,
        *,
        namespace: str,
        model: Client | None,
    ) -> Reflected:
        clean = [replace(turn, text=self._redact(turn.text)) for turn in turns]
        make = partial(_extract, turns=clean) if model is None else partial(_ask, model, user, turns=clean)
        name = EXTRACTIVE if model is None else model.endpoint.model
        done = NoteVersions(self._library, namespace).revise(user, make, written_by=name, session=session)
        if session.run:
            self._library.mark_done(STEP, {session.run: ""}, namespace=namespace)
        return done

    def reflect_all(
        self,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        model: Client | None = None,
        again: bool = False,
        on_progress: Progress | None = None,
    ) -> ReflectReport:
        """Reflect on stored runs of known users that were not reflected on yet, in order of arrival.

        The runs themselves are the queue: interrupted, it goes on where it stopped, and a run that is forgotten is out
        of it. One that a model gave no answer on is looked at again next time, after the runs that came later.

        Args:
            again: Looks at every run anew, as with a model after going without.

        Raises:
            EndpointRefusedError: the model will answer nothing.
        """
        report = ReflectReport()
        runs = unseen(self._library, namespace, again=again)
        for run in runs:
            try:
                session = Session(run.id, stored=True)
                done = self._reflect(run.user, run.turns, session, namespace=namespace, model=model)
            except EndpointRefusedError:
                raise
            except BudgetSpentError:
                return replace(report, unasked=1 + sum(1 for _ in runs))
            except LlmError as error:
                report = replace(report, failed=(*report.failed, (run.id, str(error))))
            else:
                field = done.outcome if done.outcome in ("written", "unchanged") else "refused"
                report = replace(report, **{field: getattr(report, field) + 1})
            report = replace(report, runs=report.runs + 1)
            if on_progress is not None:
                on_progress(report)
        return report

    def estimate(self, model: Client, *, namespace: str = DEFAULT_NAMESPACE, again: bool = False) -> Estimate:
        """What `reflect_all` would ask a model, at most; nothing is asked or stored.

        What the notes will be by then is not known: they count as long as they may be.
        """
        full = ["x" * (LINE_CHARS - 3)] * (NOTES_CHARS // LINE_CHARS)
        runs = unseen(self._library, namespace, again=again)
        questions = (reflection_question(run.user, full, run.turns) for run in runs if user_texts(run.turns))
        return model.estimate(questions)

    def notes(self, user: str, *, namespace: str = DEFAULT_NAMESPACE) -> Notes | None:
        """The newest notes on a user, whole; None where there are none. Answered from memory."""
        return NoteVersions(self._library, namespace).newest_known(user)

    def history(self, user: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[Notes]:
        """All versions, the first one first."""
        found: list[Notes] = []
        versions = NoteVersions(self._library, namespace)
        while batch := versions.from_version(user, len(found) + 1):
            found += batch
        return found

    def recall(
        self,
        user: str,
        context: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        k: int = RECALLED,
        floor: float | None = None,
        model: Client | None = None,
    ) -> list[str]:
        """Lines of the notes that matter now, most telling first; [] where none does.

        By similarity with what the context says last (see `hepm.experience.notes.reflection.recalled`), or as a model
        picks them.

        Args:
            context: What the agent knows now, or the latest messages.
            floor: Least similarity; None for what suits the embedder.

        Raises:
            LlmError: the model gave no answer.
        """
        if k < 1:
            raise InputError(f"k is {k}: ask for at least one line.")
        notes = self.notes(user, namespace=namespace)
        lines = lines_of(notes.text) if notes else []
        if not lines or not context.strip():
            return []
        if model is not None:
            return picked(model.ask(recall_question(user, lines, self._redact(context), k)), lines, k)
        return recalled(self._library, lines, context, k=k, floor=floor)

    def edit(self, user: str, text: str, *, namespace: str = DEFAULT_NAMESPACE, version: int | None = None) -> Notes:
        """Write the notes by hand, shorter ones or none too.

        Args:
            version: The one that was edited; a newer one is then not written over. None for whichever is newest.

        Raises:
            InputError: there is a newer version, the text is longer than notes may be, or there are none to be emptied.
        """
        _check_user(user)
        lines = lines_of(text)
        if len(text_of(lines)) > NOTES_CHARS:
            raise InputError(
                f"the notes are {len(text_of(lines)):,} characters long; at most {NOTES_CHARS:,} are kept."
            )

        def revise(before: Notes | None) -> Draft:
            newest = before.version if before else 0
            if version is not None and newest != version:
                raise InputError(f"the notes on {user!r} are at version {newest}, not {version}: edit the newest ones.")
            return Draft(tuple(lines))

        done = NoteVersions(self._library, namespace).revise(user, revise, written_by=HAND, session=Session())
        if done.notes is None:
            raise InputError(f"there are no notes on {user!r}.")
        return done.notes

    def restore(self, user: str, version: int, *, namespace: str = DEFAULT_NAMESPACE) -> Notes:
        """Write an earlier version anew, as the newest one.

        Raises:
            InputError: there is none of this number.
        """
        stored = self._library.store.lessons.get([notes_id(user, version)], namespace=namespace)
        if not stored:
            raise InputError(f"the notes on {user!r} have no version {version}.")
        return self.edit(user, stored[0].row.text, namespace=namespace)

    def forget(self, user: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[str]:
        """Remove all versions of the notes on a user, and answers about them; the ids of the removed.

        The user's runs stay (`hepm.Memory.forget` removes them and the notes), but none of them is reflected on later.
        """
        _check_user(user)
        if runs := [run for run, of in runs_of_users(self._library, namespace) if of == user]:
            self._library.mark_done(STEP, dict.fromkeys(runs, ""), namespace=namespace)
        return self._library.forget_user(user, namespace=namespace)

    def users(self, *, namespace: str = DEFAULT_NAMESPACE) -> list[str]:
        """Users that there are notes on, by name."""
        return sorted({stored.row.user for stored in self._library.lessons(namespace).all("notes")})

    def _turns(self, conversation: Conversation, namespace: str) -> tuple[Sequence[Turn], str]:
        """The turns, and the run that they are."""
        if isinstance(conversation, str):
            runs = self._library.runs([conversation], namespace=namespace)
            if not runs:
                raise InputError(f"there is no run {conversation!r} in the namespace {namespace!r}.")
            conversation = runs[0]
        if isinstance(conversation, Trajectory):
            return conversation.turns, conversation.id
        return read_messages(conversation), ""


def _extract(before: Notes | None, *, turns: Sequence[Turn]) -> Draft:
    return gather(lines_of(before.text) if before else [], wishes_in(user_texts(turns)))


def _ask(model: Client, user: str, before: Notes | None, *, turns: Sequence[Turn]) -> Draft:
    lines = lines_of(before.text) if before else []
    if not user_texts(turns):
        return Draft(tuple(lines))  # the user said nothing: there is nothing to pay for
    return vetted(model.ask(reflection_question(user, lines, turns)), lines, turns)


def _check_user(user: str) -> None:
    if not user.strip():
        raise InputError("whose notes? Name a user.")


def _without_secrets(text: str) -> str:
    return Redactor().text(text)
