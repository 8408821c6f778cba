"""A session: one run of an agent with memory, from its first hint to its outcome."""

from __future__ import annotations

import logging
import time
from asyncio import to_thread
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Final, Literal, Self, TypeVar

from hepm.errors import ConflictError, HepmError, InputError
from hepm.graph.mirror.mirror import SwitchingOften
from hepm.graph.trials import CONTROL, Trial, Withheld
from hepm.ingest.prepare import IngestOptions
from hepm.ingest.records import graded
from hepm.llm.usage import estimate_tokens
from hepm.memory.guard import SILENT, at_level
from hepm.memory.journal import SessionFile
from hepm.memory.record import SessionConversation
from hepm.types import (
    HINT,
    LEVEL,
    RECORDED_BY,
    START,
    TRIAL,
    Arguments,
    Messages,
    Outcome,
    Suggestion,
    Suggestions,
    Tool,
    ToolName,
    Trajectory,
)

if TYPE_CHECKING:
    from hepm.experience.principles import FoundPrinciple
    from hepm.experience.prompt import Prompt, PromptOptions
    from hepm.memory.denial import Denial
    from hepm.memory.journal import Stamp
    from hepm.memory.memory import Memory

_log = logging.getLogger("hepm")
T = TypeVar("T")

_OF_FIRST: Final = (RECORDED_BY, LEVEL, TRIAL)
"""Tags that a run keeps from its beginning, whichever process goes on with it."""
HELD_OUT: Final = "this session is held out, to see what memory does: memory says nothing to it"


