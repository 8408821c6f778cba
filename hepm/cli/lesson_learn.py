"""`hepm lesson distill` and `evolve`: lessons from runs, and better ones from those that were used."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final, get_args

from click.exceptions import Exit

from hepm.cli.commands import command, option
from hepm.cli.lesson_list import LessonKind, remark_pending
from hepm.cli.model import ModelChoice, cost_of, dry_run_option, model_options
from hepm.cli.options import Bar, json_option, print_json, remark, tell, with_memory
from hepm.text import count_of
from hepm.types import Object

if TYPE_CHECKING:
    from hepm.experience.distilling import DistillReport
    from hepm.llm import Client
    from hepm.memory import Memory

_SHOWN_FAILURES: Final = 10


@command("distill")
@option(
    "--kind kinds",
    "Only this kind; repeatable. Default: principle; with a model experience, too.",
    one_of=get_args(LessonKind),
    multiple=True,
)
@json_option
@with_memory
@model_options
def distill(memory: Memory, namespace: str, choice: ModelChoice, kinds: tuple[LessonKind, ...], as_json: bool) -> None:
    """Distill lessons: without a model by counting what worked and what failed in all runs, with one from new runs.

    Notes say what the user of a run wants of the agent. Interrupted, or out of budget, the command goes on where it
    stopped, and pays for no answer twice.

    Example: `hepm lesson distill --namespace retail`
    """
    reports: dict[LessonKind, DistillReport] = {}
    client = choice.client(memory, namespace, "run")
    if not kinds:
        kinds = ("principle",) if client is None else ("experience", "principle")
    # One kind after the other: a budget that is spent on the first leaves none for the next.
    for kind in dict.fromkeys(kinds):
        of_kind = client
        if kind == "note" and client is not None:
            # Answers about users are kept, and forgotten, with their notes.
            of_kind = choice.client(memory, namespace, "user", budget=client.budget)
        reports[kind] = _distill(memory, kind, of_kind, namespace)
    remark_pending(memory, namespace)
    if as_json:
        by_kind = {kind: {**asdict(report), "failed": dict(report.failed)} for kind, report in reports.items()}
        print_json({**by_kind, "cost": cost_of(client)})
    else:
        for kind, report in reports.items():
            _print_report(kind, report)
    # Some failures among many are reported; only failures alone are a failure of the command.
    if any(report.failed and not report.new + report.merged for report in reports.values()):
        raise Exit(1)


def _distill(memory: Memory, kind: LessonKind, client: Client | None, namespace: str) -> DistillReport:
    """Distill the lessons of a kind; without a model nothing judges, and principles are counted."""
    from hepm.experience.matching import ModelJudge
    from hepm.experience.model_distiller import ModelDistiller

    with Bar(f"runs distilled ({kind})") as bar:

        def on_progress(report: DistillReport) -> None:
            bar.show(report.runs)

        about: Object = {"namespace": namespace, "on_progress": on_progress}
        if kind == "note":
            return memory.preferences.reflect_all(model=client, **about)
        distiller = judge = None
        if client is not None:
            distiller = ModelDistiller(client, kind)
            judge = ModelJudge(client)
        if kind == "experience":
            return memory.experiences.distill(distiller=distiller, **about)
        return memory.principles.distill(distiller=distiller, judge=judge, **about)


def _print_report(kind: LessonKind, report: DistillReport) -> None:
    new = count_of(report.new, f"new {kind}")
    if kind == "note":
        new = f"{count_of(report.new, 'new version')} of notes"
    parts = [f"{count_of(report.runs, 'run')} gave {new}"]
    others = {
        "said what was said already": report.merged,
        "no longer taught": report.retired,
        "refused": report.refused,
    }
    parts += [f"{number:,} {what}" for what, number in others.items() if number]
    print("; ".join(parts))
    if not report.runs:
        remark("nothing was left to learn from: runs without an outcome wait for one")
    if report.unasked:
        remark(f"{report.unasked:,} runs wait: the budget is spent. Run it again to go on.")
    for run, why in report.failed[:_SHOWN_FAILURES]:
        remark(f"{run}: {why}")
    more = len(report.failed) - _SHOWN_FAILURES
    if more > 0:
        remark(f"and {more:,} more runs gave none; they are asked about again")


@command("evolve")
@dry_run_option
@with_memory
@model_options
def evolve(memory: Memory, namespace: str, choice: ModelChoice, dry_run: bool) -> None:
    """Sharpen, generalise, combine and prune experiences (PRIME, table 3).

    Example: `hepm lesson evolve --dry-run`
    """
    from hepm.lab.evolution import Evolution

    client = choice.client(memory, namespace, "run")
    if client is None:
        remark("without a model (--model), experiences are only pruned")
    report = Evolution(memory.lessons, namespace=namespace, model=client).run(dry_run=dry_run)
    remark_pending(memory, namespace)
    for step in report.plan:
        note = f" ({step.note})" if step.note else ""
        tell(f"{step.iteration}  {step.operator} of {' and '.join(step.of)}, {step.became}{note}: {step.reason}")
        if step.child is not None:
            tell(f"      {step.child.lesson}")
    if not report.id:
        print("nothing changed")
        return
    made = ", ".join(f"{count} by {operator}" for operator, count in report.kept.items()) or "no child"
    did = "would make" if dry_run else "made"
    print(f"{report.id} {did} {made}; pruned: {report.count('pruned')}")
