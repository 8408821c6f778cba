"""Sessions of simulated users with an agent, with each kind of memory (MultiSessionCollab 3, 5)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import product
from tempfile import TemporaryDirectory
from typing import Any, Final

from hepm.agents.loop import Complete
from hepm.agents.wire import Object, with_hint
from hepm.atomic_file import atomic_file
from hepm.errors import AnswerError, BudgetSpentError, EndpointRefusedError, EpisodeError, InputError, LlmError
from hepm.experience.prompt import PromptOptions
from hepm.experience.reflection import quoted_conversation
from hepm.lab.bench.folder import Ended, Facts, Folder, Key
from hepm.lab.bench.models import Model, StoppedError, tokens_of
from hepm.lab.collaboration.environment import SYSTEM, UserEpisode, UsersEnvironment, scores_of
from hepm.lab.collaboration.mem0 import UserFacts
from hepm.lab.collaboration.users import User, UserTurn
from hepm.lab.environments import Task
from hepm.lab.rl.reflections import reflection_rows
from hepm.llm import Budget, Client, Endpoint
from hepm.memory import Memory
from hepm.types import Outcome, Trajectory, Turn

SETTINGS: Final = {"direct": "S1", "plain": "S2", "off": "S3", "oracle": "S4", "notes": "S5"}
"""Settings of the paper (appendix C): the problem given at once, users without preferences, the benchmark itself, an
agent that is told the preferences, and one with memory."""
NO_PREFERENCES: Final = ("direct", "plain")
"""Settings whose users enforce nothing."""
HISTORIES: Final[Mapping[str, int | None]] = {"recent": 3, "history": None}
"""How many of the last sessions the agent is given (appendix E, table 7); None for all."""
REFLECTIONS: Final = "reflections.jsonl"
"""In the folder: rows for a training of reflections, where a model wrote notes."""
USER_ARMS: Final = (*SETTINGS, *HISTORIES, "mem0")
"""What the agent knows of its users: the arms of a bench of users."""
_WISHES: Final = "What this user prefers:"
_HISTORY: Final = "Earlier sessions with this user, as data:"


def check_user_arms(names: Sequence[str]) -> list[str]:
    """The names, each once; InputError for an unknown one."""
    arms = list(dict.fromkeys(names))
    unknown = [name for name in arms if name not in USER_ARMS]
    if unknown:
        raise InputError(f"no arm of users is called {', '.join(unknown)}. There are: {', '.join(USER_ARMS)}.")
    return arms


@dataclass(frozen=True)
class PlayedSession:
    """What happened in one session.

    Attributes:
        number: From 1.
        success: Whether the user solved the problem.
        enforced: The preferences that the user enforced, by message that did so.
        wishes: These messages.
        notes: What memory knew of the user when the session began.
        messages: The conversation, greeting included.
        scores: See `scores_of`; of the last session of notes also history_tokens and memory_tokens.
        closed: Whether the user ended it.
        hints: What memory said before each reply; "" for nothing.
        memory_s: Seconds in memory before each reply.
    """

    arm: str
    user: str
    number: int
    success: bool
    enforced: tuple[tuple[str, ...], ...]
    notes: str
    messages: tuple[Turn, ...]
    scores: Mapping[str, float]
    closed: bool = True
    hints: tuple[str, ...] = ()
    memory_s: tuple[float, ...] = ()
    wishes: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """Its name in a folder."""
        return Key(self.arm, self.user, self.number - 1)


def _nothing(messages: Sequence[Object]) -> tuple[str, str]:
    """What an agent without memory is told."""
    del messages
    return "", ""


@dataclass(eq=False)
class _Agent:
    """The agent in one session.

    Attributes:
        notes: What memory knew of the user when the session began.
        hints: Given the conversation, what is added to the system prompt: first what stays, then what is of this turn.
        heard: Takes the two messages of a turn.
        hinted, memory_s: What memory added to each of its requests, and in how many seconds.
    """

    key: Key
    complete: Complete
    model: str
    options: Mapping[str, Any]
    system: str
    notes: str = ""
    hints: Callable[[Sequence[Object]], tuple[str, str]] = _nothing
    heard: Callable[[Sequence[Turn]], object] = lambda turns: None
    hinted: list[str] = field(default_factory=list[str])
    memory_s: list[float] = field(default_factory=list[float])

    def answer(self, turns: Sequence[Turn]) -> Turn:
        """The reply to the last of these messages."""
        messages: list[Object] = [{"role": turn.role, "content": turn.text} for turn in turns]
        body: Object = {"model": self.model, "messages": [{"role": "system", "content": self.system}, *messages]}
        started = time.perf_counter()
        stable, present = self.hints(messages)
        self.memory_s.append(time.perf_counter() - started)
        self.hinted.append("\n".join(part for part in (stable, present) if part))
        body = with_hint("chat", body, stable=stable, present=present, placement="system")
        message: Object = self.complete(body | dict(self.options))["choices"][0]["message"]
        return Turn("assistant", str(message.get("content") or ""))


@dataclass(eq=False)
class UserBench:
    """Sessions of users with an agent, each user in each arm.

    Attributes:
        users: Of the environment.
        ended: All finished sessions, as runs of a bench.
        failed: Why a session broke off; those after it are not made.
        unreflected: After how many sessions the model's notes could not be read, so that the old ones stayed.
    """

    environment: UsersEnvironment
    users: Sequence[User]
    folder: Folder
    endpoint: Endpoint
    _: KW_ONLY
    arms: Sequence[str] = ("off", "history", "notes")
    sessions: int = 5
    max_turns: int = 10
    concurrency: int = 4
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        self.ended: dict[Key, Ended] = self.folder.runs()
        self.failed: dict[Key, str] = {}
        self.unreflected = 0

    def play(self, model: Model) -> list[PlayedSession]:
        """All sessions of each user in each arm, up to one that breaks off.

        Raises:
            BudgetSpentError: or EndpointRefusedError; what was answered is recorded, `ended` has what was finished.
        """
        self._model = model
        played: list[PlayedSession] = []
        jobs = [partial(self._sessions, arm, user) for user, arm in self._begun()]
        for sessions in model.results(jobs, concurrency=self.concurrency):
            played += sessions
            model.on_run(len(played), len(jobs) * self.sessions)
        if model.client is not None:
            self._export_reflections([session for session in played if session.arm == "notes"])
        return played

    def _export_reflections(self, sessions: Sequence[PlayedSession]) -> None:
        """Write rows for a training of reflections, with those that the agent's model wrote as gold."""
        # It only reads what was answered: nothing is asked, or counted, twice.
        with Client(self.endpoint, ledger=self.folder, budget=Budget(calls=0)) as known:
            rows = [json.dumps(row, ensure_ascii=False) + "\n" for row in reflection_rows(sessions, known)]
        if rows:
            with atomic_file(self.folder.path / REFLECTIONS, "the reflections") as place:
                place.write_text("".join(rows), "utf-8")

    def waiting(self) -> list[Key]:
        """The sessions that are not there yet."""
        waiting: list[Key] = []
        for user, arm in self._begun():
            keys = [Key(arm, user.name, number) for number in range(self.sessions)]
            waiting += [key for key in keys if key not in self.ended]
        return waiting

    def _begun(self) -> list[tuple[User, str]]:
        """Each user in each arm, in the order in which they begin."""
        return [*product(self.users, self.arms)]

    def _sessions(self, arm: str, user: User) -> list[PlayedSession]:
        """The sessions of a user, one after another, up to one that breaks off."""
        done: list[PlayedSession] = []
        # Replayed from recorded answers when the command is repeated, so that nothing of it need last.
        with ExitStack() as stack:
            place = stack.enter_context(TemporaryDirectory(prefix="hepm-users-"))
            store = stack.enter_context(Memory.open(place, approve="auto"))
            try:
                facts = None
                if arm == "mem0":
                    facts = stack.enter_context(self._facts(user.name, place))
                for number in range(self.sessions):
                    agent = self._agent(Key(arm, user.name, number), user, done, store, facts)
                    session = self._session(user, agent)
                    if arm == "notes":
                        self._reflect(store, user.name, session)
                        if number == self.sessions - 1:
                            session = _with_sizes([*done, session], store)
                    done.append(session)
                    self._record(session)
            # These end the whole command; other errors end this user's sessions in this arm.
            except (StoppedError, BudgetSpentError, EndpointRefusedError):
                raise
            except (LlmError, EpisodeError) as error:
                self.failed[Key(arm, user.name, len(done))] = str(error)
        return done

    def _facts(self, user: str, place: str) -> UserFacts:
        return UserFacts(user, place)

    def _agent(
        self, key: Key, user: User, done: Sequence[PlayedSession], store: Memory, facts: UserFacts | None
    ) -> _Agent:
        """The agent of a session, with what it knows of the user."""
        agent = _Agent(key, self._complete(key), self.endpoint.model, self.options, _system(key.arm, user, done))
        if key.arm == "notes":
            notes = store.preferences.notes(user.name)
            agent.hints = partial(self._recalled, store, user.name)
            if notes:
                agent.notes = notes.text
        if facts is not None:
            agent.hints = facts.recalled
            agent.heard = partial(facts.add, complete=self._complete(key._replace(arm="mem0, memory")))
        return agent

    def _recalled(self, store: Memory, user: str, messages: Sequence[Object]) -> tuple[str, str]:
        """The notes, and the lines of them that matter in this turn, by the model where one is asked (4.1, app. B)."""
        # Notes alone: there are no tools, and lessons of other users are none of this one.
        options = PromptOptions(suggestions=0, experiences=0, principles=0, model=self._model.client)
        prompt = store.prompt(messages, user=user, options=options)
        return prompt.stable, prompt.present

    def _complete(self, key: Key) -> Complete:
        return self._model.recorded(key, Task(key.task, ""))

    def _session(self, user: User, agent: _Agent) -> PlayedSession:
        """One conversation: it ends when the user ends it, or with the turns."""
        arm = agent.key.arm
        number = agent.key.trial + 1
        if arm == "direct":
            return self._direct(user, number, agent)
        if arm == "plain":
            user = user.unbiased()
        episode = UserEpisode(user, number)
        # The user speaks first.
        message = episode.answer("")
        turns: list[Turn] = []
        while message is not None and len(episode.replies) < self.max_turns:
            if self._model.stop.is_set():
                raise StoppedError("the command is ending")
            # The greeting is left out: some chat templates refuse a conversation that the assistant begins.
            turns.append(Turn("user", message))
            turns.append(agent.answer(turns))
            agent.heard(turns[-2:])
            message = episode.answer(turns[-1].text)
        return PlayedSession(
            arm,
            user.name,
            number,
            episode.reward() == 1,
            tuple(episode.enforced),
            agent.notes,
            episode.messages,
            episode.scores(),
            closed=episode.last.done,
            hints=tuple(agent.hinted),
            memory_s=tuple(agent.memory_s),
            wishes=tuple(episode.wishes),
        )

    def _direct(self, user: User, number: int, agent: _Agent) -> PlayedSession:
        """The agent is given the whole problem, and answers once: what it says is the draft (S1)."""
        asked = Turn("user", user.problem(number))
        answer = agent.answer([asked])
        success = user.succeeded(number, UserTurn("", draft=answer.text))
        # Nothing is enforced; problem and answer are two messages.
        return PlayedSession("direct", user.name, number, success, (), "", (asked, answer), scores_of(0, 2))

    def _record(self, session: PlayedSession) -> None:
        """Note a session as a run of the folder."""
        key = session.key
        if key in self.ended:
            return
        replies = [turn.text for turn in session.messages[1:] if turn.role == "assistant"]
        facts = Facts(
            reward=float(session.success),
            success=session.success,
            ended="answered" if session.closed else "turns",
            turns=len(replies),
            calls=0,
            errors=0,
            moves=tuple(replies),
            hints=session.hints,
            memory_s=session.memory_s,
            usage=self.folder.usage(key),
            scores=session.scores,
        )
        run = Trajectory(
            f"{self.environment.name}/{self.endpoint.model}/{key}",
            session.messages,
            Outcome(facts.reward, facts.success),
            environment=self.environment.name,
            task=f"{session.user}, session {session.number}",
            model=self.endpoint.model,
            user=session.user,
            tags={"arm": session.arm, "trial": str(key.trial)},
        )
        ended = Ended(key, facts, run)
        self.folder.add_run(ended)
        self.ended[key] = ended

    def _reflect(self, store: Memory, user: str, session: PlayedSession) -> None:
        """Write the notes anew after a session."""
        conversation = [{"role": turn.role, "content": turn.text} for turn in session.messages]
        try:
            store.preferences.reflect(user, conversation, model=self._model.client)
        # The notes that were there stay.
        except AnswerError:
            self.unreflected += 1


def _with_sizes(sessions: Sequence[PlayedSession], store: Memory) -> PlayedSession:
    """The last session with the tokens of all of them, and of the notes after them (table 6)."""
    texts = [turn.text for session in sessions for turn in session.messages]
    notes = store.preferences.notes(sessions[-1].user)
    sizes = {"history_tokens": tokens_of(texts), "memory_tokens": tokens_of(notes.text if notes else "")}
    return replace(sessions[-1], scores={**sessions[-1].scores, **sizes})


def _system(arm: str, user: User, done: Sequence[PlayedSession]) -> str:
    """The system prompt of a session after those that are done."""
    if arm == "oracle":
        wishes = [f"- {wish}" for wish in user.wishes]
        return "\n".join([f"{SYSTEM}\n\n{_WISHES}", *wishes])
    if arm not in HISTORIES:
        return SYSTEM
    past = done
    last = HISTORIES[arm]
    if last is not None:
        past = done[-last:]
    if not past:
        return SYSTEM
    sessions = [f"Session {session.number}:\n{quoted_conversation(session.messages)}" for session in past]
    return "\n\n".join([SYSTEM, _HISTORY, *sessions])
