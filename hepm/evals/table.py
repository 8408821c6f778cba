"""A report for people: tables in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hepm.evals.domains import TEN_DOMAINS
from hepm.evals.metrics import METRICS, Interval
from hepm.evals.report import EvalReport, MethodScores, judged
from hepm.evals.rescue import Failures, RescueAndHarm
from hepm.evals.simulator import CASES, FirstTool, Simulation
from hepm.text import on_one_line

_TOOLS = 3


def tables(report: EvalReport) -> RenderableType:
    """Each domain, the mean over them, rescue and harm, and the verdict below all."""
    return Group(*_parts(report))


def simulation_tables(found: Simulation) -> RenderableType:
    """First hints by log, and success by memory size, of each policy."""
    title = "first hint at the decision, in simulated logs of three kinds of trouble"
    first = _table(title, "log of each kind", "policy", *FirstTool.__slots__)
    for case, log in CASES.items():
        for name, by_case in found.first_tools.items():
            first.add_row(log, name, *(f"{getattr(by_case[case], part):.2f}" for part in FirstTool.__slots__))
    sizes = max(([mean.runs for mean in means] for means in found.scores.values()), key=len)
    title = "success of simulated agents that follow hints with probability p, mean over desks"
    success = _table(title, "policy", "p", "learns", *(f"{size} runs" for size in sizes), f"95 % at {sizes[-1]}")
    for setting, means in found.scores.items():
        rates = [f"{mean.success:.2f}" for mean in means] + [""] * (len(sizes) - len(means))
        last = means[-1].interval
        success.add_row(
            setting.policy, f"{setting.follow:g}", setting.learning, *rates, f"{last.low:.2f} … {last.high:.2f}"
        )
    return Group(first, success)


def _parts(report: EvalReport) -> Iterator[RenderableType]:
    settings = report.settings
    for name, domain in report.domains.items():
        title = f"{name}: {domain.events:,} calls of {domain.families:,} task families"
        title += " (requests grouped by likeness)" if domain.grouped else ""
        yield _scores(title, domain.methods, settings.reference)
        if domain.failures:
            yield Text(_failures(domain.failures))
    if len(report.domains) > 1:
        yield _scores(f"mean over {len(report.domains)} domains", report.macro, settings.reference)
    found = [by_method for by_method in (report.rescue, *report.rescue_by_k) if by_method]
    for by_method in sorted(found, key=lambda by_method: next(iter(by_method.values())).k):
        yield from _rescue(by_method, "task unseen: its family is out of memory")
    yield from _rescue(report.rescue_seen, "task seen: this run alone is out of memory")
    yield from _agreement({"unseen": report.rescue, "seen": report.rescue_seen})
    for name, reason in report.skipped.items():
        yield Text(on_one_line(f"{name} was left out: {reason}."))
    if settings.unlabelled:
        yield Text(f"{settings.unlabelled:,} of {settings.runs:,} runs have no outcome and were left out.")
    known = sorted(report.domains.keys() & set(TEN_DOMAINS))
    if known and "hybrid" in report.macro:
        yield Text(
            f"\nThe hybrid's weights were fitted on public runs of {', '.join(known)} and others: if these are those "
            "runs, its figures are a little too good; benchmarks/LOG.md has them without.",
            style="dim",
        )
    yield Text(f"\n{report.verdict}", style="bold")


def _scores(title: str, methods: Mapping[str, MethodScores], reference: str) -> Table:
    table = _table(title, "method")
    for heading in ("hit@1", "hit@2", "hit@3", "MRR"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=5)
    table.add_column(f"hit@2 against {reference}, 95 %", justify="right", min_width=23)
    for name, scores in methods.items():
        difference = scores.difference.get("hit@2")
        against = f"{difference.value:+.3f} [{_range(difference.interval)}]" if difference else ""
        table.add_row(name, *(f"{scores.values[metric]:.3f}" for metric in METRICS), against)
    return table


def _failures(failures: Failures) -> str:
    if not failures.runs:
        return "no failed run"
    return (
        f"{failures.runs:,} failed runs: {failures.diverged:,} left the way of a successful run for another tool, "
        f"{failures.same_way:,} took the same tools as far as they went, "
        f"{failures.unsolved:,} ran tasks that no run solved"
    )


def _rescue(found: Mapping[str, RescueAndHarm], memory: str) -> Iterator[RenderableType]:
    first = next(iter(found.values()), None)
    if first is None or not first.divergences:
        return
    title = (
        f"{memory}; hints of at most {first.k} at {first.divergences:,} points of {first.families:,} task families "
        "where a failed run left the way of a successful one"
    )
    table = _table(title, "method", "rescue", "misled", "gain", "95 %", "harm", "silent")
    for name, method in found.items():
        gain = f"{method.gain:+.3f}", _range(method.interval["gain"])
        shares = [f"{share:.3f}" for share in (method.rescue, method.misled, method.harm, method.silent)]
        table.add_row(name, *shares[:2], *gain, *shares[2:])
    yield table
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
    yield Text(f"{name} {', '.join(said) or 'neither rescued nor misled'}")


def _agreement(by_memory: Mapping[str, Mapping[str, RescueAndHarm]]) -> Iterator[RenderableType]:
    title = "share of calls that were the first tool of the hint, in successful and in failed runs"
    table = _table(title, "task", "method", "successful", "failed", "difference", "95 %")
    table.columns[1].justify = "left"
    for memory, found in by_memory.items():
        for name, method in found.items():
            if a := method.agreement:
                shares = f"{a.successful:.3f}", f"{a.failed:.3f}", f"{a.difference:+.3f}"
                table.add_row(memory, name, *shares, _range(a.interval))
    if table.row_count:
        yield table


def _range(found: Interval) -> str:
    return f"{found.low:+.3f} … {found.high:+.3f}"


def _table(title: str, first: str, *numbers: str) -> Table:
    # As Text: names of environments and tools are no markup.
    table = Table(
        title=Text(f"\n{on_one_line(title)}"), title_justify="left", box=None, pad_edge=False, header_style="dim"
    )
    table.add_column(first, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table
