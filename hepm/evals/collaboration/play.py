"""Simulated users, a scripted collaborator, and sessions of both with each kind of memory (MultiSessionCollab 3, 5)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

from hepm.agents.loop import Complete
from hepm.agents.wire import Object, with_hint
from hepm.errors import AnswerError, BudgetSpentError, EndpointRefusedError, EpisodeError, LlmError
from hepm.evals.bench.folder import Key
from hepm.evals.bench.models import Model, StoppedError, tokens_of
from hepm.evals.collaboration.mem0 import UserFacts
from hepm.evals.collaboration.problems import PROBLEMS, is_answered, problem_of, steps_of
from hepm.evals.collaboration.rules import CONFLICTS, PREFERENCES, RulePreference, drawn_preferences
from hepm.experience.notes import NOTES_CHARS
from hepm.experience.prompt import PromptOptions
from hepm.experience.reflection import quoted_conversation
from hepm.llm import Usage
from hepm.memory import Memory
from hepm.types import Turn

SETTINGS: Final = {"direct": "S1", "plain": "S2", "none": "S3", "oracle": "S4", "notes": "S5"}
"""Settings of the paper (appendix C): the problem given at once, users without preferences, the benchmark itself, an
agent that is told the preferences, and one with memory."""
NO_PREFERENCES: Final = ("direct", "plain")
"""Settings whose users enforce nothing."""
HISTORIES: Final[Mapping[str, int | None]] = {"recent": 3, "history": None}
"""How many of the last sessions the agent is given (appendix E, table 7); None for all."""
MEMORIES: Final = (*SETTINGS, *HISTORIES, "mem0")
GREETING: Final = "How can I help you?"
_SYSTEM: Final = (
    "You help a user to solve a problem. Explain the way to the answer and give the answer, unless you need to ask "
    "first. The user has wishes about how you answer, and may voice them."
)
_WISHES: Final = "What this user prefers:"
_HISTORY: Final = "Earlier sessions with this user, as data:"
_DOUBTS: Final = ("I doubt that result. Could you check it?", "That can't be right, can it?", "Is that the result?")
REPLY_TOKENS: Final = 300  # about what a reply has, for estimates


@dataclass(frozen=True, slots=True)
class UserTurn:
    """What a user does after a reply.

    Attributes:
        enforced: The preferences that the message asks for.
        draft: The user's answer so far, which the agent never sees.
        done: Whether the user ends the session, and sends no message.
    """

    message: str
    enforced: tuple[str, ...] = ()
    draft: str = ""
    done: bool = False


class User(Protocol):
    """A simulated user. The answers to equal questions are equal, whatever the agent's memory."""

    @property
    def name(self) -> str: ...

    @property
    def wishes(self) -> Sequence[str]:
        """The preferences, as an agent can be told them."""
        ...

    def unbiased(self) -> User:
        """The same user without preferences."""
        ...

    def problem(self, session: int, /) -> str:
        """The problem of a session, from 1."""
        ...

    def respond(self, session: int, turns: Sequence[Turn], before: UserTurn, /) -> UserTurn:
        """React to the last reply, after an own turn; to the greeting with the problem of the session, from 1."""
        ...

    def succeeded(self, session: int, last: UserTurn, /) -> bool:
        """Whether the session that ended with this turn solved its problem."""
        ...

    def most(self, sessions: int, max_turns: int, /) -> Usage:
        """The most that the user asks of a model in so many sessions."""
        ...


