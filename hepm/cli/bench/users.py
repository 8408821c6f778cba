"""`hepm bench users-played`: simulated users work with the agent in several sessions, in each arm."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hepm.cli.bench.running import BenchCommand, chosen_tasks
from hepm.lab.bench.arms import find_arms
from hepm.lab.collaboration.environment import UsersEnvironment
from hepm.lab.collaboration.play import USER_ARMS, UserBench

USERS: Final = "20"
TURNS: Final = 10  # replies in a session (MultiSessionCollab 5)
SESSIONS: Final = 5


def users_bench(command: BenchCommand) -> UserBench:
    """A bench of users."""
    environment = command.environment
    assert isinstance(environment, UsersEnvironment)
    command.refuse_unused("users")
    trials = command.trials or SESSIONS
    arms = find_arms(command.names("off,history,notes"), trials=trials, known=USER_ARMS)
    tasks = chosen_tasks(environment.tasks(), command.agent.tasks or USERS)
    # Only the name: the same problems may lie elsewhere at the next call.
    problems = [Path(environment.file).name] if environment.file else []
    options = command.options(arms, turns=TURNS, trials=trials)
    return command.made(UserBench, tasks, options, {"problems": problems})
