"""Do runs of STATE-Bench that did what three learnings advise succeed more often than those that did not?

usage: python benchmarks/state_bench.py RUNS [--folds 10] [--seed 0]

RUNS is a folder of scored training runs, as `benchmarks/state_bench_agent.py label` writes them. In each fold, memory
holds the runs of other families (groups of like requests), and the first message of each other run is asked about. Each
method gives three learnings. What a learning asks for is read by machine:

- what calls need: the argument came from there, the check was made before the call, the error was met so;
- a rule: the first time that it held, the run called what it advises and not what it warns of;
- a raw run: its tools that change something were all called, and no other (of a failed one: not these).

A run *did* what it was told if it did what each of the learnings asks that say something about it; others are left
out. The difference of success is within domains, with 95 % intervals from resampling families.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from parts.bm25 import BM25
from parts.measured import about, read_records

from hepm import Memory
from hepm.evals.domains import fold_of
from hepm.experience.actions import is_reading
from hepm.experience.held_out import heeds_content, support_of
from hepm.experience.lessons import Principle, is_content
from hepm.experience.likeness import group_by_request, request_of
from hepm.types import Trajectory

K = 3
RESAMPLED = 2_000
METHODS = ("for_request", "BM25 over runs")


@dataclass
class Asked:
    """A run: whether it did what each of the learnings asks that ask something of it, and how many were given."""

    run: Trajectory
    family: str
    did: list[bool]
    given: int


Method = Callable[[str, str], list[Callable[[Trajectory], bool | None]]]


def methods_of(memory: Memory, known: Sequence[Trajectory]) -> dict[str, Method]:
    """By name: for a request in an environment, what to ask of a run."""
    by_environment = {run.environment: [one for one in known if one.environment == run.environment] for run in known}
    index = {name: BM25([text_of(run) for run in runs]) for name, runs in by_environment.items()}

    def for_request(request: str, environment: str) -> list[Callable[[Trajectory], bool | None]]:
        found = memory.principles.for_request(request, environment=environment, k=K)
        return [did(one.principle) for one in found]

    def raw(request: str, environment: str) -> list[Callable[[Trajectory], bool | None]]:
        scores = index[environment].scores(request)
        return [as_it_did(by_environment[environment][at]) for at in np.argsort(-scores, kind="stable")[:K]]

    return dict(zip(METHODS, (for_request, raw), strict=True))


def text_of(run: Trajectory) -> str:
    return "\n".join([turn.text for turn in run.turns] + [f"{call.name} {call.result}" for call in run.calls()])


def as_it_did(example: Trajectory) -> Callable[[Trajectory], bool | None]:
    wanted = changing(example)

    def ask(run: Trajectory) -> bool | None:
        same = changing(run) == wanted
        return same if example.outcome.success else not same

    return ask


def changing(run: Trajectory) -> frozenset[str]:
    return frozenset(call.name for call in run.calls() if not is_reading(call.name))


def did(lesson: Principle) -> Callable[[Trajectory], bool | None]:
    def ask(run: Trajectory) -> bool | None:
        if is_content(lesson):
            return heeds_content(run, lesson)
        found = support_of({lesson.id: lesson}, iter([run]))[lesson.id]
        return bool(found.heeded) if found.heeded or found.others else None

    return ask


def ask_all(runs: Sequence[Trajectory], folds: int) -> dict[str, list[Asked]]:
    family: dict[str, str] = {}
    for environment in {run.environment for run in runs}:
        family |= group_by_request(run for run in runs if run.environment == environment)
    asked: defaultdict[str, list[Asked]] = defaultdict(list)
    for fold in range(folds):
        known = [run for run in runs if fold_of(family[run.id], folds) != fold]
        with Memory.open() as memory:
            memory.ingest(known)
            memory.principles.distill()
            methods = methods_of(memory, known)
            for run in runs:
                if fold_of(family[run.id], folds) != fold:
                    continue
                for name, method in methods.items():
                    learnings = method(request_of(run), run.environment)
                    answers = [answer for ask in learnings if (answer := ask(run)) is not None]
                    asked[name].append(Asked(run, family[run.id], answers, len(learnings)))
    return asked


def table(asked: Sequence[Asked], seed: int) -> dict[str, Any]:
    """Of the runs about which learnings say something: shares, and how much more often those that did it succeed."""
    said = [one for one in asked if one.did]
    gap = difference(said)
    random = np.random.default_rng(seed)
    by_family: defaultdict[str, list[Asked]] = defaultdict(list)
    for one in said:
        by_family[one.family].append(one)
    families = sorted(by_family)
    drawn: list[float] = []
    for _ in range(RESAMPLED if families else 0):
        chosen = random.integers(len(families), size=len(families))
        value = difference([one for at in chosen for one in by_family[families[at]]])
        if value is not None:
            drawn.append(value)
    counts = Counter((all(one.did), bool(one.run.outcome.success)) for one in said)
    return {
        "runs": len(asked),
        "learnings": round(float(np.mean([one.given for one in asked])), 2),
        "said": len(said),
        "did": counts[True, True] + counts[True, False],
        "did_success": share(counts[True, True], counts[True, False]),
        "others_success": share(counts[False, True], counts[False, False]),
        "difference": None if gap is None else round(gap, 3),
        "interval": [round(float(value), 3) for value in np.percentile(drawn, (2.5, 97.5))] if drawn else None,
    }


def difference(asked: Sequence[Asked]) -> float | None:
    """Success of runs that did less that of others, in each domain, weighed by the smaller side."""
    parts: list[tuple[float, int]] = []
    for environment in {one.run.environment for one in asked}:
        sides: dict[bool, list[bool]] = {True: [], False: []}
        for one in asked:
            if one.run.environment == environment:
                sides[all(one.did)].append(bool(one.run.outcome.success))
        fewest = min(len(sides[True]), len(sides[False]))
        if fewest:
            parts.append((float(np.mean(sides[True]) - np.mean(sides[False])), fewest))
    total = sum(weight for _, weight in parts)
    return sum(value * weight for value, weight in parts) / total if total else None


def share(good: int, bad: int) -> float | None:
    return round(good / (good + bad), 3) if good + bad else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    runs = [run for _, run in read_records(arguments.runs) if run.outcome.success is not None]
    asked = ask_all(runs, arguments.folds)
    found = {name: table(asked[name], arguments.seed) for name in METHODS}
    told = about("state_bench") | {"runs": len(runs), "seed": arguments.seed, "methods": found}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
