"""Simulated users, a scripted collaborator, and sessions of both with each kind of memory (MultiSessionCollab 3, 5)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

from hepm.agents.loop import Complete
from hepm.agents.wire import Object, with_hint
from hepm.errors import AnswerError, BudgetSpentError, EndpointRefusedError, LlmError
from hepm.evals.bench.folder import Key
from hepm.evals.bench.models import Model, StoppedError, tokens_of
from hepm.evals.collaboration.mem0 import UserFacts
from hepm.evals.collaboration.rules import CONFLICTS, PREFERENCES, RulePreference, drawn_preferences
from hepm.experience.notes import NOTES_CHARS
from hepm.experience.prompt import PromptOptions
from hepm.experience.reflection import quoted_conversation
from hepm.llm import Usage
from hepm.memory import Memory
from hepm.types import Turn

SETTINGS: Final = {"direct": "S1", "plain": "S2", "none": "S3", "oracle": "S4", "notes": "S5"}
"""Settings of the paper (appendix E): the problem given at once, users without preferences, the benchmark itself, an
agent that is told the preferences, and one with memory."""
MEMORIES: Final = (*SETTINGS, "history", "mem0")
GREETING: Final = "How can I help you?"
_SYSTEM: Final = (
    "You help a user to solve a problem. Explain the way to the answer and give the answer, unless you need to ask "
    "first. The user has wishes about how you answer, and may voice them."
)
_WISHES: Final = "What this user prefers:"
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
    "A bus leaves every 12 minutes, the first at 6:00. How many buses leave before 8:00?": "10",
    "A square has a perimeter of 52 cm. What is its area in square cm?": "169",
    "A jar holds 5 red and 7 blue marbles. In how many ways can one of each be taken?": "35",
    "What is the remainder of 1,000 divided by 7?": "6",
    "A phone costs 400 dollars plus 19 % tax. What is its price with tax, in dollars?": "476",
    "Three friends share 87 sweets equally. How many does each of them get?": "29",
    "A cyclist rides 45 minutes at 24 km per hour. How far does she get, in km?": "18",
    "A cube has a volume of 216 cubic cm. What is the length of its edge in cm?": "6",
    "The sum of three consecutive whole numbers is 96. Which is the smallest of them?": "31",
    "A field of 3 hectares gives 5 tonnes of wheat a hectare. How many tonnes does it give?": "15",
    "A book of 336 pages is read at 24 pages a day. For how many days does it last?": "14",
    "What is 17 times 23?": "391",
    "Two dice are thrown. In how many of the 36 cases is their sum 7?": "6",
    "A room is 6 m long, 4 m wide and 2.5 m high. What is its volume in cubic m?": "60",
    "A loan of 2,000 dollars has 4 % interest a year. How many dollars of interest fall due in a year?": "80",
    "What is the next prime number after 89?": "97",
    "A tap fills a bath of 150 litres in 12 minutes and 30 seconds. How many litres run in a minute?": "12",
    "A class of 28 has 4 boys for every 3 girls. How many boys are there?": "16",
    "How many degrees do the hands of a clock enclose at 4:00?": "120",
    "A plane flies 2,160 km in 2 hours and 24 minutes. What is its mean speed in km per hour?": "900",
    "A number doubled and then lowered by 9 is 33. Which number is it?": "21",
    "How many seconds does a quarter of an hour have?": "900",
    "A rope of 9.6 m is cut into pieces of 80 cm. How many pieces are there?": "12",
    "In a sale, 3 shirts cost what 2 did before, 54 dollars. What does one cost now, in dollars?": "18",
    "What is the median of 3, 9, 4, 20 and 11?": "9",
    "A farmer has 22 hens and cows with 62 feet in all. How many cows has he?": "9",
    "The side of a square grows from 10 to 12 cm. By how many per cent does its area grow?": "44",
    "How many different words can be made of the letters of TREE?": "12",
    "A car loses a fifth of its value of 15,000 dollars. What is it still worth, in dollars?": "12,000",
    "Two trains start 300 km apart and meet at 70 and 80 km per hour. After how many hours do they meet?": "2",
    "What is the sum of the angles of a hexagon, in degrees?": "720",
    "A baker sells 3 of 8 loaves before noon and has 45 left. How many had he baked?": "72",
    "A map has a scale of 1 to 50,000. How many km are 8 cm on it?": "4",
    "What is 0.125 as a percentage?": "12.5",
}
"""Problems and their answers, which no problem contains."""


def is_answered(answer: str, message: str) -> bool:
    """Whether a message contains the answer, not as a part of a longer number or word."""
    return bool(re.search(rf"(?<![\w.,−-]){re.escape(answer)}(?!\w|,\d|\.0*[1-9])", message.replace("**", " ")))


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


def problem_of(user: str, session: int, *, seed: int = 0, problems: Mapping[str, str] = PROBLEMS) -> str:
    """The problem of a session, numbered from 1, the same for all memories; none comes again before all came."""
    order = [*problems]
    Random(f"{seed}/{user}/problems").shuffle(order)
    return order[(session - 1) % len(order)]


def steps_of(problem: str) -> list[str]:
    """A problem as a user tells it: first what is asked, then the rest, a sentence at a time."""
    parts = [part.strip() for part in re.split(r"(?<=[.?!])\s+(?=[A-Z\d])", problem) if part.strip()]
    asked = next((at for at in reversed(range(len(parts))) if "?" in parts[at]), len(parts) - 1)
    return [parts[asked], *parts[:asked], *parts[asked + 1 :]]


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
        """Whether the last reply was right and kept every preference."""
        return last.done

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
class Session:
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


@dataclass(frozen=True)
class _Hints:
    """What an agent is told beside the system prompt of its session, by its memory."""

    store: Memory | None = None
    user: str = ""
    model: Model | None = None
    facts: UserFacts | None = None
    key: Key | None = None

    def now(self, said: Sequence[Object], memory: str) -> tuple[str, str]:
        """The notes, and what is recalled of them in this turn, by the model where one is asked (4.1, appendix B)."""
        if memory == "notes" and self.store is not None and self.model is not None:
            options = PromptOptions(suggestions=0, experiences=0, principles=0, model=self.model.client)
            prompt = self.store.prompt(said, user=self.user, options=options)
            return prompt.stable, prompt.present
        return "", self.facts.recalled(said[-1]["content"]) if self.facts else ""

    def heard(self, turns: Sequence[Turn]) -> None:
        """Let mem0 take what was said in a turn."""
        if self.facts is not None and self.model is not None and self.key is not None:
            self.facts.add([{"role": one.role, "content": one.text} for one in turns], self.model.recorded(self.key))


@dataclass(frozen=True)
class _Begun:
    """What an agent knows when a session begins."""

    memory: str
    number: int
    system: str
    notes: str = ""
    hints: _Hints = _Hints()


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
            recalls = reflections * self.max_turns
            calls += reflections + recalls
            tokens += reflections * (self.max_turns * REPLY_TOKENS + NOTES_CHARS // 2) + recalls * NOTES_CHARS // 2
        users = (user.most(len(self.memories) * self.sessions, self.max_turns) for user in self.users)
        return sum(users, start=Usage(calls, tokens, estimated=True))

    def _sessions(self, memory: str, user: User, model_name: str) -> list[Session]:
        done: list[Session] = []
        if memory == "direct":
            return [self._direct(user, number, model_name) for number in range(1, self.sessions + 1)]
        known = user.unbiased() if memory == "plain" else user
        # Replayed from recorded answers when the command is repeated, so that nothing of it need last.
        with ExitStack() as stack:
            place = stack.enter_context(TemporaryDirectory(prefix="hepm-collaborate-"))
            store = stack.enter_context(Memory.open(place))
            facts = stack.enter_context(UserFacts(user.name, place)) if memory == "mem0" else None
            for number in range(1, self.sessions + 1):
                notes = store.preferences.notes(user.name)
                system = _SYSTEM
                if memory == "oracle":
                    system = "\n".join((f"{_SYSTEM}\n\n{_WISHES}", *(f"- {wish}" for wish in user.wishes)))
                elif memory == "history" and done:
                    past = (f"Session {one.number}:\n{quoted_conversation(one.messages)}" for one in done)
                    system = "\n\n".join([system, _HISTORY, *past])
                hints = _Hints(store, user.name, self.model, facts, Key("mem0, memory", user.name, number))
                begun = _Begun(memory, number, system, notes.text if notes else "", hints)
                session = self._session(known, begun, model_name)
                done.append(session)
                if memory == "notes":
                    self._reflect(store, user.name, session)
        return done

    def _direct(self, user: User, number: int, model_name: str) -> Session:
        """The agent is given the whole problem, and answers once (S1)."""
        complete = self.model.recorded(Key("direct", user.name, number))
        turns = [Turn("user", user.problem(number))]
        turns.append(self._answer(complete, model_name, _Begun("direct", number, _SYSTEM), turns))
        last = user.unbiased().respond(number, [Turn("assistant", GREETING), *turns], UserTurn(""))
        return Session("direct", user.name, number, user.succeeded(number, last), (), "", tuple(turns), last.draft)

    def _session(self, user: User, begun: _Begun, model_name: str) -> Session:
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
            begun.hints.heard(turns[-2:])
        success = user.succeeded(number, last)
        about = (begun.memory, user.name, number, success, tuple(enforced), begun.notes, tuple(turns), last.draft)
        return Session(*about, closed=last.done)

    def _answer(self, complete: Complete, model_name: str, begun: _Begun, turns: Sequence[Turn]) -> Turn:
        said = [{"role": one.role, "content": one.text} for one in turns]
        body: Object = {"model": model_name, "messages": [{"role": "system", "content": begun.system}, *said]}
        stable, present = begun.hints.now(said, begun.memory)
        body = with_hint("chat", body, stable=stable, present=present, placement="system")
        message: Object = complete(body | dict(self.options))["choices"][0]["message"]
        return Turn("assistant", str(message.get("content") or ""))

    def _reflect(self, store: Memory, user: str, session: Session) -> None:
        conversation = [{"role": turn.role, "content": turn.text} for turn in session.messages]
        try:
            store.preferences.reflect(user, conversation, model=self.model.client)
        except AnswerError:
            self.unreflected += 1


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
