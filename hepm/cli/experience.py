"""`hepm experience`: what each run taught."""

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
from hepm.text import on_one_line

if TYPE_CHECKING:
    from hepm.experience.experiences import FoundExperience

app = typer.Typer(
    name="experience",
    help="What each run taught: situation, action, outcome, lesson (PRIME).",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@app.command()
def distill(
    again: Annotated[bool, typer.Option("--again", help="Look at runs too that were distilled before.")] = False,
    equalised: Annotated[
        list[str] | None,
        typer.Option("--equalised", help="An environment whose turns all count alike (PRIME, appendix D); repeatable."),
    ] = None,
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
    """Distil an experience from each run that was not distilled yet; without a model, by comparing runs of a task.

    Interrupted, or out of budget, it goes on where it stopped, and pays for no answer twice.

    Example: `hepm experience distill --namespace retail`
    """
    from hepm.experience.credit import CreditMethod
    from hepm.experience.distilling.model_distiller import ModelDistiller, estimate
    from hepm.experience.distilling.pipeline import ExtractiveDistiller
    from hepm.experience.lessons import EXTRACTIVE

    choice = ModelChoice(model, max_calls, max_tokens, max_cost, prices)
    with open_existing(store, namespace) as memory, Bar("runs distilled") as bar:
        client = choice.client(memory, namespace, "run")
        methods: dict[str, CreditMethod] = dict.fromkeys(equalised or (), "equalised")
        if client is None:
            distiller = ExtractiveDistiller("experience", methods=methods)
        else:
            distiller = ModelDistiller(client, "experience", at_once=at_once, methods=methods)
        if dry_run:
            waiting = memory.library.waiting("experience/" + (model or EXTRACTIVE), namespace=namespace, again=again)
            asked = isinstance(distiller, ModelDistiller)
            tell_estimate(
                waiting,
                estimate(memory.library, distiller, namespace=namespace, again=again) if asked else None,
                as_json=as_json,
            )
            return
        report = memory.experiences.distill(
            namespace=namespace,
            distiller=distiller,
            again=again,
            on_progress=lambda so_far: bar.show(so_far.runs),
        )
    tell_cost(client)
    if as_json:
        print_json({**asdict(report), "failed": dict(report.failed), "cost": cost_of(client)})
    else:
        tell_report(report, "experience")
    if report.failed and not report.new + report.merged:
        raise typer.Exit(1)


@app.command("list")
def list_(
    zone: Annotated[Literal["golden", "warning", "preference"] | None, typer.Option(help="Of one zone.")] = None,
    tool: Annotated[str | None, typer.Option(help="About one tool.")] = None,
    run: Annotated[str | None, typer.Option(help="From one run.")] = None,
    retired: RetiredOption = False,
    environment: EnvironmentOption = None,
    limit: LimitOption = 20,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """List experiences, the newest last.

    Example: `hepm experience list --zone warning --tool cancel_pending_order`
    """
    with open_existing(store, namespace) as memory:
        found = [
            one
            for one in memory.library.list("experience", namespace=namespace, retired=retired)
            if zone in (None, one.row.properties["zone"])
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
    """Show one experience: its words, the runs it comes from, where it was shown and what it evolved from.

    Example: `hepm experience show e-1f3a`
    """
    with open_existing(store, namespace) as memory:
        show_lesson(memory, lesson, "experience", namespace=namespace, as_json=as_json)


@app.command()
def search(
    state: Annotated[str, typer.Argument(help="What the agent knows now, in a few lines.")],
    environment: Annotated[str, typer.Option(help="Leave out those of other environments.")] = "",
    turn: Annotated[int, typer.Option(min=0, help="The agent's present turn, from 1.")] = 0,
    horizon: Annotated[int, typer.Option(min=0, help="The most turns it may take.")] = 0,
    k: Annotated[int, typer.Option("-k", min=1, help="At most so many.")] = 3,
    floor: Annotated[float | None, typer.Option(min=-1, max=1, help="Least similarity.")] = None,
    model: ModelOption = None,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """Find the experiences that apply now; with a model, it chooses among the 20 most similar.

    Example: `hepm experience search "wants to return two items" --environment retail --floor 0.2`
    """
    from hepm.experience.prompt.choosing import ModelChooser

    with open_existing(store, namespace) as memory:
        client = ModelChoice(model).client(memory, namespace, "lesson")
        found = memory.experiences.search(
            state,
            namespace=namespace,
            environment=environment,
            turn=turn,
            horizon=horizon,
            k=k,
            floor=floor,
            choose=None if client is None else ModelChooser(client),
        )
        least = memory.library.floor if floor is None else floor
        nearest = found or memory.experiences.search(
            state, namespace=namespace, environment=environment, k=1, floor=-1.0
        )
    tell_cost(client)
    if as_json:
        print_json({"found": [_found_json(one) for one in found], "cost": cost_of(client)})
        return
    for one in found:
        made = one.experience
        print(on_one_line(f"{one.similarity:.2f}  {one.id}  {made.zone}, {made.stage}: {made.lesson}"))
        print(on_one_line(f"      situation: {made.situation}"))
        print(on_one_line(f"      action:    {made.action}"))
        print(on_one_line(f"      outcome:   {made.outcome}"))
        print(on_one_line(f"      runs:      {', '.join(source.run for source in made.sources[:5])}"))
    if not found:
        print(nothing_similar("experience", nearest[0].similarity if nearest else None, least))


def _found_json(one: FoundExperience) -> dict[str, object]:
    made = one.experience
    return {
        "id": one.id,
        "similarity": round(one.similarity, 6),
        "aligned": one.aligned,
        "situation": made.situation,
        "action": made.action,
        "outcome": made.outcome,
        "lesson": made.lesson,
        "zone": made.zone,
        "stage": made.stage,
        "tools": list(made.tools),
        "runs": [source.run for source in made.sources],
        "uses": one.uses._asdict(),
    }


@app.command()
def evolve(
    iterations: Annotated[int, typer.Option(min=1, help="Rounds (PRIME: 5).")] = 5,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal evolutions.")] = 0,
    held_out: Annotated[
        float, typer.Option("--held-out", min=0, max=0.9, help="Share of tasks that guard it: worse children go.")
    ] = 0.0,
    dry_run: DryRunOption = False,
    model: ModelOption = None,
    max_calls: MaxCallsOption = None,
    max_tokens: MaxTokensOption = None,
    max_cost: MaxCostOption = None,
    prices: PricesOption = None,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """Sharpen, generalise, combine and prune experiences (PRIME, table 3); `undo` takes it back.

    Example: `hepm experience evolve --seed 7 --held-out 0.2 --dry-run`
    """
    choice = ModelChoice(model, max_calls, max_tokens, max_cost, prices)
    with open_existing(store, namespace) as memory:
        client = choice.client(memory, namespace, "run")
        report = memory.experiences.evolve(
            namespace=namespace,
            iterations=iterations,
            seed=seed,
            model=client,
            held_out=held_out or None,
            dry_run=dry_run,
        )
    tell_cost(client)
    if as_json:
        told = {"evolution": report.id, "dry_run": dry_run, "kept": dict(report.kept), "pruned": report.count("pruned")}
        print_json({**told, "steps": [asdict(step) for step in report.plan], "cost": cost_of(client)})
        return
    for step in report.plan:
        note = f" ({step.note})" if step.note else ""
        print(
            on_one_line(
                f"{step.iteration}  {step.operator} of {' and '.join(step.of)}, {step.became}{note}: {step.reason}"
            )
        )
        if step.child is not None:
            print(on_one_line(f"      {step.child.lesson}"))
    made = ", ".join(f"{count} by {operator}" for operator, count in report.kept.items()) or "no child"
    if report.id and dry_run:
        print(f"it would make {made}, and prune {report.count('pruned')}")
    elif report.id:
        print(f"{report.id} made {made}, and pruned {report.count('pruned')}; `hepm experience undo {report.id}`")
    else:
        print("nothing changed")


@app.command()
def revive(
    lesson: LessonArgument,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
) -> None:
    """Let a retired experience be found again.

    Example: `hepm experience revive e-1f3a`
    """
    with open_existing(store, namespace) as memory:
        one = find_lesson(memory, lesson, "experience", namespace=namespace)
        memory.library.revive([one.row.id], namespace=namespace)
    print(f"{one.row.id} is found {'as before' if one.row.live else 'again'}")


@app.command()
def evolutions(store: StoreOption = STORE, namespace: NamespaceOption = NAMESPACE, as_json: JsonOption = False) -> None:
    """List past evolutions, which `undo` takes back.

    Example: `hepm experience evolutions`
    """
    with open_existing(store, namespace) as memory:
        past = memory.experiences.evolutions(namespace=namespace)
    if as_json:
        print_json({"evolutions": [{**asdict(one), "made": dict(one.made)} for one in past]})
        return
    for one in past:
        made = ", ".join(f"{count} by {operator}" for operator, count in one.made.items()) or "none"
        print(f"{one.id}  made {made}; superseded {one.superseded}, pruned {one.pruned}; {one.living} living")
    if not past:
        print("none")


@app.command()
def undo(
    evolution: Annotated[str, typer.Argument(help="Its name, as `evolve` and `evolutions` tell it.")],
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """Take an evolution back: its children go, and what it retired is found again.

    Example: `hepm experience undo v0001-1a2b3c`
    """
    with open_existing(store, namespace) as memory:
        undone = memory.experiences.undo(evolution, namespace=namespace)
    if as_json:
        print_json({name: list(ids) for name, ids in undone._asdict().items()})
    else:
        print(f"{len(undone.dropped)} children dropped, {len(undone.revived)} lessons found again")
