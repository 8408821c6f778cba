"""`hepm principle`: rules drawn from many runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from hepm.cli.commands import Argument, Group, Option
from hepm.cli.lessons import (
    AgainOption,
    EnvironmentOption,
    LimitOption,
    RetiredOption,
    add_show_and_revive,
    lesson_json,
    list_lessons,
    tell_nearest,
)
from hepm.cli.lessons import distill as distill_lessons
from hepm.cli.model import AtOnceOption, DryRunOption, ModelChoice
from hepm.cli.options import JsonOption, Place
from hepm.cli.output import print_json
from hepm.text import count_of, on_one_line

if TYPE_CHECKING:
    from hepm.experience.principles import FoundPrinciple

app = Group("principle", "Rules drawn from many runs: a sentence, triples, a score (EvolveR).")


@app.takes
def distill(
    place: Place,
    choice: ModelChoice,
    again: AgainOption = False,
    dry_run: DryRunOption = False,
    at_once: AtOnceOption = 4,
    as_json: JsonOption = False,
) -> None:
    """Distil principles from runs; a known one is linked to the run, not stored twice.

    Example: `hepm principle distill --namespace retail`
    """
    distill_lessons("principle", place, choice, again=again, at_once=at_once, dry_run=dry_run, as_json=as_json)


@app.takes
def list_(
    place: Place,
    kind: Annotated[Literal["guiding", "cautionary"] | None, Option(help="Only this kind.")] = None,
    tool: Annotated[str | None, Option(help="Only about this tool.")] = None,
    run: Annotated[str | None, Option(help="Only from this run.")] = None,
    retired: RetiredOption = False,
    environment: EnvironmentOption = None,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List principles with their runs and scores, the best supported first.

    Example: `hepm principle list --kind cautionary`
    """
    list_lessons(
        "principle",
        place,
        property=("kind", kind),
        tool=tool,
        run=run,
        environment=environment,
        retired=retired,
        limit=limit,
        as_json=as_json,
    )


add_show_and_revive(app, "principle", "its sentence, triples, runs and uses", "p-1f3a")


@app.takes
def search(
    place: Place,
    text: Annotated[str, Argument(help="What to look for.")],
    environment: Annotated[str, Option(help="Leave out lessons of other environments.")] = "",
    k: Annotated[int, Option("-k", min=1, help="Maximum number.")] = 3,
    floor: Annotated[float | None, Option(min=-1, max=1, help="Minimum similarity.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the principles most similar to a text, with their scores.

    Example: `hepm principle search "cancel_pending_order after get_order_details" --floor 0.2`
    """
    with place.open() as memory:
        found = memory.principles.search(text, namespace=place.namespace, environment=environment, k=k, floor=floor)
        least = memory.library.floor if floor is None else floor
        nearest = found or memory.principles.search(
            text, namespace=place.namespace, environment=environment, k=k, floor=-1.0
        )
    if as_json:
        below = [] if found else [_json(one) for one in nearest]
        print_json({"found": [_json(one) for one in found], "nearest": below})
        return
    if not found:
        tell_nearest("principle", nearest[0].similarity if nearest else None, least)
    for one in nearest:
        print(on_one_line(f"{one.similarity:.2f}  {_told(one)}"))


@app.takes
def prune(
    place: Place,
    below: Annotated[float | None, Option(min=0, max=1, help="Retire scores below this (EvolveR: .3).")] = None,
    min_uses: Annotated[int | None, Option(min=0, help="Minimum number of uses.")] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Retire principles that did not help; they stay in the store, and `revive` restores them.

    Example: `hepm principle prune --dry-run`
    """
    given = {"below": below, "min_uses": min_uses}
    chosen = {name: value for name, value in given.items() if value is not None}
    with place.open() as memory:
        gone = memory.principles.prune(namespace=place.namespace, dry_run=dry_run, **chosen)  # type: ignore[arg-type]
    if as_json:
        print_json({"pruned": [_json(one) for one in gone], "dry_run": dry_run})
        return
    for one in gone:
        print(on_one_line(_told(one)))
    print(f"{count_of(len(gone), 'principle')} {'would be' if dry_run else 'were'} pruned")


@app.takes
def contradictions(
    place: Place,
    limit: Annotated[int, Option("--limit", min=1, help="Maximum number.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List guiding and cautionary principles that contradict each other.

    Example: `hepm principle contradictions`
    """
    with place.open() as memory:
        found = memory.principles.contradictions(namespace=place.namespace, limit=limit)
        known = {one.row.id: one for one in memory.library.list("principle", namespace=place.namespace)}
    if as_json:
        pairs = [
            {"guiding": lesson_json(known[one.guiding]), "cautionary": lesson_json(known[one.cautionary])}
            for one in found
        ]
        print_json({"contradictions": pairs})
        return
    for one in found:
        for name, score, runs in zip((one.guiding, one.cautionary), one.scores, one.runs, strict=True):
            row = known[name].row
            used = f", score {score:.2f}" if known[name].uses.uses else ""
            print(on_one_line(f"{name}  {row.properties['kind']}, from {count_of(runs, 'run')}{used}: {row.text}"))
        print()
    if not found:
        print("none")


def _json(one: FoundPrinciple) -> dict[str, object]:
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
        "best": [source.run for source in one.examples.best],
        "worst": [source.run for source in one.examples.worst],
    }


def _told(one: FoundPrinciple) -> str:
    return f"{one.id}  {one.principle.kind}, {one.standing}: {one.principle.text}"
