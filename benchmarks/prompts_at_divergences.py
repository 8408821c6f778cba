"""Does a whole prompt point the right way where it matters? What its suggestion and its lessons name as the next tool.

usage: python benchmarks/prompts_at_divergences.py [RUNS] [--seed 0] [--seen] [--folds N]

RUNS is a folder of recorded runs ($HEPM_RECORDED_RUNS, else ../shared/data). At each point where a failed run left a
successful one, and at a sixth of the calls of successful runs, `Memory.prompt` is asked of a memory without the task's
family (five folds); with `--seen` of one without the run (ten folds); with `--folds` only the
first N of them are measured. Prints a Markdown table of gain (see
hepm.evals.metrics), of how often what is named misses the next call of a successful run, and of how often it is silent.
The first row, the hybrid policy alone, is the baseline.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from lessons import Place, parse, read_places

from hepm.evals.baselines import Hint, Training
from hepm.evals.domains import Event, by_family, by_run
from hepm.evals.methods import as_remembered
from hepm.evals.metrics import Bootstrap, DivergencePoint, find_divergences
from hepm.experience.lessons import Experience, Principle
from hepm.experience.principle_advice import PrincipleAdvice as Here
from hepm.experience.prompt import TurnState
from hepm.memory import Memory
from hepm.types import ToolName

PARTS = ("the hybrid alone", "suggestion", "principles", "experiences", "suggestion and lessons")


class Measured(NamedTuple):
    family: str
    next: ToolName
    divergence: DivergencePoint | None
    named: dict[str, set[ToolName]]
    opposed: bool


def measure_fold(job: tuple[Place, int, bool]) -> list[Measured]:
    place, fold, seen = job
    split = list((by_run if seen else by_family)(place.runs))[fold]
    tested = set(split.test)
    here = [(one.event, one) for one in find_divergences(place.runs)[0] if one.event.run in tested]
    good = [event for run in split.test if run.success for event in run.events]
    random.Random(fold).shuffle(good)
    here += [(event, None) for event in good[: max(20, len(good) // 6)]]
    with TemporaryDirectory() as folder, Memory.open(folder) as memory:
        memory.ingest(as_remembered(run) for run in Training(split.train).runs)
        memory.principles.distill()
        memory.experiences.distill()
        return [
            Measured(f"{place.name}/{event.run.family}", event.next, divergence, *named_at(memory, place, event))
            for event, divergence in here
        ]


def named_at(memory: Memory, place: Place, event: Event) -> tuple[dict[str, set[ToolName]], bool]:
    """Tools that each part of the prompt names, and whether a lesson warns of the first suggestion."""
    now = TurnState.after_turns(place.stored[event.run.id].turns[: event.turn])
    prompt = memory.prompt(now)
    alone = memory.suggest(now.after, history=now.history, state=now.state)
    known, here = memory.lessons.lessons("default"), Here([], now.after)
    rows = [known.get(lesson).row for lesson in prompt.lessons]
    principles = [here.advice_of(Principle.of(row)) for row in rows if row.kind == "principle"]
    experiences = [here.advice_of(Experience.of(row)) for row in rows if row.kind == "experience"]
    named = {
        PARTS[0]: {one.tool for one in alone},
        PARTS[1]: {one.tool for one in prompt.suggestions},
        PARTS[2]: {tool for one in principles for tool in one.better},
        PARTS[3]: {tool for one in experiences for tool in one.better},
    }
    named[PARTS[4]] = named[PARTS[1]] | named[PARTS[2]] | named[PARTS[3]]
    first = {one.tool for one in prompt.suggestions[:1]}
    return named, any(first & one.worse for one in (*principles, *experiences))


def markdown(found: list[Measured], seed: int) -> Iterator[str]:
    lost, good = ([one for one in found if bool(one.divergence) is parted] for parted in (True, False))
    draws = Bootstrap([one.family for one in lost], seed=seed)
    opposed = np.mean([one.opposed for one in found])
    yield f"{len(lost)} divergences, {len(good)} calls of successful runs; first suggestion opposed: {opposed:.3f}\n"
    yield "| named by | rescue | misled | gain | miss | silent | tools |"
    yield "|---|---|---|---|---|---|---|"
    for part in PARTS:
        shares_P4 = np.array([one.divergence.judge(Hint(tuple(one.named[part])))[:4] for one in lost])
        gain_P = shares_P4[:, 0] - shares_P4[:, 1]
        low, high = np.percentile(draws.means(gain_P), [2.5, 97.5])
        missed = [one.next not in one.named[part] for one in good if one.named[part]]
        tools = np.mean([len(one.named[part]) for one in good])
        rescue, misled = shares_P4[:, :2].mean(axis=0)
        gain = f"{gain_P.mean():+.3f} [{low:+.3f}, {high:+.3f}]"
        silent = 1 - len(missed) / len(good)
        yield f"| {part} | {rescue:.3f} | {misled:.3f} | {gain} | {np.mean(missed):.3f} | {silent:.3f} | {tools:.2f} |"


def main() -> None:
    arguments = parse()
    places = read_places(arguments.runs, every=True)
    folds = by_run if arguments.seen else by_family
    jobs = [(place, fold, arguments.seen) for place in places for fold in range(len(list(folds(place.runs))))]
    if arguments.folds:
        jobs = [job for job in jobs if job[1] < arguments.folds]
    with ProcessPoolExecutor(2) as pool:
        found = [one for part in pool.map(measure_fold, jobs) for one in part]
    print("\n".join(markdown(found, arguments.seed)))


if __name__ == "__main__":
    main()
