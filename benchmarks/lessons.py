"""Are lessons of one's own kind found? Extractive experiences of recorded runs against BM25 over the runs themselves.

usage: python benchmarks/lessons.py [RUNS] [--seed 0] [--markdown]

RUNS is a folder of recorded runs ($HEPM_RECORDED_RUNS, else ../shared/data); its τ and τ² runs are used, cut
and redacted as a store keeps them. Prints one JSON line; --markdown prints the table of benchmarks/LOG.md instead.

For each run that has a relative (one about the same customer, see hepm.evals.domains), at its first and at its middle
call: is a relative's lesson among the top 3? The run is taken out, and its task distilled without it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from parts.bm25 import BM25

from hepm.embed import HashingEmbedder
from hepm.evals.domains import Domain, DomainRun, domains_of
from hepm.evals.metrics import Bootstrap, interval
from hepm.experience.comparison import place_in_words as place_of
from hepm.experience.extractive import distill
from hepm.experience.lessons import Experience
from hepm.experience.likeness import group_by_request
from hepm.experience.transcript import Move, moves_of, situation_text
from hepm.experience.zones import stage_of
from hepm.ingest import Rejection, read_runs
from hepm.ingest.prepare import shorten
from hepm.ingest.redact import Redactor
from hepm.types import Trajectory

Array = NDArray[np.float64]
TOP = 3
BASELINE = "BM25 over runs"
EMBEDDER = HashingEmbedder()


def main() -> None:
    arguments = parse()
    started = time.perf_counter()
    places = read_places(arguments.runs)
    read_s = time.perf_counter() - started
    lessons = sum(len(place.experiences) for place in places)
    distill_s = time.perf_counter() - started - read_s
    measured, near = ask_all(places)
    if arguments.markdown:
        print("\n".join(markdown(measured, arguments.seed)))
        return
    told = {
        "benchmark": "lessons",
        "runs": sum(len(place.runs) for place in places),
        "experiences": lessons,
        "read_s": round(read_s, 2),
        "distill_s": round(distill_s, 2),
        "seed": arguments.seed,
        **machine(),
        "weighted cosine of the nearest (5, 25, 50, 75, 95 %)": near,
        "found": summary(measured, arguments.seed),
    }
    print(json.dumps(told, ensure_ascii=False))


def machine() -> dict[str, str]:
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "commit": asked.stdout.strip() or "unknown",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    }


def read_places(folder: Path, *, every: bool = False) -> list[Place]:
    records = [(name, run) for name, run in read_runs([folder]) if not isinstance(run, Rejection)]
    records = [record for record in records if every or record[0].startswith("tau")]
    return [Place(domain) for domain in domains_of(records) if not domain.derived]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "runs", nargs="?", type=Path, default=Path(os.environ.get("HEPM_RECORDED_RUNS", "../shared/data"))
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument(
        "--tasks", choices=("ids", "alike", "none"), default="ids", help="lessons_at_divergences.py alone"
    )
    parser.add_argument("--seen", action="store_true", help="lessons_at_divergences.py alone")
    parser.add_argument("--every", action="store_true", help="lessons_at_divergences.py alone")
    parser.add_argument("--folds", type=int, default=0, help="prompts_at_divergences.py alone")
    return parser.parse_args()


class Place:
    """An environment with its labelled runs, as stored and as read."""

    def __init__(self, domain: Domain) -> None:
        self.name = domain.name
        self.runs = sorted((run for run in domain.runs if run.success is not None), key=lambda run: run.id)
        clean = Redactor()
        self.stored = {run.id: shorten(clean(run.trajectory)) for run in self.runs}
        self.family = {run.id: run.family for run in self.runs}

    def tasks(self, runs: Sequence[DomainRun], how: str = "ids") -> dict[str, list[Trajectory]]:
        """As a store groups them: by their task's id, or by likeness where ids are hidden; "none" is neither."""
        found: defaultdict[str, list[Trajectory]] = defaultdict(list)
        if how != "ids":
            groups = group_by_request(self.stored[run.id] for run in runs) if how == "alike" else {}
            for run in runs:
                found[groups.get(run.id, run.id)].append(self.stored[run.id])
            return found
        for run in runs:
            found[run.trajectory.task or run.id].append(self.stored[run.id])
        return found

    @cached_property
    def experiences(self) -> list[tuple[str, Experience]]:
        """Each with the task it is from."""
        return [(task, lesson) for task, runs in self.tasks(self.runs).items() for lesson in distill(runs)]


