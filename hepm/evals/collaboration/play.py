"""Simulated users, a scripted collaborator, and sessions of both with each kind of memory (MultiSessionCollab 3, 5)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

from hepm.agents.wire import Object
from hepm.errors import AnswerError, BudgetSpentError, EndpointRefusedError, LlmError
from hepm.evals.bench.folder import Key
from hepm.evals.bench.models import Model, StoppedError, tokens_of
from hepm.evals.collaboration.rules import CONFLICTS, PREFERENCES, RulePreference, drawn_preferences
from hepm.experience.notes import NOTES_CHARS
from hepm.experience.reflection import quoted_conversation
from hepm.llm import Usage
from hepm.memory import Memory
from hepm.types import Turn

MEMORIES: Final = ("none", "history", "notes")
GREETING: Final = "How can I help you?"
_SYSTEM: Final = (
    "You help a user to solve a problem. Explain the way to the answer and give the answer, unless you need to ask "
    "first. The user has wishes about how you answer, and may voice them."
)
_HISTORY: Final = "Earlier sessions with this user, as data:"
_DOUBTS: Final = ("I doubt that result. Could you check it?", "That can't be right, can it?", "Is that the result?")
REPLY_TOKENS: Final = 300  # about what a reply has, for estimates

PROBLEMS: Final[Mapping[str, str]] = {
    "A train covers 180 km in 2.5 hours. What is its speed in km per hour?": "72",
    "A shirt of 60 dollars is sold at 15 % off. What does it cost, in dollars?": "51",
    "How many diagonals does a polygon with 12 sides have?": "54",
    "What is the sum of all whole numbers from 1 to 25?": "325",
    "Two numbers differ by 6, and their sum is 40. What is the larger one?": "23",
    "A tank holds 240 litres, and a pump moves 8 litres a minute. In how many minutes is it empty?": "30",
    "What is the greatest common divisor of 84 and 126?": "42",
    "A rectangle is 17 cm long and 9 cm wide. What is its area in square cm?": "153",
    "How many ways are there to choose 3 of 9 books?": "84",
    "What is 35 % of 260?": "91",
    "Which number follows in 3, 6, 12, 24?": "48",
    "A recipe for 4 people takes 300 g of rice. How many grams do 10 people need?": "750",
    "The angles of a triangle are in the ratio 2 : 3 : 4. How many degrees has the largest?": "80",
    "What is the least common multiple of 12 and 18?": "36",
    "Anna is 3 times as old as Ben. In 8 years she is twice as old. How many years old is Anna now?": "24",
    "A clock shows 9:40. How many minutes are left until noon?": "140",
    "What is the square root of 1,369?": "37",
    "How many edges does a cube have that lost one corner to a plane cut?": "15",
    "A car uses 6 litres for 100 km. How many litres does it use for 450 km?": "27",
    "How many handshakes are there if 11 people all shake hands with each other once?": "55",
    "What is 2 to the power of 9?": "512",
    "The mean of five numbers is 14. Four of them are 10, 12, 15 and 16. What is the fifth?": "17",
    "A ladder of 13 m leans on a wall, its foot 5 m away. How many metres high does it reach?": "12",
    "How many hours do 4 workers need for what 6 workers do in 14 hours?": "21",
    "How many two-digit numbers are multiples of 7?": "13",
    "A bill of 96 euros is split so that Kim pays three times what Lou pays. How many euros does Kim pay?": "72",
}
"""Problems and their answers, which no problem contains."""


def is_answered(answer: str, message: str) -> bool:
    """Whether a message contains the answer, not as a part of a longer number or word."""
    return bool(re.search(rf"(?<![\w.,−-]){answer}(?!\w|,\d|\.0*[1-9])", message.replace("**", " ")))


@dataclass(frozen=True, slots=True)
class UserTurn:
    """What a user does after a reply.

    Attributes:
        enforced: The preference that the message asks for; "" for none.
        draft: The user's answer so far, which the agent never sees.
        done: Whether the user ends the session, and sends no message.
    """

    message: str
    enforced: str = ""
    draft: str = ""
    done: bool = False


class User(Protocol):
    """A simulated user. The answers to equal questions are equal, whatever the agent's memory."""

    @property
    def name(self) -> str: ...

    def respond(self, session: int, turns: Sequence[Turn], before: UserTurn, /) -> UserTurn:
        """React to the last reply, after an own turn; to the greeting with the problem of the session, from 1."""
        ...

    def succeeded(self, session: int, last: UserTurn, /) -> bool:
        """Whether the session that ended with this turn solved its problem."""
        ...

    def most(self, sessions: int, max_turns: int, /) -> Usage:
        """The most that the user asks of a model in so many sessions."""
        ...


