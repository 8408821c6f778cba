"""`hepm bench --rounds`: rounds of runs, each with the lessons of the rounds before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import click

from hepm.cli.bench.kind import PilotedKind, chosen_tasks
from hepm.cli.bench.outcome import PlayOutcome
from hepm.cli.options import refuse, remark, sole_namespace
from hepm.lab.bench.arms import ROUND_ARMS, find_arms, open_known
from hepm.lab.bench.explore import Exploration, RoundReport, explore_tables
from hepm.lab.bench.folder import Folder
from hepm.lab.bench.models import Model
from hepm.lab.bench.pilot import small_exploration
from hepm.lab.bench.play import Bench, BenchOptions
from hepm.lab.bench.rehearsal import RehearsingClient
from hepm.lab.environments import Environment, Task
from hepm.llm import Client
from hepm.llm.question import Ledger
from hepm.types import DEFAULT_NAMESPACE, Object

TURNS: Final = 16  # of a run (PRIME, table 2)
RUNS: Final = 100  # in each environment, over all rounds (PRIME, table 2)
TEMPERATURE: Final = 1.0  # runs of a task differ, so that they can be compared


class RoundsKind(PilotedKind[Environment, Exploration]):
    """Explores in rounds, and reports on each."""

    default_arms = "lessons"

    def check(self) -> None:
        """See `BenchKind.check`."""
        fits = len(self.names) == 1 and self.names[0] in ROUND_ARMS
        find_arms(self.names, trials=1)
        refuse(not fits, "--arms", f"rounds are made in one arm: {', '.join(ROUND_ARMS)}")
        learned = self.learning.learn_from or self.learning.embedder
        refuse(learned, "--rounds", "rounds have no use for --learn-from and --embedder: leave them out")
        missing = "name the store that rounds are learned into; it is made if it is missing"
        refuse(not self.learning.memory, "--memory", missing)
        self._tasks  # noqa: B018

    @property
    def suffix(self) -> str:
        """Of the folder's name."""
        return f"-rounds-{self.names[0]}"

    @cached_property
    def _options(self) -> BenchOptions:
        return BenchOptions(
            arms=find_arms(self.names, trials=1),
            rollouts=self.learning.rollouts or -(-RUNS // self.rounds),
            concurrency=self.agent.concurrency,
            seed=self.seed,
            max_turns=self.agent.max_turns or TURNS,
            # What `-o temperature=X` says holds.
            options={"temperature": TEMPERATURE} | self.agent.request_arguments(),
            turn_rewards=True,
        )

    @cached_property
    def _tasks(self) -> Sequence[Task]:
        """The tasks of the train split, where one is published: the others are for a bench with what was learned."""
        published = [task for task in self.environment.tasks() if task.split == "train"]
        return chosen_tasks(published or self.environment.tasks(), self.agent.tasks or "*")

    def settings(self) -> Object:
        """See `BenchKind.settings`."""
        options, learning = self._options, self.learning
        settings: Object = {
            "max_turns": options.max_turns,
            "options": dict(options.options),
            "arm": self.names[0],
            "distiller": learning.distiller,
            "rounds": self.rounds,
            "rollouts": options.rollouts,
            "namespace": learning.namespace or DEFAULT_NAMESPACE,
            "tasks": sorted(task.id for task in self._tasks),
        }
        if learning.prune_below is not None:
            settings["prune_below"] = learning.prune_below
        return settings

    def made(self, folder: Folder) -> Exploration:
        """See `BenchKind.made`."""
        bench = Bench(self.environment, self._tasks, folder, self.endpoint, self._options)
        prune_below = self.learning.prune_below
        return Exploration(bench, episodes=self._options.rollouts, rounds=self.rounds, prune_below=prune_below)

    def small(self, made: Exploration, folder: Folder) -> Exploration:
        """See `PilotedKind.small`."""
        return small_exploration(made, folder)

    def rehearsed(self, made: Exploration, folder: Folder) -> Exploration:
        """See `PilotedKind.rehearsed`."""
        return small_exploration(made, folder)

    def pilot(self, made: Exploration) -> Exploration:
        """See `PilotedKind.pilot`."""
        small = super().pilot(made)
        self._stand_in(small)
        return small

    def _stand_in(self, small: Exploration) -> str:
        """The store of a small exploration, which takes the place of the whole one's in what is tested with it."""
        assert self.learning.memory
        store = str(small.folder.path / "memory.hepm")
        self.shared.stand_ins[self.learning.memory] = store
        return store

    def play(self, made: Exploration, model: Model) -> None:
        """See `BenchKind.play`."""
        store = self.learning.memory or ""
        whole = not (self.dry_run or self.shared.piloting)
        if not whole:
            store = self._stand_in(made)
        memory = self.stack.enter_context(open_known(store))
        memory.namespace = self.learning.namespace or sole_namespace(memory.namespaces())
        writer = None
        if self.learning.distiller and isinstance(model.client, RehearsingClient):
            writer = model.client
        elif self.learning.distiller:
            ledger = memory.lessons.ledger("run", namespace=memory.namespace) if whole else made.folder
            writer = self._writer(self.learning.distiller, ledger)
        made.play(model, memory, writer, on_round=_print_round if whole else lambda report: None)

    def _writer(self, name: str, ledger: Ledger) -> Client:
        """What asks the model that distills."""
        budget, prices = self.shared.limits
        endpoint = replace(self.endpoint, model=name)
        return self.stack.enter_context(Client(endpoint, ledger=ledger, budget=budget, prices=prices))

    def report(self, made: Exploration) -> PlayOutcome:
        """See `BenchKind.report`."""
        # Runs that broke off leave their round unfinished: repeating the command tries them again.
        ending = click.exceptions.Exit(1) if len(made.rounds) < self.rounds else None
        return PlayOutcome(made.to_json(), explore_tables(made), ending)


def _print_round(report: RoundReport) -> None:
    lessons = sum(report.zones.values()) + report.principles
    remark(f"round {report.number}: success {report.success:.3f}, {lessons:,} lessons")
