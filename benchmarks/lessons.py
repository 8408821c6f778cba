"""What lessons are worth: whether those of one's own kind are found, and whether they name the right tool.

usage: python benchmarks/lessons.py [RUNS] [--part search|groups|divergences] [--tasks ids|none] [--seen]
           [--folds N] [--seed 0]

Lessons are made without a model, of runs cut and redacted as a store keeps them. Prints a Markdown table.
search: for each run of τ and τ² that has a relative (one about the same customer, hepm.evals.domains), at its first and
at its middle call: is a relative's lesson among the top 3? The run is taken out, and its task distilled without it.
groups: of the pairs of runs in one group of like requests, task ids hidden, how many are of one task (*precision*) or
of one family; and of the pairs of one task how many are in one group (*recall*).
divergences: at each point where a failed run left a successful one, and at a sixth of the calls of successful runs,
`Memory.prompt` is asked of a memory without the task's family (five folds), with --seen of one without the run alone
(ten folds): gain (hepm.evals.metrics), how often what is named misses the next call of a successful run, and how often
nothing is named. With `--tasks none` memory is not told the tasks' ids: each run stands alone. --folds measures the
first N. The baselines are counts of what came next, and the hybrid policy alone.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from parts.bm25 import BM25
from parts.measured import options, read_records, spanned

from hepm.embed import HashingEmbedder
from hepm.evals.baselines import Hint, Training
from hepm.evals.domains import Domain, DomainRun, Event, by_family, by_run, domains_of
from hepm.evals.methods import find_methods
from hepm.evals.metrics import Bootstrap, DivergencePoint, find_divergences, interval
from hepm.experience.comparison import compare_runs
from hepm.experience.lessons import Experience, Principle
from hepm.experience.moment import Moment
from hepm.experience.transcript import Move, moves_of, situation_text
from hepm.experience.zones import stage_of
from hepm.ingest.prepare import shorten
from hepm.ingest.redact import Redactor
from hepm.ingest.transitions import agent_state
from hepm.memory import Memory
from hepm.types import ToolName, Trajectory
from hepm.uplift.likeness import group_by_request

Array = NDArray[np.float64]
TOP = 3
BASELINE = "BM25 over runs"
EMBEDDER = HashingEmbedder()


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--part", choices=("search", "groups", "divergences"), default="search")
    parser.add_argument("--tasks", choices=("ids", "none"), default="ids")
    parser.add_argument("--seen", action="store_true")
    parser.add_argument("--folds", type=int, default=99)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    places = read_places(arguments.runs, every=arguments.part != "search")
    if arguments.part == "search":
        lines = search_table(ask_all(places), arguments.seed)
    elif arguments.part == "groups":
        lines = group_table(places)
    else:
        folds = by_run if arguments.seen else by_family
        counts = {place.name: min(arguments.folds, len([*folds(place.runs)])) for place in places}
        jobs = [(place, n, arguments.seen, arguments.tasks) for place in places for n in range(counts[place.name])]
        with ProcessPoolExecutor(2) as pool:
            lines = divergence_table([one for part in pool.map(measure_fold, jobs) for one in part], arguments.seed)
    print("\n".join(lines))


def read_places(folder: Path, *, every: bool) -> list[Place]:
    records = [record for record in read_records(folder) if every or record[0].startswith("tau")]
    return [Place(domain) for domain in domains_of(records)]


class Place:
    """An environment with its labelled runs, as stored and as read."""

    def __init__(self, domain: Domain) -> None:
        self.name = domain.name
        self.runs = sorted((run for run in domain.runs if run.success is not None), key=lambda run: run.id)
        clean = Redactor()
        self.stored = {run.id: shorten(clean(run.trajectory)) for run in self.runs}
        self.family = {run.id: run.family for run in self.runs}

    @cached_property
    def tasks(self) -> dict[str, list[Trajectory]]:
        """As a store groups them by their task's id."""
        found: defaultdict[str, list[Trajectory]] = defaultdict(list)
        for run in self.runs:
            found[run.trajectory.task or run.id].append(self.stored[run.id])
        return found

    @cached_property
    def experiences(self) -> list[tuple[str, Experience]]:
        """Each with the task it is from."""
        return [(task, lesson) for task, runs in self.tasks.items() for lesson in distinct(runs)]


def distinct(runs: Iterable[Trajectory]) -> list[Experience]:
    """What runs of one task taught, each thing once."""
    return list({one.experience.id: one.experience for one in compare_runs(runs)}.values())


# Search: lessons of one's own kind


def weights_of(vectors_ND: NDArray[np.float32]) -> Array:
    """How much a coordinate of lexical vectors tells: the fewer lessons have it, the more."""
    held_D = np.count_nonzero(vectors_ND, axis=0)
    return np.log(1 + (len(vectors_ND) + 1) / (held_D + 1))


def cosines(vectors_ND: Array, query_D: Array) -> Array:
    lengths_N = np.linalg.norm(vectors_ND, axis=1) * np.linalg.norm(query_D)
    return (vectors_ND @ query_D) / np.maximum(lengths_N, 1e-12)


