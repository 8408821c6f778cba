"""`hepm bench --rounds`: rounds of runs, each with the lessons of the rounds before."""

from __future__ import annotations

from typing import Final

from hepm.cli.bench.running import BenchCommand, chosen_tasks
from hepm.cli.options import refuse, remark, sole_namespace
from hepm.lab.bench.arms import ROUND_ARMS, find_arms
from hepm.lab.bench.explore import Exploration, RoundReport
from hepm.types import Object

TURNS: Final = 16  # of a run (PRIME, table 2)
RUNS: Final = 100  # in each environment, over all rounds (PRIME, table 2)
TEMPERATURE: Final = 1.0  # runs of a task differ, so that they can be compared


def rounds_bench(command: BenchCommand) -> Exploration:
    """An exploration in rounds."""
    learning = command.learning
    names = command.names("lessons")
    fits = len(names) == 1 and names[0] in ROUND_ARMS
    refuse(not fits, "--arms", f"rounds are made in one arm: {', '.join(ROUND_ARMS)}")
    command.refuse_unused("rounds", "memory", "namespace", "rollouts", "distiller", "prune_below", "rounds")
    missing = "name the store that rounds are learned into; it is made if it is missing"
    refuse(not learning.memory, "--memory", missing)
    # Of a train split, where one is published: the other tasks are for a bench with what was learned.
    published = [task for task in command.environment.tasks() if task.split == "train"]
    tasks = chosen_tasks(published or command.environment.tasks(), command.agent.tasks or "*")
    # Over all rounds together, unless --rollouts says otherwise; what `-o temperature=X` says holds.
    about: Object = {"rollouts": learning.rollouts or -(-RUNS // command.rounds), "turn_rewards": True}
    options = command.options(find_arms(names, trials=1), turns=TURNS, options={"temperature": TEMPERATURE}, **about)
    made = command.made(
        Exploration,
        tasks,
        options,
        {"arm": names[0], "rounds": command.rounds, "tasks": sorted(task.id for task in tasks)},
        number=command.rounds,
        distiller=learning.distiller or "",
        prune_below=learning.prune_below,
        on_round=_print_round,
    )
    # Once the folder is made, in which it may lie.
    made.given = memory = command.open_memory()
    memory.namespace = learning.namespace or sole_namespace(memory.namespaces())
    return made


def _print_round(report: RoundReport) -> None:
    lessons = sum(report["zones"].values()) + report["principles"]
    remark(f"round {report['number']}: success {report['success']:.3f}, {lessons:,} lessons")
