"""`hepm experience` and `hepm principle`: distill, list, show, search and revive lessons."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from hepm.cli.commands import Argument, Group, Option, command
from hepm.cli.model import AtOnceOption, DryRunOption, ModelChoice, ModelOption, cost_of, tell_cost, tell_estimate
from hepm.cli.options import Bar, JsonOption, Place, print_json
from hepm.text import count_of, on_one_line

if TYPE_CHECKING:
    from hepm.experience.age import Age
    from hepm.experience.distilling import DistillReport
    from hepm.experience.equal_lessons import EqualLessons
    from hepm.experience.principles import FoundPrinciple
    from hepm.graph.lessons.rows import StoredLesson
    from hepm.llm import Estimate
    from hepm.memory import Memory

DistilledKind = Literal["experience", "principle"]

LessonArgument = Annotated[str, Argument(help="Its id, or the beginning of it.")]

experience = Group("experience", "What each run taught: situation, action, outcome, lesson (PRIME).")
principle = Group("principle", "Rules drawn from many runs: a sentence, triples, a score (EvolveR).")


@dataclass(frozen=True, slots=True)
class DistillOptions:
    """The options of `distill`."""

    again: Annotated[bool, Option("--again", help="Include runs that were distilled before.")] = False
    dry_run: DryRunOption = False
    at_once: AtOnceOption = 4
    as_json: JsonOption = False


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The options of `list`."""

    tool: Annotated[str | None, Option(help="Only about this tool.")] = None
    run: Annotated[str | None, Option(help="Only from this run.")] = None
    retired: Annotated[bool, Option("--retired", help="Include retired ones.")] = False
    environment: Annotated[str | None, Option(help="Only of this environment.")] = None
    limit: Annotated[int, Option(min=1, help="Maximum number.")] = 20
    as_json: JsonOption = False


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The options of `search`."""

    environment: Annotated[str, Option(help="Leave out lessons of other environments.")] = ""
    k: Annotated[int, Option("-k", min=1, help="Maximum number.")] = 3
    floor: Annotated[float | None, Option(min=-1, max=1, help="Minimum similarity.")] = None
    as_json: JsonOption = False


# Distill


@experience.takes
def distill(
    place: Place,
    choice: ModelChoice,
    options: DistillOptions,
    equalised: Annotated[
        list[str] | None,
        Option("--equalised", help="An environment with equal credit for all turns (PRIME, appendix D); repeatable."),
    ] = None,
) -> None:
    """Distill an experience from each new run; without a model, by comparing the runs of a task.

    Interrupted, or out of budget, it goes on where it stopped, and pays for no answer twice.

    Example: `hepm experience distill --namespace retail`
    """
    _distill("experience", place, choice, options, equalised or ())


def distill_principles(place: Place, choice: ModelChoice, options: DistillOptions) -> None:
    """Distill principles from runs; a known one is linked to the run, not stored twice.

    Example: `hepm principle distill --namespace retail`
    """
    _distill("principle", place, choice, options)


principle.add_command(command(distill_principles, "distill"))


def _distill(
    kind: DistilledKind, place: Place, choice: ModelChoice, options: DistillOptions, equalised: Sequence[str] = ()
) -> None:
    from hepm.experience.credit import CreditMethod
    from hepm.experience.distilling import ExtractiveDistiller
    from hepm.experience.lessons import EXTRACTIVE
    from hepm.experience.matching import ModelJudge
    from hepm.experience.model_distiller import ModelDistiller

    methods: dict[str, CreditMethod] = dict.fromkeys(equalised, "equalised")
    with place.open() as memory, Bar("runs distilled") as bar:
        namespace, again = place.namespace, options.again
        client = choice.client(memory, namespace, "run")
        judge = ModelJudge(client, at_once=options.at_once) if client and kind == "principle" else None
        waiting = memory.library.waiting(f"{kind}/{choice.model or EXTRACTIVE}", namespace=namespace, again=again)
        asked: list[Estimate] = []
        if client is None:
            distiller = ExtractiveDistiller(kind, methods=methods)
        else:
            distiller = ModelDistiller(client, kind, at_once=options.at_once, methods=methods)
            if options.dry_run:
                asked.append(distiller.estimate(memory.library, namespace=namespace, again=again))
                if judge is not None:
                    asked.append(
                        memory.principles.estimate(judge, namespace=namespace, distiller=distiller, again=again)
                    )
        if options.dry_run:
            tell_estimate(waiting, *asked, as_json=options.as_json)
            return

        def show(so_far: DistillReport) -> None:
            bar.show(so_far.runs, waiting)

        if kind == "principle":
            report = memory.principles.distill(
                namespace=namespace, distiller=distiller, judge=judge, again=again, on_progress=show
            )
        else:
            report = memory.experiences.distill(namespace=namespace, distiller=distiller, again=again, on_progress=show)
    tell_cost(client)
    if options.as_json:
        print_json({**asdict(report), "failed": dict(report.failed), "cost": cost_of(client)})
    else:
        _print_report(report, kind)
    if report.failed and not report.new + report.merged:
        raise click.exceptions.Exit(1)


def _print_report(report: DistillReport, noun: str) -> None:
    parts = {
        f"{report.merged:,} said what one said already": report.merged,
        f"{report.dropped:,} said what others of their task say": report.dropped,
        f"{count_of(report.retired, 'former one')} no longer taught": report.retired,
        f"{report.refused:,} came from runs that are gone": report.refused,
    }
    first = f"{count_of(report.runs, 'run')} gave {count_of(report.new, f'new {noun}')}"
    print("; ".join([first, *(part for part, number in parts.items() if number)]))
    if report.alike:
        print(f"{report.alike:,} were compared with runs of like requests, as no other run names their task")
    if not report.runs:
        print("nothing was left to learn from: runs without an outcome wait for one", file=sys.stderr)
    if report.unasked:
        print(f"{report.unasked:,} runs wait: the budget is spent. Run it again to go on.", file=sys.stderr)
    for run, why in report.failed[:10]:
        print(on_one_line(f"{run}: {why}"), file=sys.stderr)
    if len(report.failed) > 10:
        print(f"and {len(report.failed) - 10:,} more runs gave none; they are asked about again", file=sys.stderr)


# List, show, revive


@experience.takes
def list_(
    place: Place,
    options: ListOptions,
    zone: Annotated[Literal["golden", "warning", "preference"] | None, Option(help="Only this zone.")] = None,
) -> None:
    """List experiences, those that say the same as one line: last what agents are told, the newest at the end.

    Example: `hepm experience list --zone warning --tool cancel_pending_order`
    """
    _list("experience", place, options, "zone", zone)


def list_principles(
    place: Place,
    options: ListOptions,
    kind: Annotated[Literal["guiding", "cautionary"] | None, Option(help="Only this kind.")] = None,
) -> None:
    """List principles with their runs and scores, the best supported first; those that say the same are one line.

    Example: `hepm principle list --kind cautionary`
    """
    _list("principle", place, options, "kind", kind)


principle.add_command(command(list_principles, "list"))


def _list(kind: DistilledKind, place: Place, options: ListOptions, name: str, value: str | None) -> None:
    from hepm.experience.age import freshest

    with place.open() as memory:
        found = [
            one
            for one in memory.library.list(kind, namespace=place.namespace, retired=options.retired)
            if value in (None, one.row.properties[name])
            and (options.tool is None or options.tool in one.row.tools)
            and (options.environment is None or options.environment in one.row.properties["environments"])  # type: ignore[operator]
            and (options.run is None or any(source.run == options.run for source in one.row.sources))
        ]
        if options.as_json:
            _list_as_json(memory, found, place, options)
            return
        equal = memory.library.equal(found, namespace=place.namespace)
        # Next to the prompt of the shell stands what agents are told.
        if kind == "principle":
            equal.sort(key=lambda one: (bool(one.held_back), -len(one.sources), -one.uses.score, one.first.row.id))
            shown = equal[: options.limit]
        else:
            equal.sort(key=lambda one: (not one.held_back, one.lessons[-1].seq))
            shown = equal[-options.limit :]
        ages = memory.library.ages(place.namespace)
        for one in shown:
            age = freshest(ages.of([each.row for each in one.lessons]))
            print(on_one_line(_line(one, age)))
    if len(equal) > len(shown):
        print(f"({len(equal) - len(shown):,} more: --limit {len(equal)})", file=sys.stderr)
    if not found:
        print("none")


def _list_as_json(memory: Memory, found: list[StoredLesson], place: Place, options: ListOptions) -> None:
    """Each lesson by itself, with the sentence by which it is listed."""
    if found and found[0].row.kind == "principle":
        found.sort(key=lambda one: (-len(one.row.sources), -one.uses.score, one.row.id))
        shown = found[: options.limit]
    else:
        shown = found[-options.limit :]
    ages = memory.library.ages(place.namespace).of([one.row for one in shown])
    equal = memory.library.equal(found, namespace=place.namespace)
    told = {one.row.id: {"sentence": each.text, "held_back": each.held_back} for each in equal for one in each.lessons}
    lessons = [lesson_json(one) | told[one.row.id] | _age_json(age) for one, age in zip(shown, ages, strict=True)]
    print_json({"total": len(found), "lessons": lessons})


def lesson_json(stored: StoredLesson) -> dict[str, Any]:
    """A stored lesson for `--json`."""
    from hepm.experience.exchange import document_of

    return {key: value for key, value in document_of(stored).items() if key not in ("hepm", "version", "digest")}


def _age_json(age: Age) -> dict[str, str]:
    return {"supported_on": age.supported_on, "fades": age.note}


def _line(one: EqualLessons, age: Age) -> str:
    row, uses = one.first.row, one.uses
    parts = [*one.labels, count_of(len(one.sources), "run")]
    if row.kind == "principle":
        used = f"in {uses.successes} of {count_of(uses.uses, 'use')}" if uses.uses else "not shown yet"
        parts.append(f"score {uses.score:.2f} ({used})")
    elif uses.uses:
        parts.append(f"{uses.successes} of {uses.uses} uses went well")
    parts += [row.retired] if row.retired else []
    fading = f" ({age.note})" if age.note else ""
    return f"{row.id}  {', '.join(parts)}: {one.line}{fading}"


def _add_show_and_revive(app: Group, kind: DistilledKind, shown: str, example: str) -> None:
    def show(place: Place, lesson: LessonArgument, as_json: JsonOption = False) -> None:
        with place.open() as memory:
            one = _find(memory, lesson, kind, namespace=place.namespace)
            shown_in = memory.library.shown_in(one.row.id, namespace=place.namespace)
            (age,) = memory.library.ages(place.namespace).of([one.row])
        members = {**lesson_json(one), "score": round(one.uses.score, 6), **_age_json(age), "shown_in": shown_in}
        if as_json:
            print_json(members)
            return
        for label, value in members.items():
            if value not in ([], {}, ""):
                print(on_one_line(f"{label + ':':16}{_plain(value)}"))

    def revive(place: Place, lesson: LessonArgument) -> None:
        with place.open() as memory:
            one = _find(memory, lesson, kind, namespace=place.namespace)
            memory.library.revive(kind, [one.row.id], namespace=place.namespace)
        print(f"{one.row.id} is found {'as before' if one.row.live else 'again'}")

    show.__doc__ = f"Show one {kind}: {shown}.\n\nExample: `hepm {kind} show {example}`"
    revive.__doc__ = f"Let a retired {kind} be found again.\n\nExample: `hepm {kind} revive {example}`"
    app.takes(show)
    app.takes(revive)


_add_show_and_revive(
    experience, "experience", "its words, the runs it comes from, where it was shown and what it evolved from", "e-1f3a"
)
_add_show_and_revive(principle, "principle", "its sentence, triples, runs and uses", "p-1f3a")


def _plain(value: Any) -> str:
    from hepm.ingest.fields import is_list, is_object

    if is_object(value):
        return ", ".join(f"{name} {_plain(member)}" for name, member in value.items())
    if is_list(value):
        return "; ".join(f"({', '.join(map(str, one))})" if is_list(one) else _plain(one) for one in value)
    return str(value)


def _find(memory: Memory, name: str, kind: DistilledKind, *, namespace: str) -> StoredLesson:
    """The only lesson of a kind whose id has this prefix, retired or not."""
    if not name:
        raise click.BadParameter(f"name a lesson: `hepm {kind} list` lists them")
    found = [one for one in memory.library.list(kind, namespace=namespace, retired=True) if one.row.id.startswith(name)]
    exact = [one for one in found if one.row.id == name]
    if len(exact or found) != 1:
        among = f"{len(found)} begin so: {', '.join(one.row.id for one in found[:5])}" if found else "none does"
        raise click.BadParameter(f"no {kind} is called {name!r} ({among}). See `hepm {kind} list --retired`.")
    return (exact or found)[0]


# Search


@experience.takes
def search(
    place: Place,
    options: SearchOptions,
    state: Annotated[str, Argument(help="What the agent knows now, in a few lines.")],
    turn: Annotated[int, Option(min=0, help="The agent's current turn, from 1.")] = 0,
    horizon: Annotated[int, Option(min=0, help="The agent's maximum number of turns.")] = 0,
    model: ModelOption = None,
) -> None:
    """Find the experiences that apply now; a model, if named, chooses among the 20 most similar.

    Example: `hepm experience search "wants to return two items" --environment retail --floor 0.2`
    """
    with place.open() as memory:
        about: dict[str, Any] = {"namespace": place.namespace, "environment": options.environment, "k": options.k}
        client = ModelChoice(model).client(memory, place.namespace, "lesson")
        find = memory.experiences.search
        found = find(state, **about, turn=turn, horizon=horizon, floor=options.floor, model=client)
        nearest = found or find(state, **about, floor=-1.0)
        least = memory.library.floor if options.floor is None else options.floor
    tell_cost(client)
    rows = [
        {
            "id": one.id,
            "similarity": round(one.similarity, 6),
            "aligned": one.aligned,
            **{name: getattr(one.experience, name) for name in ("situation", "action", "outcome", "lesson")},
            "zone": one.experience.zone,
            "stage": one.experience.stage,
            "tools": list(one.experience.tools),
            "runs": [source.run for source in one.experience.sources],
            "uses": one.uses._asdict(),
        }
        for one in nearest
    ]
    if not _shown("experience", options, rows, least, none=not found, cost=cost_of(client)):
        return
    for one, row in zip(nearest, rows, strict=True):
        print(on_one_line(f"{one.similarity:.2f}  {one.id}  {row['zone']}, {row['stage']}: {row['lesson']}"))
        for name in ("situation", "action", "outcome"):
            print(on_one_line(f"      {name + ':':10} {row[name]}"))
        print(on_one_line(f"      runs:      {', '.join(source.run for source in one.experience.sources[:5])}"))


def search_principles(
    place: Place,
    options: SearchOptions,
    text: Annotated[str, Argument(help="What to look for.")],
) -> None:
    """Find the principles most similar to a text, with their scores.

    Example: `hepm principle search "cancel_pending_order after get_order_details" --floor 0.2`
    """
    with place.open() as memory:
        about: dict[str, Any] = {"namespace": place.namespace, "environment": options.environment, "k": options.k}
        found = memory.principles.search(text, **about, floor=options.floor)
        nearest = found or memory.principles.search(text, **about, floor=-1.0)
        least = memory.library.floor if options.floor is None else options.floor
    rows = [principle_json(one) for one in nearest]
    if _shown("principle", options, rows, least, none=not found):
        for one in nearest:
            print(on_one_line(f"{one.similarity:.2f}  {principle_line(one)}"))


principle.add_command(command(search_principles, "search"))


def _shown(what: str, options: SearchOptions, rows: Sequence[Any], floor: float, *, none: bool, **more: Any) -> bool:
    """Print the JSON of a search, or why it found nothing; whether the results are still to be printed."""
    if options.as_json:
        print_json({"found": [] if none else rows, "nearest": rows if none else [], **more})
        return False
    if none and not rows:
        print(f"there is no {what} here to compare with", file=sys.stderr)
    elif none and (nearest := rows[0]["similarity"]) >= floor:
        print(f"the model chose none; the nearest {what} has a similarity of {nearest:.2f}", file=sys.stderr)
    elif none:
        reason = f"no {what} reaches the similarity {floor:g} (--floor) that a prompt asks for"
        print(f"{reason}; the nearest below it:", file=sys.stderr)
    return True


def principle_json(one: FoundPrinciple) -> dict[str, object]:
    """A found principle for `--json`."""
    best, worst = one.examples
    return {
        "id": one.id,
        "similarity": None if one.similarity is None else round(one.similarity, 6),
        "score": round(one.score, 6),
        "kind": "principle",
        "principle": one.principle.kind,
        "text": one.principle.text,
        "triples": [list(triple) for triple in one.principle.triples],
        "tools": list(one.principle.tools),
        "runs": [source.run for source in one.principle.sources],
        "uses": one.uses._asdict(),
        "best": [source.run for source in best],
        "worst": [source.run for source in worst],
    }


def principle_line(one: FoundPrinciple) -> str:
    """A found principle for people."""
    return f"{one.id}  {one.principle.kind}, {one.standing}: {one.principle.text}"