def problem_of(user: str, session: int, *, seed: int = 0) -> str:
    """The problem of a session, numbered from 1, the same for all memories; none comes again before all came."""
    order = [*PROBLEMS]
    Random(f"{seed}/{user}/problems").shuffle(order)
    return order[(session - 1) % len(order)]


@dataclass(frozen=True)
class RuleUser:
    """A user who enforces preferences that rules check, one a message: the first that the last reply violates."""

    name: str
    preferences: Mapping[str, RulePreference]
    seed: int = 0

    def respond(self, session: int, turns: Sequence[Turn], before: UserTurn) -> UserTurn:
        """Enforce the first violated preference, or doubt the answer unless it is right."""
        problem = problem_of(self.name, session, seed=self.seed)
        replies = [turn.text for turn in turns[1:] if turn.role == "assistant"]
        if not replies:
            return UserTurn(problem)
        at = len(replies) - 1
        for name, preference in self.preferences.items():
            if not preference.kept(replies):
                return UserTurn(self.enforce(name, session, at), name, before.draft)
        return UserTurn(_DOUBTS[at % len(_DOUBTS)], "", replies[-1], is_answered(PROBLEMS[problem], replies[-1]))

    def succeeded(self, session: int, last: UserTurn) -> bool:
        """Whether the last reply was right and kept every preference."""
        return last.done

    def most(self, sessions: int, max_turns: int) -> Usage:
        """Rules ask no model."""
        return Usage()

    def enforce(self, name: str, session: int, turn: int) -> str:
        """Words that ask for a preference, the same for all memories."""
        wordings = self.preferences[name].wordings
        return Random(f"{self.seed}/{self.name}/{name}/{session}/{turn}").choice(wordings)


def users_of(number: int, *, seed: int = 0) -> list[RuleUser]:
    """Users with three compatible preferences each."""
    names = [f"user-{at}" for at in range(1, number + 1)]
    drawn = {name: drawn_preferences(name, PREFERENCES, CONFLICTS, seed=seed) for name in names}
    return [RuleUser(name, {key: PREFERENCES[key] for key in keys}, seed) for name, keys in drawn.items()]


@dataclass(frozen=True)
class Session:
    """What happened in one session.

    Attributes:
        success: Whether the user solved the problem.
        enforced: The preference that the user enforced, by turn in which there was one.
        draft: The user's answer at the end.
        notes: What memory knew of the user when the session began.
        messages: The conversation, greeting included.
    """

    memory: str
    user: str
    number: int
    success: bool
    enforced: tuple[str, ...]
    notes: str
    messages: tuple[Turn, ...]
    draft: str


