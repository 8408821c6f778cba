"""`hepm lesson distill` and `evolve`: lessons from runs, and better ones from those that were used."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, get_args

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
    from hepm.experience.preferences import ReflectReport
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
        default = _BY_COUNTING if client is None else _BY_MODEL
        # A kind that is named twice is distilled once.
        chosen: list[LessonKind] = list(dict.fromkeys(kinds or default))
        # Answers about users are kept, and forgotten, with their notes.
        shared_budget = None if client is None else client.budget
        about_users = choice.client(memory, place.namespace, "user", budget=shared_budget)
        step = _Distillation(memory, place.namespace, client, about_users, again, read_config().model.concurrency)
        if dry_run:
            _print_estimates({kind: step.estimate(kind) for kind in chosen}, as_json=as_json)
            return
        # One kind after the other: a budget that is spent on the first leaves none for the next.
        reports: dict[LessonKind, DistillReport | ReflectReport] = {kind: step.run(kind) for kind in chosen}
        remark_pending(memory, place.namespace)
    tell_cost(client)
    if as_json:
        by_kind = {kind: {**asdict(report), "failed": dict(report.failed)} for kind, report in reports.items()}
        print_json({**by_kind, "cost": cost_of(client)})
    else:
        for kind, report in reports.items():
            _print_report(kind, report)
    # Some failures among many are reported; only failures alone are a failure of the command.
    if any(report.failed and not _lessons_of(report) for report in reports.values()):
        raise click.exceptions.Exit(1)


@dataclass(frozen=True, slots=True)
class _Distillation:
    """Distills one kind after the other with one budget; `client` and `about_users` differ in who owns the answers."""

    memory: Memory
    namespace: str
    client: Client | None
    about_users: Client | None
    again: bool
    concurrency: int

    def estimate(self, kind: LessonKind) -> tuple[int, list[Estimate]]:
        """How many runs `run` would look at, and what a model would be asked; nothing is asked or stored."""
        about: Object = {"namespace": self.namespace, "again": self.again}
        requests: list[Estimate] = []
        if kind == "note":
            from hepm.experience.preferences import unseen

            if self.about_users is not None:
                requests.append(self.memory.preferences.estimate(self.about_users, **about))
            return sum(1 for _ in unseen(self.memory.lessons, self.namespace, again=self.again)), requests
        from hepm.experience.model_distiller import ModelDistiller

        distiller, judge, lessons = self._distiller(kind), self._judge(), self.memory.lessons
        if isinstance(distiller, ModelDistiller):
            requests.append(distiller.estimate(lessons, **about))
            # Whether two principles say the same is asked only where their texts are similar: more questions, of which
            # only a part will be asked.
            if kind == "principle" and judge is not None:
                requests.append(self.memory.principles.estimate(judge, distiller, **about))
        # All runs are counted.
        if distiller is None:
            return lessons.waiting(kind, namespace=self.namespace, again=True), requests
        return lessons.waiting(f"{kind}/{distiller.name}", **about), requests

    def run(self, kind: LessonKind) -> DistillReport | ReflectReport:
        """Distill the lessons of a kind."""
        about: Object = {"namespace": self.namespace, "again": self.again}
        with Bar(f"runs distilled ({kind})") as bar:

            def on_progress(report: DistillReport | ReflectReport) -> None:
                bar.show(report.runs)

            about["on_progress"] = on_progress
            if kind == "note":
                return self.memory.preferences.reflect_all(model=self.about_users, **about)
            about["distiller"] = self._distiller(kind)
            if kind == "experience":
                return self.memory.experiences.distill(**about)
            return self.memory.principles.distill(judge=self._judge(), **about)

    def _distiller(self, kind: LessonKind) -> Distiller | None:
        """None if principles are counted."""
        from hepm.experience.distilling import ExtractiveDistiller
        from hepm.experience.model_distiller import ModelDistiller

        assert kind != "note"
        if self.client is None:
            return ExtractiveDistiller() if kind == "experience" else None
        return ModelDistiller(self.client, kind, concurrency=self.concurrency)

    def _judge(self) -> ModelJudge | None:
        from hepm.experience.matching import ModelJudge

        if self.client is None:
            return None
        return ModelJudge(self.client, concurrency=self.concurrency)


def _print_estimates(estimates: dict[LessonKind, tuple[int, list[Estimate]]], *, as_json: bool) -> None:
    document: Object = {"dry_run": True}
    for kind, (runs, requests) in estimates.items():
        document[kind] = {"runs": runs, "requests": [asdict(request) for request in requests]}
        if not as_json:
            print(f"{kind}: {count_of(runs, 'run')} would be looked at")
            for request in requests:
                print(f"  asking would take {request}")
    if as_json:
        print_json(document)


def _lessons_of(report: DistillReport | ReflectReport) -> int:
    from hepm.experience.preferences import ReflectReport

    if isinstance(report, ReflectReport):
        return report.written + report.unchanged
    # A principle that says what one said already is merged into that.
    return report.new + report.merged


def _print_report(kind: LessonKind, report: DistillReport | ReflectReport) -> None:
    from hepm.experience.preferences import ReflectReport

    if isinstance(report, ReflectReport):
        print(f"{count_of(report.runs, 'run')} gave {count_of(report.written, 'new version')} of notes")
    else:
        _print_lessons(kind, report)
    if report.unasked:
        remark(f"{report.unasked:,} runs wait: the budget is spent. Run it again to go on.")
    for run, why in report.failed[:_SHOWN_FAILURES]:
        remark(f"{run}: {why}")
    if len(report.failed) > _SHOWN_FAILURES:
        more = len(report.failed) - _SHOWN_FAILURES
        remark(f"and {more:,} more runs gave none; they are asked about again")


def _print_lessons(kind: LessonKind, report: DistillReport) -> None:
    parts = [f"{count_of(report.runs, 'run')} gave {count_of(report.new, f'new {kind}')}"]
    if report.merged:
        parts.append(f"{report.merged:,} said what one said already")
    if report.retired:
        parts.append(f"{count_of(report.retired, 'former one')} no longer taught")
    if report.refused:
        parts.append(f"{report.refused:,} came from runs that are gone")
    print("; ".join(parts))
    if not report.runs:
        remark("nothing was left to learn from: runs without an outcome wait for one")


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
    with place.open() as memory:
        client = choice.client(memory, place.namespace, "run")
        if client is None:
            remark("without a model (--model), experiences are only pruned")
        report = memory.experiences.evolve(namespace=place.namespace, model=client, dry_run=dry_run)
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