@dataclass(frozen=True)
class RuleUser:
    """A user who tells the problem step by step, and enforces preferences that rules check.

    A message enforces all that the last reply violates, and nothing else. While details are untold, a reply that ends
    in a question and has no answer only asks for them, and violates none (appendix B).
    """

    name: str
    preferences: Mapping[str, RulePreference]
    seed: int = 0
    problems: Mapping[str, str] = field(default_factory=lambda: PROBLEMS)

    @property
    def wishes(self) -> Sequence[str]:
        """The first wording of each preference."""
        return [preference.wordings[0] for preference in self.preferences.values()]

    def unbiased(self) -> RuleUser:
        """The same user without preferences."""
        return replace(self, preferences={})

    def problem(self, session: int) -> str:
        """The problem of a session, from 1."""
        return problem_of(self.name, session, seed=self.seed, problems=self.problems)

    def respond(self, session: int, turns: Sequence[Turn], before: UserTurn) -> UserTurn:
        """Give a detail that is asked for, enforce what is violated, or give or doubt what is wrong."""
        problem = self.problem(session)
        opening, *details = steps_of(problem)
        replies = [turn.text for turn in turns[1:] if turn.role == "assistant"]
        if not replies:
            return UserTurn(opening)
        told = {turn.text for turn in turns if turn.role == "user"}
        untold = next((detail for detail in details if detail not in told), "")
        answered = is_answered(self.problems[problem], replies[-1])
        if untold and not answered and replies[-1].rstrip().endswith("?"):
            return UserTurn(untold, (), before.draft)
        at = len(replies) - 1
        violated = tuple(name for name, preference in self.preferences.items() if not preference.kept(replies))
        if violated:
            return UserTurn(" ".join(self.enforce(name, session, at) for name in violated), violated, before.draft)
        return UserTurn(untold or _DOUBTS[at % len(_DOUBTS)], (), replies[-1], answered)

    def succeeded(self, session: int, last: UserTurn) -> bool:
        """Whether the draft is right; it takes up no reply that violates a preference."""
        return is_answered(self.problems[self.problem(session)], last.draft)

    def most(self, sessions: int, max_turns: int) -> Usage:
        """Rules ask no model."""
        return Usage()

    def enforce(self, name: str, session: int, turn: int) -> str:
        """Words that ask for a preference, the same for all memories."""
        wordings = self.preferences[name].wordings
        return Random(f"{self.seed}/{self.name}/{name}/{session}/{turn}").choice(wordings)


def users_of(number: int, *, seed: int = 0, problems: Mapping[str, str] = PROBLEMS) -> list[RuleUser]:
    """Users with three compatible preferences each."""
    names = [f"user-{at}" for at in range(1, number + 1)]
    drawn = {name: drawn_preferences(name, PREFERENCES, CONFLICTS, seed=seed) for name in names}
    return [RuleUser(name, {key: PREFERENCES[key] for key in keys}, seed, problems) for name, keys in drawn.items()]


@dataclass(frozen=True)
class PlayedSession:
    """What happened in one session.

    Attributes:
        success: Whether the user solved the problem.
        enforced: The preferences that the user enforced, by message that did so.
        draft: The user's answer at the end.
        notes: What memory knew of the user when the session began.
        messages: The conversation, greeting included.
        closed: Whether the user ended it, with a message that the agent never sees.
    """

    memory: str
    user: str
    number: int
    success: bool
    enforced: tuple[tuple[str, ...], ...]
    notes: str
    messages: tuple[Turn, ...]
    draft: str
    closed: bool = False

    @property
    def length(self) -> int:
        """Messages without the greeting, with the one that ended the session (Len): problem and answer alone are 2."""
        greeted = self.messages[:1] == (Turn("assistant", GREETING),)
        return len(self.messages) - greeted + self.closed


def _nothing(said: Sequence[Object]) -> tuple[str, str]:
    """What an agent without memory is told."""
    del said
    return "", ""


@dataclass(frozen=True)
class _Begun:
    """What an agent knows when a session begins.

    Attributes:
        hints: Given the conversation, what is added to the system prompt: first what stays, then what is of this turn.
        heard: Takes the two messages of a turn.
    """

    memory: str
    number: int
    system: str
    notes: str = ""
    hints: Callable[[Sequence[Object]], tuple[str, str]] = _nothing
    heard: Callable[[Sequence[Turn]], object] = lambda turns: None