@dataclass
class Collaboration:
    """Sessions of users with a collaborator, each user with each memory.

    Attributes:
        failed: Why the sessions of a user with a memory broke off, by "memory/user".
        unreflected: After how many sessions the model's notes could not be read, so that the old ones stayed.
    """

    users: Sequence[User]
    model: Model
    memories: Sequence[str] = MEMORIES
    sessions: int = 5
    max_turns: int = 10
    concurrency: int = 4
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    on_session: Callable[[int, int], object] = lambda done, total: None
    failed: dict[str, str] = field(default_factory=dict[str, str])
    unreflected: int = 0
    played: list[Session] = field(default_factory=list[Session])

    def play(self, model_name: str) -> list[Session]:
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
                except LlmError as error:
                    self.failed[f"{memory}/{user.name}"] = str(error)
                except BaseException:
                    self.model.stop.set()
                    raise
                self.on_session(len(self.played), len(pairs) * self.sessions)
        if ending is not None:
            raise ending
        return self.played

    def estimate(self) -> Usage:
        """The most that agent and users ask: all turns, whole histories, reflections on full notes."""
        calls = len(self.users) * len(self.memories) * self.sessions * self.max_turns
        each = tokens_of(_SYSTEM) + self.max_turns * REPLY_TOKENS // 2
        past = self.max_turns * REPLY_TOKENS * (self.sessions - 1) // 2 if "history" in self.memories else 0
        tokens = calls * (each + REPLY_TOKENS) + calls // len(self.memories) * past
        if "notes" in self.memories and self.model.client is not None:
            reflections = len(self.users) * self.sessions
            calls += reflections
            tokens += reflections * (self.max_turns * REPLY_TOKENS + NOTES_CHARS // 2)
        users = (user.most(len(self.memories) * self.sessions, self.max_turns) for user in self.users)
        return sum(users, start=Usage(calls, tokens, estimated=True))

    def _sessions(self, memory: str, user: User, model_name: str) -> list[Session]:
        done: list[Session] = []
        # Replayed from recorded answers when the command is repeated, so that nothing of it need last.
        with TemporaryDirectory(prefix="hepm-collaborate-") as place, Memory.open(place) as store:
            for number in range(1, self.sessions + 1):
                notes = store.preferences.notes(user.name)
                system = _SYSTEM
                if memory == "notes" and notes is not None:
                    system += "\n\n" + store.prompt(user=user.name).stable
                elif memory == "history" and done:
                    past = (f"Session {one.number}:\n{quoted_conversation(one.messages)}" for one in done)
                    system = "\n\n".join([system, _HISTORY, *past])
                session = self._session(memory, user, number, system, model_name, notes.text if notes else "")
                done.append(session)
                if memory == "notes":
                    self._reflect(store, user.name, session)
        return done

    def _session(self, memory: str, user: User, number: int, system: str, model_name: str, notes: str) -> Session:
        """One conversation: it ends when the user ends it, or with the turns."""
        complete = self.model.recorded(Key(memory, user.name, number))
        turns, enforced, last = [Turn("assistant", GREETING)], list[str](), UserTurn("")
        for turn in range(self.max_turns + 1):
            if self.model.stop.is_set():
                raise StoppedError("the command is ending")
            last = user.respond(number, turns, last)
            enforced += [last.enforced] if last.enforced else []
            if last.done or turn == self.max_turns:
                break
            turns.append(Turn("user", last.message))
            # The greeting is left out: some chat templates refuse a conversation that the assistant begins.
            said = [{"role": one.role, "content": one.text} for one in turns[1:]]
            body: Object = {"model": model_name, "messages": [{"role": "system", "content": system}, *said]}
            message: Object = complete(body | dict(self.options))["choices"][0]["message"]
            turns.append(Turn("assistant", str(message.get("content") or "")))
        success = user.succeeded(number, last)
        return Session(memory, user.name, number, success, tuple(enforced), notes, tuple(turns), last.draft)

    def _reflect(self, store: Memory, user: str, session: Session) -> None:
        conversation = [{"role": turn.role, "content": turn.text} for turn in session.messages]
        try:
            store.preferences.reflect(user, conversation, model=self.model.client)
        except AnswerError:
            self.unreflected += 1


def scripted(body: Object) -> Object:
    """A collaborator that solves each problem at once and keeps each preference that it reads, in its notes or since.

    Where it reads no preference it violates most of them: long prose with code, an emoji and an exclamation mark.
    """
    texts: list[str] = [message["content"] for message in body["messages"] if message["role"] != "assistant"]
    lines = [line for text in texts for line in re.split(r"\n|(?<=[.!?])\s", text)]
    wanted = {
        name
        for name, preference in PREFERENCES.items()
        if any(re.search(preference.asked, line, re.IGNORECASE) for line in lines)
    }
    problem = next(text for text in texts[1:] if text in PROBLEMS)
    return {"choices": [{"message": {"role": "assistant", "content": _written(PROBLEMS[problem], wanted)}}]}


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
