"""Explore an environment in rounds, each with the lessons of those before it (PRIME, 3.2; EvolveR, 3.2).

A round makes runs with a memory that stays as it is, then stores them, distills lessons from them, and lets experiences
evolve by one iteration. Runs are in the folder before they are stored, so a round that was killed goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import count, islice
from operator import itemgetter
from random import Random
from statistics import fmean
from typing import Any, Final, TypeAlias

import numpy as np
from rich.table import Table

from hepm.errors import BudgetSpentError, InputError
from hepm.evals.metrics import Bootstrap, interval
from hepm.evals.report import rounded, rows_table
from hepm.experience.distilling import ExtractiveDistiller
from hepm.experience.lessons import STAGES, ZONES
from hepm.experience.matching import ModelJudge
from hepm.experience.model_distiller import ModelDistiller
from hepm.lab.bench.arms import KnownMemory
from hepm.lab.bench.folder import Ended, Key
from hepm.lab.bench.models import Model
from hepm.lab.bench.play import Bench
from hepm.lab.environments import place_of
from hepm.lab.environments.published import EQUALISED
from hepm.lab.evolution import ITERATIONS, Evolution
from hepm.lab.rl.rewards import count_actions
from hepm.llm import Client
from hepm.text import count_of
from hepm.types import Object, Trajectory

RoundReport: TypeAlias = Object
"""One round, its runs, and the library after it, as `hepm bench --rounds --json` prints it.

number, episodes, left_out: Of the round; runs; runs that broke off.
success, interval: Share of successful runs, and its 95 % interval over tasks.
reward, turns, errors, tokens: Means over runs. shown: Share of the runs that memory showed a lesson.
zones, stages, principles: Lessons that are not retired.
evolved: What evolution made, by operator, and what it pruned.
environments: Of each environment that the tasks are from, the runs, means and zones there (PRIME, tables 1 and 2).
actions: Of an agent that acts by tags, the mean number in a run of each kind of action (EvolveR, figure 5).
quality: Of the principles that the round taught first and that are left: how many, their mean score, and in how many
    runs they were read (EvolveR, table 7).
