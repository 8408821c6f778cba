"""`hepm bench --rounds`: rounds of runs, each with the lessons of the rounds before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from hepm.cli.bench.running import BenchCommand, chosen_tasks
from hepm.cli.options import refuse, remark, sole_namespace
from hepm.lab.bench.arms import ROUND_ARMS, find_arms, open_known
from hepm.lab.bench.explore import Exploration, RoundReport
from hepm.lab.bench.models import Model
from hepm.llm import Client
from hepm.types import DEFAULT_NAMESPACE, Object

TURNS: Final = 16  # of a run (PRIME, table 2)
RUNS: Final = 100  # in each environment, over all rounds (PRIME, table 2)
TEMPERATURE: Final = 1.0  # runs of a task differ, so that they can be compared


def rounds_bench(command: BenchCommand) -> Exploration:
    """An exploration in rounds."""
    learning = command.learning
    names = command.names("lessons")
    arms = find_arms(names, trials=1)
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
    options = command.options(arms, turns=TURNS, options={"temperature": TEMPERATURE}, **about)
    settings: Object = {
        "arm": names[0],
        "distiller": learning.distiller,
        "rounds": command.rounds,
        "rollouts": options.rollouts,
        "memory": Path(str(learning.memory)).name,  # it may be moved with the folder
        "namespace": learning.namespace or DEFAULT_NAMESPACE,
        "tasks": sorted(task.id for task in tasks),
    }
    if learning.prune_below is not None:
        settings["prune_below"] = learning.prune_below
    number, prune_below = command.rounds, learning.prune_below
    return command.made(Exploration, tasks, options, settings, number=number, prune_below=prune_below)


def explore(command: BenchCommand, made: Exploration, model: Model) -> None:
    """Explore with the store of --memory."""
    learning = command.learning
    memory = command.stack.enter_context(open_known(learning.memory or ""))
    memory.namespace = learning.namespace or sole_namespace(memory.namespaces())
    writer = None
    if learning.distiller:
        budget, prices = command.shared.limits
        endpoint = replace(command.endpoint, model=learning.distiller)
        writer = command.stack.enter_context(Client(endpoint, ledger=made.folder, budget=budget, prices=prices))
    made.explore(model, memory, writer, on_round=_print_round)


def _print_round(report: RoundReport) -> None:
    lessons = sum(report["zones"].values()) + report["principles"]
    remark(f"round {report['number']}: success {report['success']:.3f}, {lessons:,} lessons")
