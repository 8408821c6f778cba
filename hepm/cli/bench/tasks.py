"""`hepm bench` of whole tasks: each arm on each task, paired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hepm.cli.bench.running import BenchCommand, chosen_tasks
from hepm.cli.options import check_store, known_namespace, refuse
from hepm.lab.bench.arms import Arm, KnownMemory, find_arms, open_ready
from hepm.lab.bench.play import Bench, BenchOptions
from hepm.lab.environments import Task
from hepm.types import SUCCESS_FROM, Object

MAX_TURNS: Final = 30


def tasks_bench(command: BenchCommand) -> Bench:
    """A bench of each arm on each task."""
    learning = command.learning
    what, made = "benches without --rounds", ("learn_from", "embedder")
    if learning.memory:
        what, made = "benches with --memory", ()
    command.refuse_unused(what, "memory", "namespace", "rollouts", *made)
    arms = find_arms(command.names("off,hybrid"), trials=command.trials or 1)
    given = _given(command, arms)
    learn_from = learning.learn_from or "train"
    embedder = None
    if learning.embedder is not None:
        embedder = command.stack.enter_context(open_ready(learning.embedder, command.endpoint))
    success_from = SUCCESS_FROM
    if given is not None:  # a given memory has judged its runs by its own limit already
        success_from = given.header.success_from
    options = command.options(
        arms,
        turns=MAX_TURNS,
        learn="online" if learn_from.startswith("online") else "train",
        judge=learn_from == "online-judged",
        embedder=embedder,
        trials=command.trials or 1,
        rollouts=learning.rollouts or 0,
        success_from=success_from,
    )
    tasks = _tested(command, options, given)
    return command.made(Bench, tasks, options, _settings(command, options, tasks, given), given=given)


def _given(command: BenchCommand, arms: Sequence[Arm]) -> KnownMemory | None:
    """The memory of --memory, opened so that nothing is written to it."""
    learning = command.learning
    if not learning.memory:
        return None
    # These put a digest of the runs to learn from into the system prompt.
    digesting = [arm.name for arm in arms if arm.digests]
    refuse(digesting, "--memory", f"{', '.join(digesting)} digest the runs of this bench: leave --memory out")
    if command.dry_run:
        return command.open_memory()  # rounds may still have to fill it
    check_store(learning.memory)
    memory = command.open_memory()
    memory.namespace = known_namespace(memory, learning.namespace, learning.memory)
    return memory


def _tested(command: BenchCommand, options: BenchOptions, given: KnownMemory | None) -> Sequence[Task]:
    """The tasks to report on: never those of a train split that memory learns from.

    A given memory may have been made of that split: then its tasks are played when they are named.
    """
    published = command.environment.tasks()
    held_out = [task for task in published if task.split != "train"]
    named = given is not None and command.agent.tasks
    if held_out and options.learn == "train" and not named:
        published = held_out
    return chosen_tasks(published, command.agent.tasks or "*")


def _settings(command: BenchCommand, options: BenchOptions, tasks: Sequence[Task], given: KnownMemory | None) -> Object:
    """What shapes the answers. Arms can be added later, and with a given memory also tasks and trials."""
    if given is not None:
        return {"memory": f"{command.learning.memory} {given.namespace}, revision {given.header.revision}"}
    return {
        "memory": f"learned from {options.learn}",
        "judge": command.shared.judge or options.judge,
        "trials": options.trials,
        "tasks": sorted(task.id for task in tasks),
    }
