"""`hepm principle`: rules drawn from many runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hepm.cli.lessons import (
    EnvironmentOption,
    LessonArgument,
    LimitOption,
    RetiredOption,
    find_lesson,
    holds_in,
    lesson_json,
    list_lessons,
    nothing_similar,
    show_lesson,
    tell_report,
)
from hepm.cli.model import (
    AtOnceOption,
    DryRunOption,
    MaxCallsOption,
    MaxCostOption,
    MaxTokensOption,
    ModelChoice,
    ModelOption,
    PricesOption,
    cost_of,
    tell_cost,
    tell_estimate,
)
from hepm.cli.options import NAMESPACE, STORE, JsonOption, NamespaceOption, StoreOption, open_existing
from hepm.cli.output import print_json
from hepm.cli.progress import Bar
from hepm.text import count_of, on_one_line

if TYPE_CHECKING:
    from hepm.experience.principles import FoundPrinciple

app = typer.Typer(
    name="principle",
    help="Rules drawn from many runs: a sentence, triples, a score (EvolveR).",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@app.command()
def distill(
    again: Annotated[bool, typer.Option("--again", help="Look at runs too that were distilled before.")] = False,
    dry_run: DryRunOption = False,
    model: ModelOption = None,
    max_calls: MaxCallsOption = None,
    max_tokens: MaxTokensOption = None,
    max_cost: MaxCostOption = None,
    prices: PricesOption = None,
    at_once: AtOnceOption = 4,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """Draw a principle from each run that gives one; what is known already is linked, not stored twice.

    Example: `hepm principle distill --namespace retail`
    """
    from hepm.experience.distilling.model_distiller import ModelDistiller, estimate
    from hepm.experience.lessons import EXTRACTIVE
    from hepm.experience.matching.judging import ModelJudge

    choice = ModelChoice(model, max_calls, max_tokens, max_cost, prices)
    with open_existing(store, namespace) as memory, Bar("runs looked at") as bar:
        client = choice.client(memory, namespace, "run")
        distiller = None if client is None else ModelDistiller(client, "principle", at_once=at_once)
        judge = None if client is None else ModelJudge(client, at_once=at_once)
        if dry_run:
            waiting = memory.library.waiting("principle/" + (model or EXTRACTIVE), namespace=namespace, again=again)
            tell_estimate(
                waiting,
                None if distiller is None else estimate(memory.library, distiller, namespace=namespace, again=again),
                None
                if judge is None
                else memory.principles.estimate(judge, namespace=namespace, distiller=distiller, again=again),
                as_json=as_json,
            )
            return
        report = memory.principles.distill(
            namespace=namespace,
            distiller=distiller,
            judge=judge,
            again=again,
            on_progress=lambda so_far: bar.show(so_far.runs),
        )
    tell_cost(client)
    if as_json:
        print_json({**asdict(report), "failed": dict(report.failed), "cost": cost_of(client)})
    else:
        tell_report(report, "principle")
    if report.failed and not report.new + report.merged:
        raise typer.Exit(1)


@app.command("list")
def list_(
    kind: Annotated[Literal["guiding", "cautionary"] | None, typer.Option(help="Of one kind.")] = None,
    tool: Annotated[str | None, typer.Option(help="About one tool.")] = None,
    run: Annotated[str | None, typer.Option(help="From one run.")] = None,
    retired: RetiredOption = False,
    environment: EnvironmentOption = None,
    limit: LimitOption = 20,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """List principles, the newest last.

    Example: `hepm principle list --kind cautionary`
    """
    with open_existing(store, namespace) as memory:
        found = [
            one
            for one in memory.library.list("principle", namespace=namespace, retired=retired)
            if kind in (None, one.row.properties["kind"])
            and (tool is None or tool in one.row.tools)
            and holds_in(one, environment)
            and (run is None or any(source.run == run for source in one.row.sources))
        ]
        list_lessons(found, limit, as_json=as_json)


@app.command()
def show(
    lesson: LessonArgument,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """Show one principle: its sentence, triples, runs and uses.

    Example: `hepm principle show p-1f3a`
    """
    with open_existing(store, namespace) as memory:
        show_lesson(memory, lesson, "principle", namespace=namespace, as_json=as_json)


@app.command()
def search(
    text: Annotated[str, typer.Argument(help="What to look for.")],
    environment: Annotated[str, typer.Option(help="Leave out those of other environments.")] = "",
    k: Annotated[int, typer.Option("-k", min=1, help="At most so many.")] = 3,
    floor: Annotated[float | None, typer.Option(min=-1, max=1, help="Least similarity.")] = None,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """Find the principles most like a text, with their scores.

    Example: `hepm principle search "cancel_pending_order after get_order_details" --floor 0.2`
    """
    with open_existing(store, namespace) as memory:
        found = memory.principles.search(text, namespace=namespace, environment=environment, k=k, floor=floor)
        least = memory.library.floor if floor is None else floor
        nearest = found or memory.principles.search(text, namespace=namespace, environment=environment, k=1, floor=-1.0)
    if as_json:
        print_json({"found": [_json(one) for one in found]})
        return
    for one in found:
        print(on_one_line(f"{one.similarity:.2f}  {_told(one)}"))
    if not found:
        print(nothing_similar("principle", nearest[0].similarity if nearest else None, least))


@app.command()
def prune(
    below: Annotated[float | None, typer.Option(min=0, max=1, help="Retire scores below this (EvolveR: .3).")] = None,
    min_uses: Annotated[int | None, typer.Option(min=0, help="Only what was used so often.")] = None,
    dry_run: DryRunOption = False,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """Retire principles that did not help; they stay to be looked at, and `revive` brings them back.

    Example: `hepm principle prune --dry-run`
    """
    given = {"below": below, "min_uses": min_uses}
    chosen = {name: value for name, value in given.items() if value is not None}
    with open_existing(store, namespace) as memory:
        gone = memory.principles.prune(namespace=namespace, dry_run=dry_run, **chosen)  # type: ignore[arg-type]
    if as_json:
        print_json({"pruned": [_json(one) for one in gone], "dry_run": dry_run})
        return
    for one in gone:
        print(on_one_line(_told(one)))
    print(f"{count_of(len(gone), 'principle')} {'would be' if dry_run else 'were'} pruned")


@app.command()
def revive(
    lesson: LessonArgument,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
) -> None:
    """Let a retired principle be found again.

    Example: `hepm principle revive p-1f3a`
    """
    with open_existing(store, namespace) as memory:
        one = find_lesson(memory, lesson, "principle", namespace=namespace)
        revived = memory.principles.revive([one.row.id], namespace=namespace)
    print(f"{one.row.id} is found {'again' if revived else 'as before'}")


@app.command()
def contradictions(
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 20,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """List guiding and cautionary principles that oppose each other.

    Example: `hepm principle contradictions`
    """
    with open_existing(store, namespace) as memory:
        found = memory.principles.contradictions(namespace=namespace, limit=limit)
        known = {one.row.id: one for one in memory.library.list("principle", namespace=namespace)}
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
