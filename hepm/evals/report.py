"""What an evaluation found, as values and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from hepm.evals.metrics import Interval
from hepm.evals.rescue import Agreement, RescueAndHarm

SplitName: TypeAlias = Literal["families", "models", "files", "files, unseen families"]

_DIGITS = 4
_SHOWN_TOOLS = 10


@dataclass(frozen=True)
class Difference:
    """How far a method is from the reference method on the same events, paired draw by draw."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class MethodScores:
    """How well a method ranks.

    Attributes:
        values: By metric (hit@1, hit@2, hit@3, mrr), in [0, 1].
        interval: 95 % by metric, from resampling families.
        difference: To the reference method, by metric.
    """

    values: Mapping[str, float]
    interval: Mapping[str, Interval]
    difference: Mapping[str, Difference]

    def to_json(self) -> dict[str, Any]:
        """Metrics beside each other, intervals below."""
        return {
            **{name: round(value, _DIGITS) for name, value in self.values.items()},
            "interval": _intervals(self.interval),
            "difference": {
                name: {"value": round(found.value, _DIGITS), "interval": _pair(found.interval)}
                for name, found in self.difference.items()
            },
        }


@dataclass(frozen=True)
class Failures:
    """What became of the failed runs of a domain.

    Attributes:
        runs: How many there are.
        diverged: How many left the way of a successful run of their task for another tool.
        unsolved: How many ran a task that no run solved.
        same_way: How many took the tools of a successful run as far as they went: no hint would have changed that.
    """

    runs: int
    diverged: int
    unsolved: int
    same_way: int


@dataclass(frozen=True)
class DomainReport:
    """One domain.

    Attributes:
        events: Calls that were predicted.
        families: Families they come from.
        untested: Events of families whose fold had no memory to predict from.
        rescue: By method, with the families out of memory; empty where it was not asked for.
        rescue_seen: The same with the run alone out of memory; empty where the split is not by family.
        grouped: Whether tasks and families are groups of like requests, as hardly any task was run twice.
    """

    events: int
    families: int
    untested: int
    methods: Mapping[str, MethodScores]
    rescue: Mapping[str, RescueAndHarm]
    rescue_seen: Mapping[str, RescueAndHarm]
    failures: Failures | None
    grouped: bool = False

    def to_json(self) -> dict[str, Any]:
        """As `hepm eval --json` prints it."""
        return {
            "events": self.events,
            "families": self.families,
            "untested": self.untested,
            "methods": {name: scores.to_json() for name, scores in self.methods.items()},
            "rescue": {name: rescue_to_json(found) for name, found in self.rescue.items()},
            "rescue_seen": {name: rescue_to_json(found) for name, found in self.rescue_seen.items()},
            "failures": asdict(self.failures) if self.failures else None,
            "grouped": self.grouped,
        }


@dataclass(frozen=True)
class Settings:
    """How the report came about."""

    split: SplitName
    folds: int
    k: int
    seed: int
    reference: str
    runs: int
    unlabelled: int
    assume_success: bool


@dataclass(frozen=True)
class EvalReport:
    """A whole evaluation.

    Attributes:
        domains: By name.
        macro: Mean over the domains, by method.
        rescue: Over all domains, by method, with the families out of memory; derived domains do not count twice.
        rescue_seen: The same with the run alone out of memory; empty where the split is not by family.
        rescue_by_k: The same with hints of other lengths, where asked for.
        about: One line per method.
        skipped: Why a domain could not be measured, by its name.
        verdict: One sentence for the owner of the agents.
    """

    domains: Mapping[str, DomainReport]
    macro: Mapping[str, MethodScores]
    rescue: Mapping[str, RescueAndHarm]
    rescue_seen: Mapping[str, RescueAndHarm]
    rescue_by_k: Sequence[Mapping[str, RescueAndHarm]]
    about: Mapping[str, str]
    skipped: Mapping[str, str]
    settings: Settings
    verdict: str

    def to_json(self) -> dict[str, Any]:
        """As `hepm eval --json` prints it."""
        return {
            "domains": {name: domain.to_json() for name, domain in self.domains.items()},
            "macro": {name: scores.to_json() for name, scores in self.macro.items()},
            "verdict": self.verdict,
            "rescue": {name: rescue_to_json(found) for name, found in self.rescue.items()},
            "rescue_seen": {name: rescue_to_json(found) for name, found in self.rescue_seen.items()},
            "rescue_by_k": [
                {name: rescue_to_json(found) for name, found in by_method.items()} for by_method in self.rescue_by_k
            ],
            "skipped": dict(self.skipped),
            "methods": dict(self.about),
            "settings": asdict(self.settings),
        }


def rescue_to_json(found: RescueAndHarm) -> dict[str, Any]:
    """Shares rounded, the most frequent tools first."""
    shares = {name: round(getattr(found, name), _DIGITS) for name in _SHARES}
    tools = {
        name: {tool: round(count, 2) for tool, count in [*getattr(found, name).items()][:_SHOWN_TOOLS]}
        for name in _TOOLS
    }
    counts = {"k": found.k, "divergences": found.divergences, "families": found.families}
    agreement = _agreement_to_json(found.agreement) if found.agreement else None
    return {**counts, **shares, "interval": _intervals(found.interval), **tools, "agreement": agreement}


def _agreement_to_json(found: Agreement) -> dict[str, Any]:
    return {
        "successful": round(found.successful, _DIGITS),
        "failed": round(found.failed, _DIGITS),
        "difference": round(found.difference, _DIGITS),
        "interval": _pair(found.interval),
        "calls": [*found.calls],
    }


_SHARES = ("rescue", "misled", "both", "neither", "gain", "harm", "silent", "warned", "warned_better")
_TOOLS = ("rescued_by", "misled_by", "harmed")


def _intervals(found: Mapping[str, Interval]) -> dict[str, list[float]]:
    return {name: _pair(interval) for name, interval in found.items()}


def _pair(found: Interval) -> list[float]:
    return [round(found.low, _DIGITS), round(found.high, _DIGITS)]