class Session:
    """One run of an agent with memory. Start it with `Memory.session`.

    Ask for a `hint` before each call of the model, and `finish` with the outcome. Pass the conversation as messages, or
    record it call by call with `say` and `record`.

    A session with the id of one that a crash ended begins again if its first message or call is the same, and else goes
    on after it; a warning says which.

    A session raises nothing before its end. If memory fails, there is no hint; what cannot be recorded is raised by
    `finish`, or at the end of the block. Both are logged as warnings. A `with` block without `finish` stores the run
    without a label: it does not count, and may still be finished. A session without messages and calls stores nothing.

    `async with` does the same without blocking the event loop, with `afinish` instead of `finish`.

    Attributes:
        aliases: Names beside the id by which a server recognises the session after a restart; kept on disk with it.
        parts: Ids of what its turns were made of, such as spans: kept on disk with them, so that none counts twice.
        holdout: The chance that it is a control; see `enter`.
        denies: Whether calls that memory knows to fail are denied; see `denial`.
        trial: Its part in an experiment; None before the first hint, and where there is none.
        last: The tool called last before the latest hint; START before the first call.
    """

    def __init__(
        self,
        memory: Memory,
        run: Trajectory,
        *,
        namespace: str,
        system: str,
        tools: Sequence[Tool] | None,
        holdout: float,
        denies: bool,
        distill: bool,
        prompt_options: PromptOptions | None,
        ingest_options: IngestOptions,
    ) -> None:
        self._memory = memory
        self._run = run
        self._namespace = namespace
        self._tools = tools
        self._distill = distill
        self._prompt_options = prompt_options
        self._ingest_options = ingest_options
        self.aliases: tuple[str, ...] = ()
        self.parts = frozenset[str]()
        self.holdout = holdout
        self.denies = denies
        self._record = SessionConversation(run.id, system)
        # In order: ids of the lessons that hints held, which the outcome credits.
        self._shown: dict[str, None] = {}
        # The first part that could not be recorded: `finish` raises it.
        self._failed: InputError | None = None
        self._warned = False
        self.trial: Trial | None = None
        self.last: ToolName = START
        self._stored: Trajectory | None = None
        self._storing = Lock()
        self._file = SessionFile(memory.sessions.journal, self._namespace, run.id)
        kept = self._file.read()
        if kept is not None:  # a crash ended this session
            self._shown = dict.fromkeys(kept.shown)
            self._is_sequel_of(kept.run)

    def _is_sequel_of(self, before: Trajectory) -> None:
        """The token that began the run stays the one that recorded it, and its arm and level stay those drawn."""
        self._record.begin_with(before.turns)
        # Other tags of this process, such as its project, are newer than those on disk.
        tags = dict(self._run.tags)
        for key in _OF_FIRST:
            tags.pop(key, None)
            if key in before.tags:
                tags[key] = before.tags[key]
        self._run = replace(self._run, tags=tags)
        self.trial = Trial.of(before)
        if self.trial is None and (self.level or self._shown or any(turn.hinted for turn in before.turns)):
            self.holdout = 0.0  # hints were given before there was an experiment

    @property
    def id(self) -> str:
        """The id of the stored run."""
        return self._run.id

    @property
    def token(self) -> str:
        """Name of the token that records the run at a server; "" if none does."""
        return self._run.tags.get(RECORDED_BY, "")

    @property
    def level(self) -> str:
        """What the guard drew for it (see `hepm.memory.guard`); "" before the first hint, and without a guard."""
        return self._run.tags.get(LEVEL, "")

    def share(self) -> None:
        """Let several doors of a server record it, and all of it go on after a restart."""
        self._record.shared = True

    @property
    def stamp(self) -> Stamp | None:
        """Of its file as this process wrote it last; None if it is not on disk."""
        return self._file.stamp

    @property
    def on_disk(self) -> bool:
        """Whether the last write of what is recorded went well, so that a crash loses nothing."""
        return not self._file.is_behind

    @property
    def moved(self) -> bool:
        """Whether another process went on with it, or stored it."""
        return self._file.moved

    @property
    def forgotten(self) -> bool:
        """Whether it was forgotten, under way or stored: nothing of it is stored again."""
        if self._stored is not None:
            return not self._memory.store.find_known([self.id], namespace=self._namespace)
        return self._file.forgotten

    @property
    def calls(self) -> list[ToolName]:
        """Names of the tools called so far."""
        return [call.name for turn in self._record.turns() for call in turn.calls]

    @property
    def so_far(self) -> Trajectory:
        """The run as it is now, without hints of this session."""
        return replace(self._run, turns=self._record.turns())

    def hint(self, messages: Messages | None = None) -> str:
        """A hint for the system prompt or a last message; "" if there is none or memory fails.

        Args:
            messages: The conversation so far, as OpenAI chat messages; not with `say` and `record`. The list is the
                record of the run: messages appended after the last hint belong to it.
        """
        return self.prompt(messages).text

    def prompt(
        self,
        messages: Messages | None = None,
        *,
        tools: Iterable[ToolName] | None = None,
        horizon: int = 0,
        keep: bool = True,
    ) -> Prompt:
        """`hint` in its parts: what stays through a session, what belongs to this turn, and the suggestions.

        Args:
            tools: Names of the tools of this turn, if they are not those of the session.
            horizon: The agent's maximum number of turns; 0 if unknown.
            keep: Whether to write the turns to disk before; False if the caller does it with `keep`.
        """
        from hepm.experience.moment import Moment
        from hepm.experience.prompt import Prompt

        # Without a record of the run, what a hint is worth would never be known.
        if messages is not None and not self._kept(lambda: self._record.take(messages)):
            return Prompt()
        control = _is_control(self.enter(keep=keep))

        def found() -> Prompt | None:
            """What memory says now; None if it must say nothing."""
            if keep:
                self.keep()
            if control:
                return None
            offered = tools
            if tools is None and self._tools is not None:
                offered = [tool.name for tool in self._tools]
            now = Moment.after_turns(self._record.unmarked())
            self.last = (START, *now.after)[-1]
            prompt = self._memory.prompt(
                now,
                tools=offered,
                user=self._run.user,
                environment=self._run.environment,
                horizon=horizon,
                options=self._prompt_options,
                guarded=self.guarded,
                token=self.token,
                namespace=self._namespace,
            )
            # A prompt without a hint line names no tool.
            named = prompt.suggestions.ranked if HINT in prompt.hint else ()
            is_read = self._show(prompt.text, prompt.lessons, named, calls=len(now.history))
            return prompt if is_read else None

        prompt = self._ask(found)
        if prompt is None:
            return self._stated_notes() if control or self.is_shadow else Prompt()
        return prompt

    def enter(self, *, keep: bool = True) -> Trial | None:
        """The session's part in an experiment, whose arm is drawn once; None if it is in none.

        A control, if it cannot be drawn now.

        Args:
            keep: Whether a control waits until its arm is on disk; False if `keep` follows its reply. It reads nothing
                before, and draws the same again.
        """
        with self._record.lock:
            if self.trial is not None or not self.holdout:
                return self.trial
            memory = self._memory
            namespace = self._namespace

            def drawn() -> Trial:
                holdout = memory.sessions.holdout_now(self.holdout, namespace=namespace)
                return Trial(memory.sessions.draw_arm(self.id, holdout, namespace=namespace), holdout)

            # The share depends on what held-out sessions show by now, which the store knows.
            trial = self._ask(drawn)
            if trial is None:
                return Trial(CONTROL, self.holdout)
            self._note(trial)
            self._file.lacks_draw = True
            if keep or trial.arm != CONTROL or trial.shadow:
                self.keep()  # whatever ends this process, the arm stays
            return trial

    @property
    def is_shadow(self) -> bool:
        """Whether what memory says is computed and noted, and not shown."""
        return self.trial is not None and self.trial.shadow

    @property
    def is_control(self) -> bool:
        """Whether memory says nothing of its own to this session, and need not find anything either."""
        return _is_control(self.enter())

    def _note(self, trial: Trial) -> None:
        self.trial = trial
        self._tag(TRIAL, trial.to_tag())

    def _tag(self, key: str, value: str) -> None:
        self._run = replace(self._run, tags={**self._run.tags, key: value})

    def _show(
        self, text: str, lessons: Sequence[str] = (), named: Sequence[Suggestion] = (), *, calls: int = 0
    ) -> bool:
        """Note a text of memory; whether the agent reads it: not in a shadow session.

        Args:
            lessons: Ids of those in it.
            named: The suggestions in it.
            calls: How many the run has made.
        """
        tools = tuple(one.tool for one in named)
        if self.trial is not None:
            trial = self.trial.with_hint(estimate_tokens(text), lessons)
            if trial.shadow and tools:
                trial = trial.with_withheld(Withheld(calls, tools, round(named[0].score, 3)))
            self._note(trial)
            if trial.shadow:
                return False
        self._shown.update(dict.fromkeys(lessons))
        self._record.note_texts(text)
        self.note_hint(tools, calls=calls)
        return True

    def _stated_notes(self) -> Prompt:
        """What a control reads: what its user stated."""
        from hepm.experience.prompt import Prompt, PromptOptions, items_of, render

        user = self._run.user
        options = self._prompt_options or PromptOptions()
        notes = None
        if user and options.notes:
            notes = self._ask(lambda: self._memory.preferences.notes(user, namespace=self._namespace))
        if notes is None:
            return Prompt()
        return render(items_of(notes))

    def guarded(self, found: Suggestions) -> Suggestions:
        """The part of what was found that this session gets: no tool, if its level is silent.

        The level is drawn once, where memory first has a tool to name: sessions without one say nothing of hints.
        """
        return at_level(self._drawn_level(), found) if found.ranked or found.done else found

    def _drawn_level(self) -> str:
        """The level of this session's hints; "" where the guard does not decide, silence if none can be drawn now.

        A shadow session draws none.
        """
        options = self._prompt_options
        chosen = options is not None and (options.policy != "hybrid" or not options.suggestions)
        with self._record.lock:
            if self.level or chosen or self.is_shadow or not self._memory.sessions.guarded:
                return self.level
            level = self._ask(lambda: self._memory.sessions.draw_level(self.id, namespace=self._namespace))
            if level is None:
                return SILENT
            self._tag(LEVEL, level)
            self._file.lacks_draw = True
            self.keep()  # whatever ends this process, the level stays
            return level

    def note_hint(self, tools: Sequence[ToolName], *, calls: int) -> None:
        """Note that a hint named tools after so many calls: `prompt` does it, what speaks otherwise must.

        The turn that comes next is stored with them, as memory must not learn from its own echo.
        """
        self._record.hinted.note(tools, calls=calls)

    def tell_tools(self, found: Suggestions, *, calls: int) -> Suggestions:
        """What the agent reads of suggestions after so many calls, which another than `prompt` asked for.

        A control and a shadow session read none.
        """
        if self.is_control or not self._show(found.prompt(), named=found.ranked, calls=calls):
            return Suggestions(abstained=HELD_OUT)
        return found

    def tell_lessons(self, lessons: Sequence[str], text: str) -> str:
        """What the agent reads of lessons, by their ids, that another than `prompt` found; "" if it reads none.

        A control and a shadow session read none.
        """
        if self.is_control or not lessons or not self._show(text, lessons):
            return ""
        self.keep()
        return text

    def denial(
        self,
        tool: ToolName,
        arguments: Arguments | None = None,
        *,
        tools: Iterable[ToolName] | None = None,
    ) -> Denial | None:
        """Why a call that the agent is about to make must not run; None if it may, or if the session `denies` nothing.

        A call is denied that failed in nearly all runs like this one, of which others succeeded with another tool. Do
        not make it, give the model `Denial.text` instead of a result, and record it as refused. There is at most one
        in a session after the same tools, and none in one that is held out.

        Args:
            tools: Names of the tools of this turn, if they are not those of the session.
        """
        if not self.denies or self.is_control:
            return None
        from hepm.memory.denial import denial_of

        denial = self._ask(
            lambda: denial_of(
                self._memory,
                self._record.turns(),
                tool,
                arguments or {},
                tools=self._tools if tools is None else tools,
                user=self._run.user,
                namespace=self._namespace,
            )
        )
        if denial is None or not self._show(denial.text):
            return None
        self.note_hint([denial.way.instead], calls=denial.calls)
        return denial

    def search_principles(self, query: str, *, k: int = 3, floor: float | None = None) -> list[FoundPrinciple]:
        """Principles that the agent searches for, credited with the outcome of the run; none if memory fails.

        See `hepm.experience.principles.Principles.for_query`. The agent's last turn is recorded with their ids.
        """

        from hepm.experience.principles import Principles

        def search() -> list[FoundPrinciple]:
            principles = Principles(self._memory.lessons.read_by(self.token))
            return principles.for_query(
                query,
                self._record.turns(),
                namespace=self._namespace,
                environment=self._run.environment,
                k=k,
                floor=floor,
            )

        trial = self.enter()
        if trial is not None and trial.arm == CONTROL:  # also in a shadow session
            return []
        found = self._ask(search) or []
        ids = [principle.id for principle in found]
        self._shown.update(dict.fromkeys(ids))
        last = self._record.last_reply
        if ids and last is not None:
            last["recalled"] = [*last.get("recalled", ()), *ids]
        return found

    def reward(self, reward: float) -> None:
        """Add to the reward of the agent's last turn, in a run without `messages`."""
        last = self._record.last_reply
        if last is not None:
            last["reward"] = last.get("reward", 0.0) + reward

    def _ask(self, memory: Callable[[], T]) -> T | None:
        try:
            with SwitchingOften():
                return memory()
        except Exception as error:  # an agent goes on without memory
            # Once a session: an agent asks before every call.
            if not self._warned:
                self._warned = True
                unexpected = not isinstance(error, HepmError)
                _log.warning("the session %r goes on without hints: %s", self.id, error, exc_info=unexpected)
            return None

    def follow(self, messages: Messages) -> None:
        """Record the conversation so far, as `prompt` does, without asking for a hint."""
        if self._kept(lambda: self._record.take(messages)):
            self.keep()

    def go_on(self, run: Trajectory) -> None:
        """Continue a run that was stored without a label, unless it is on disk as well."""
        if not self._record.goes_on:
            self._is_sequel_of(run)

    def set_aside(self) -> None:
        """Let what is recorded stand before the messages of another conversation, as what a restart left does."""
        self._record.set_aside()

    def rewind(self, turns: int) -> None:
        """Of what a crash left, keep so many turns: the client never got what came after them."""
        self._record.begin_with(self._file.turns[:turns])

    def say(self, role: Literal["system", "user", "assistant"], text: str) -> None:
        """Record a message, in a run without `messages`."""
        if self._kept(lambda: self._record.say(role, text)):
            self.keep()

    def record(
        self,
        call: ToolName,
        arguments: Arguments | None = None,
        result: object = None,
        *,
        error: bool | None = None,
        refused: bool = False,
        together: bool = False,
        hidden: bool = False,
        id: str = "",
    ) -> None:
        """Record a tool call, in a run without `messages`.

        Args:
            result, error: None if unknown. Results other than texts are stored as JSON.
            refused: Whether it never ran: the user refused or interrupted it, or a rule or a hook blocked it.
            together: Whether it was issued in parallel with the previous call.
            hidden: Whether the agent's conversation does not contain it, so that it is no turn of the run.
            id: The call's own, by which it is known among the messages of another door.
        """
        kept = self._kept(
            lambda: self._record.call(
                call, arguments, result, error, refused=refused, together=together, hidden=hidden, id=id
            )
        )
        if kept:
            self.keep()

    def read(self, text: str) -> None:
        """Record what the agent reads after its last turn, but for results; in a run without `messages`."""
        last = self._record.last_reply
        if last is not None:
            last["read"] = text

    def _kept(self, record: Callable[[], None]) -> bool:
        """Whether this could be recorded. The first error is raised when the run is stored; at a server, at once."""
        try:
            with self._record.lock:
                record()
        except InputError as error:
            if self._record.shared:
                raise
            if self._failed is None:
                self._failed = error
                _log.warning("the session %r cannot be stored: %s", self.id, error)
            return False
        return True

    def keep(self) -> None:
        """Write the turns that are not on disk yet, so that a crash does not lose them. `hint` and `record` do it."""
        # A stored session has no file any more.
        if self._stored is not None or not self._memory.sessions.journal.keeps:
            return
        with self._record.lock:
            try:
                self._file.write(self.so_far, self._shown, self.aliases, self.parts, self._ingest_options.redactor)
            except (InputError, ValueError) as error:
                _log.debug("the session %r is not kept: %s", self.id, error)  # `finish` raises it

    def discard(self) -> None:
        """Forget what is on disk of a session that is stored, or not to be."""
        self._file.remove()

    def finish(
        self,
        *,
        success: bool | None = None,
        reward: float | None = None,
        messages: Messages | None = None,
    ) -> None:
        """Store the run with its outcome, and credit the lessons shown in it. What it teaches is learned afterwards.

        Finishing again with the same outcome does nothing. A run that was stored without a label can get one later.

        Args:
            success: None if only the reward is known, or nothing yet.
            messages: The whole conversation, if the list given to `hint` is not complete.
        Raises:
            InputError: the run was finished with another outcome, its id is taken, or a part of it could not be
                recorded. Nothing of it is stored then.
            StoreError: the store cannot be written. Call it again later.
        """
        with self._storing, SwitchingOften():
            run = self._finished(success, reward, messages)
            # A session that only had a system prompt is no run.
            if not any(turn.role != "system" for turn in run.turns):
                return
            before = self._stored
            if before is not None:
                if run.turns == before.turns and run.outcome in (before.outcome, Outcome()):
                    return
                if run.turns != before.turns or before.outcome != Outcome():
                    raise ConflictError(
                        f"the run {self.id!r} was finished already: begin another session, or correct its outcome by "
                        "`hepm label`"
                    )
            if self.forgotten:
                _log.warning("the session %r was forgotten: nothing of it is stored", self.id)
                return
            shown = list(self._shown)
            options = self._ingest_options
            report = self._memory.sessions.store(run, shown, namespace=self._namespace, options=options)
            if report.rejected:
                raise InputError(f"the run {self.id!r} is not stored: {report.rejected[0].reason}")
            self._stored = run
            sessions = self._memory.sessions
            self.discard()
            if self._distill and (run.outcome != Outcome() or report.by_rule):
                sessions.distill_soon(namespace=self._namespace)
            tried = self.trial is not None and not self.trial.shadow
            sessions.tidy_soon(tried=tried, options=options, namespace=self._namespace)

    async def afinish(
        self,
        *,
        success: bool | None = None,
        reward: float | None = None,
        messages: Messages | None = None,
    ) -> None:
        """`finish` without blocking the event loop."""
        if messages is not None:
            messages = [*messages]  # the conversation may go on meanwhile
        await to_thread(self.finish, success=success, reward=reward, messages=messages)

    def _finished(self, success: bool | None, reward: float | None, messages: Messages | None) -> Trajectory:
        """The run to store, without the hints of this session."""
        if self._failed is not None:
            raise self._failed
        if messages is not None:
            self._record.take(messages)
        # A run that is finished again keeps its turns and its time: only a label is new.
        run = self._stored or replace(self._run, ended_at=time.time())
        if self._stored is None or messages is not None:
            run = replace(run, turns=self._record.turns())
        try:
            return replace(run, tags=self._run.tags, outcome=graded(reward, success), tools=self._tools or ())
        except ValueError as error:
            raise InputError(f"the run {self.id!r} cannot be stored: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self._stored is None:
            try:
                self.finish()
            except HepmError as failed:
                if kind is None:
                    raise
                _log.warning("the run that an exception ended is not stored: %s", failed)

    async def __aenter__(self) -> Self:
        # What suggestions are made of is read now: the first hint need not wait for it.
        await to_thread(
            self._ask, lambda: self._memory.prompt((), options=self._prompt_options, namespace=self._namespace)
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        await to_thread(self.__exit__, kind, *error)


def _is_control(trial: Trial | None) -> bool:
    """Whether memory says nothing of its own to a session with this part in an experiment."""
    return trial is not None and trial.arm == CONTROL and not trial.shadow
