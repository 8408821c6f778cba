"""What an evaluation found, as values, as JSON, and as one sentence for the owner of the agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from hepm.evals.metrics import Interval
from hepm.evals.rescue import Failures, RescueAndHarm
from hepm.text import count_of

SplitName: TypeAlias = Literal["families", "models", "files", "files, unseen families"]

FEWEST_EVENTS = 30
FEWEST_FAMILIES = 5
FEWEST_DIVERGENCES = 10
_DIGITS = 4
_NAMED_TOOLS = 3
# Fixed: the best is known only afterwards.
_JUDGED = ("hybrid", "adaptive", "episodic", "procedural", "second-order+similarity", "similarity", "first-order")
_WOULD_HAVE: Final = {
    1: "would have helped these agents",
    0: "would not have helped these agents measurably",
    -1: "would have confirmed these agents in their wrong turns rather than put them right",
}


@dataclass(frozen=True)
class Difference:
    """How far a method is from the reference method on the same events, paired draw by draw."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class MethodScores:
    """How well a method ranks: means in [0, 1], intervals, and differences to the reference method, by metric."""

    values: Mapping[str, float]
    interval: Mapping[str, Interval]
    difference: Mapping[str, Difference]


@dataclass(frozen=True)
class DomainReport:
    """One domain.

    Attributes:
        events: Calls that were predicted.
        families: Families they come from.
        untested: Events of families whose fold had no memory to predict from.
        rescue: By method, with the families out of memory; empty where it was not asked for.
        rescue_seen: The same with the run alone out of memory; empty where the split is not by family.
        grouped: Whether tasks and families are groups of similar requests, as hardly any task was run twice.
    """

    events: int
    families: int
    untested: int
    methods: Mapping[str, MethodScores]
    rescue: Mapping[str, RescueAndHarm]
    rescue_seen: Mapping[str, RescueAndHarm]
    failures: Failures | None
    grouped: bool = False


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
        macro: Mean over the domains, by method.
        rescue: Over all domains, by method, with the families out of memory; derived domains do not count twice.
        rescue_seen: The same with the run alone out of memory; empty where the split is not by family.
        rescue_by_k: As `rescue`, for each further k.
        methods: One line about each.
        skipped: Why a domain could not be measured, by its name.
    """

    domains: Mapping[str, DomainReport]
    macro: Mapping[str, MethodScores]
    rescue: Mapping[str, RescueAndHarm]
    rescue_seen: Mapping[str, RescueAndHarm]
    rescue_by_k: Sequence[Mapping[str, RescueAndHarm]]
    methods: Mapping[str, str]
    skipped: Mapping[str, str]
    settings: Settings
    verdict: str

    def to_json(self) -> dict[str, Any]:
        """As `hepm eval --json` prints it."""
        found = _rounded(asdict(self))
        for by_method in (found["macro"], *(domain["methods"] for domain in found["domains"].values())):
            for name, scores in by_method.items():
                by_method[name] = scores.pop("values") | scores
        return found


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in cast("list[Any]", value)]
    return round(value, _DIGITS) if isinstance(value, float) else value


def judged(measured: Iterable[str]) -> str:
    """The method that the verdict is about: the first measured one, unless one of `_JUDGED` was measured."""
    names = list(measured)
    return next((name for name in _JUDGED if name in names), names[0])


@dataclass(frozen=True)
class Findings:
    """What the verdict rests on.

    Attributes:
        method: Whose hints are judged.
        hit: Share of events whose tool was among its first k.
        plain: The method it is compared with, and that method's share.
        ahead: By how much it beats the plain method; None where there is nothing to compare with.
        rescue: With the families out of memory; None where divergences were not looked for.
        seen: With the failed run alone out of memory; None where that was not measured.
        apart: Whether the tested families were unknown to memory.
        grouped: Whether families of some runs are groups of similar requests.
    """

    method: str
    events: int
    families: int
    hit: float
    k: int
    plain: tuple[str, float]
    ahead: Difference | None
    rescue: RescueAndHarm | None
    seen: RescueAndHarm | None = None
    apart: bool = True
    grouped: bool = False


def verdict(findings: Findings) -> str:
    """Would memory have helped these agents, by how much, on which tools, or not at all?

    It claims what an interval excludes from chance, and says so when there is too little data.
    """
    grouped = " Task ids hardly repeat in these runs: requests were grouped by likeness." if findings.grouped else ""
    if findings.events < FEWEST_EVENTS or findings.families < FEWEST_FAMILIES:
        return (
            f"Too little data to say whether memory would have helped: {count_of(findings.events, 'call')} of "
            f"{count_of(findings.families, 'task family', 'task families')} could be predicted, and below "
            f"{FEWEST_EVENTS} calls of {FEWEST_FAMILIES} families chance decides.{grouped}"
        )
    cases = [
        (rescue, memory)
        for rescue, memory in ((findings.seen, "with other runs of the task in memory"), (findings.rescue, "without"))
        if rescue is not None and rescue.divergences >= FEWEST_DIVERGENCES and rescue.families >= FEWEST_FAMILIES
    ]
    if len(cases) == 1:
        cases = [(cases[0][0], "with other runs of their task families out of memory")]
    return (_by_hints(cases, findings.method) if cases else _by_prediction(findings)) + grouped


def _by_hints(cases: Sequence[tuple[RescueAndHarm, str]], method: str) -> str:
    first = cases[0][0]
    signs = [_sign(rescue.interval["gain"]) for rescue, _ in cases]
    opening = f"Memory {_WOULD_HAVE[signs[0]]}"
    if len(set(signs)) > 1:
        unseen = _WOULD_HAVE[signs[1]].replace("these agents", "them")
        opening += f" where it holds other runs of the task, and {unseen} where it does not"
    shares = ", and ".join(
        f"in {rescue.rescue:.0%} and the reverse in {rescue.misled:.0%} {memory} "
        f"({_points(rescue.gain)} points, 95 % interval {_between(rescue.interval['gain'])})"
        for rescue, memory in cases
    )
    helped_or_misled = first.rescued_by if signs[0] > 0 else first.misled_by
    tools = f", mostly on {', '.join([*helped_or_misled][:_NAMED_TOOLS])}" if signs[0] and helped_or_misled else ""
    return (
        f"{opening}: at {first.divergences} points where a failed run left the way of a successful one, hints of "
        f"{method} (at most {count_of(first.k, 'tool')}) held the better tool and not the chosen one {shares}{tools}; "
        f"in successful runs they lacked the tool called next in "
        f"{' and '.join(f'{rescue.harm:.0%}' for rescue, _ in cases)}."
    )


def _by_prediction(findings: Findings) -> str:
    known = "Memory would have known what comes next, but whether that helps these agents cannot be told"
    if findings.ahead is not None and findings.ahead.interval.low <= 0:
        known = "Memory would not have helped these agents as far as can be seen"
    tasks = "unseen tasks" if findings.apart else "the tested runs"
    found = f"on {tasks} its top {findings.k} held the next tool in {findings.hit:.0%}"
    if findings.ahead is not None:
        plain, hit = findings.plain
        found += f" against {hit:.0%} for {plain} ({_points(findings.ahead.value)} points, "
        found += f"{_between(findings.ahead.interval)})"
    if findings.rescue is None:
        why = "" if findings.apart else ", as memory held runs of their tasks"
        why = f"whether it would have put failed runs right was not looked at{why}"
    elif not findings.rescue.divergences:
        why = "no failed run was found to leave the way of a successful one"
    else:
        number = count_of(findings.rescue.divergences, "failed run")
        why = f"only {number} left the way of a successful one, which is too few to judge"
    return f"{known}: {found}, and {why}."


def _sign(gain: Interval) -> int:
    """Of the gain, 0 where chance cannot be excluded."""
    return int(gain.low > 0) - int(gain.high < 0)


def _between(found: Interval) -> str:
    return f"{_points(found.low)} to {_points(found.high)}"


def _points(share: float) -> str:
    """In percent, signed; what rounds to nothing is no minus."""
    return f"{round(100 * share):+d}"
