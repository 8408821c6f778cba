"""A session: one run of an agent with memory, from its first hint to its outcome."""

from __future__ import annotations

import asyncio
import logging
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

from hepm.errors import ConflictError, HepmError, InputError
from hepm.graph.mirror.mirror import switching_often
from hepm.graph.trials import CONTROL, LEFT_OUT_HERE, Trial, Withheld, denial_id, hint_id
from hepm.ingest.formats.turns import GrowingConversation, read_messages
from hepm.ingest.prepare import IngestOptions
from hepm.ingest.records import graded, without_surrogates
from hepm.ingest.transitions import hints_in, without_own_hints
from hepm.memory.echo import HintedCalls, calls_in
from hepm.memory.levels import BOLDEST, SILENT
from hepm.memory.messages import RecordedMessages, as_messages, begins_again, starts_alike
from hepm.text import count_of
from hepm.types import (
    DEFAULT_NAMESPACE,
    HINT,
    LEVEL,
    RECORDED_BY,
    TRIAL,
    Outcome,
    Suggestions,
    Tool,
    ToolCall,
    ToolName,
    Trajectory,
    Turn,
)

if TYPE_CHECKING:
    from hepm.experience.principles import FoundPrinciple
    from hepm.experience.prompt import Prompt, PromptOptions
    from hepm.memory.denial import Denial
    from hepm.memory.journal import Journal, Stamp
    from hepm.memory.memory import Memory

_log = logging.getLogger("hepm")
T = TypeVar("T")

_OF_FIRST: Final = (RECORDED_BY, LEVEL, TRIAL)
"""Tags that a run keeps from its beginning, whichever process goes on with it."""
HELD_OUT: Final = "this session is held out, to see what memory does: memory tells it nothing"
_OPENING: Final = 12
"""Messages at the beginning of a run: coding agents send several of instructions before the user's."""


