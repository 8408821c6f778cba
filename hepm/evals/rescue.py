"""Rescue and harm: where a failed run left the way of a successful one, which way would memory have pointed?

At a parting the top k of a ranking hold a tool of the successful way and none of the failed one (*rescue*), the other
way round (*misled*), both, or neither. Where several successful runs go on from there, each counts for an equal part:
taken together they would offer more tools to hit than the one failed run.
*Harm* is the price: how often the top k miss what a successful run did next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from hepm.evals.events import Event
from hepm.evals.methods import Ranking
from hepm.evals.metrics import Bootstrap, FloatArray, Interval, interval
from hepm.evals.partings import POINTINGS, Parting
from hepm.experience.distilling.partings import Tools
from hepm.types import ToolName


@dataclass(frozen=True)
class RescueAndHarm:
    """Shares of a method's hints, in [0, 1].

    Attributes:
        k: How many tools a hint holds.
        partings: How many were judged.
        families: How many families they come from.
        rescue: Share of partings where the hints held the better way alone.
        misled: Share where they held the worse way alone.
        gain: rescue - misled.
        interval: 95 %, of "rescue", "misled", "gain" and "harm", where there is anything to resample.
        harm: Share of hints given in successful runs that lacked the tool called next.
        silent: Share of moments in successful runs where no hint was given.
        rescued_by: The better tools that hints held alone, and at how many partings, most often first.
        misled_by: The chosen ones that they held alone.
        harmed: Tools that successful runs called and hints lacked, and how often.
    """

    k: int
    partings: int
    families: int
    rescue: float
    misled: float
    both: float
    neither: float
    gain: float
    harm: float
    silent: float
    interval: Mapping[str, Interval]
    rescued_by: Mapping[ToolName, float]
    misled_by: Mapping[ToolName, float]
    harmed: Mapping[ToolName, float]


@dataclass
class Hints:
    """What a method pointed to, collected over the splits of one or more domains."""

    at_partings: list[tuple[Parting, Ranking]] = field(default_factory=list[tuple[Parting, Ranking]])
    in_successes: list[tuple[Event, Ranking]] = field(default_factory=list[tuple[Event, Ranking]])

    def add(self, other: Hints) -> None:
        """Take in the hints of another domain."""
        self.at_partings.extend(other.at_partings)
        self.in_successes.extend(other.in_successes)

    def measure(self, *, k: int = 2, seed: int = 0) -> RescueAndHarm:
        """Judge the top k of every ranking."""
        judged = [(parting, top(ranking, k)) for parting, ranking in self.at_partings]
        shares_P4 = np.array([parting.judge(hints) for parting, hints in judged]).reshape(-1, len(POINTINGS))
        families = [_family(parting.moment) for parting, _ in judged]
        given = [(event, top(ranking, k)) for event, ranking in self.in_successes if ranking]
        missed_E = np.array([event.next not in hints for event, hints in given], dtype=np.float64)
        rescue, misled, both, neither = map(float, shares_P4.mean(axis=0) if judged else shares_P4.sum(axis=0))
        return RescueAndHarm(
            k=k,
            partings=len(judged),
            families=len(set(families)),
            rescue=rescue,
            misled=misled,
            both=both,
            neither=neither,
            gain=rescue - misled,
            harm=float(missed_E.mean()) if given else 0.0,
            silent=1 - len(given) / max(len(self.in_successes), 1),
            interval={
                **_intervals(_COLUMNS, shares_P4 @ _TO_COLUMNS, families, seed),
                **_intervals(("harm",), missed_E[:, None], [_family(event) for event, _ in given], seed),
            },
            rescued_by=_counted(
                (hints & f.better, len(p.forks)) for p, hints in judged for f in p.forks if not hints & f.chosen
            ),
            misled_by=_counted(
                (hints & f.chosen, len(p.forks)) for p, hints in judged for f in p.forks if not hints & f.better
            ),
            harmed=_counted(({event.next} - hints, 1) for event, hints in given),
        )


_COLUMNS: Final = ("rescue", "misled", "gain")
# From shares in order of POINTINGS to those columns.
_TO_COLUMNS: Final = np.array([[1, 0, 1], [0, 1, -1], [0, 0, 0], [0, 0, 0]], dtype=np.float64)


def _intervals(names: Sequence[str], values: FloatArray, families: Sequence[str], seed: int) -> dict[str, Interval]:
    if not families:
        return {}
    draws = Bootstrap(families, seed=seed)
    return {name: interval(draws.means(values[:, column])) for column, name in enumerate(names)}


def _counted(found: Iterable[tuple[AbstractSet[ToolName], int]]) -> dict[ToolName, float]:
    """How often each tool was found, where one of n forks counts 1/n; most often first."""
    counted: defaultdict[ToolName, float] = defaultdict(float)
    for tools, parts in found:
        for tool in tools:
            counted[tool] += 1 / parts
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def top(ranking: Ranking, k: int) -> Tools:
    """The tools that a hint would name."""
    return Tools(tool for tool, _ in ranking[:k])


def _family(event: Event) -> str:
    return f"{event.run.domain}/{event.run.family}"
