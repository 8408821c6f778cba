"""What the commands on experiences and principles share: distilling, listing, showing, bringing back."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from hepm.cli.commands import Argument, Group, Option
from hepm.cli.model import ModelChoice, cost_of, tell_cost, tell_estimate
from hepm.cli.options import JsonOption, Place, read_text
from hepm.cli.output import Bar, print_json
from hepm.errors import InputError
from hepm.text import count_of, on_one_line

if TYPE_CHECKING:
    from hepm.experience.distilling import DistilReport
    from hepm.graph.lessons.rows import StoredLesson
    from hepm.llm import Estimate
    from hepm.memory import Memory

DistilledKind = Literal["experience", "principle"]

LessonArgument = Annotated[str, Argument(help="Its id, or the beginning of it.")]
RetiredOption = Annotated[bool, Option("--retired", help="Include retired ones.")]
EnvironmentOption = Annotated[str | None, Option("--environment", help="Only of this environment.")]
LimitOption = Annotated[int, Option("--limit", min=1, help="Maximum number.")]
AgainOption = Annotated[bool, Option("--again", help="Include runs that were distilled before.")]


def lesson_json(stored: StoredLesson) -> dict[str, Any]:
    """A lesson as programs read it."""
    from hepm.experience.exchange import document_of

    told = document_of(stored)
    return {name: value for name, value in told.items() if name not in ("hepm", "version", "digest")}


def list_lessons(
    kind: DistilledKind,
    place: Place,
    *,
    property: tuple[str, str | None],
    tool: str | None,
    run: str | None,
    environment: str | None,
    retired: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Print the lessons that match, one a line: of experiences the newest, last; of principles the best supported.

    Args:
        property: A property and the value it must have; None for any.
    """
    name, value = property
    with place.open() as memory:
        found = [
            one
            for one in memory.library.list(kind, namespace=place.namespace, retired=retired)
            if value in (None, one.row.properties[name])
            and (tool is None or tool in one.row.tools)
            and (environment is None or environment in one.row.properties["environments"])  # type: ignore[operator]
            and (run is None or any(source.run == run for source in one.row.sources))
        ]
        if kind == "principle":
            found.sort(key=lambda one: (-len(one.row.sources), -one.uses.score, one.row.id))
            shown = found[:limit]
        else:
            shown = found[-limit:]
        if as_json:
            print_json({"total": len(found), "lessons": [lesson_json(one) for one in shown]})
            return
        for one in shown:
            print(on_one_line(_line(one)))
    if len(found) > len(shown):
        print(f"({len(found) - len(shown):,} more: --limit {len(found)})", file=sys.stderr)
    if not found:
        print("none")


def tell_nearest(what: str, nearest: float | None, floor: float) -> None:
    """Say on stderr why a search found nothing: the nearest one is below the floor, or there is none at all."""
    if nearest is None:
        sentence = f"there is no {what} here to compare with"
    elif nearest >= floor:
        sentence = f"the model chose none; the nearest {what} has a similarity of {nearest:.2f}"
    else:
        sentence = f"no {what} reaches the similarity {floor:g} (--floor) that a prompt asks for; the nearest below it:"
    print(sentence, file=sys.stderr)


def _line(one: StoredLesson) -> str:
    row, retired = one.row, f", {one.row.retired}" if one.row.retired else ""
    if row.kind == "principle":
        used = f"in {one.uses.successes} of {count_of(one.uses.uses, 'use')}" if one.uses.uses else "not shown yet"
        runs = count_of(len(row.sources), "run")
        return f"{row.id}  {row.properties['kind']}, {runs}, score {one.uses.score:.2f} ({used}){retired}: {row.text}"
    uses = f", {one.uses.successes} of {one.uses.uses} uses went well" if one.uses.uses else ""
    return f"{row.id}  {row.properties['zone']}, {row.properties['stage']}{uses}{retired}: {row.properties['lesson']}"


def add_show_and_revive(app: Group, kind: DistilledKind, shown: str, example: str) -> None:
    """Give a noun its commands `show` and `revive`."""

    def show(place: Place, lesson: LessonArgument, as_json: JsonOption = False) -> None:
        with place.open() as memory:
            one = find_lesson(memory, lesson, kind, namespace=place.namespace)
            shown_in = memory.library.shown_in(one.row.id, namespace=place.namespace)
        told = {**lesson_json(one), "score": round(one.uses.score, 6), "shown_in": shown_in}
        if as_json:
            print_json(told)
            return
        for label, value in told.items():
            if value not in ([], {}, ""):
                print(on_one_line(f"{label + ':':16}{_plain(value)}"))

    def revive(place: Place, lesson: LessonArgument) -> None:
        with place.open() as memory:
            one = find_lesson(memory, lesson, kind, namespace=place.namespace)
            memory.library.revive([one.row.id], namespace=place.namespace)
        print(f"{one.row.id} is found {'as before' if one.row.live else 'again'}")

    show.__doc__ = f"Show one {kind}: {shown}.\n\nExample: `hepm {kind} show {example}`"
    revive.__doc__ = f"Let a retired {kind} be found again.\n\nExample: `hepm {kind} revive {example}`"
    app.takes(show)
    app.takes(revive)