@dataclass(eq=False, repr=False)
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
        holdout: The chance that it is a control and gets nothing from memory; see `enter`.
        shared: Whether several doors of a server record it: what is recorded call by call then stands beside the
            messages, and all of it goes on after a restart.
        denies: Whether calls that memory knows to fail are denied; see `denial`.
    """

    _memory: Memory
    _run: Trajectory
    _system: str
    _tools: Sequence[Tool] | None
    _namespace: str
    _distill: bool
    _prompt_options: PromptOptions | None
    _ingest_options: IngestOptions
    _journal: Journal | None
    aliases: tuple[str, ...] = ()
    parts: frozenset[str] = frozenset()
    holdout: float = 0.0
    shared: bool = False
    denies: bool = False
    # Either the caller's own list of messages, or those recorded with `say` and `record`; both only if it is shared.
    _given: Sequence[object] | None = None
    _recorded: RecordedMessages = field(default_factory=RecordedMessages)
    # In order: ids of the lessons that hints held, which the outcome credits.
    _shown: dict[str, None] = field(default_factory=dict[str, None])
    # The first part that could not be recorded: `finish` raises it.
    _failed: InputError | None = None
    _warned: bool = False
    _stored: Trajectory | None = None
    # What the file on disk holds: turns, the stamp of its last write, aliases, parts, and draws.
    _written: tuple[Turn, ...] = ()
    # What a crash left, as messages: the run begins with them.
    _resumed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _stamp: Stamp | None = None
    _unwritten: bool = False
    _named: set[str] = field(default_factory=set[str])
    _made_of: frozenset[str] = frozenset()
    _trial: Trial | None = None
    _written_draws: tuple[str, str] = ("", "")
    # Texts of hints, by which they are taken out of what the client sends back.
    _said: set[str] = field(default_factory=set[str])
    _hinted: HintedCalls = field(default_factory=HintedCalls)
    _read: GrowingConversation = field(init=False)
    # Reentrant: what records a turn may also draw an arm.
    _recording: RLock = field(default_factory=RLock)
    _storing: Lock = field(default_factory=Lock)
    # Held while the file changes, until its stamp is known: another thread may ask meanwhile whether it `moved`.
    _writing: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._read = GrowingConversation(self._without_memory)
        if self._journal is None:
            return
        kept = self._journal.find(self._namespace, self.id)
        if kept is None:
            # A crash may have left a file without a whole line: it is this session's, and nobody goes on with it.
            self._stamp = self._journal.stamp(self._namespace, self.id)
        else:  # a crash ended this session
            self._stamp = kept.stamp
            self._written = kept.run.turns
            self._resumed = list(as_messages(kept.run.turns))
            self._shown = dict.fromkeys(kept.shown)
            self._is_sequel_of(kept.run)
            self._written_draws = self._draws

    def _is_sequel_of(self, before: Trajectory) -> None:
        """The token that began the run stays the one that recorded it, and its arm and level stay those drawn."""
        tags = {key: value for key, value in self._run.tags.items() if key not in _OF_FIRST}
        tags |= {key: value for key, value in before.tags.items() if key in _OF_FIRST}
        # Tags of this process, such as its project, are newer than those on disk.
        self._run = replace(self._run, tags=tags)
        self._trial = Trial.of(before)
        self._hinted = HintedCalls(before.turns)
        if self._trial is None and (self.level or self._shown or any(turn.hinted for turn in before.turns)):
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
        """What the guard drew for it (see `hepm.memory.levels`); "" before the first hint, and without a guard."""
        return self._run.tags.get(LEVEL, "")

    @property
    def trial(self) -> Trial | None:
        """Its part in an experiment; None before the first hint, and where there is none."""
        return self._trial

    @property
    def _draws(self) -> tuple[str, str]:
        """What chance decided, which must be on disk before the first hint."""
        if self._trial is None:
            return self.level, ""
        return self.level, self._trial.arm

    @property
    def stamp(self) -> Stamp | None:
        """Of its file as this process wrote it last; None if it is not on disk."""
        return self._stamp

    @property
    def on_disk(self) -> bool:
        """Whether the last write of what is recorded went well, so that a crash loses nothing."""
        return not self._unwritten

    @property
    def moved(self) -> bool:
        """Whether another process went on with it, or stored it."""
        if self._journal is None:
            return False
        with self._writing:
            return self._journal.stamp(self._namespace, self.id) != self._stamp

    @property
    def calls(self) -> list[ToolName]:
        """Names of the tools called so far."""
        return [call.name for turn in self._turns() for call in turn.calls]

    @property
    def request(self) -> str:
        """What the user asked for first; "" if that is not among the first messages."""
        try:
            turns = read_messages(self._messages[:_OPENING])
        except InputError:
            return ""
        return next((turn.text for turn in turns if turn.role == "user"), "")

    @property
    def so_far(self) -> Trajectory:
        """The run as it is now, without hints of this session."""
        return replace(self._run, turns=self._turns())

    def hint(self, messages: Sequence[object] | None = None) -> str:
        """A hint for the system prompt or a last message; "" if there is none or memory fails.

        Args:
            messages: The conversation so far, as OpenAI chat messages; not with `say` and `record`. The list is the
                record of the run: messages appended after the last hint belong to it.
        """
        return self.prompt(messages).text

    def prompt(
        self,
        messages: Sequence[object] | None = None,
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
        from hepm.experience.prompt import Prompt

        # Without a record of the run, what a hint is worth would never be known.
        if messages is not None and not self._kept(lambda: self._take(messages)):
            return Prompt()
        if tools is None and self._tools is not None:
            tools = [tool.name for tool in self._tools]
        trial = self.enter(keep=keep)
        if self.is_control:
            if keep:
                self.keep()
            return self._stated_notes()
        # Drawn before `keep`, so that one write has the level and the turns.
        about: dict[str, Any] = {"tools": tools, "horizon": horizon, "level": self.draw()}
        if keep:
            self.keep()
        if self.is_shadow:
            self._withhold(self._ask(lambda: self._prompt(self._turns(), **about)))
            return self._stated_notes()
        if trial is not None:
            about["leaves_out"] = self._leaves_out
        found = self._ask(lambda: self._prompt(self._turns(), **about))
        if found is not None:
            self._note_trial(found)
            # Only now: a prompt that failed showed nothing.
            self._shown.update(dict.fromkeys(found.lessons))
            self._said.update(hints_in(found.text))
            if HINT in found.present:
                self.note_hint([one.tool for one in found.suggestions], calls=calls_in(self._turns()))
        return found or Prompt()

    def enter(self, *, keep: bool = True) -> Trial | None:
        """The session's part in an experiment, whose arm is drawn once; None if it is in none.

        A control, if it cannot be drawn now.

        Args:
            keep: Whether a control waits until its arm is on disk; False if `keep` follows its reply. It reads nothing
                before, and draws the same again.
        """
        with self._recording:
            if self._trial is not None or not self.holdout:
                return self._trial
            memory, namespace = self._memory, self._namespace

            def drawn() -> Trial:
                holdout = memory.sessions.holdout_now(self.holdout, namespace=namespace)
                return Trial(memory.sessions.lots.arm(self.id, holdout, namespace=namespace), holdout)

            # The share depends on what held-out sessions show by now, which the store has to tell.
            trial = self._ask(drawn)
            if trial is None:
                return Trial(CONTROL, self.holdout)
            self._note(trial)
            if keep or trial.arm != CONTROL or trial.shadow:
                self.keep()  # whatever ends this process, the arm stays
            return trial

    @property
    def is_shadow(self) -> bool:
        """Whether what memory says is computed and noted, and not shown."""
        return self._trial is not None and self._trial.shadow

    @property
    def is_control(self) -> bool:
        """Whether memory says nothing of its own to this session, and need not find anything either."""
        trial = self.enter()
        return trial is not None and trial.arm == CONTROL and not trial.shadow

    def _note(self, trial: Trial) -> None:
        self._trial = trial
        self._run = replace(self._run, tags={**self._run.tags, TRIAL: trial.to_tag()})

    def _note_trial(self, found: Prompt) -> None:
        """Note what a hint of a session in an experiment held, and what chance left out of it."""
        if self._trial is not None:
            tools: list[str] = []
            if HINT in found.present:
                tools = [hint_id(suggestion.tool) for suggestion in found.suggestions.ranked]
            self._note(self._trial.with_hint(found.tokens, (*found.lessons, *tools), found.withheld))

    def _withhold(self, found: Prompt | None) -> None:
        """Note what memory would have said in a shadow session."""
        if found is None or self._trial is None:
            return
        trial = self._trial.with_hint(found.tokens, found.lessons, ())
        # A prompt without a hint line would have named no tool.
        withheld = Suggestions()
        if HINT in found.present:
            withheld = found.suggestions
        self._note_withheld(trial, withheld, calls=calls_in(self._turns()))

    def _note_withheld(self, trial: Trial, found: Suggestions, *, calls: int) -> None:
        if found.ranked:
            tools = tuple(one.tool for one in found.ranked)
            trial = trial.with_withheld(Withheld(calls, tools, round(found.ranked[0].score, 3)))
        self._note(trial)

    def _stated_notes(self) -> Prompt:
        """What a control is told: what its user stated, unless that is part of the experiment."""
        from hepm.experience.prompt import Prompt, PromptOptions, Recollection, render

        user, memory = self._run.user, self._memory
        options = self._prompt_options or PromptOptions()
        if not user or not options.notes or memory.holdout_notes:
            return Prompt()
        notes = self._ask(lambda: memory.preferences.notes(user, namespace=self._namespace))
        if notes is None:
            return Prompt()
        return render(Recollection(notes=notes), redact=options.redact)

    def draw(self) -> str:
        """The level of this session's hints, which is drawn once; "" where the guard does not decide.

        Silence, if it cannot be drawn now. A shadow session has the level that says most, and draws none.
        """
        guarded = self._memory.sessions.guarded
        if self.is_shadow:
            if guarded:
                return BOLDEST
            return ""
        options = self._prompt_options
        chosen = options is not None and (options.policy != "hybrid" or not options.suggestions)
        with self._recording:
            if self.level or chosen or not guarded:
                return self.level
            level = self._ask(lambda: self._memory.sessions.levels.draw(self.id, namespace=self._namespace))
            if level is None:
                return SILENT
            self._run = replace(self._run, tags={**self._run.tags, LEVEL: level})
            self.keep()  # whatever ends this process, the level stays
            return level

    def note_hint(self, tools: Sequence[ToolName], *, calls: int) -> None:
        """Note that a hint named tools after so many calls: `prompt` does it, what speaks otherwise must.

        The turn that comes next is stored with them, as memory must not learn from its own echo.
        """
        self._hinted.note(tools, calls=calls)

    def tell_tools(self, found: Suggestions, *, calls: int) -> Suggestions:
        """What the agent reads of suggestions after so many calls, which another than `prompt` asked for.

        A control and a shadow session read none, and others not what chance leaves out of their hints.
        """
        from hepm.experience.prompt import Prompt

        if self.is_control:
            return Suggestions(abstained=HELD_OUT)
        trial = self.enter()
        # Of a shadow session nothing is left out: what memory would say counts whole.
        left_out: list[ToolName] = []
        if trial is not None and not trial.shadow:
            # Before the agent reads any: what it read cannot be left out.
            tools = [suggestion.tool for suggestion in found.ranked]
            left_out = [tool for tool in tools if self._leaves_out(hint_id(tool))]
        kept = found
        if left_out:
            kept = found.without(left_out, LEFT_OUT_HERE)
        shown = [suggestion.tool for suggestion in kept.ranked]
        text = kept.prompt()
        tokens = Prompt(present=text).tokens
        if trial is not None and trial.shadow:
            self._note_withheld(trial.with_hint(tokens, (), ()), kept, calls=calls)
            return Suggestions(abstained=HELD_OUT)
        if trial is not None:
            self._note(trial.with_hint(tokens, list(map(hint_id, shown)), list(map(hint_id, left_out))))
        self.note_hint(shown, calls=calls)
        return kept

    def tell_lessons(self, lessons: Sequence[str], write: Callable[[Sequence[str]], str]) -> str:
        """What the agent reads of lessons, by their ids, that another than `prompt` found; "" if it reads none.

        A control and a shadow session read none, and others not what chance leaves out of their hints.

        Args:
            write: The text of those that are left.
        """
        if self.is_control or not lessons:
            return ""
        kept, text = self._tell(lessons, write)
        if text:
            self._shown.update(dict.fromkeys(kept))
            self._said.update(hints_in(text))
        self.keep()
        return text

    def _tell(self, ids: Sequence[str], write: Callable[[Sequence[str]], str]) -> tuple[list[str], str]:
        """What chance does not leave out of the session's hints, and its text; "" where nothing of it is shown."""
        from hepm.experience.prompt import Prompt

        trial = self.enter()
        left_out: list[str] = []
        if trial is not None and not trial.shadow:
            left_out = [id for id in ids if self._leaves_out(id)]
        kept = [id for id in ids if id not in left_out]
        text = ""
        if kept:
            text = write(kept)
        if trial is not None:
            self._note(trial.with_hint(Prompt(present=text).tokens, kept, left_out))
        return kept, "" if self.is_shadow else text

    def denial(
        self,
        tool: ToolName,
        arguments: Mapping[str, Any] | None = None,
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

        about: dict[str, Any] = {"tools": self._tools if tools is None else tools, "user": self._run.user}
        about["namespace"] = self._namespace
        denial = self._ask(lambda: denial_of(self._memory, self._turns(), tool, arguments or {}, **about))
        if denial is None:
            return None
        if not self._tell([denial_id(denial.way.tool)], lambda ids: denial.text)[1]:
            return None
        self.note_hint([denial.way.instead], calls=denial.calls)
        return denial

    def _leaves_out(self, what: str) -> bool:
        """Whether chance leaves a lesson, a tool (`hint_id`) or a denial (`denial_id`) out of this session's hints."""
        return self._memory.sessions.lots.leaves_out(self.id, what, namespace=self._namespace)

    @property
    def project(self) -> str:
        """The folder that a coding agent works in; "" if unknown."""
        return self._run.tags.get("project", "")

    @property
    def environment(self) -> str:
        """Where the run takes place."""
        return self._run.environment

    def search_principles(self, query: str, *, k: int = 3, floor: float | None = None) -> list[FoundPrinciple]:
        """Principles that the agent searches for, credited with the outcome of the run; none if memory fails.

        See `hepm.experience.principles.Principles.for_query`. The agent's last turn is recorded with their ids.
        """

        from hepm.experience.principles import Principles

        def search() -> list[FoundPrinciple]:
            principles = Principles(self._memory.lessons.told_to(self.token))
            return principles.for_query(
                query,
                self._turns(),
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
        last = self._recorded.last_reply
        if ids and last is not None:
            last["recalled"] = [*last.get("recalled", ()), *ids]
        return found

    def reward(self, reward: float) -> None:
        """Add to the reward of the agent's last turn, in a run without `messages`."""
        last = self._recorded.last_reply
        if last is not None:
            last["reward"] = last.get("reward", 0.0) + reward

    def _prompt(self, turns: Sequence[Turn], **about: Any) -> Prompt:
        from hepm.experience.prompt import TurnState

        about |= {"environment": self._run.environment, "user": self._run.user, "namespace": self._namespace}
        about["token"] = self.token
        return self._memory.prompt(TurnState.after_turns(turns), options=self._prompt_options, **about)

    def _ask(self, memory: Callable[[], T]) -> T | None:
        try:
            with switching_often():
                return memory()
        except Exception as error:  # an agent goes on without memory
            # Once a session: an agent asks before every call.
            if not self._warned:
                self._warned = True
                unexpected = not isinstance(error, HepmError)
                _log.warning("the session %r goes on without hints: %s", self.id, error, exc_info=unexpected)
            return None

    def follow(self, messages: Sequence[object]) -> None:
        """Record the conversation so far, as `prompt` does, without asking for a hint."""
        if self._kept(lambda: self._take(messages)):
            self.keep()

    def go_on(self, run: Trajectory) -> None:
        """Continue a run that was stored without a label, unless it is on disk as well."""
        if not self._resumed:
            self._resumed = list(as_messages(run.turns))
            self._is_sequel_of(run)

    def set_aside(self) -> None:
        """Let what is recorded stand before the messages of another conversation, as what a restart left does."""
        with self._recording:
            self._resumed = list(as_messages(self._turns()))
            self._given = None
            self._recorded = RecordedMessages()

    def rewind(self, turns: int) -> None:
        """Of what a crash left, keep so many turns: the client never got what came after them."""
        self._resumed = list(as_messages(self._written[:turns]))
        self._hinted = HintedCalls(self._written[:turns])

    def say(self, role: Literal["system", "user", "assistant"], text: str) -> None:
        """Record a message, in a run without `messages`."""

        if self._kept(lambda: self._record(lambda: self._recorded.say(role, text))):
            self.keep()

    def record(
        self,
        call: ToolName,
        arguments: Mapping[str, Any] | None = None,
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

        def add() -> None:
            about: dict[str, Any] = {"together": together, "hidden": hidden, "refused": refused, "id": id}
            self._recorded.call(call, arguments, result, error, **about)

        if self._kept(lambda: self._record(add)):
            self.keep()

    def read(self, text: str) -> None:
        """Record what the agent reads after its last turn, but for results; in a run without `messages`."""
        last = self._recorded.last_reply
        if last is not None:
            last["read"] = text

    def _kept(self, record: Callable[[], None]) -> bool:
        """Whether this could be recorded. The first error is raised when the run is stored; at a server, at once."""
        try:
            with self._recording:
                record()
        except InputError as error:
            if self.shared:
                raise
            if self._failed is None:
                self._failed = error
                _log.warning("the session %r cannot be stored: %s", self.id, error)
            return False
        return True

    def _record(self, add: Callable[[], None]) -> None:
        """Add a message or a call to those that are recorded one by one; else an InputError."""
        if self._given is not None and not self.shared:
            raise InputError(f"the session {self.id!r} was given messages: append to them, without say() or record()")
        is_first = not self._recorded.messages
        self._recorded.place = len(self._given or ())
        add()
        if is_first and self._resumed and not self.shared:
            self._say_how_it_goes_on(again=begins_again(self._recorded.messages[0], self._resumed))

    def _take(self, messages: Sequence[object]) -> None:
        if self._recorded.messages and not self.shared:
            raise InputError(f"the session {self.id!r} is recorded with say() and record(): go on without messages")
        if self._given is None and self._resumed:
            # Whether these messages are the whole run, not what came after the crash.
            again = starts_alike(messages, self._resumed)
            if again and self.shared:  # another door may have recorded what they lack
                self._recorded.put_before(self._resumed, messages)
            self._say_how_it_goes_on(again=again)
        self._given = messages

    def _say_how_it_goes_on(self, *, again: bool) -> None:
        """Say whether it takes the place of what a crash left of it, or goes on after that."""
        calls = sum(len(message.get("tool_calls", ())) for message in self._resumed)
        how = "begins again, in the place of" if again else "goes on after"
        level = logging.DEBUG if self.shared else logging.WARNING
        _log.log(level, "the session %r %s the %s that a crash left of it", self.id, how, count_of(calls, "call"))
        if again:
            self._resumed = []

    @property
    def _messages(self) -> Sequence[object]:
        messages: Sequence[object] = self._recorded.messages
        if self._given is not None:
            messages = self._given
            if self._recorded.messages:
                messages = self._recorded.within(messages)
        if not self._resumed:
            return messages  # the caller's list itself: its messages are read once
        return [*self._resumed, *messages]

    def _turns(self) -> tuple[Turn, ...]:
        """The run so far, without the hints of this session."""
        with self._recording:
            turns = self._read.turns(self._messages)
        if self._system and not any(turn.role == "system" for turn in turns):
            system = self._without_memory(Turn("system", self._system))
            if system is not None:
                turns = (system, *turns)
        return self._hinted.marked(turns)

    def _without_memory(self, turn: Turn) -> Turn | None:
        """A turn without hints of this session and lone surrogates, which models do write; None if nothing is left."""

        def clean(text: str) -> str:
            return without_surrogates(without_own_hints(text, self._said))

        text = clean(turn.text)
        calls: list[ToolCall] = []
        for call in turn.calls:
            result = call.result and clean(call.result)
            calls.append(replace(call, arguments=without_surrogates(call.arguments), result=result))
        was_hint_alone = turn.text and not text.strip() and not calls
        if was_hint_alone:
            return None
        return replace(turn, text=text, calls=tuple(calls))

    def keep(self) -> None:
        """Write the turns that are not on disk yet, so that a crash does not lose them. `hint` and `record` do it."""
        # A stored session has no file any more.
        if self._journal is None or self._stored is not None:
            return
        with self._recording:
            try:
                self._write_news(self._journal)
            except (InputError, ValueError) as error:
                _log.debug("the session %r is not kept: %s", self.id, error)  # `finish` raises it

    def _write_news(self, journal: Journal) -> None:
        """Append what the file lacks: turns, aliases, parts, and what chance decided."""
        turns = self._turns()
        on_disk = journal.stamp(self._namespace, self.id)
        if on_disk is not None and on_disk != self._stamp:
            return  # another process goes on with it
        if on_disk is None:  # the whole session is written again
            first_new = 0
            parts = self.parts
            aliases = list(self.aliases)
        else:
            # A client may send a conversation that branches off: later turns are written again.
            first_new = _common(turns, self._written)
            parts = self.parts - self._made_of
            aliases = [alias for alias in self.aliases if alias not in self._named]
        turns_changed = len(turns) > first_new or len(self._written) > len(turns)
        if not turns_changed and not parts and self._draws == self._written_draws:
            return
        part = replace(self._run, turns=turns[first_new:])
        # Before it reaches the disk, as when it is stored.
        redactor = self._ingest_options.redactor
        if redactor is not None:
            part = redactor(part)
        with self._writing:
            stamp = journal.write(
                part, first_new, list(self._shown), namespace=self._namespace, aliases=aliases, parts=sorted(parts)
            )
            self._stamp = stamp or journal.stamp(self._namespace, self.id)  # perhaps a part of it is written
        self._unwritten = stamp is None
        if stamp is None:
            return
        self._named.update(aliases)
        self._made_of |= parts
        self._written = turns
        self._written_draws = self._draws

    def discard(self) -> None:
        """Forget what is on disk of a session that is stored, or not to be."""
        if self._journal is not None:
            with self._writing:
                self._journal.remove(self._namespace, self.id)
                self._stamp = None

    def finish(
        self,
        *,
        success: bool | None = None,
        reward: float | None = None,
        messages: Sequence[object] | None = None,
        success_from: float | None = None,
    ) -> None:
        """Store the run with its outcome, and credit the lessons shown in it. What it teaches is learned afterwards.

        Finishing again with the same outcome does nothing. A run that was stored without a label can get one later.

        Args:
            success: None if only the reward is known, or nothing yet.
            messages: The whole conversation, if the list given to `hint` is not complete.
            success_from: The reward from which on this run is a success. Default: the store's.
        Raises:
            InputError: the run was finished with another outcome, its id is taken, or a part of it could not be
                recorded. Nothing of it is stored then.
            StoreError: the store cannot be written. Call it again later.
        """
        self._store(self._finished(success, reward, messages, success_from))

    async def afinish(
        self,
        *,
        success: bool | None = None,
        reward: float | None = None,
        messages: Sequence[object] | None = None,
        success_from: float | None = None,
    ) -> None:
        """`finish` without blocking the event loop."""
        await asyncio.to_thread(self._store, self._finished(success, reward, messages, success_from))

    def _finished(
        self,
        success: bool | None = None,
        reward: float | None = None,
        messages: Sequence[object] | None = None,
        success_from: float | None = None,
    ) -> Trajectory:
        """The run to store, without the hints of this session."""
        if self._failed is not None:
            raise self._failed
        if messages is not None:
            self._take(messages)
        # A run that is finished again keeps its turns and its time: only a label is new.
        if self._stored is None:
            ended_at = time.time()
        else:
            ended_at = self._stored.ended_at
        if self._stored is None or messages is not None:
            turns = self._turns()
        else:
            turns = self._stored.turns
        try:
            outcome = graded(reward, success)
            if success_from is not None:
                outcome = outcome.graded(success_from)
            return replace(self._run, turns=turns, outcome=outcome, ended_at=ended_at, tools=self._tools or ())
        except ValueError as error:
            raise InputError(f"the run {self.id!r} cannot be stored: {error}") from error

    def _store(self, run: Trajectory) -> None:
        with self._storing, switching_often():
            # A session that only had a system prompt is no run.
            if not any(turn.role != "system" for turn in run.turns):
                return
            before = self._stored
            if before is not None:
                if run.turns == before.turns and run.outcome in (before.outcome, Outcome()):
                    return
                if run.turns != before.turns:
                    raise ConflictError(self._finished_already(before.outcome, None))
                if before.outcome != Outcome():
                    raise ConflictError(self._finished_already(before.outcome, run.outcome))
            shown, options = list(self._shown), self._ingest_options
            report = self._memory.sessions.store(run, shown, namespace=self._namespace, options=options)
            if report.rejected:
                raise InputError(f"the run {self.id!r} is not stored: {report.rejected[0].reason}")
            self._stored = run
            sessions = self._memory.sessions
            self.discard()
            if self._distill and (run.outcome != Outcome() or report.by_rule):
                sessions.distill_soon(self.id, namespace=self._namespace)
            tried = self._trial is not None and not self._trial.shadow
            sessions.tidy_soon(tried=tried, options=options, namespace=self._namespace)

    def _finished_already(self, before: Outcome, now: Outcome | None) -> str:
        """That the run was finished, and how its outcome can be corrected; `now` is None if its turns are others."""
        ends = {True: "as a success", False: "as a failure", None: "without an outcome"}
        ended = ends[before.success]
        if before.success is None and before.reward is not None:
            ended = f"with the reward {before.reward:g}"
        finished = f"the run {self.id!r} was finished already, {ended}"
        if now is None:
            return f"{finished}: a session is one run. Begin another session."
        outcome = "success" if now.success else "failure"
        if now.reward is not None:
            outcome = repr(now.reward)
        command = f"hepm label {shlex.quote(self.id)} {outcome}"
        if self._namespace != DEFAULT_NAMESPACE:
            command += f" --namespace {shlex.quote(self._namespace)}"
        return f"{finished}. To correct that: {command}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self._stored is None:
            try:
                self._store(self._finished())
            except HepmError as failed:
                if kind is None:
                    raise
                _log.warning("the run that an exception ended is not stored: %s", failed)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._ask, lambda: self._prompt(()))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        await asyncio.to_thread(self.__exit__, kind, *error)


def _common(turns: Sequence[Turn], others: Sequence[Turn]) -> int:
    """How many turns both have at their beginning."""
    common = 0
    for turn, other in zip(turns, others, strict=False):
        if turn != other:
            break
        common += 1
    return common
