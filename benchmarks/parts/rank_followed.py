"""What hints are worth to simulated agents that follow them: the hybrid with a trained network as one more voice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from followed_hints import first_table, success_tables

from hepm.embed import HashingEmbedder
from hepm.errors import InputError
from hepm.evals.simulator import SIZES, simulate
from hepm.graph.namespace import NamespaceMirror
from hepm.policy import Hybrid, Query
from hepm.policy.hybrid.fitted import FittedMemory
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
        runs = len(mirror.cached(FittedMemory).calls.run_ids)
        if mirror not in _trained or runs >= GROWN * _trained[mirror][0]:
            _trained[mirror] = runs, self._trained_on(mirror)
        return Hybrid(voice=_trained[mirror][1]).suggest(mirror, query)

    def _trained_on(self, mirror: NamespaceMirror) -> Ranker | None:
        embedder = HashingEmbedder()
        try:
            return build(mirror, embedder, self.options).ranker({}, embedder)
        except InputError:  # too few tasks
            return None


def report(options: TrainOptions, desks: int, *, sizes: Sequence[int] = SIZES) -> Iterator[str]:
    """Markdown, as of benchmarks/followed_hints.py."""
    policies = {"hybrid": "hybrid", f"hybrid + {options.model}": Voiced(options)}
    found = simulate(policies, seeds=range(desks), follows=FOLLOWS, sizes=sizes)
    yield from first_table(found.first_tools)
    yield from success_tables(found.scores)
