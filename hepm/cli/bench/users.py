"""`hepm bench users`: simulated users work with the agent in several sessions, in each arm."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hepm.cli.bench.kind import PilotedKind, chosen_tasks
from hepm.cli.bench.outcome import PlayOutcome
from hepm.lab.bench.folder import Folder
from hepm.lab.bench.models import SCRIPTED
from hepm.lab.bench.pilot import small_users
from hepm.lab.bench.rehearsal import UserRehearsal
from hepm.lab.collaboration.environment import UsersEnvironment
from hepm.lab.collaboration.play import NO_PREFERENCES, UserBench, check_user_arms
from hepm.lab.environments import PlayedUser, Task
from hepm.llm import Client
from hepm.types import Object

USERS: Final = "20"
TURNS: Final = 10  # replies in a session (MultiSessionCollab 5)
SESSIONS: Final = 5


class UsersKind(PilotedKind[UsersEnvironment, UserBench]):
    """Lets each user work with the agent in several sessions, in each arm."""

    what = "session"
    default_arms = "off,history,notes"

    def check(self) -> None:
        """See `BenchKind.check`."""
        self.refuse_learning("users are remembered by the arms")
        check_user_arms(self.names)
        if self.endpoint.model == SCRIPTED:
            self.environment.scripted(self._tasks()[0])

    def settings(self) -> Object:
        """See `BenchKind.settings`."""
        # Only the name: the same problems may lie elsewhere at the next call.
        problems = [Path(self.environment.file).name] if self.environment.file else []
        max_turns = self.agent.max_turns or TURNS
        return {"max_turns": max_turns, "options": self.agent.request_arguments(), "problems": problems}

    def made(self, folder: Folder) -> UserBench:
        """See `BenchKind.made`."""
        names = [task.id for task in self._tasks()]
        return UserBench(
            self.environment,
            self.environment.users(names, seed=self.seed, client=self._user_client(folder)),
            folder,
            self.endpoint,
            arms=check_user_arms(self.names),
            sessions=self.trials or SESSIONS,
            max_turns=self.agent.max_turns or TURNS,
            concurrency=self.agent.concurrency,
            options=self.agent.request_arguments(),
        )

    def _tasks(self) -> list[Task]:
        return chosen_tasks(self.environment.tasks(), self.agent.tasks or USERS)

    def _user_client(self, folder: Folder) -> Client | None:
        """What asks the model that plays the users, with answers that the folder keeps; None for rules."""
        if not isinstance(self.environment, PlayedUser):
            return None
        budget, prices = self.shared.limits
        client = Client(self.environment.user, ledger=folder, budget=budget, prices=prices)
        return self.stack.enter_context(client)

    def small(self, made: UserBench, folder: Folder) -> UserBench:
        """See `PilotedKind.small`."""
        return small_users(made, folder)

    def rehearsed(self, made: UserBench, folder: Folder) -> UserBench:
        """See `PilotedKind.rehearsed`."""
        return UserRehearsal.of(made, folder)

    def pilot(self, made: UserBench) -> UserBench:
        """The first users, in the bench's own folder: no user's memory is another's."""
        return self.small(made, made.folder)

    def report(self, made: UserBench) -> PlayOutcome:
        """See `BenchKind.report`."""
        users = [user.name for user in made.users]
        return self.compared(
            made,
            users,
            made.sessions,
            seed=self.seed,
            sessions=True,
            without_memory=NO_PREFERENCES,
            unreflected=made.unreflected,
        )