# How lessons are compared with a situation.


def weights_of(vectors_ND: NDArray[np.float32]) -> Array:
    """How much a coordinate of lexical vectors tells: the fewer lessons have it, the more.

    A vector of a sentence model has all coordinates, so that all weigh the same.
    """
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


def ask_all(places: Sequence[Place]) -> tuple[dict[str, Measured], dict[str, list[float]]]:
    lessons = [lesson for place in places for _, lesson in place.experiences]
    texts_ND = EMBEDDER.embed([lesson.text for lesson in lessons])
    weights = {
        "text": weights_of(texts_ND),
        "situation": weights_of(EMBEDDER.embed([lesson.situation for lesson in lessons])),
    }
    measured: dict[str, Measured] = {}
    near: dict[str, list[float]] = {"same family": [], "other family": []}
    for place in places:
        finder = Finder(place, weights)
        relatives = Counter(place.family.values())
        for run in place.runs:
            moves = moves_of(place.stored[run.id])
            if relatives[run.family] < 2 or not moves:
                continue
            finder.leave_out(run)
            for when, move in (("first", moves[0]), ("middle", moves[len(moves) // 2])):
                told = measured.setdefault(f"{place.name}, {when}", Measured())
                told.families.append(run.family)
                for method, value in finder.ask(run, move, near).items():
                    told.values[method].append(value)
        print(place.name, file=sys.stderr)
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    return measured, {name: np.quantile(values, levels).round(3).tolist() for name, values in near.items()}


class Finder:
    """Asks one environment, with one run taken out."""

    def __init__(self, place: Place, weights: Mapping[str, Array]) -> None:
        self._place, self._weights = place, weights
        self._tasks = place.tasks(place.runs)
        self._runs = BM25([raw(run.trajectory) for run in place.runs])
        self._bm25 = BM25([lesson.text for _, lesson in place.experiences])
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def leave_out(self, run: DomainRun) -> None:
        task = run.trajectory.task or run.id
        again = distill([other for other in self._tasks[task] if other.id != run.id])
        self._lessons = [lesson for of, lesson in self._place.experiences if of != task] + again
        self._texts_ND = self._embed([lesson.text for lesson in self._lessons])
        self._situations_ND = self._embed([lesson.situation for lesson in self._lessons])
        family = self._place.family
        self._right_N = np.array(
            [any(family[source.run] == run.family for source in lesson.sources) for lesson in self._lessons]
        )

    def _embed(self, texts: Sequence[str]) -> Array:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        self._vectors |= dict(zip(new, EMBEDDER.embed(new), strict=True))
        return np.stack([self._vectors[text] for text in texts]).astype(np.float64)

    def ask(self, run: DomainRun, move: Move, near: dict[str, list[float]]) -> dict[str, float]:
        """The chance that each method finds a relative."""
        stored = self._place.stored[run.id]
        query = situation_text(stored.environment, move.known)
        said = "\n".join(move.known.said)
        asked_D, said_D = self._embed([query])[0], self._embed([said])[0]
        w, right_N = self._weights, self._right_N
        weighted_N = cosines(self._texts_ND * w["text"], asked_D * w["text"])
        here = place_of(move.before)
        same_place_N = np.array([lesson.conditions.preconditions[0] == here for lesson in self._lessons])
        stage = stage_of(move.turn, stored.steps)
        same_stage_N = np.array([lesson.stage == stage for lesson in self._lessons])
        for name, chosen_N in (("same family", right_N), ("other family", ~right_N)):
            if chosen_N.any():
                near[name].append(float(weighted_N[chosen_N].max()))
        scores = {
            "random": np.zeros(len(right_N)),
            "cosine": cosines(self._texts_ND, asked_D),
            "cosine, weighted": weighted_N,
            "weighted, situation alone": cosines(self._situations_ND * w["situation"], asked_D * w["situation"]),
            "weighted, asked by the user's words": cosines(self._texts_ND * w["text"], said_D * w["text"]),
            "weighted, same stage first": weighted_N + same_stage_N,
            "weighted, + .1 in the same place": weighted_N + 0.1 * same_place_N,
        }
        found = {name: chance(scores_N, right_N) for name, scores_N in scores.items()}
        others_N = np.array([other.id != run.id for other in self._place.runs])
        relatives_N = np.array([other.family == run.family for other in self._place.runs])[others_N]
        # Here the lessons of its task stay as they are, but for those that stand on the run alone.
        family = self._place.family
        others = [{source.run for source in lesson.sources} - {run.id} for _, lesson in self._place.experiences]
        right = np.array([any(family[other] == run.family for other in sources) for sources in others])
        kept = np.array(list(map(bool, others)))
        found["BM25 over lessons"] = chance(self._bm25.scores(query)[kept], right[kept])
        for name, text in (("BM25 over runs", query), ("BM25 over runs, asked by the user's words", said)):
            found[name] = chance(self._runs.scores(text)[others_N], relatives_N)
        return found


def raw(run: Trajectory) -> str:
    """Everything that is said in a run."""
    parts: list[str] = []
    for turn in run.turns:
        parts.append(turn.text)
        for call in turn.calls:
            parts += [call.name, json.dumps(dict(call.arguments), default=str), call.result or ""]
    return "\n".join(parts)


# What is told of it.


def summary(measured: Mapping[str, Measured], seed: int) -> dict[str, dict[str, list[float]]]:
    """Mean, and 95 % interval from resampling families, per environment and over them."""
    draws = {name: Bootstrap(told.families, seed=[seed, at]) for at, (name, told) in enumerate(measured.items())}
    found: dict[str, dict[str, list[float]]] = {}
    for method in next(iter(measured.values())).values:
        values = {name: np.array(told.values[method]) for name, told in measured.items()}
        means = {name: draws[name].means(values[name]) for name in measured}
        row = {name: told_of(values[name].mean(), means[name]) for name in measured}
        pooled_B = np.mean(list(means.values()), axis=0)
        row["mean"] = told_of(float(np.mean([value.mean() for value in values.values()])), pooled_B)
        base = {name: np.array(told.values[BASELINE]) for name, told in measured.items()}
        ahead_B = np.mean([means[name] - draws[name].means(base[name]) for name in measured], axis=0)
        row["ahead"] = told_of(float(np.mean([values[name].mean() - base[name].mean() for name in measured])), ahead_B)
        found[method] = row
    return found


def told_of(value: float, draws_B: Array) -> list[float]:
    return [round(float(number), 4) for number in (value, *interval(draws_B))]


def markdown(measured: Mapping[str, Measured], seed: int) -> Iterator[str]:
    columns = [f"{name} ({len(told.families)})" for name, told in measured.items()]
    yield f"| top 3 hold a relative | {' | '.join(columns)} | mean | less BM25 |"
    yield "|---" * (len(columns) + 3) + "|"
    for method, row in summary(measured, seed).items():
        cells = [f"{row[name][0]:.3f}" for name in measured]
        mean = "{:.3f} [{:.3f}, {:.3f}]".format(*row["mean"])
        ahead = "{:+.3f} [{:+.3f}, {:+.3f}]".format(*row["ahead"])
        yield f"| {method} | {' | '.join(cells)} | {mean} | {ahead if method != BASELINE else ''} |"


if __name__ == "__main__":
    main()
