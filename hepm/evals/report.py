"""What an evaluation found: as values, JSON, tables for a terminal, and one sentence for the owner of the agents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, cast

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hepm.evals.metrics import METRICS, Failures, Interval, RescueAndHarm
from hepm.text import count_of, on_one_line
from hepm.types import Object

# Below these a verdict would be chance.
FEWEST_EVENTS: Final = 30
FEWEST_FAMILIES: Final = 5
FEWEST_DIVERGENCES: Final = 10
_DIGITS: Final = 4  # of a number in JSON
# Fixed: the best is known only afterwards.
_JUDGED = "hybrid", "adaptive", "episodic", "procedural", "second-order+similarity", "similarity", "first-order"
_WOULD_HAVE: Final = {
    1: "would have helped these agents",
    0: "would not have helped these agents measurably",
    -1: "would have confirmed these agents in their wrong turns rather than put them right",
}


@dataclass(frozen=True)
class EvalOptions:
    """How to evaluate.

    Attributes:
        k: Maximum number of tools in a hint.
        reference: The method that others are compared with; the first one if it is not measured.
        seen: Whether to look at failed runs with themselves alone out of memory, too (see `by_run`).
        sample: Measure a sample if everything would take longer than some seconds.
    """

    folds: int = 5
    k: int = 2
    seed: int = 0
    reference: str = "first-order"
    seen: bool = True
    assume_success: bool = False
    sample: bool = False


@dataclass(frozen=True)
class EvalSettings(EvalOptions):
    """The options, and how many runs were read, some without an outcome.

    Attributes:
        sampled: Runs in the sample; None if every call was measured.
    """

    runs: int = 0
    unlabelled: int = 0
    sampled: int | None = None


@dataclass(frozen=True)
class MethodDifference:
    """How far a method is from the reference method on the same events, paired draw by draw."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class MethodScores:
    """Means in [0, 1], intervals, and differences to the reference method, by metric."""

    values: Mapping[str, float]
    interval: Mapping[str, Interval]
    difference: Mapping[str, MethodDifference]

    @property
    def ahead(self) -> str:
        """The difference in hit@2, for a table; "" of the reference."""
        if "hit@2" not in self.difference:
            return ""
        value, (low, high) = self.difference["hit@2"].value, self.difference["hit@2"].interval
        return f"{value:+.3f} [{low:+.3f} … {high:+.3f}]"


@dataclass(frozen=True)
class DomainReport:
    """One domain.

    Attributes:
        events, families: How many calls were predicted, of how many families.
        rescue: By method, with the families out of memory; empty if it was not measured.
        rescue_seen: The same with the run alone out of memory; empty if it was not measured.
        grouped: Whether tasks and families are groups of similar requests.
    """

    events: int
    families: int
    methods: Mapping[str, MethodScores]
    rescue: Mapping[str, RescueAndHarm]
    rescue_seen: Mapping[str, RescueAndHarm]
    failures: Failures | None
    grouped: bool = False


@dataclass(frozen=True)
class EvalReport:
    """A whole evaluation; `rescue` and `rescue_seen` are over all domains.

    Attributes:
        macro: Mean over the domains, by method.
        methods: One line about each.
        skipped: Why a domain could not be measured, by its name.
        enough: Whether there are enough runs for a verdict; else tables would show chance, and are not printed.
    """

    domains: Mapping[str, DomainReport]
    macro: Mapping[str, MethodScores]
    rescue: Mapping[str, RescueAndHarm]
    rescue_seen: Mapping[str, RescueAndHarm]
    methods: Mapping[str, str]
    skipped: Mapping[str, str]
    settings: EvalSettings
    verdict: str
    enough: bool = True

    def to_json(self) -> Object:
        """As `hepm eval --json` prints it."""
        report = rounded(asdict(self))
        del report["settings"]["seen"]
        tables = [report["macro"], *(domain["methods"] for domain in report["domains"].values())]
        for by_method in tables:
            for name, scores in by_method.items():
                # {"hit@1": .5, ..., "interval": ..., "difference": ...}: the values stand beside the rest.
                by_method[name] = scores.pop("values") | scores
        return report


