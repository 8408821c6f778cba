"""Simulated users whom rules play (MultiSessionCollab 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, Protocol

from hepm.lab.collaboration.problems import PROBLEMS, is_answered, problem_of, steps_of
from hepm.lab.collaboration.rules import CONFLICTS, PREFERENCES, RulePreference, drawn_preferences
from hepm.types import Turn

_DOUBTS: Final = ("I doubt that result. Could you check it?", "That can't be right, can it?", "Is that the result?")


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
    def name(self) -> str:
        """Unique in an environment."""
        ...

    @property
    def wishes(self) -> Sequence[str]:
        """The preferences, in words for an agent."""
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


@dataclass(frozen=True)
class RuleUser:
    """A user who states the problem step by step, and enforces preferences that rules check.

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
        return problem_of(session, seed=self.seed, problems=self.problems)

    def respond(self, session: int, turns: Sequence[Turn], before: UserTurn) -> UserTurn:
        """Give a detail that is asked for, enforce what is violated, or give or doubt what is wrong."""
        problem = self.problem(session)
        opening, *details = steps_of(problem)
        replies = [turn.text for turn in turns[1:] if turn.role == "assistant"]
        if not replies:
            return UserTurn(opening)
        # Details are given word for word, one a message: what the user said already is found by its text.
        given = {turn.text for turn in turns if turn.role == "user"}
        untold = [detail for detail in details if detail not in given]
        next_detail = untold[0] if untold else ""
        answered = is_answered(self.problems[problem], replies[-1])
        # A reply that only asks for a detail is no answer yet that could violate a preference.
        if next_detail and not answered and replies[-1].rstrip().endswith("?"):
            return UserTurn(next_detail, (), before.draft)
        turn = len(replies) - 1
        violated = [name for name, preference in self.preferences.items() if not preference.kept(replies[-1])]
        if violated:
            wishes = [self.enforce(name, session, turn) for name in violated]
            return UserTurn(" ".join(wishes), tuple(violated), before.draft)
        return UserTurn(next_detail or _DOUBTS[turn % len(_DOUBTS)], (), replies[-1], answered)

    def succeeded(self, session: int, last: UserTurn) -> bool:
        """Whether the draft is right; it takes up no reply that violates a preference."""
        return is_answered(self.problems[self.problem(session)], last.draft)

    def enforce(self, name: str, session: int, turn: int) -> str:
        """Words that ask for a preference, the same for all memories."""
        wordings = self.preferences[name].wordings
        # Seeded by the place in the conversation, not by its course: arms hear the same words.
        return Random(f"{self.seed}/{self.name}/{name}/{session}/{turn}").choice(wordings)


def users_of(number: int, *, seed: int = 0, problems: Mapping[str, str] = PROBLEMS) -> list[RuleUser]:
    """Users with three compatible preferences each."""
    users: list[RuleUser] = []
    for name in user_names(number):
        drawn = drawn_preferences(name, [*PREFERENCES], CONFLICTS, seed=seed)
        preferences = {key: PREFERENCES[key] for key in drawn}
        users.append(RuleUser(name, preferences, seed, problems))
    return users


def user_names(number: int) -> list[str]:
    """The names of so many users; the first ones do not depend on how many there are."""
    return [f"user-{place}" for place in range(1, number + 1)]
