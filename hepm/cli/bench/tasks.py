"""`hepm bench` of whole tasks: each arm on each task, paired."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from hepm.cli.bench.kind import PilotedKind, chosen_tasks
from hepm.cli.bench.outcome import PlayOutcome
from hepm.cli.options import check_store, known_namespace, refuse
from hepm.lab.bench.arms import Arm, KnownMemory, find_arms, open_known, open_ready
from hepm.lab.bench.folder import Folder
from hepm.lab.bench.pilot import SmallBench
from hepm.lab.bench.play import Bench, BenchOptions
from hepm.lab.bench.rehearsal import Rehearsal
from hepm.lab.environments import Environment, Task
from hepm.types import SUCCESS_FROM, Object

MAX_TURNS: Final = 30


class TasksKind(PilotedKind[Environment, Bench]):
    """Runs each arm on each task."""

    def check(self) -> None:
        """See `BenchKind.check`."""
        learning = self.learning
        refuse(learning.prune_below is not None, "--prune-below", "principles are pruned in rounds: give --rounds")
        if learning.memory:
            learned = learning.learn_from or learning.embedder
            refuse(learned, "--memory", "--memory excludes --learn-from and --embedder: it is used as it is")
            # These put a digest of the runs to learn from into the system prompt.
            digesting = [arm.name for arm in self._arms if arm.digests]
            refuse(digesting, "--memory", f"{', '.join(digesting)} digest the runs of this bench: leave --memory out")
        self._tasks  # noqa: B018

    def settings(self) -> Object:
        """See `BenchKind.settings`. Arms can be added later, and with a given memory also tasks and trials."""
        options, given = self._options, self._given
        settings: Object = {"max_turns": options.max_turns, "options": dict(options.options)}
        if given is not None:
            about = f"{self.learning.memory} {given.namespace}, revision {given.header.revision}"
            return settings | {"memory": about}
        settings |= {
            "memory": f"learned from {options.learn}",
            "embedder": self.learning.embedder or "hash-512",
            "judge": self.shared.judge or options.judge,
            "trials": options.trials,
            "tasks": sorted(task.id for task in self._tasks),
        }
        if options.rollouts:
            settings["rollouts"] = options.rollouts
        return settings

    def made(self, folder: Folder) -> Bench:
        """See `BenchKind.made`."""
        return Bench(self.environment, self._tasks, folder, self.endpoint, self._options, given=self._given)

    def small(self, made: Bench, folder: Folder) -> Bench:
        """See `PilotedKind.small`."""
        return SmallBench(made, folder)

    def rehearsed(self, made: Bench, folder: Folder) -> Bench:
        """See `PilotedKind.rehearsed`."""
        return Rehearsal(made, folder)

    def report(self, made: Bench) -> PlayOutcome:
        """See `BenchKind.report`."""
        tasks = [task.id for task in self._tasks]
        return self.compared(made, tasks, made.options.trials, success_from=made.options.success_from)

    @cached_property
    def _arms(self) -> Sequence[Arm]:
        return find_arms(self.names, trials=self.trials or 1)

    @cached_property
    def _given(self) -> KnownMemory | None:
        """The memory of --memory, opened so that nothing is written to it."""
        store = self.learning.memory
        if store is None:
            return None
        store = self.shared.stand_ins.get(store, store)
        check_store(store, "--memory")
        memory = self.stack.enter_context(open_known(store))
        memory.namespace = known_namespace(memory, self.learning.namespace, store, "--memory")
        return memory

    @cached_property
    def _options(self) -> BenchOptions:
        learning, given = self.learning, self._given
        learn_from = learning.learn_from or "train"
        embedder = None
        if learning.embedder is not None:
            embedder = self.stack.enter_context(open_ready(learning.embedder, self.endpoint))
        return BenchOptions(
            arms=self._arms,
            learn="online" if learn_from.startswith("online") else "train",
            judge=learn_from.endswith("judged"),
            embedder=embedder,
            trials=self.trials or 1,
            rollouts=learning.rollouts or 0,
            concurrency=self.agent.concurrency,
            seed=self.seed,
            max_turns=self.agent.max_turns or MAX_TURNS,
            options=self.agent.request_arguments(),
            # A given memory has judged its runs by its own limit already.
            success_from=SUCCESS_FROM if given is None else given.header.success_from,
        )

    @cached_property
    def _tasks(self) -> Sequence[Task]:
        """The tasks to report on: never those of a train split that memory learns from.

        A given memory may have been made of that split: then its tasks are played when they are named.
        """
        published = self.environment.tasks()
        held_out = [task for task in published if task.split != "train"]
        named = self._given is not None and self.agent.tasks
        if held_out and self._options.learn == "train" and not named:
            published = held_out
        return chosen_tasks(published, self.agent.tasks or "*")
