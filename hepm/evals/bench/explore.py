"""Explore an environment in rounds, each with the lessons of those before it (PRIME, 3.2; EvolveR, 3.2).

A round makes runs with a memory that stays as it is, then stores them, distils lessons from them, and lets experiences
evolve by one iteration. Runs are in the folder before they are stored, so a round that was killed goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from random import Random
from statistics import fmean
from typing import Any, Final, Literal

import numpy as np
from rich.table import Table
from rich.text import Text

from hepm.errors import BudgetSpentError, InputError
from hepm.evals.bench.arms import KnownMemory
from hepm.evals.bench.folder import Ended, Key
from hepm.evals.bench.models import Model
from hepm.evals.bench.play import Bench
from hepm.evals.environments import place_of
from hepm.evals.environments.gyms import CREDIT
from hepm.evals.metrics import Bootstrap, interval
from hepm.evals.report import rounded, table_of
from hepm.experience.distilling import ExtractiveDistiller
from hepm.experience.evolution import ITERATIONS, EvolutionSettings
from hepm.experience.lessons import STAGES, ZONES
from hepm.experience.matching import ModelJudge
from hepm.experience.model_distiller import ModelDistiller
from hepm.llm import Client, Usage
from hepm.text import count_of, on_one_line
from hepm.types import Trajectory

_DISTIL_TOKENS: Final = 4_000  # of a question about a run, whose record has at most 12,000 characters


@dataclass(frozen=True)
class RoundReport:
    """One round: its runs, and the library after it.

    Attributes:
        left_out: Episodes that broke off twice.
        success, interval: Share of successful runs, and its 95 % interval over tasks.
        reward, turns, errors, tokens: Means over runs.
        shown: Share of the runs that memory showed a lesson.
        zones, stages, principles: Lessons that are not retired; `supported` principles are taught by two or more runs.
        evolved: What evolution made, by operator, and what it pruned.
        environments: Of each environment that the tasks are from, its runs, their success and reward, and the
            experiences that apply there by zone (PRIME, tables 1 and 2).
    """

    number: int
    episodes: int
    left_out: int
    success: float
    interval: Sequence[float]
    reward: float
    turns: float
    errors: float
    tokens: float
    shown: float
    zones: Mapping[str, int]
    stages: Mapping[str, int]
    principles: int
    supported: int
    evolved: Mapping[str, int]
    environments: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])


class Exploration:
    """Rounds that are made or known.

    Args:
        bench: Makes the runs, on its tested tasks, in its first arm. "lessons": memory says lessons each turn (PRIME).
            "tagged": the agent searches principles (EvolveR); experiences are then neither distilled nor evolved.
        episodes: Runs in a round (PRIME, table 2).
        rounds: Rounds of runs, distilling and one iteration of evolution each (PRIME, table 3).

    Attributes:
        plan: The runs of each round. Tasks are dealt in an order drawn with the seed, each as often as another.
        rounds: What is known of finished rounds.
    """

    def __init__(self, bench: Bench, *, episodes: int = 100, rounds: int = ITERATIONS) -> None:
        self.bench, self.folder, self.arm = bench, bench.folder, bench.options.arms[0]
        self.rounds: list[RoundReport] = []
        dealer, deck, times = Random(f"explore {bench.options.seed}"), list[str](), Counter[str]()
        self.plan: list[list[Key]] = []
        for _ in range(rounds):
            self.plan.append([])
            for _ in range(episodes):
                deck = deck or dealer.sample([task.id for task in bench.tested], len(bench.tested))
                task = deck.pop()
                self.plan[-1].append(Key(self.arm.name, task, times[task]))
                times[task] += 1

    def estimate(self, *, distiller: bool) -> tuple[int, Usage]:
        """How many runs are to be made, and about what they take, with the questions of a distilling model."""
        runs, usage = self.bench.estimate([key for keys in self.plan for key in keys], like=self.arm.name)
        asked = runs * len(self._kinds) * distiller
        return runs, usage + Usage(asked, asked * _DISTIL_TOKENS, estimated=True)

    def play(
        self,
        model: Model,
        memory: KnownMemory,
        distiller: Client | None = None,
        *,
        on_round: Callable[[RoundReport], None] = lambda report: None,
    ) -> None:
        """Make and learn the rounds that are not known, up to the first with a run that breaks off for the first time.

        Args:
            memory: Where runs and lessons are stored.
            distiller: Distils and evolves; without it, lessons are found by counting.
        Raises:
            InputError: the store is not the one of this folder.
            EndpointRefusedError, BudgetSpentError: as in `Bench.play`; a repeated call goes on.
        """
        self._check(memory)
        for number, keys in enumerate(self.plan, 1):
            known = self.folder.note(f"round {number}")
            if known is None:
                left_out = self._make(number, keys, memory, model)
                if left_out is None:
                    return
                known = asdict(self._learn(number, keys, memory, distiller, left_out))
                self.folder.add_note(f"round {number}", known)
            self.rounds.append(RoundReport(**known))
            on_round(self.rounds[-1])

    @property
    def _kinds(self) -> Sequence[Literal["experience", "principle"]]:
        return ("principle",) if self.arm.tagged else ("experience", "principle")

    def _check(self, memory: KnownMemory) -> None:
        ended = [self.bench.ended[key] for key in self.plan[0] if key in self.bench.ended]
        learned = self.folder.note("round 1") is not None
        first = self._stored(ended[0], 1).id if ended else self._id(str(self.plan[0][0]))
        there = memory.run(first, namespace=memory.namespace) is not None
        if learned and not there:
            raise InputError(
                f"the folder {self.folder.path} holds rounds whose runs are not in the store: name the store and the "
                "namespace they are in, or another --folder to begin anew."
            )
        if there and self.folder.note("learning 1") is None:
            raise InputError(
                f"the store holds the run {first} of another exploration: name its --folder to go on with it, or "
                "another --seed or --namespace."
            )

    def _id(self, key: str) -> str:
        return f"{self.bench.environment.name}/{self.bench.endpoint.model}/{key}/seed-{self.bench.options.seed}"

    def _stored(self, ended: Ended, number: int) -> Trajectory:
        """The run as it is stored."""
        return replace(ended.run, id=self._id(str(ended.key)), tags={**ended.run.tags, "round": str(number)})

    def _make(self, number: int, keys: Sequence[Key], memory: KnownMemory, model: Model) -> int | None:
        """Make the runs of a round; how many are left out of it, None if it is not complete."""
        self.bench.failed.clear()
        waiting = [key for key in keys if key not in self.bench.ended]
        self.bench.make(waiting, memory, model, total=sum(map(len, self.plan)))
        note, failed = f"broke off in round {number}", {str(key) for key in self.bench.failed}
        before = set(self.folder.note(note) or ())
        if failed - before:
            self.folder.add_note(note, sorted(before | failed))
        return None if failed - before or len(failed) == len(keys) else len(failed)

    def _learn(
        self, number: int, keys: Sequence[Key], memory: KnownMemory, distiller: Client | None, left_out: int
    ) -> RoundReport:
        """Store, distil and evolve. Each part changes nothing when it is repeated."""
        ended = [self.bench.ended[key] for key in keys if key in self.bench.ended]
        runs = [self._stored(one, number) for one in ended]
        namespace = memory.namespace
        self.folder.add_note(f"learning {number}", True)
        for one, run in zip(ended, runs, strict=True):
            memory.library.show(run.id, one.facts.lessons, namespace=namespace)
        report = memory.ingest(runs, namespace=namespace)
        if report.rejected:
            raise InputError(f"a run of round {number} is not stored: {report.rejected[0].reason}")
        self._distil([run.id for run in runs], memory, distiller)
        evolved = self._evolve(number, memory, distiller) if "experience" in self._kinds else dict[str, int]()
        memory.principles.prune(namespace=namespace)
        memory.refresh()
        memory.follow_now()
        facts = [one.facts for one in ended]
        success_E = np.array([one.success for one in facts], dtype=np.float64)
        low_high = interval(Bootstrap([one.key.task for one in ended], seed=number).means(success_E))
        experiences = [one.row.properties for one in memory.library.list("experience", namespace=namespace)]
        principles = memory.library.list("principle", namespace=namespace)
        return RoundReport(
            number,
            episodes=len(ended),
            left_out=left_out,
            success=float(success_E.mean()),
            interval=[*low_high],
            reward=fmean(one.reward for one in facts),
            turns=fmean(one.turns for one in facts),
            errors=fmean(one.errors for one in facts),
            tokens=fmean(one.usage.tokens for one in facts),
            shown=fmean(bool(one.lessons) for one in facts),
            zones={zone: sum(one["zone"] == zone for one in experiences) for zone in ZONES},
            stages={stage: sum(one["stage"] == stage for one in experiences) for stage in STAGES},
            principles=len(principles),
            supported=sum(len(one.row.sources) > 1 for one in principles),
            evolved=evolved,
            environments={
                name: {
                    "runs": len(there),
                    "success": fmean(one.facts.success for one in there),
                    "reward": fmean(one.facts.reward for one in there),
                    **{zone: sum(_is_of(one, zone, name) for one in experiences) for zone in ZONES},
                }
                for name, there in self._by_environment(ended).items()
            },
        )

    def _by_environment(self, ended: Sequence[Ended]) -> Mapping[str, list[Ended]]:
        found: dict[str, list[Ended]] = {}
        for one in ended:
            place = place_of(self.bench.environment, self.bench.tasks[one.key.task])
            found.setdefault(place, []).append(one)
        return dict(sorted(found.items()))

    def _distil(self, runs: Sequence[str], memory: KnownMemory, distiller: Client | None) -> None:
        for kind in self._kinds:
            distill: Any = memory.experiences.distill if kind == "experience" else memory.principles.distill
            distill = partial(distill, namespace=memory.namespace)
            if distiller is None:
                counting = ExtractiveDistiller(kind, methods=CREDIT)
                # With the other runs of their tasks, as each run changes what the others teach.
                distill(runs=runs, distiller=counting)
                continue
            judge = {"judge": ModelJudge(distiller)} if kind == "principle" else {}
            if distill(distiller=ModelDistiller(distiller, kind, methods=CREDIT), **judge).unasked:
                raise BudgetSpentError("the budget is spent, and runs wait to be distilled: repeat the command.")

    def _evolve(self, number: int, memory: KnownMemory, distiller: Client | None) -> Mapping[str, int]:
        """One iteration at the temperature of its round (PRIME, table 3), once."""
        whole = EvolutionSettings()
        hottest = whole.temperature(number, len(self.plan))
        prunes = number % whole.prune_every == 0
        settings = replace(
            whole, hottest=hottest, coldest=min(hottest, whole.coldest), prune_every=1 if prunes else whole.prune_every
        )
        evolve = partial(
            memory.experiences.evolve, namespace=memory.namespace, iterations=1, settings=settings, model=distiller
        )
        seed, note = self.bench.options.seed + number, f"evolution {number}"
        known: Any = self.folder.note(note)
        if known is None:  # noted first: a repeated evolution would be another one
            plan = evolve(seed=seed, dry_run=True)
            if plan.count("unasked"):
                raise BudgetSpentError("the budget is spent, and experiences wait to evolve: repeat the command.")
            known = {"id": plan.id, "made": {**plan.kept, "pruned": plan.count("pruned")}}
            self.folder.add_note(note, known)
        rows = [one.row for one in memory.library.list("experience", namespace=memory.namespace, retired=True)]
        if known["id"] and not any(known["id"] in (row.made_by, row.retired_by) for row in rows):
            evolve(seed=seed)
        return known["made"]

    def to_json(self) -> dict[str, Any]:
        """As `hepm explore --json` prints it."""
        return rounded(
            {
                "environment": self.bench.environment.name,
                "model": self.bench.endpoint.model,
                "arm": self.arm.name,
                "rounds": [asdict(report) for report in self.rounds],
                "failed": {str(key): reason for key, reason in self.bench.failed.items()},
                "calls": sum(one.facts.usage.calls for one in self.bench.ended.values()),
            }
        )


def _is_of(experience: Mapping[str, Any], zone: str, environment: str) -> bool:
    return experience["zone"] == zone and environment in (experience["environments"] or (environment,))


def explore_tables(exploration: Exploration) -> list[Table | Text]:
    """The runs and the library, round by round, and why runs broke off."""
    bench = exploration.bench
    title = f"{bench.environment.name} with {bench.endpoint.model}: {count_of(len(exploration.rounds), 'round')}"
    runs = table_of(title, "round", "runs", "success", "95 %", "reward", "turns", "errors", "tokens", "with lessons")
    of_library = ("by zone", "by stage", "principles", "of 2+ runs", "evolved")
    library = table_of("the library after each round", "round", *of_library)
    for one in exploration.rounds:
        means = [f"{value:.2f}" for value in (one.reward, one.turns, one.errors)]
        low, high = one.interval
        share = [f"{one.success:.3f}", f"{low:.2f} … {high:.2f}"]
        runs.add_row(str(one.number), str(one.episodes), *share, *means, f"{one.tokens:,.0f}", f"{one.shown:.0%}")
        lessons = [" / ".join(map(str, numbers.values())) for numbers in (one.zones, one.stages)]
        made = ", ".join(f"{count} {name}" for name, count in one.evolved.items() if count) or "–"
        library.add_row(str(one.number), *lessons, str(one.principles), str(one.supported), made)
    names = f"experiences by zone: {', '.join(ZONES)}; by stage: {', '.join(STAGES)}"
    parts: list[Table | Text] = [runs, library, Text(names, style="dim")] if exploration.rounds else []
    if any(len(one.environments) > 1 for one in exploration.rounds):
        parts += [_by_round(exploration.rounds, measure) for measure in ("success", "reward")]
        parts.append(_zones_by_round(exploration.rounds))
    if bench.failed:
        key, reason = next(iter(bench.failed.items()))
        again = "repeat the command to try them again; those that break off again are left out"
        parts.append(Text(on_one_line(f"{count_of(len(bench.failed), 'run')} broke off ({key}): {reason}; {again}.")))
    return parts


def _by_round(rounds: Sequence[RoundReport], measure: str) -> Table:
    """A measure, rounds by environments (after PRIME, table 1)."""
    names = sorted({name for one in rounds for name in one.environments})
    table = table_of(f"{measure} by environment", "round", *names)
    for one in rounds:
        cells = [f"{one.environments[name][measure]:.2f}" if name in one.environments else "–" for name in names]
        table.add_row(str(one.number), *cells)
    return table


def _zones_by_round(rounds: Sequence[RoundReport]) -> Table:
    names = sorted({name for one in rounds for name in one.environments})
    table = table_of("experiences by zone", "round", *names)
    for one in rounds:
        known = [one.environments.get(name) for name in names]
        table.add_row(
            str(one.number), *("–" if of is None else " / ".join(f"{of[zone]:.0f}" for zone in ZONES) for of in known)
        )
    return table