def rounded(value: Any) -> Any:
    """A JSON value with its numbers rounded to four digits."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in cast("Object", value).items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in cast("list[Any]", value)]
    if isinstance(value, float):
        return round(value, _DIGITS)
    return value


def _judged(measured: Iterable[str]) -> str:
    """The method that the verdict is about: the first measured one, unless one of `_JUDGED` was measured."""
    names = list(measured)
    for name in _JUDGED:
        if name in names:
            return name
    return names[0]


def with_verdict(report: EvalReport, *, events: int, families: int) -> EvalReport:
    """The report, with whether memory would have helped these agents, by how much and on which tools.

    Or with the sentence that there are too few runs, and how many are needed.

    Args:
        events, families: Of all domains, no run counted twice.
    """
    if events >= FEWEST_EVENTS and families >= FEWEST_FAMILIES:
        return replace(report, verdict=_verdict(report, events))
    runs = report.settings.runs
    missing = [(FEWEST_EVENTS - events) * runs / events, (FEWEST_FAMILIES - families) * runs / families]
    found = (
        f"Too few runs to say whether memory would have helped: {count_of(events, 'call')} of "
        f"{count_of(families, 'task family', 'task families')} could be predicted, and below {FEWEST_EVENTS} calls of "
        f"{FEWEST_FAMILIES} families chance decides. About {count_of(math.ceil(max(missing)), 'more run')} like these "
        "are needed, of other tasks; --json prints the figures of these."
    )
    return replace(report, verdict=found + _notes(report, events), enough=False)


def _notes(report: EvalReport, events: int) -> str:
    notes = ""
    if any(domain.grouped for domain in report.domains.values()):
        notes = " Task ids hardly repeat in these runs: requests were grouped by likeness."
    return notes + _sampled(report.settings, events)


def _verdict(report: EvalReport, events: int) -> str:
    """Of enough runs."""
    # One sentence is about one method.
    method = _judged(report.macro)
    notes = _notes(report, events)
    seen = report.rescue_seen.get(method)
    unseen = report.rescue.get(method)
    cases: list[tuple[RescueAndHarm, str]] = []
    if seen is not None and _enough(seen):
        cases.append((seen, "with other runs of the task in memory"))
    if unseen is not None and _enough(unseen):
        cases.append((unseen, "without"))
    # Without the other case there is nothing to tell it apart from.
    if len(cases) == 1:
        cases = [(cases[0][0], "with other runs of their task families out of memory")]
    if cases:
        return _by_hints(cases, method) + notes
    return _by_prediction(report, method) + notes


def _enough(measured: RescueAndHarm) -> bool:
    return measured.divergences >= FEWEST_DIVERGENCES and measured.families >= FEWEST_FAMILIES


def _sampled(settings: EvalSettings, events: int) -> str:
    if settings.sampled is None:
        return ""
    runs = f"all {settings.runs:,}"
    if settings.sampled != settings.runs:
        runs = f"{settings.sampled:,} of {settings.runs:,}"
    return (
        f" This is a sample: {events:,} calls were predicted, from memories of {runs} runs; --all measures every call."
    )


def _by_hints(cases: Sequence[tuple[RescueAndHarm, str]], method: str) -> str:
    first = cases[0][0]
    signs = [_sign(measured.interval["gain"]) for measured, _ in cases]
    opening = f"Memory {_WOULD_HAVE[signs[0]]}"
    # "would have helped ... where it holds other runs of the task, and would not have ... where it does not".
    if len(set(signs)) > 1:
        unseen = _WOULD_HAVE[signs[1]].replace("these agents", "them")
        opening += f" where it holds other runs of the task, and {unseen} where it does not"
    shares = ", and ".join(
        f"in {measured.rescue:.0%} and the reverse in {measured.misled:.0%} {memory} "
        f"({_points(measured.gain)} points, 95 % interval {_points(*measured.interval['gain'])})"
        for measured, memory in cases
    )
    harm = " and ".join(f"{measured.harm:.0%}" for measured, _ in cases)
    return (
        f"{opening}: at {first.divergences} points where a failed run left the way of a successful one, hints of "
        f"{method} (at most {count_of(first.k, 'tool')}) held the better tool and not the chosen one {shares}; "
        f"in successful runs they lacked the tool called next in {harm}."
    )


def _sign(gain: Interval) -> int:
    """1 or -1 where the interval excludes 0, else 0: chance cannot be excluded."""
    if gain.low > 0:
        return 1
    if gain.high < 0:
        return -1
    return 0


def _by_prediction(report: EvalReport, method: str) -> str:
    settings = report.settings
    k = min(settings.k, 3)  # METRICS ends at hit@3
    metric = f"hit@{k}"
    scores = report.macro[method]
    opening = "Memory would have known what comes next, but whether that helps these agents cannot be told"
    hits = f"on unseen tasks its top {k} held the next tool in {scores.values[metric]:.0%}"
    ahead = scores.difference.get(metric)
    if ahead is not None:
        if ahead.interval.low <= 0:
            opening = "Memory would not have helped these agents as far as can be seen"
        reference = report.macro[settings.reference].values[metric]
        hits += f" against {reference:.0%} for {settings.reference}"
        hits += f" ({_points(ahead.value)} points, {_points(*ahead.interval)})"
    diverged = 0
    if method in report.rescue:
        diverged = report.rescue[method].divergences
    few = f"{count_of(diverged, 'failed run')} left the way of a successful one, which is too few to judge"
    return f"{opening}: {hits}, and {few}."


def _points(*shares: float) -> str:
    # Through int: -0.3 points print as "+0", where f"{-0.3:+.0f}" is "-0".
    return " to ".join(f"{round(100 * share):+d}" for share in shares)


def tables(report: EvalReport) -> RenderableType:
    """The verdict, then each domain, the mean over them, rescue and harm."""
    settings = report.settings
    parts: list[RenderableType] = [Text(report.verdict, style="bold")]
    measured = report.domains.items() if report.enough else ()
    for name, domain in measured:
        title = f"{name}: {domain.events:,} calls of {domain.families:,} task families"
        if domain.grouped:
            title += " (requests grouped by likeness)"
        parts.append(_scores(title, domain.methods, settings.reference))
        if domain.failures:
            parts.append(Text(_ways(domain.failures)))
    if len(measured) > 1:
        parts.append(_scores(f"mean over {len(report.domains)} domains", report.macro, settings.reference))
    if report.enough:
        parts += _rescue(report.rescue, "task unseen: its family is out of memory")
        parts += _rescue(report.rescue_seen, "task seen: this run alone is out of memory")
    for name, reason in report.skipped.items():
        parts.append(Text(on_one_line(f"{name} was left out: {reason}.")))
    if settings.unlabelled:
        parts.append(Text(f"{settings.unlabelled:,} of {settings.runs:,} runs have no outcome and were left out."))
    return Group(*parts)


def _ways(failures: Failures) -> str:
    """What the failed runs of a domain did, in a sentence."""
    if not failures.runs:
        return "no failed run"
    return (
        f"{failures.runs:,} failed runs: {failures.diverged:,} left the way of a successful run for another "
        f"tool, {failures.same_way:,} took the same tools as far as they went, {failures.unsolved:,} ran tasks "
        "that no run solved"
    )


def _scores(title: str, methods: Mapping[str, MethodScores], reference: str) -> Table:
    columns = {"method": "{0[0]}"}
    columns |= {metric.replace("mrr", "MRR"): f"{{0[1].values[{metric}]:.3f}}" for metric in METRICS}
    columns[f"hit@2 against {reference}, 95 %"] = "{0[1].ahead}"
    return rows_table(title, columns, methods.items())


_RESCUE_COLUMNS: Final = {
    "method": "{0[0]}",
    "rescue": "{0[1].rescue:.3f}",
    "misled": "{0[1].misled:.3f}",
    "gain": "{0[1].gain:+.3f}",
    "95 %": "{0[1].interval[gain].low:+.3f} … {0[1].interval[gain].high:+.3f}",
    "harm": "{0[1].harm:.3f}",
    "silent": "{0[1].silent:.3f}",
}


def _rescue(by_method: Mapping[str, RescueAndHarm], memory: str) -> Iterator[RenderableType]:
    """A table of rescue and harm, and how often the judged method warned."""
    first = next(iter(by_method.values()), None)
    if first is None or not first.divergences:
        return
    if not _enough(first):
        yield Text(
            f"{memory}; {count_of(first.divergences, 'failed run')} of "
            f"{count_of(first.families, 'task family', 'task families')} left the way of a successful one: too few to "
            f"compare hints, which takes {FEWEST_DIVERGENCES} of {FEWEST_FAMILIES}"
        )
        return
    title = (
        f"{memory}; hints of at most {first.k} at {first.divergences:,} points of {first.families:,} task families "
        "where a failed run left the way of a successful one"
    )
    # "misled" and "rescue" leave "both" and "neither" out: they do not add up to 1.
    yield rows_table(title, _RESCUE_COLUMNS, by_method.items())
    name = _judged(by_method)
    judged = by_method[name]
    if judged.warned or judged.warned_better:
        warned = f"warned of the chosen tool in {judged.warned:.0%} and of the better one in {judged.warned_better:.0%}"
        yield Text(f"{name} {warned}")


def table_of(title: str, first: str, *numbers: str) -> Table:
    """An empty table for a terminal: a column of names, then columns of numbers."""
    table = bare_table(title)
    table.add_column(first, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def rows_table(title: str, columns: Mapping[str, str], rows: Iterable[Any]) -> Table:
    """A table for a terminal: by heading, the format of a row's cell, such as "{0.gain:+.3f}"."""
    table = table_of(title, *columns)
    for row in rows:
        table.add_row(*[cell.format(row) for cell in columns.values()])
    return table


def bare_table(title: str) -> Table:
    """A table for a terminal, still without columns."""
    # As Text: names of environments and tools are no markup.
    heading = Text(f"\n{on_one_line(title)}") if title else None
    return Table(title=heading, title_justify="left", box=None, pad_edge=False, header_style="dim")