"""


@dataclass(eq=False)
class Exploration(Bench):
    """Rounds that are made or known, in the bench's first arm, of so many rollouts in each environment of the tasks.

    In the arms "lessons" and "chosen" memory says lessons each turn (PRIME). In "tagged" the agent searches principles
    (EvolveR); experiences are then neither distilled nor evolved.

    Attributes:
        given: Where runs and lessons are stored.
        number: Rounds of runs, distilling and one iteration of evolution each (PRIME, table 3).
        distiller: Whether the model's judge distills and evolves; else lessons are found by counting.
        prune_below: θ_prune, after each round; see `hepm.experience.principles.Principles.prune`.
        on_round: Called with the report of each round.
        deals: The runs of each round. Tasks are dealt in an order drawn with the seed, each as often as another.
        rounds: What is known of finished rounds.
    """

    _: KW_ONLY
    number: int = ITERATIONS
    distiller: bool = False
    prune_below: float | None = None
    on_round: Callable[[RoundReport], None] = lambda report: None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.arm = self.options.arms[0]
        self.rounds: list[RoundReport] = []
        self.deals = self._dealt(self.options.rollouts)

    def _dealt(self, episodes: int) -> list[list[Key]]:
        """The runs of each round: of each environment as many; each task as often as another."""
        tasks: defaultdict[str, list[str]] = defaultdict(list)
        for task in self.tested:
            tasks[place_of(self.environment, task)].append(task.id)
        deals: list[list[Key]] = [[] for _ in range(self.number)]
        for place, names in sorted(tasks.items()):
            dealt = self._endless(place, names)
            for deal in deals:
                deal.extend(islice(dealt, episodes))
        return deals

    def _endless(self, place: str, names: Sequence[str]) -> Iterator[Key]:
        """Runs of tasks, in a new order each time that all were dealt."""
        for trial in count():
            for task in Random(f"explore {self.options.seed} {place} {trial}").sample(names, len(names)):
                yield Key(self.arm.name, task, trial)

    def plan(self) -> tuple[list[Key], list[Key]]:
        """The runs of all rounds."""
        return [key for keys in self.deals for key in keys], []

    @property
    def memory(self) -> KnownMemory:
        """The given one."""
        assert self.given is not None, "an exploration is made with a memory"
        return self.given

    def play(self, model: Model) -> None:
        """Make and learn the rounds that are not known, up to the first of which no run ends.

        Raises:
            InputError: the store is not the one of this folder.
            EndpointRefusedError, BudgetSpentError: as in `Bench.play`; a repeated call goes on.
        """
        self._model = model
        # Runs of equal names would be taken for stored.
        first = self._id(self.deals[0][0])
        if self.folder.note("learning 1") is None and self.memory.run(first, namespace=self.memory.namespace):
            raise InputError(
                f"the folder {self.folder.path} and the store do not belong together: {first} is stored already. Name "
                "the folder of these rounds, or begin anew with another store or another --seed."
            )
        for number, keys in enumerate(self.deals, 1):
            report = self.folder.note(f"round {number}")
            # A round whose report is noted is not made again.
            if report is None:
                self._make(keys)
                if len(self.failed) == len(keys):
                    return  # a round without a run teaches nothing: the server may be down
                report = self._learn(number, keys, model.judge if self.distiller else None)
                self.folder.add_note(f"round {number}", report)
            self.rounds.append(report)
            self.on_round(report)
        self._add_quality()

    def _id(self, key: Key) -> str:
        return f"{self.environment.name}/{self.endpoint.model}/{key}/seed-{self.options.seed}"

    def _stored(self, ended: Ended, number: int) -> Trajectory:
        """The run as it is stored."""
        return replace(ended.run, id=self._id(ended.key), tags={**ended.run.tags, "round": str(number)})

    def _make(self, keys: Sequence[Key]) -> None:
        """Make the runs of a round; those that break off are left out."""
        self.failed.clear()
        # Runs of a command that was stopped are in the folder.
        waiting = [key for key in keys if key not in self.ended]
        self._play(waiting, lambda key: self.memory, sum(map(len, self.deals)))

    def _learn(self, number: int, keys: Sequence[Key], writer: Client | None) -> RoundReport:
        """Store, distill and evolve. Each part changes nothing when it is repeated."""
        memory, namespace = self.memory, self.memory.namespace
        ended = [self.ended[key] for key in keys if key in self.ended]
        runs = [self._stored(run, number) for run in ended]
        self.folder.add_note(f"learning {number}", True)
        # Before the runs: as these are stored, their outcomes count for the lessons they were shown.
        for shown, run in zip(ended, runs, strict=True):
            memory.lessons.show(run.id, shown.facts.lessons, namespace=namespace)
        # Stored runs are skipped when this is repeated.
        report = memory.ingest(runs, namespace=namespace)
        if report.rejected:
            raise InputError(f"a run of round {number} is not stored: {report.rejected[0].reason}")
        self._distill(writer)
        evolved: Mapping[str, int] = {}
        if not self.arm.tagged:
            evolved = self._evolve(number, writer)
        memory.principles.prune(below=self.prune_below, namespace=namespace)
        memory.refresh()
        memory.follow_now()
        return self._report(number, ended, evolved)

    def _report(self, number: int, ended: Sequence[Ended], evolved: Mapping[str, int]) -> RoundReport:
        memory = self.memory
        # Over tasks: two runs of one task are no independent evidence.
        bootstrap = Bootstrap([run.key.task for run in ended], seed=number)
        success_E = np.array([run.facts.success for run in ended], dtype=np.float64)
        lessons = memory.lessons.list("experience", namespace=memory.namespace)
        experiences: list[Mapping[str, Any]] = [lesson.row.properties for lesson in lessons]
        by_place: defaultdict[str, list[Ended]] = defaultdict(list)
        for run in ended:
            by_place[place_of(self.environment, self.tasks[run.key.task])].append(run)
        environments: Object = {}
        for place, runs in sorted(by_place.items()):
            # An experience that names no environment applies in all.
            here = [one for one in experiences if place in (one["environments"] or (place,))]
            environments[place] = {"runs": len(runs), **_means(runs), **_by_zone(here)}
        return {
            "number": number,
            "episodes": len(ended),
            "left_out": len(self.failed),
            "interval": [*interval(bootstrap.means(success_E))],
            **_means(ended),
            "zones": _by_zone(experiences),
            # An experience of two stages counts in both.
            "stages": {stage: sum(stage in str(one["stage"]) for one in experiences) for stage in STAGES},
            "principles": len(memory.lessons.list("principle", namespace=memory.namespace)),
            "evolved": evolved,
            "environments": environments,
            "actions": _actions(ended) if self.arm.tagged else {},
        }

    def _add_quality(self) -> None:
        left = self.memory.lessons.list("principle", namespace=self.memory.namespace)
        for report, keys in zip(self.rounds, self.deals, strict=False):
            runs = {self._id(key) for key in keys}
            uses = [one.uses for one in left if not runs.isdisjoint(one.row.run_ids)]
            left = [one for one in left if runs.isdisjoint(one.row.run_ids)]
            report["quality"] = {}
            if uses:
                score, read = fmean(one.score for one in uses), fmean(one.uses for one in uses)
                report["quality"] = {"principles": len(uses), "score": score, "uses": read}

    def _distill(self, distiller: Client | None) -> None:
        memory, namespace = self.memory, self.memory.namespace
        experiences, principles, judge = ExtractiveDistiller(EQUALISED), None, None
        if distiller is not None:
            experiences = ModelDistiller(distiller, "experience", equalised=EQUALISED)
            principles = ModelDistiller(distiller, "principle", equalised=EQUALISED)
            judge = ModelJudge(distiller)
        unasked = 0
        if not self.arm.tagged:
            unasked += memory.experiences.distill(namespace=namespace, distiller=experiences).unasked
        unasked += memory.principles.distill(namespace=namespace, distiller=principles, judge=judge).unasked
        if unasked:
            raise BudgetSpentError("the budget is spent, and runs wait to be distilled: repeat the command.")

    def _evolve(self, number: int, distiller: Client | None) -> Mapping[str, int]:
        """The iteration of its round (PRIME, table 3), once: how many experiences each operator made, or pruned."""
        note = f"evolution {number}"
        made = self.folder.note(note)
        if made is None:
            evolved = Evolution(
                self.memory.lessons, namespace=self.memory.namespace, seed=self.options.seed, model=distiller
            ).run(len(self.deals), only=number)
            if evolved.count("unasked"):
                raise BudgetSpentError("the budget is spent, and experiences wait to evolve: repeat the command.")
            made = {**evolved.kept, "pruned": evolved.count("pruned")}
            self.folder.add_note(note, made)
        return made

    def outcome(self) -> tuple[Object, Sequence[Table | str]]:
        values = {
            "environment": self.environment.name,
            "model": self.endpoint.model,
            "arm": self.arm.name,
            "rounds": self.rounds,
            "failed": {str(key): reason for key, reason in self.failed.items()},
            "calls": sum(run.facts.usage.calls for run in self.ended.values()),
        }
        return rounded(values), list(_tables(self))


def _means(runs: Sequence[Ended]) -> dict[str, float]:
    facts = [run.facts for run in runs]
    means = {name: fmean(getattr(run, name) for run in facts) for name in ("success", "reward", "turns", "errors")}
    return means | {
        "tokens": fmean(run.usage.tokens for run in facts),
        "shown": fmean(bool(run.lessons) for run in facts),
    }


def _by_zone(experiences: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {zone: sum(one["zone"] == zone for one in experiences) for zone in ZONES}


def _actions(runs: Sequence[Ended]) -> Mapping[str, float]:
    counts = [count_actions([turn.text for turn in run.run.turns if turn.is_step]) for run in runs]
    return {name: fmean(one[name] for one in counts) for name in counts[0]}


def _tables(exploration: Exploration) -> Iterator[Table | str]:
    """The runs and the library, round by round, and why runs broke off."""
    rounds = exploration.rounds
    if rounds:
        title = f"{exploration.environment.name} with {exploration.endpoint.model}: {count_of(len(rounds), 'round')}"
        legend = f"experiences by zone: {', '.join(ZONES)}; by stage: {', '.join(STAGES)}, one of two in both"
        legend += f"; success: a reward of {exploration.options.success_from:g} or more"
        yield rows_table(title, _ROUND_COLUMNS, rounds)
        yield legend
    rows = [
        (place, report["number"], measures) for report in rounds for place, measures in report["environments"].items()
    ]
    if len(rows) > len(rounds):
        yield rows_table("by environment", _ENVIRONMENT_COLUMNS, sorted(rows, key=itemgetter(0, 1)))
    if exploration.failed:
        key, reason = next(iter(exploration.failed.items()))
        yield f"{count_of(len(exploration.failed), 'run')} of the last round broke off ({key}): {reason}"


_ROUND_COLUMNS: Final = {
    "round": "{0[number]}",
    "runs": "{0[episodes]}",
    "success": "{0[success]:.3f} ({0[interval][0]:.2f}–{0[interval][1]:.2f})",
    "reward": "{0[reward]:.2f}",
    "turns": "{0[turns]:.2f}",
    "errors": "{0[errors]:.2f}",
    "tokens": "{0[tokens]:,.0f}",
    "with lessons": "{0[shown]:.0%}",
    "by zone": " / ".join(f"{{0[zones][{zone}]}}" for zone in ZONES),
    "by stage": " / ".join(f"{{0[stages][{stage}]}}" for stage in STAGES),
    "principles": "{0[principles]}",
}
_ENVIRONMENT_COLUMNS: Final = {
    "environment": "{0[0]}",
    "round": "{0[1]}",
    "success": "{0[2][success]:.2f}",
    "reward": "{0[2][reward]:.2f}",
    "experiences by zone": " / ".join(f"{{0[2][{zone}]}}" for zone in ZONES),
}
"""Success, reward and experiences by zone in each environment, round by round (after PRIME, tables 1 and 2)."""
