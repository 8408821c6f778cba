"""Simulated users as an environment of `hepm bench`: a task is a user, a trial is a session (MultiSessionCollab 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hepm.errors import InputError
from hepm.lab.collaboration.problems import PROBLEMS, read_problems
from hepm.lab.collaboration.script import scripted
from hepm.lab.collaboration.simulator import model_users
from hepm.lab.collaboration.users import User, UserTurn, user_names, users_of
from hepm.lab.environments import Ask, Schema, Task, ToolFailed, endpoint_of_user
from hepm.llm import Client, Endpoint
from hepm.types import Turn

USERS: Final = 100
"""How many users there are, as in the paper."""
GREETING: Final = "How can I help you?"
SYSTEM: Final = (
    "You help a user to solve a problem. If a message is unclear, lacks details or can be read in several ways, assume "
    "nothing: ask, and answer once you know enough. Explain the way to the answer and give the answer. The user has "
    "preferences about how you answer, and learns nothing from a reply that violates one: keep those that you know of "
    "from the first reply on, and those that the user voices."
)


class UserEpisode:
    """One session of a user: a conversation without tools.

    Attributes:
        enforced: The preferences that the user enforced, by message that did so.
        wishes: These messages.
        last: What the user did last.
        heard: Takes the two messages of a turn, before the user reacts.
    """

    # A conversation alone.
    tools: Sequence[Schema] = ()

    def __init__(self, user: User, session: int) -> None:
        self.enforced: list[tuple[str, ...]] = []
        self.wishes: list[str] = []
        self.last = UserTurn("")
        self.heard: Callable[[Sequence[Turn]], object] = lambda turns: None
        self._user = user
        self._session = session
        self._turns = [Turn("assistant", GREETING)]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """ToolFailed: there are no tools."""
        raise ToolFailed(f"there is no tool {tool}")

    def answer(self, text: str) -> str | None:
        """What the user says to a reply; "" asks for the first message. None where the user ends the session."""
        if self._turns[-1].role == "user":
            self._turns.append(Turn("assistant", text))
            self.heard(self._turns[-2:])
        # The first call comes before any reply: there is nothing to note of the agent then.
        self.last = self._user.respond(self._session, self._turns, self.last)
        if self.last.enforced:
            self.enforced.append(self.last.enforced)
            self.wishes.append(self.last.message)
        # The user sends no message then; the one that ended it is counted by `done`.
        if self.last.done:
            return None
        self._turns.append(Turn("user", self.last.message))
        return self.last.message

    @property
    def messages(self) -> tuple[Turn, ...]:
        """The conversation, greeting included, without a message of the user that was never answered."""
        if self._turns[-1].role == "user":
            return tuple(self._turns[:-1])
        return tuple(self._turns)

    def reward(self) -> float:
        """1 if the user's draft solves the problem."""
        return float(self._user.succeeded(self._session, self.last))

    def scores(self) -> Mapping[str, float]:
        """What is measured besides the success (3.3): messages in which the user enforced preferences (UE), and
        messages without the greeting, with the one that ended the session (Len)."""
        return {"user_effort": len(self.enforced), "length": len(self.messages) - 1 + self.last.done}

    def close(self) -> None:
        """Nothing is held."""


class DirectEpisode(UserEpisode):
    """The agent is given the whole problem, and answers once: what it says is the draft (S1)."""

    def answer(self, text: str) -> str | None:
        """The problem, then the end."""
        if self._turns[-1].role == "user":
            self._turns.append(Turn("assistant", text))
            self.last = UserTurn("", draft=text)
            return None
        problem = self._user.problem(self._session)
        self._turns.append(Turn("user", problem))
        return problem


class UsersEnvironment:
    """Users whom rules play, with three preferences each.

    Args:
        source: A file of problems, as `read_problems` takes it; "" for our own.
    """

    name = "users"

    def __init__(self, source: str = "") -> None:
        self.file = source
        self.problems: Mapping[str, str] = read_problems(Path(source)) if source else PROBLEMS

    def tasks(self) -> Sequence[Task]:
        """A task for each user, who speaks after the agent's greeting."""
        return [Task(name, "", SYSTEM, family=name) for name in user_names(USERS)]

    def users(self, *, seed: int, client: Client | None = None) -> Sequence[User]:
        """All users; equal seeds give equal preferences, problems and wordings."""
        del client  # rules ask no model
        return users_of(USERS, seed=seed, problems=self.problems)

    def start(self, task: Task, *, seed: int = 0) -> UserEpisode:
        """A session by itself; the seed chooses its problem. `hepm bench` makes several with what was remembered."""
        # `seed` numbers the trial, which is a session here; the users themselves are those of seed 0.
        user = next(user for user in self.users(seed=0) if user.name == task.id)
        return UserEpisode(user, seed + 1)

    def scripted(self, task: Task) -> Ask:
        """An agent that keeps each preference that it reads."""
        del task
        if self.file:
            raise InputError("the scripted agent solves our own problems alone: name a model, or leave --source out.")
        return scripted

    def close(self) -> None:
        """Nothing is held."""


class PlayedUsersEnvironment(UsersEnvironment):
    """Users whom a model plays and judges: a `hepm.lab.environments.PlayedUser`."""

    name = "users-played"

    @property
    def user(self) -> Endpoint:
        """HEPM_USER_MODEL, at `Endpoint.of_user`."""
        return endpoint_of_user(self.name, "plays the users")

    def users(self, *, seed: int, client: Client | None = None) -> Sequence[User]:
        """See `UsersEnvironment.users`."""
        return model_users(USERS, client or Client(self.user), seed=seed, problems=self.problems)

    def start(self, task: Task, *, seed: int = 0, ask: Ask | None = None) -> UserEpisode:
        """As `UsersEnvironment.start`. The model is asked at its own endpoint."""
        del ask
        return super().start(task, seed=seed)

    def scripted(self, task: Task) -> Ask:
        """None: the scripted agent understands the users of rules alone."""
        raise InputError("the scripted agent understands the users of rules alone: name a model, or `users`.")
