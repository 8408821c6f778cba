"""What hints are worth to simulated agents that follow them: the hybrid with a trained network as one more voice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from followed_hints import first_table, success_tables

from hepm.embed import HashingEmbedder
from hepm.errors import InputError
from hepm.evals.metrics import Bootstrap, interval
from hepm.evals.simulator import SIZES, Scores, Setting, simulate
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.policy import Hybrid, Query
from hepm.rank.ranker import Ranker
from hepm.rank.train import TrainOptions, build
from hepm.types import Suggestions

GROWN = 1.5  # a ranker is trained anew when the memory has grown by half
FOLLOWS = (0.5, 1.0)

_trained: WeakKeyDictionary[NamespaceMirror, tuple[int, Ranker | None]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Voiced:
    """The hybrid with a ranker trained on the memory as it is; without one where its runs are of too few tasks."""

    options: TrainOptions

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        runs = len(mirror.learned.latest().requests.run_ids)
        if mirror not in _trained or runs >= GROWN * _trained[mirror][0]:
            _trained[mirror] = runs, self._trained_on(mirror)
        return Hybrid(ranker=_trained[mirror][1]).suggest(mirror, query)

    def _trained_on(self, mirror: NamespaceMirror) -> Ranker | None:
        embedder = HashingEmbedder()
        try:
            return build(mirror, embedder, self.options).ranker({}, embedder)
        except InputError:  # too few tasks
            return None


def report(options: TrainOptions, desks: int, *, sizes: Sequence[int] = SIZES) -> Iterator[str]:
    """Markdown, as of benchmarks/followed_hints.py, and how far the ranker puts the hybrid ahead on the same desks."""
    name = f"hybrid + {options.model}"
    by_desk: list[Mapping[Setting, Sequence[Scores]]] = []

    def measured(measure: Callable[[int], Mapping[Setting, Sequence[Scores]]], seeds: Sequence[int]):
        by_desk.extend(map(measure, seeds))
        return by_desk

    policies = {"hybrid": "hybrid", name: Voiced(options)}
    found = simulate(policies, seeds=range(desks), follows=FOLLOWS, sizes=sizes, map_desks=measured)
    yield from first_table(found.first_tools)
    yield from success_tables(found.scores)
    yield f"\nSuccess of {name} less that of hybrid, paired by desk [95 %]:\n"
    yield f"| memory of | p | {' | '.join(f'{size} runs' for size in sizes)} |"
    yield "|---" * (len(sizes) + 2) + "|"
    resampled = Bootstrap([str(desk) for desk in range(desks)])
    for setting in (one for one in found.scores if one.policy == name):
        cells: list[str] = []
        for at in range(len(sizes)):
            pairs = [(desk[setting][at], desk[setting._replace(policy="hybrid")][at]) for desk in by_desk]
            ahead = np.array([with_.success - without.success for with_, without in pairs])
            low, high = interval(resampled.means(ahead))
            cells.append(f"{ahead.mean():+.3f} [{low:+.3f}, {high:+.3f}]")
        yield f"| {setting.learning} | {setting.follow:g} | {' | '.join(cells)} |"
