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
class EvalOptions:
    """How to evaluate.

    Attributes:
        split: "families" keeps them apart in folds, "models" leaves one out at a time; domains with tested files use
            those, whole ("files") or with their families taken out of memory ("files, unseen families").
        k: Maximum number of tools in a hint.
        ks: Further values of k to judge rescue and harm by.
        reference: The method that others are compared with; the first one where it is not measured.
        rescue: Whether to look at failed runs: with their families out of memory and, where the split is "families",
            also with themselves alone left out (see `by_run`).
    """

    split: SplitName = "families"
    folds: int = 5
    k: int = 2
    ks: tuple[int, ...] = ()
    seed: int = 0
    reference: str = "first-order"
    rescue: bool = True
    assume_success: bool = False


@dataclass(frozen=True)
class Settings(EvalOptions):
    """How a report came about: the options, and how many runs were read, some without an outcome."""

    runs: int = 0
    unlabelled: int = 0


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
        events, families: How many calls were predicted, of how many families.
        untested: Events of families whose fold had no memory to predict from.
        rescue: By method, with the families out of memory; empty where it was not measured.
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
class EvalReport:
    """A whole evaluation.

    Attributes:
        macro: Mean over the domains, by method.
        rescue, rescue_seen: As in `DomainReport`, over all domains; derived domains do not count twice.
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
        del found["settings"]["ks"], found["settings"]["rescue"]
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


def verdict(report: EvalReport, *, events: int, families: int) -> str:
    """Would memory have helped these agents, by how much, on which tools, or not at all?

    It claims what an interval excludes from chance, and says so when there is too little data: `events` and `families`
    are those of all domains, no run counted twice.
    """
    method = judged(report.macro)
    grouped = any(domain.grouped for domain in report.domains.values())
    by_request = " Task ids hardly repeat in these runs: requests were grouped by likeness." if grouped else ""
    if events < FEWEST_EVENTS or families < FEWEST_FAMILIES:
        return (
            f"Too little data to say whether memory would have helped: {count_of(events, 'call')} of "
            f"{count_of(families, 'task family', 'task families')} could be predicted, and below "
            f"{FEWEST_EVENTS} calls of {FEWEST_FAMILIES} families chance decides.{by_request}"
        )
    seen, unseen = report.rescue_seen.get(method), report.rescue.get(method)
    cases = [
        (found, memory)
        for found, memory in ((seen, "with other runs of the task in memory"), (unseen, "without"))
        if found is not None and found.divergences >= FEWEST_DIVERGENCES and found.families >= FEWEST_FAMILIES
    ]
    if len(cases) == 1:
        cases = [(cases[0][0], "with other runs of their task families out of memory")]
    return (_by_hints(cases, method) if cases else _by_prediction(report, method)) + by_request


def _by_hints(cases: Sequence[tuple[RescueAndHarm, str]], method: str) -> str:
    first = cases[0][0]
    # Of the gain, 0 where chance cannot be excluded.
    signs = [int(gain.low > 0) - int(gain.high < 0) for gain in (found.interval["gain"] for found, _ in cases)]
    opening = f"Memory {_WOULD_HAVE[signs[0]]}"
    if len(set(signs)) > 1:
        unseen = _WOULD_HAVE[signs[1]].replace("these agents", "them")
        opening += f" where it holds other runs of the task, and {unseen} where it does not"
    shares = ", and ".join(
        f"in {found.rescue:.0%} and the reverse in {found.misled:.0%} {memory} "
        f"({_points(found.gain)} points, 95 % interval {_between(found.interval['gain'])})"
        for found, memory in cases
    )
    tools = [*(first.rescued_by if signs[0] > 0 else first.misled_by)][:_NAMED_TOOLS] if signs[0] else []
    mostly = f", mostly on {', '.join(tools)}" if tools else ""
    return (
        f"{opening}: at {first.divergences} points where a failed run left the way of a successful one, hints of "
        f"{method} (at most {count_of(first.k, 'tool')}) held the better tool and not the chosen one {shares}{mostly}; "
        f"in successful runs they lacked the tool called next in "
        f"{' and '.join(f'{found.harm:.0%}' for found, _ in cases)}."
    )


def _by_prediction(report: EvalReport, method: str) -> str:
    settings, scores = report.settings, report.macro[method]
    apart = settings.split in ("families", "files, unseen families")
    metric = f"hit@{min(settings.k, 3)}"
    ahead = scores.difference.get(metric)
    opening = "Memory would have known what comes next, but whether that helps these agents cannot be told"
    if ahead is not None and ahead.interval.low <= 0:
        opening = "Memory would not have helped these agents as far as can be seen"
    tasks = "unseen tasks" if apart else "the tested runs"
    found = f"on {tasks} its top {metric[-1]} held the next tool in {scores.values[metric]:.0%}"
    if ahead is not None:
        hit = report.macro[settings.reference].values[metric]
        found += f" against {hit:.0%} for {settings.reference} ({_points(ahead.value)} points, "
        found += f"{_between(ahead.interval)})"
    rescue = report.rescue.get(method)
    if rescue is None:
        why = "whether it would have put failed runs right was not looked at"
        why += "" if apart else ", as memory held runs of their tasks"
    elif not rescue.divergences:
        why = "no failed run was found to leave the way of a successful one"
    else:
        number = count_of(rescue.divergences, "failed run")
        why = f"only {number} left the way of a successful one, which is too few to judge"
    return f"{opening}: {found}, and {why}."


def _between(found: Interval) -> str:
    return f"{_points(found.low)} to {_points(found.high)}"


def _points(share: float) -> str:
    """In percent, signed; what rounds to nothing is no minus."""
    return f"{round(100 * share):+d}"
