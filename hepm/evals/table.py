"""A report for people: tables in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hepm.evals.domains import TEN_DOMAINS
from hepm.evals.metrics import METRICS, Interval
from hepm.evals.report import DomainReport, EvalReport, MethodScores
from hepm.evals.rescue import RescueAndHarm
from hepm.evals.simulator import Case, FirstTool, Simulation
from hepm.evals.verdict import judged
from hepm.text import on_one_line

_TOOLS = 3

_LOGS: Final[Mapping[Case, str]] = {
    "even": "10 succeeded, 10 failed",
    "rare": "3 succeeded, 12 failed",
    "all_failed": "all 10 failed",
    "other_kinds": "10, 10, beside such",
}


def tables(report: EvalReport) -> RenderableType:
    """Each domain, the mean over them, rescue and harm, and the verdict below all."""
    return Group(*_parts(report))


def simulation_tables(found: Simulation) -> RenderableType:
    """First hints by log, and success by memory size, of each policy."""
    first = _table("first hint at the decision, in simulated logs of three kinds of trouble", "log of each kind")
    for heading in ("policy", *FirstTool.__slots__):
        first.add_column(heading, justify="right", no_wrap=True)
    for case, log in _LOGS.items():
        for name, by_case in found.first_tools.items():
            shares = by_case[case]
            first.add_row(log, name, *(f"{getattr(shares, part):.2f}" for part in FirstTool.__slots__))
    sizes = max(([mean.runs for mean in means] for means in found.scores.values()), key=len)
    success = _table("success of simulated agents that follow hints with probability p, mean over desks", "policy")
    for heading in ("p", "learns", *(f"{size} runs" for size in sizes), f"95 % at {sizes[-1]}"):
        success.add_column(heading, justify="right", no_wrap=True)
    for setting, means in found.scores.items():
        rates = [f"{mean.success:.2f}" for mean in means] + [""] * (len(sizes) - len(means))
        last = means[-1].interval
        success.add_row(
            setting.policy, f"{setting.follow:g}", setting.learning, *rates, f"{last.low:.2f} … {last.high:.2f}"
        )
    return Group(first, success)


def _parts(report: EvalReport) -> Iterator[RenderableType]:
    for name, domain in report.domains.items():
        title = f"{name}: {domain.events:,} calls of {domain.families:,} task families"
        title += " (requests grouped by likeness)" if domain.grouped else ""
        yield _scores(title, domain.methods, report.settings.reference)
        if domain.failures:
            yield Text(_failures(domain))
    if len(report.domains) > 1:
        yield _scores(f"mean over {len(report.domains)} domains", report.macro, report.settings.reference)
    found = [by_method for by_method in (report.rescue, *report.rescue_by_k) if by_method]
    for by_method in sorted(found, key=lambda by_method: next(iter(by_method.values())).k):
        yield from _rescue(by_method, "task unseen: its family is out of memory")
    yield from _rescue(report.rescue_seen, "task seen: this run alone is out of memory")
    yield from _agreement({"unseen": report.rescue, "seen": report.rescue_seen})
    for name, reason in report.skipped.items():
        yield Text(on_one_line(f"{name} was left out: {reason}."))
    if report.settings.unlabelled:
        yield Text(
            f"{report.settings.unlabelled:,} of {report.settings.runs:,} runs have no outcome and were left out."
        )
    known = sorted(report.domains.keys() & set(TEN_DOMAINS))
    if known and "hybrid" in report.macro:
        yield Text(
            f"\nThe hybrid's weights were fitted on public runs of {', '.join(known)} and others: if these are those "
            "runs, its figures are a little too good; benchmarks/LOG.md has them without.",
            style="dim",
        )
    yield Text(f"\n{report.verdict}", style="bold")


def _scores(title: str, methods: Mapping[str, MethodScores], reference: str) -> Table:
    table = _table(title)
    for heading in ("hit@1", "hit@2", "hit@3", "MRR"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=5)
    table.add_column(f"hit@2 against {reference}, 95 %", justify="right", min_width=23)
    for name, scores in methods.items():
        table.add_row(name, *(f"{scores.values[metric]:.3f}" for metric in METRICS), _against(scores))
    return table


def _rescue(found: Mapping[str, RescueAndHarm], memory: str) -> Iterator[RenderableType]:
    first = next(iter(found.values()), None)
    if first is None or not first.divergences:
        return
    table = _table(
        f"{memory}; hints of at most {first.k} at {first.divergences:,} points of {first.families:,} task families "
        "where a failed run left the way of a successful one"
    )
    for heading in ("rescue", "misled", "gain", "95 %", "harm", "silent"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, method in found.items():
        table.add_row(
            name,
            f"{method.rescue:.3f}",
            f"{method.misled:.3f}",
            f"{method.gain:+.3f}",
            _range(method.interval["gain"], sign="+"),
            f"{method.harm:.3f}",
            f"{method.silent:.3f}",
        )
    yield table
    yield Text(_rescued(found))


def _agreement(by_memory: Mapping[str, Mapping[str, RescueAndHarm]]) -> Iterator[RenderableType]:
    table = _table("share of calls that were the first tool of the hint, in successful and in failed runs", "task")
    for heading in ("method", "successful", "failed", "difference", "95 %"):
        table.add_column(heading, justify="left" if heading == "method" else "right", no_wrap=True)
    for memory, found in by_memory.items():
        for name, method in found.items():
            if agreement := method.agreement:
                table.add_row(
                    memory,
                    name,
                    f"{agreement.successful:.3f}",
                    f"{agreement.failed:.3f}",
                    f"{agreement.difference:+.3f}",
                    _range(agreement.interval, sign="+"),
                )
    if table.row_count:
        yield table


def _rescued(found: Mapping[str, RescueAndHarm]) -> str:
    """At which tools the method of the verdict rescued and misled, and how often its warnings were right."""
    name = judged(found)
    method = found[name]
    said = [
        f"{what} at {on_one_line(', '.join(f'{tool} ({times:g})' for tool, times in [*by_tool.items()][:_TOOLS]))}"
        for what, by_tool in (("rescued", method.rescued_by), ("misled", method.misled_by))
        if by_tool
    ]
    if method.warned or method.warned_better:
        said.append(
            f"warned of the chosen tool in {method.warned:.0%} and of the better one in {method.warned_better:.0%}"
        )
    return f"{name} {', '.join(said) or 'neither rescued nor misled'}"


def _failures(domain: DomainReport) -> str:
    failures = domain.failures
    if failures is None or not failures.runs:
        return "no failed run"
    return (
        f"{failures.runs:,} failed runs: {failures.diverged:,} left the way of a successful run for another tool, "
        f"{failures.same_way:,} took the same tools as far as they went, "
        f"{failures.unsolved:,} ran tasks that no run solved"
    )


def _against(scores: MethodScores) -> str:
    found = scores.difference.get("hit@2")
    return f"{found.value:+.3f} [{_range(found.interval, sign='+')}]" if found else ""


def _range(found: Interval, *, sign: str = "") -> str:
    return f"{found.low:{sign}.3f} … {found.high:{sign}.3f}"


def _table(title: str, first: str = "method") -> Table:
    # As Text: environments and tools are called as they like, and none of it is markup.
    table = Table(
        title=Text(f"\n{on_one_line(title)}"), title_justify="left", box=None, pad_edge=False, header_style="dim"
    )
    table.add_column(first, no_wrap=True)
    return table