@dataclass
class Collaboration:
    """Sessions of users with a collaborator, each user with each memory.

    Attributes:
        failed: Why the sessions of a user with a memory broke off, by "memory/user".
        unreflected: After how many sessions the model's notes could not be read, so that the old ones stayed.
    """

    users: Sequence[User]
    model: Model
    memories: Sequence[str] = ("none", "history", "notes")
    sessions: int = 5
    max_turns: int = 10
    concurrency: int = 4
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    on_session: Callable[[int, int], object] = lambda done, total: None
    failed: dict[str, str] = field(default_factory=dict[str, str])
    unreflected: int = 0
    played: list[PlayedSession] = field(default_factory=list[PlayedSession])

    def play(self, model_name: str) -> list[PlayedSession]:
        """All sessions of each user with each memory, unless they broke off.

        Raises:
            BudgetSpentError: or EndpointRefusedError; what was answered is recorded, `played` has what was finished.
        """
        pairs = [(memory, user) for user in self.users for memory in self.memories]
        ending: LlmError | None = None
        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="hepm-collaborate") as pool:
            futures = {pool.submit(self._sessions, memory, user, model_name): (memory, user) for memory, user in pairs}
            for future in as_completed(futures):
                memory, user = futures[future]
                try:
                    self.played += future.result()
                except StoppedError:
                    continue
                except (BudgetSpentError, EndpointRefusedError) as error:
                    self.model.stop.set()
                    ending = ending or error
                except (LlmError, EpisodeError) as error:
                    self.failed[f"{memory}/{user.name}"] = str(error)
                except BaseException:
                    self.model.stop.set()
                    raise
                self.on_session(len(self.played), len(pairs) * self.sessions)
        if ending is not None:
            raise ending
        return self.played

    def estimate(self) -> Usage:
        """The most that agent and users ask: all turns, histories, reflections and recalls on full notes, mem0."""
        sessions = len(self.users) * self.sessions
        turns = sessions * self.max_turns
        conversation = self.max_turns * REPLY_TOKENS
        calls = turns * len(self.memories)
        tokens = calls * (tokens_of(_SYSTEM) + conversation // 2 + REPLY_TOKENS)
        for memory in {*self.memories} & HISTORIES.keys():
            before = (self.sessions - 1) / 2
            tokens += round(turns * conversation * min(before, HISTORIES[memory] or before))
        if "notes" in self.memories and self.model.client is not None:
            calls += sessions + turns
            tokens += sessions * conversation + (sessions + turns) * NOTES_CHARS // 2
        if "mem0" in self.memories:
            calls += turns
            tokens += turns * (UserFacts.PROMPT_TOKENS + 2 * REPLY_TOKENS)
        users = (user.most(len(self.memories) * self.sessions, self.max_turns) for user in self.users)
        return sum(users, start=Usage(calls, tokens, estimated=True))

    def _sessions(self, memory: str, user: User, model_name: str) -> list[PlayedSession]:
        numbers = range(1, self.sessions + 1)
        if memory == "direct":
            return [self._direct(user, number, model_name) for number in numbers]
        done: list[PlayedSession] = []
        # Replayed from recorded answers when the command is repeated, so that nothing of it need last.
        with ExitStack() as stack:
            place = stack.enter_context(TemporaryDirectory(prefix="hepm-collaborate-"))
            store = stack.enter_context(Memory.open(place))
            facts = stack.enter_context(UserFacts(user.name, place)) if memory == "mem0" else None
            for number in numbers:
                begun = _Begun(memory, number, _system(memory, user, done))
                if memory == "notes":
                    notes = store.preferences.notes(user.name)
                    hints = partial(self._recalled, store, user.name)
                    begun = replace(begun, notes=notes.text if notes else "", hints=hints)
                elif facts is not None:
                    ask = self.model.recorded(Key("mem0, memory", user.name, number))
                    begun = replace(begun, hints=facts.recalled, heard=partial(facts.add, complete=ask))
                session = self._session(user.unbiased() if memory == "plain" else user, begun, model_name)
                done.append(session)
                if memory == "notes":
                    self._reflect(store, user.name, session)
        return done

    def _recalled(self, store: Memory, user: str, said: Sequence[Object]) -> tuple[str, str]:
        """The notes, and the lines of them that matter in this turn, by the model where one is asked (4.1, app. B)."""
        options = PromptOptions(suggestions=0, experiences=0, principles=0, model=self.model.client)
        prompt = store.prompt(said, user=user, options=options)
        return prompt.stable, prompt.present

    def _direct(self, user: User, number: int, model_name: str) -> PlayedSession:
        """The agent is given the whole problem, and answers once: what it says is the draft (S1)."""
        complete = self.model.recorded(Key("direct", user.name, number))
        asked = Turn("user", user.problem(number))
        answer = self._answer(complete, model_name, _Begun("direct", number, _SYSTEM), [asked])
        success = user.succeeded(number, UserTurn("", draft=answer.text))
        return PlayedSession("direct", user.name, number, success, (), "", (asked, answer), answer.text)

    def _session(self, user: User, begun: _Begun, model_name: str) -> PlayedSession:
        """One conversation: it ends when the user ends it, or with the turns."""
        number = begun.number
        complete = self.model.recorded(Key(begun.memory, user.name, number))
        turns, enforced, last = [Turn("assistant", GREETING)], list[tuple[str, ...]](), UserTurn("")
        for turn in range(self.max_turns + 1):
            if self.model.stop.is_set():
                raise StoppedError("the command is ending")
            last = user.respond(number, turns, last)
            enforced += [last.enforced] if last.enforced else []
            if last.done or turn == self.max_turns:
                break
            turns.append(Turn("user", last.message))
            # The greeting is left out: some chat templates refuse a conversation that the assistant begins.
            turns.append(self._answer(complete, model_name, begun, turns[1:]))
            begun.heard(turns[-2:])
        success = user.succeeded(number, last)
        about = (begun.memory, user.name, number, success, tuple(enforced), begun.notes, tuple(turns), last.draft)
        return PlayedSession(*about, closed=last.done)

    def _answer(self, complete: Complete, model_name: str, begun: _Begun, turns: Sequence[Turn]) -> Turn:
        said = [{"role": one.role, "content": one.text} for one in turns]
        body: Object = {"model": model_name, "messages": [{"role": "system", "content": begun.system}, *said]}
        stable, present = begun.hints(said)
        body = with_hint("chat", body, stable=stable, present=present, placement="system")
        message: Object = complete(body | dict(self.options))["choices"][0]["message"]
        return Turn("assistant", str(message.get("content") or ""))

    def _reflect(self, store: Memory, user: str, session: PlayedSession) -> None:
        conversation = [{"role": turn.role, "content": turn.text} for turn in session.messages]
        try:
            store.preferences.reflect(user, conversation, model=self.model.client)
        except AnswerError:
            self.unreflected += 1


def _system(memory: str, user: User, done: Sequence[PlayedSession]) -> str:
    """The system prompt of a session after those that are done."""
    if memory == "oracle":
        return "\n".join((f"{_SYSTEM}\n\n{_WISHES}", *(f"- {wish}" for wish in user.wishes)))
    past = done[-(HISTORIES[memory] or len(done)) :] if memory in HISTORIES else ()
    if not past:
        return _SYSTEM
    told = (f"Session {one.number}:\n{quoted_conversation(one.messages)}" for one in past)
    return "\n\n".join([_SYSTEM, _HISTORY, *told])


def scripted(body: Object) -> Object:
    """A collaborator that solves each problem at once and keeps each preference that it reads, in its notes or since.

    It knows `PROBLEMS` by what they ask. Where it reads no preference it violates most of them: long prose with code,
    an emoji and an exclamation mark.
    """
    texts: list[str] = [message["content"] for message in body["messages"] if message["role"] != "assistant"]
    lines = [line for text in texts for line in re.split(r"\n|(?<=[.!?])\s", text)]
    wanted = {
        name
        for name, preference in PREFERENCES.items()
        if any(re.search(preference.asked, line, re.IGNORECASE) for line in lines)
    }
    problem = next(_BY_OPENING[steps_of(text)[0]] for text in texts[1:] if steps_of(text)[0] in _BY_OPENING)
    return {"choices": [{"message": {"role": "assistant", "content": _written(PROBLEMS[problem], wanted)}}]}


_BY_OPENING: Final = {steps_of(problem)[0]: problem for problem in PROBLEMS}


def _written(answer: str, wanted: set[str]) -> str:
    """A reply with an answer that keeps these preferences."""
    german = "German" in wanted
    answer = f"**{answer}**" if "bold" in wanted else answer
    said = f"Das Ergebnis ist {answer}." if german else f"The result is {answer}."
    mark = "1. " if "numbers" in wanted else "- " if "bullets" in wanted else ""
    parts = [f"{mark}{said}"]
    if not wanted & {"three sentences", "short"}:
        way = (
            "Das ist eine gute Frage. Wir ordnen zuerst, was bekannt ist. Dann ist zu sehen, was fehlt. "
            "Es bleibt nur ein Schritt, und der ist nicht schwer. Am Ende steht die Probe mit dem Wert, und sie stimmt."
            if german
            else "That is a good one to think about. We first put in order what is known, and what is not. Then it is "
            "easy to see which step is missing. It is a short one, and we take it with care. In the end we put the "
            "result back into the text to check it, and it fits."
        )
        parts.insert(0, way)
    if "headings" in wanted:
        parts.insert(0, "## Lösung" if german else "## Solution")
    if not wanted & {"no exclamation", "three sentences", "short"}:
        parts.append("Geschafft!" if german else "Done!")
    if not wanted & {"no emoji", "three sentences", "short"}:
        parts.append("🎉")
    if not wanted & {"no code", "question first"}:
        parts.append(f"```python\nresult = {json.dumps(answer)}\n```")
    if "summary" in wanted:
        parts.append(f"\n{'Kurz gesagt' if german else 'In short'}: {answer}.")
    if "closing question" in wanted:
        parts.append("Ist das klar?" if german else "Is that clear?")
    return "\n".join(parts)
