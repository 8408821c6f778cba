"""What an evaluation found: as values, JSON, tables for a terminal, and one sentence for the owner of the agents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hepm.evals.metrics import HINTED, METRICS, Interval, RescueAndHarm
from hepm.text import count_of, on_one_line, percent
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
        folds: Parts of the families, each predicted from the others.
        reference: The method that others are compared with; the first one if it is not measured.
        seen: Whether to look at failed runs with themselves alone out of memory, too (see `by_run`).
        sample: Measure a sample if everything would take longer than some seconds.
    """

    folds: int = 5
    seed: int = 0
    reference: str = "first-order"
    seen: bool = True
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

    values: dict[str, float]
    interval: dict[str, Interval]
    difference: dict[str, MethodDifference]

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
        grouped: Whether tasks and families are groups of similar requests.
    """

    events: int
    families: int
    methods: Mapping[str, MethodScores]
    grouped: bool = False


@dataclass(frozen=True)
class EvalReport:
    """A whole evaluation.

    Attributes:
        macro: Mean over the domains, by method.
        rescue: By method, over all domains, with the families out of memory.
        rescue_seen: The same with the run alone out of memory; empty if it was not measured.
        methods: One line about each.
        skipped: Why a domain could not be measured, by its name.
    """

    domains: Mapping[str, DomainReport]
    macro: Mapping[str, MethodScores]
    rescue: Mapping[str, RescueAndHarm]
    rescue_seen: Mapping[str, RescueAndHarm]
    methods: Mapping[str, str]
    skipped: Mapping[str, str]
    settings: EvalSettings
    verdict: str = ""

    @property
    def events(self) -> int:
        """How many calls were predicted."""
        return sum(domain.events for domain in self.domains.values())

    @property
    def families(self) -> int:
        """Of how many task families."""
        return sum(domain.families for domain in self.domains.values())

    @property
    def enough(self) -> bool:
        """Whether there are enough runs for a verdict; else tables would show chance, and are not printed."""
        return self.events >= FEWEST_EVENTS and self.families >= FEWEST_FAMILIES

    def to_json(self) -> Object:
        """As `hepm eval --json` prints it."""
        report = rounded(asdict(self)) | {"enough": self.enough}
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


def verdict_of(report: EvalReport) -> str:
    """Whether memory would have helped these agents, by how much; or how many runs are missing to say so."""
    settings, events, families = report.settings, report.events, report.families
    sentences: list[str] = []
    if not report.enough:
        missing = max((FEWEST_EVENTS - events) / events, (FEWEST_FAMILIES - families) / families)
        sentences.append(
            f"Too few runs to say whether memory would have helped: {count_of(events, 'call')} of "
            f"{count_of(families, 'task family', 'task families')} could be predicted, and below {FEWEST_EVENTS} calls "
            f"of {FEWEST_FAMILIES} families chance decides. About "
            f"{count_of(math.ceil(missing * settings.runs), 'more run')} like these are needed, of other tasks; --json "
            "prints the figures of these."
        )
    else:
        # One verdict is about one method.
        method = _judged(report.macro)
        cases = {
            "Where it holds other runs of the task, memory": report.rescue_seen.get(method),
            "On new tasks, memory": report.rescue.get(method),
        }
        for case, found in cases.items():
            if found is not None and _enough(found):
                sentences.append(_by_hints(case, found, method))
        if not sentences:
            sentences.append(_by_prediction(report, method))
    if any(domain.grouped for domain in report.domains.values()):
        sentences.append(
            "Task ids hardly repeat in these runs: requests were grouped by likeness. Like requests may need other "
            "calls, so that shares at points where runs part may be far off: name the task of each run."
        )
    if settings.sampled is not None:
        sentences.append(
            f"This is a sample of {settings.sampled:,} of {settings.runs:,} runs, with {events:,} calls; --all "
            "measures every call."
        )
    return " ".join(sentences)


def _enough(measured: RescueAndHarm) -> bool:
    return measured.divergences >= FEWEST_DIVERGENCES and measured.families >= FEWEST_FAMILIES


def _by_hints(case: str, measured: RescueAndHarm, method: str) -> str:
    gain = measured.interval["gain"]
    # 0 where the interval holds 0: chance cannot be excluded.
    sign = int(gain.low > 0) - int(gain.high < 0)
    return (
        f"{case} {_WOULD_HAVE[sign]}: at {measured.divergences} points where a failed run left the way of a successful "
        f"one, hints of {method} (at most {HINTED} tools) held the better tool and not the chosen one "
        f"in {percent(measured.rescue)} and the reverse in {percent(measured.misled)} ({_points(measured.gain)} "
        f"points, 95 % interval {_points(*gain)}); in successful runs they lacked the tool called next in "
        f"{percent(measured.harm)}."
    )


def _by_prediction(report: EvalReport, method: str) -> str:
    settings = report.settings
    scores = report.macro[method]
    opening = "Memory would have known what comes next, but whether that helps these agents cannot be told"
    hits = f"on unseen tasks its top {HINTED} held the next tool in {percent(scores.values['hit@2'])}"
    ahead = scores.difference.get("hit@2")
    if ahead is not None:
        if ahead.interval.low <= 0:
            opening = "Memory would not have helped these agents as far as can be seen"
        reference = report.macro[settings.reference].values["hit@2"]
        hits += f" against {percent(reference)} for {settings.reference}"
        hits += f" ({_points(ahead.value)} points, {_points(*ahead.interval)})"
    few = f"fewer than {FEWEST_DIVERGENCES} failed runs left the way of a successful one, which is too few to judge"
    return f"{opening}: {hits}, and {few}."


def _points(*shares: float) -> str:
    # Through int: -0.3 points print as "+0", where f"{-0.3:+.0f}" is "-0".
    return " to ".join(f"{round(100 * share):+d}" for share in shares)


def tables(report: EvalReport) -> RenderableType:
    """The verdict, then each domain, the mean over them, rescue and harm."""
    settings = report.settings
    parts: list[RenderableType] = [Text(report.verdict, style="bold")]
    if report.enough:
        for name, domain in report.domains.items():
            title = f"{name}: {domain.events:,} calls of {domain.families:,} task families"
            parts.append(_scores(title, domain.methods, settings.reference))
        if len(report.domains) > 1:
            parts.append(_scores(f"mean over {len(report.domains)} domains", report.macro, settings.reference))
        parts += _rescue(report.rescue, "task unseen: its family is out of memory")
        parts += _rescue(report.rescue_seen, "task seen: this run alone is out of memory")
    for name, reason in report.skipped.items():
        parts.append(Text(on_one_line(f"{name} was left out: {reason}.")))
    if settings.unlabelled:
        parts.append(Text(f"{settings.unlabelled:,} of {settings.runs:,} runs have no outcome and were left out."))
    return Group(*parts)


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
    "warned": "{0[1].warned:.3f}",
}


def _rescue(by_method: Mapping[str, RescueAndHarm], memory: str) -> list[Table]:
    """A table of rescue and harm, where there are enough divergences to compare hints."""
    first = next(iter(by_method.values()), None)
    if first is None or not _enough(first):
        return []
    title = (
        f"{memory}; hints of at most {HINTED} tools at {first.divergences:,} points of {first.families:,} task "
        "families where a failed run left the way of a successful one"
    )
    # "misled" and "rescue" leave hints out that name both tools or none of them: they do not add up to 1.
    return [rows_table(title, _RESCUE_COLUMNS, by_method.items())]


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