def _plain(value: Any) -> str:
    from hepm.ingest.records import is_list, is_object

    if is_object(value):
        return ", ".join(f"{name} {_plain(member)}" for name, member in value.items())
    if is_list(value):
        return "; ".join(f"({', '.join(map(str, one))})" if is_list(one) else _plain(one) for one in value)
    return str(value)


def find_lesson(memory: Memory, name: str, kind: DistilledKind, *, namespace: str) -> StoredLesson:
    """The only lesson of a kind whose id has this prefix, retired or not."""
    if not name:
        raise click.BadParameter(f"name a lesson: `hepm {kind} list` lists them")
    found = [one for one in memory.library.list(kind, namespace=namespace, retired=True) if one.row.id.startswith(name)]
    exact = [one for one in found if one.row.id == name]
    if len(exact or found) != 1:
        among = f"{len(found)} begin so: {', '.join(one.row.id for one in found[:5])}" if found else "none does"
        raise click.BadParameter(f"no {kind} is called {name!r} ({among}). See `hepm {kind} list --retired`.")
    return (exact or found)[0]


def distill(
    kind: DistilledKind,
    place: Place,
    choice: ModelChoice,
    *,
    equalised: Sequence[str] = (),
    again: bool,
    at_once: int,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Distil lessons from the runs that wait, or say what that would take."""
    from hepm.experience.credit import CreditMethod
    from hepm.experience.distilling import ExtractiveDistiller
    from hepm.experience.lessons import EXTRACTIVE
    from hepm.experience.matching import ModelJudge
    from hepm.experience.model_distiller import ModelDistiller, estimate

    methods: dict[str, CreditMethod] = dict.fromkeys(equalised, "equalised")
    namespace = place.namespace
    with place.open() as memory, Bar("runs distilled") as bar:
        client = choice.client(memory, namespace, "run")
        judge = ModelJudge(client, at_once=at_once) if client and kind == "principle" else None
        waiting = memory.library.waiting(f"{kind}/{choice.model or EXTRACTIVE}", namespace=namespace, again=again)
        asked: list[Estimate] = []
        if client is None:
            distiller = ExtractiveDistiller(kind, methods=methods)
        else:
            distiller = ModelDistiller(client, kind, at_once=at_once, methods=methods)
            if dry_run:
                asked.append(estimate(memory.library, distiller, namespace=namespace, again=again))
                if judge is not None:
                    more = memory.principles.estimate(judge, namespace=namespace, distiller=distiller, again=again)
                    asked.append(more)
        if dry_run:
            tell_estimate(waiting, *asked, as_json=as_json)
            return

        def show(so_far: DistilReport) -> None:
            bar.show(so_far.runs, waiting)

        if kind == "principle":
            report = memory.principles.distill(
                namespace=namespace, distiller=distiller, judge=judge, again=again, on_progress=show
            )
        else:
            report = memory.experiences.distill(namespace=namespace, distiller=distiller, again=again, on_progress=show)
    tell_cost(client)
    if as_json:
        print_json({**asdict(report), "failed": dict(report.failed), "cost": cost_of(client)})
    else:
        _tell_report(report, kind)
    if report.failed and not report.new + report.merged:
        raise click.exceptions.Exit(1)


def _tell_report(report: DistilReport, noun: str) -> None:
    parts = [f"{count_of(report.runs, 'run')} gave {count_of(report.new, f'new {noun}')}"]
    if report.merged:
        parts.append(f"{report.merged:,} said what one said already")
    if report.dropped:
        parts.append(f"{report.dropped:,} said what others of their task say")
    if report.retired:
        parts.append(f"{count_of(report.retired, 'former one')} no longer taught")
    if report.refused:
        parts.append(f"{report.refused:,} came from runs that are gone")
    print("; ".join(parts))
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


def read_messages_file(path: Path) -> list[dict[str, Any]]:
    """OpenAI chat messages: a JSON list, an object that holds one as "messages", or one a line."""
    told = _decoded(read_text(path, "--messages"), path)
    if isinstance(told, dict):
        told = told.get("messages")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(told, list) or not all(isinstance(one, dict) and "role" in one for one in told):  # pyright: ignore[reportUnknownVariableType]
        raise InputError(f"{path} holds no chat messages: a list of objects with a role and content is needed.")
    return told  # pyright: ignore[reportUnknownVariableType]


def _decoded(text: str, path: Path) -> Any:
    from hepm.ingest.records import without_surrogates

    try:
        return without_surrogates(_json(text))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} holds no chat messages: it is neither JSON nor JSON Lines ({error}).") from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        # Not splitlines(): a string in JSON may hold U+2028 and the like as they are.
        return [json.loads(line) for line in text.split("\n") if line.strip()]