def chance(scores_N: Array, right_N: NDArray[np.bool_]) -> float:
    """How likely one of the top 3 is right, where equal scores come in any order."""
    order = np.argsort(-scores_N, kind="stable")
    third = scores_N[order[min(TOP, len(order)) - 1]]
    above, equal = scores_N > third + 1e-12, np.abs(scores_N - third) <= 1e-12
    if right_N[above].any():
        return 1.0
    places, wrong = TOP - int(above.sum()), int((equal & ~right_N).sum())
    return 1 - math.comb(wrong, places) / math.comb(int(equal.sum()), places)


@dataclass
class Measured:
    """A number per asked moment and method, with the family it counts for."""

    families: list[str] = field(default_factory=list[str])
    values: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def ask_all(places: Sequence[Place]) -> dict[str, Measured]:
    lessons = [lesson for place in places for _, lesson in place.experiences]
    weights_D = weights_of(EMBEDDER.embed([lesson.text for lesson in lessons]))
    measured: dict[str, Measured] = {}
    for place in places:
        finder = Finder(place, weights_D)
        relatives = Counter(place.family.values())
        for run in place.runs:
            moves = list(moves_of(place.stored[run.id]))
            if relatives[run.family] < 2 or not moves:
                continue
            finder.leave_out(run)
            for when, move in (("first", moves[0]), ("middle", moves[len(moves) // 2])):
                told = measured.setdefault(f"{place.name}, {when}", Measured())
                told.families.append(run.family)
                for method, value in finder.ask(run, move).items():
                    told.values[method].append(value)
    return measured


class Finder:
    """Asks one environment, with one run taken out."""

    def __init__(self, place: Place, weights_D: Array) -> None:
        self._place, self._weights_D = place, weights_D
        self._runs = BM25([raw(run.trajectory) for run in place.runs])
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def leave_out(self, run: DomainRun) -> None:
        task = run.trajectory.task or run.id
        again = distinct(other for other in self._place.tasks[task] if other.id != run.id)
        self._lessons = [lesson for of, lesson in self._place.experiences if of != task] + again
        self._texts_ND = self._embed([lesson.text for lesson in self._lessons])
        family = self._place.family
        self._right_N = np.array(
            [any(family[source.run] == run.family for source in lesson.sources) for lesson in self._lessons]
        )

    def _embed(self, texts: Sequence[str]) -> Array:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        self._vectors |= dict(zip(new, EMBEDDER.embed(new), strict=True))
        return np.stack([self._vectors[text] for text in texts]).astype(np.float64)

    def ask(self, run: DomainRun, move: Move) -> dict[str, float]:
        """The chance that each method finds a relative."""
        stored = self._place.stored[run.id]
        query = situation_text(stored.environment, agent_state(stored.turns[: move.place]).state())
        query_D = self._embed([query])[0]
        weighted_N = cosines(self._texts_ND * self._weights_D, query_D * self._weights_D)
        stage = stage_of(move.turn, stored.steps)
        same_stage_N = np.array([lesson.stage == stage for lesson in self._lessons])
        others_N = np.array([other.id != run.id for other in self._place.runs])
        relatives_N = np.array([other.family == run.family for other in self._place.runs])[others_N]
        return {
            "random": chance(np.zeros(len(self._right_N)), self._right_N),
            "similarity, as in hepm": chance(weighted_N, self._right_N),
            "the same stage first": chance(weighted_N + same_stage_N, self._right_N),
            BASELINE: chance(self._runs.scores(query)[others_N], relatives_N),
        }


def raw(run: Trajectory) -> str:
    """Everything that is said in a run."""
    parts: list[str] = []
    for turn in run.turns:
        parts.append(turn.text)
        for call in turn.calls:
            parts += [call.name, json.dumps(dict(call.arguments), default=str), call.result or ""]
    return "\n".join(parts)


def search_table(measured: Mapping[str, Measured], seed: int) -> Iterator[str]:
    """Means over the columns, with intervals from resampling families, and how far each is ahead of BM25."""
    draws = {name: Bootstrap(told.families, seed=[seed, at]) for at, (name, told) in enumerate(measured.items())}
    columns = [f"{name} ({len(told.families)})" for name, told in measured.items()]
    yield f"| top 3 hold a relative | {' | '.join(columns)} | mean | less BM25 |"
    yield "|---" * (len(columns) + 3) + "|"
    for method in next(iter(measured.values())).values:
        values = {name: np.array(told.values[method]) for name, told in measured.items()}
        ahead = {name: values[name] - np.array(told.values[BASELINE]) for name, told in measured.items()}
        cells = [f"{value.mean():.3f}" for value in values.values()]
        for of in (values, ahead):
            mean = float(np.mean([value.mean() for value in of.values()]))
            cells.append(spanned(mean, *interval(np.mean([draws[name].means(of[name]) for name in of], axis=0))))
        yield f"| {method} | {' | '.join(cells)} |"


# Groups: runs of one task whose ids are hidden


def group_table(places: Sequence[Place]) -> Iterator[str]:
    yield "| environment | groups | precision | of one family | recall |\n|---|---|---|---|---|"
    for place in places:
        groups = group_by_request(run.trajectory for run in place.runs)
        grouped = pairs(place.runs, lambda run, groups=groups: groups[run.id])
        right = pairs(place.runs, lambda run, groups=groups: (groups[run.id], run.task))
        family = pairs(place.runs, lambda run, groups=groups: (groups[run.id], run.family))
        of_task = pairs(place.runs, lambda run: run.task)
        shares = (right / max(grouped, 1), family / max(grouped, 1), right / max(of_task, 1))
        yield f"| {place.name} | {len(set(groups.values()))} | {' | '.join(f'{share:.2f}' for share in shares)} |"


def pairs(runs: Sequence[DomainRun], key: Callable[[DomainRun], object]) -> int:
    return sum(times * (times - 1) // 2 for times in Counter(map(key, runs)).values())


# Divergences: what a prompt names where a failed run left a successful one

PARTS = ("plain counts", "the hybrid alone", "suggestion", "principles", "experiences", "suggestion and lessons")


class Named(NamedTuple):
    """What each part of a prompt names at a point, and whether a lesson warns of the first suggestion."""

    family: str
    next: ToolName
    divergence: DivergencePoint | None
    named: dict[str, set[ToolName]]
    opposed: bool


def measure_fold(job: tuple[Place, int, bool, str]) -> list[Named]:
    place, fold, seen, tasks = job
    split = [*(by_run if seen else by_family)(place.runs)][fold]
    tested = set(split.test)
    here = [(one.event, one) for one in find_divergences(place.runs) if one.event.run in tested]
    good = [event for run in split.test if run.success for event in run.events]
    random.Random(fold).shuffle(good)
    here += [(event, None) for event in good[: max(20, len(good) // 6)]]
    training = Training(split.train)
    [counts] = find_methods(["first-order"])
    ranked = counts.fit(training).rank([event for event, _ in here])
    with TemporaryDirectory() as folder, Memory.open(folder) as memory:
        memory.ingest(known_as(run.trajectory, tasks) for run in training.runs)
        memory.principles.distill()
        memory.experiences.distill()
        return [
            named_at(memory, place, event, divergence, {tool for tool, _ in ranking[:2]})
            for (event, divergence), ranking in zip(here, ranked, strict=True)
        ]


def known_as(run: Trajectory, tasks: str) -> Trajectory:
    """The run with its task's id, or with one of its own."""
    return run if tasks == "ids" else replace(run, task=run.id)


def named_at(
    memory: Memory, place: Place, event: Event, divergence: DivergencePoint | None, counted: set[ToolName]
) -> Named:
    now = Moment.after_turns(place.stored[event.run.id].turns[: event.turn])
    prompt = memory.prompt(now)
    alone = memory.suggest(now.after, history=now.history, state=now.state)
    known, here = memory.lessons.lessons("default"), Moment(now.after)
    rows = [known.get(lesson).row for lesson in prompt.lessons]  # pyright: ignore[reportOptionalMemberAccess]
    principles = [here.advice_of(Principle.of(row)) for row in rows if row.kind == "principle"]
    experiences = [here.advice_of(Experience.of(row)) for row in rows if row.kind == "experience"]
    suggested = {one.tool for one in prompt.suggestions}
    by_rules = {tool for one in principles for tool in one.better}
    by_experience = {tool for one in experiences for tool in one.better}
    whole = suggested | by_rules | by_experience
    parts = (counted, {one.tool for one in alone}, suggested, by_rules, by_experience, whole)
    first = {one.tool for one in prompt.suggestions[:1]}
    opposed = any(first & one.worse for one in (*principles, *experiences))
    family = f"{place.name}/{event.run.family}"
    return Named(family, event.next, divergence, dict(zip(PARTS, parts, strict=True)), opposed)


def divergence_table(found: list[Named], seed: int) -> Iterator[str]:
    lost, good = ([one for one in found if bool(one.divergence) is parted] for parted in (True, False))
    if not lost:
        yield "no failed run left a successful one of its task: nothing to measure"
        return
    draws = Bootstrap([one.family for one in lost], seed=seed)
    opposed = np.mean([one.opposed for one in found])
    yield f"{len(lost)} divergences, {len(good)} calls of successful runs; first suggestion opposed: {opposed:.3f}\n"
    yield "| named by | rescue | misled | gain | miss | silent | tools |\n|---|---|---|---|---|---|---|"
    for part in PARTS:
        shares_P4 = np.array([one.divergence.judge(Hint(tuple(one.named[part])))[:4] for one in lost if one.divergence])
        gain_P = shares_P4[:, 0] - shares_P4[:, 1]
        gain = spanned(gain_P.mean(), *interval(draws.means(gain_P)))
        missed = [one.next not in one.named[part] for one in good if one.named[part]]
        tools = np.mean([len(one.named[part]) for one in good])
        rescue, misled = shares_P4[:, :2].mean(axis=0)
        miss, silent = np.mean(missed), 1 - len(missed) / len(good)
        yield f"| {part} | {rescue:.3f} | {misled:.3f} | {gain} | {miss:.3f} | {silent:.3f} | {tools:.2f} |"


if __name__ == "__main__":
    main()
