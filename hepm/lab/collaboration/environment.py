"""Simulated users as an environment of `hepm bench`: a task is a user, a trial is a session (MultiSessionCollab 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hepm.lab.collaboration.problems import PROBLEMS, read_problems
from hepm.lab.collaboration.simulator import ModelUser, UserTurn, model_users, user_names
from hepm.lab.environments import Ask, Environment, Schema, Task, ToolFailed, endpoint_of_user
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
        wishes: The messages in which the user enforced preferences.
        last: What the user did last.
        heard: Takes the two messages of a turn, before the user reacts.
    """

    # A conversation alone.
    tools: Sequence[Schema] = ()

    def __init__(self, user: ModelUser, session: int) -> None:
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
            self.wishes.append(self.last.message)
        # The user sends no message then; the one that ended it is counted by `done`.
        if self.last.done:
            return None
        self._turns.append(Turn("user", self.last.message))
        return self.last.message

    def reward(self) -> float:
        """1 if the user's draft solves the problem."""
        return float(self._user.succeeded(self._session, self.last))

    def scores(self) -> Mapping[str, float]:
        """What is measured besides the success (3.3): messages in which the user enforced preferences (UE), and
        messages without the greeting, with the one that ended the session (Len)."""
        length = len(self._turns) - 1 + self.last.done
        # A message that was never answered is in no conversation.
        if self._turns[-1].role == "user":
            length -= 1
        return {"user_effort": len(self.wishes), "length": length}

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


class UsersEnvironment(Environment):
    """Users whom a model plays and judges: a `hepm.lab.environments.PlayedUser`.

    Args:
        source: A file of problems, as `read_problems` takes it; "" for our own.
    """

    name = "users-played"

    def __init__(self, source: str = "") -> None:
        self.file = source
        self.problems: Mapping[str, str] = read_problems(Path(source)) if source else PROBLEMS

    @property
    def user(self) -> Endpoint:
        """HEPM_USER_MODEL, at `Endpoint.of_user`."""
        return endpoint_of_user(self.name, "plays the users")

    def tasks(self) -> Sequence[Task]:
        """A task for each user, who speaks after the agent's greeting."""
        return [Task(name, "", SYSTEM, family=name) for name in user_names(USERS)]

    def users(self, client: Client, *, seed: int) -> Sequence[ModelUser]:
        """All users; equal seeds give equal preferences, problems and personas."""
        return model_users(USERS, client, seed=seed, problems=self.problems)

    def start(self, task: Task, *, seed: int = 0, ask: Ask | None = None) -> UserEpisode:
        """A session by itself; the seed chooses its problem. `hepm bench` makes several with what was remembered."""
        del ask  # the model is asked at its own endpoint
        # `seed` numbers the trial, which is a session here; the users themselves are those of seed 0.
        users = {user.name: user for user in self.users(Client(self.user), seed=0)}
        return UserEpisode(users[task.id], seed + 1)
