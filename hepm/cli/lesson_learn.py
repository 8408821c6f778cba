"""`hepm lesson distill` and `evolve`: lessons from runs, and better ones from those that were used."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

import click

from hepm.cli.commands import command, flag, option
from hepm.cli.config import read_config
from hepm.cli.lesson_list import LessonKind, remark_pending
from hepm.cli.model import ModelChoice, cost_of, dry_run_option, model_options, tell_cost
from hepm.cli.options import Bar, StorePlace, json_option, place_options, print_json, remark, tell
from hepm.text import count_of
from hepm.types import Object

if TYPE_CHECKING:
    from hepm.experience.distilling import Distiller, DistillReport
    from hepm.experience.matching import ModelJudge
    from hepm.llm import Client, Estimate
    from hepm.memory import Memory

_BY_MODEL: Final[tuple[LessonKind, ...]] = ("experience", "principle")
_BY_COUNTING: Final[tuple[LessonKind, ...]] = ("principle",)
_SHOWN_FAILURES: Final = 10


# Distill


@command("distill")
@option(
    "--kind kinds",
    "Only this kind; repeatable. Default: principle; with a model experience, too.",
    one_of=get_args(LessonKind),
    multiple=True,
)
@flag("--again", "Include runs that were distilled before.")
@dry_run_option
@json_option
@place_options
@model_options
def distill(
    place: StorePlace, choice: ModelChoice, kinds: tuple[LessonKind, ...], again: bool, dry_run: bool, as_json: bool
) -> None:
    """Distill lessons: without a model by counting what worked and what failed in all runs, with one from new runs.

    Notes say what the user of a run wants of the agent. Interrupted, or out of budget, the command goes on where it
    stopped, and pays for no answer twice.

    Example: `hepm lesson distill --namespace retail`
    """
    with place.open() as memory:
        client = choice.client(memory, place.namespace, "run")
        # A kind that is named twice is distilled once.
        default = _BY_COUNTING if client is None else _BY_MODEL
        chosen: list[LessonKind] = list(dict.fromkeys(kinds or default))
        # Answers about users are kept, and forgotten, with their notes.
        shared_budget = None if client is None else client.budget
        about_users = choice.client(memory, place.namespace, "user", budget=shared_budget)
        about: Object = {"namespace": place.namespace, "again": again}
        step = _Distillation(memory, client, about_users, about, read_config().model.concurrency)
        if dry_run:
            _print_estimates({kind: step.estimate(kind) for kind in chosen}, as_json=as_json)
            return
        # One kind after the other: a budget that is spent on the first leaves none for the next.
        reports: dict[LessonKind, DistillReport] = {kind: step.run(kind) for kind in chosen}
        remark_pending(memory, place.namespace)
    tell_cost(client)
    if as_json:
        by_kind = {kind: {**asdict(report), "failed": dict(report.failed)} for kind, report in reports.items()}
        print_json({**by_kind, "cost": cost_of(client)})
    else:
        for kind, report in reports.items():
            _print_report(kind, report)
    # Some failures among many are reported; only failures alone are a failure of the command.
    if any(report.failed and not report.new + report.merged for report in reports.values()):
        raise click.exceptions.Exit(1)


@dataclass(frozen=True, slots=True)
class _Distillation:
    """Distills one kind after the other with one budget; `client` and `about_users` differ in who owns the answers."""

    memory: Memory
    client: Client | None
    about_users: Client | None
    about: Object
    concurrency: int

    def estimate(self, kind: LessonKind) -> tuple[int, list[Estimate]]:
        """How many runs `run` would look at, and what a model would be asked; nothing is asked or stored."""
        memory, about = self.memory, self.about
        if kind == "note":
            from hepm.experience.preferences import unseen

            runs = sum(1 for _ in unseen(memory.lessons, **about))
            if self.about_users is None:
                return runs, []
            return runs, [memory.preferences.estimate(self.about_users, **about)]
        from hepm.experience.model_distiller import ModelDistiller

        distiller, _ = self._by_model(kind)
        if not isinstance(distiller, ModelDistiller):
            if distiller is None:  # all runs are counted
                return memory.lessons.waiting(kind, namespace=about["namespace"], again=True), []
            return memory.lessons.waiting(f"{kind}/{distiller.name}", **about), []
        runs = memory.lessons.waiting(f"{kind}/{distiller.name}", **about)
        return runs, [distiller.estimate(memory.lessons, **about)]

    def run(self, kind: LessonKind) -> DistillReport:
        """Distill the lessons of a kind."""
        with Bar(f"runs distilled ({kind})") as bar:

            def on_progress(report: DistillReport) -> None:
                bar.show(report.runs)

            about: Object = {**self.about, "on_progress": on_progress}
            if kind == "note":
                return self.memory.preferences.reflect_all(model=self.about_users, **about)
            distiller, judge = self._by_model(kind)
            if kind == "experience":
                return self.memory.experiences.distill(distiller=distiller, **about)
            return self.memory.principles.distill(distiller=distiller, judge=judge, **about)

    def _by_model(self, kind: Literal["experience", "principle"]) -> tuple[Distiller | None, ModelJudge | None]:
        """What distills and what judges; without a model nothing judges, and principles are counted."""
        from hepm.experience.distilling import ExtractiveDistiller
        from hepm.experience.matching import ModelJudge
        from hepm.experience.model_distiller import ModelDistiller

        if self.client is None:
            if kind == "experience":
                return ExtractiveDistiller(), None
            return None, None
        distiller = ModelDistiller(self.client, kind, concurrency=self.concurrency)
        return distiller, ModelJudge(self.client, concurrency=self.concurrency)


def _print_estimates(estimates: dict[LessonKind, tuple[int, list[Estimate]]], *, as_json: bool) -> None:
    document: Object = {"dry_run": True}
    for kind, (runs, requests) in estimates.items():
        document[kind] = {"runs": runs, "requests": [asdict(request) for request in requests]}
        if not as_json:
            print(f"{kind}: {count_of(runs, 'run')} would be looked at")
            for request in requests:
                print(f"  asking would take {request}")
            if kind == "principle" and requests:
                print("  and a short question more for each principle that a known one may say already")
    if as_json:
        print_json(document)


def _print_report(kind: LessonKind, report: DistillReport) -> None:
    new = count_of(report.new, f"new {kind}")
    if kind == "note":
        new = f"{count_of(report.new, 'new version')} of notes"
    parts = [f"{count_of(report.runs, 'run')} gave {new}"]
    if report.merged:
        parts.append(f"{report.merged:,} said what was said already")
    if report.retired:
        parts.append(f"{count_of(report.retired, 'former one')} no longer taught")
    if report.refused:
        parts.append(f"{report.refused:,} refused")
    print("; ".join(parts))
    if not report.runs:
        remark("nothing was left to learn from: runs without an outcome wait for one")
    if report.unasked:
        remark(f"{report.unasked:,} runs wait: the budget is spent. Run it again to go on.")
    for run, why in report.failed[:_SHOWN_FAILURES]:
        remark(f"{run}: {why}")
    if len(report.failed) > _SHOWN_FAILURES:
        more = len(report.failed) - _SHOWN_FAILURES
        remark(f"and {more:,} more runs gave none; they are asked about again")


# Evolve


@command("evolve")
@dry_run_option
@json_option
@place_options
@model_options
def evolve(place: StorePlace, choice: ModelChoice, dry_run: bool, as_json: bool) -> None:
    """Sharpen, generalise, combine and prune experiences (PRIME, table 3).

    Example: `hepm lesson evolve --dry-run`
    """
    from hepm.lab import evolution

    with place.open() as memory:
        client = choice.client(memory, place.namespace, "run")
        if client is None:
            remark("without a model (--model), experiences are only pruned")
        report = evolution.evolve(memory.lessons, namespace=place.namespace, model=client, dry_run=dry_run)
        remark_pending(memory, place.namespace)
    tell_cost(client)
    pruned = report.count("pruned")
    if as_json:
        summary = {"evolution": report.id, "dry_run": dry_run, "kept": dict(report.kept), "pruned": pruned}
        print_json({**summary, "steps": [asdict(step) for step in report.plan], "cost": cost_of(client)})
        return
    for step in report.plan:
        result = step.became
        if step.note:
            result += f" ({step.note})"
        tell(f"{step.iteration}  {step.operator} of {' and '.join(step.of)}, {result}: {step.reason}")
        if step.child is not None:
            tell(f"      {step.child.lesson}")
    made = ", ".join(f"{count} by {operator}" for operator, count in report.kept.items()) or "no child"
    if not report.id:
        print("nothing changed")
    elif dry_run:
        print(f"it would make {made}, and prune {pruned}")
    else:
        print(f"{report.id} made {made}, and pruned {pruned}")
