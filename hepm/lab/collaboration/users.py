"""Simulated users whom rules play (MultiSessionCollab 3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, Self

from hepm.lab.collaboration.problems import PROBLEMS, is_answered, problem_of, steps_of
from hepm.lab.collaboration.rules import CONFLICTS, PREFERENCES, drawn_preferences
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


@dataclass(frozen=True)
class User(ABC):
    """A simulated user. The answers to equal questions are equal, whatever the agent's memory.

    Attributes:
        name: Unique in an environment.
        preferences: Names of three, or of none.
    """

    name: str
    preferences: tuple[str, ...]
    seed: int = 0
    problems: Mapping[str, str] = field(default_factory=lambda: PROBLEMS)

    def unbiased(self) -> Self:
        """The same user without preferences."""
        return replace(self, preferences=())

    def problem(self, session: int) -> str:
        """The problem of a session, from 1."""
        return problem_of(session, seed=self.seed, problems=self.problems)

    @property
    @abstractmethod
    def wishes(self) -> Sequence[str]:
        """The preferences, in words for an agent."""

    @abstractmethod
    def respond(self, session: int, turns: Sequence[Turn], before: UserTurn) -> UserTurn:
        """React to the last reply, after an own turn; to the greeting with the problem of the session, from 1."""

    @abstractmethod
    def succeeded(self, session: int, last: UserTurn) -> bool:
        """Whether the session that ended with this turn solved its problem."""


class RuleUser(User):
    """A user who states the problem step by step, and enforces preferences that rules check.

    A message enforces all that the last reply violates, and nothing else. While details are untold, a reply that ends
    in a question and has no answer only asks for them, and violates none (appendix B).
    """

    @property
    def wishes(self) -> Sequence[str]:
        """The first wording of each preference."""
        return [PREFERENCES[name].wordings[0] for name in self.preferences]

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
        violated = [name for name in self.preferences if not PREFERENCES[name].kept(replies[-1])]
        if violated:
            # Seeded by the place in the conversation, not by its course: arms hear the same words.
            place = f"{session}/{turn}"
            draws = {name: Random(f"{self.seed}/{self.name}/{name}/{place}") for name in violated}
            wishes = [draw.choice(PREFERENCES[name].wordings) for name, draw in draws.items()]
            return UserTurn(" ".join(wishes), tuple(violated), before.draft)
        return UserTurn(next_detail or _DOUBTS[turn % len(_DOUBTS)], (), replies[-1], answered)

    def succeeded(self, session: int, last: UserTurn) -> bool:
        """Whether the draft is right; it takes up no reply that violates a preference."""
        return is_answered(self.problems[self.problem(session)], last.draft)


def users_of(number: int, *, seed: int = 0, problems: Mapping[str, str] = PROBLEMS) -> list[RuleUser]:
    """Users with three compatible preferences each."""
    drawn = [(name, drawn_preferences(name, [*PREFERENCES], CONFLICTS, seed=seed)) for name in user_names(number)]
    return [RuleUser(*of_user, seed, problems) for of_user in drawn]


def user_names(number: int) -> list[str]:
    """The names of so many users; the first ones do not depend on how many there are."""
    return [f"user-{place}" for place in range(1, number + 1)]
