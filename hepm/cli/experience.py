"""`hepm experience`: what each run taught."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

from hepm.cli.commands import Argument, Group, Option
from hepm.cli.lessons import (
    AgainOption,
    EnvironmentOption,
    LimitOption,
    RetiredOption,
    add_show_and_revive,
    list_lessons,
    tell_nearest,
)
from hepm.cli.lessons import distill as distill_lessons
from hepm.cli.model import AtOnceOption, DryRunOption, ModelChoice, ModelOption, cost_of, tell_cost
from hepm.cli.options import JsonOption, Place
from hepm.cli.output import print_json
from hepm.text import on_one_line

if TYPE_CHECKING:
    from hepm.experience.experiences import FoundExperience

app = Group("experience", "What each run taught: situation, action, outcome, lesson (PRIME).")


@app.takes
def distill(
    place: Place,
    choice: ModelChoice,
    again: AgainOption = False,
    equalised: Annotated[
        list[str] | None,
        Option("--equalised", help="An environment with equal credit for all turns (PRIME, appendix D); repeatable."),
    ] = None,
    dry_run: DryRunOption = False,
    at_once: AtOnceOption = 4,
    as_json: JsonOption = False,
) -> None:
    """Distil an experience from each new run; without a model, by comparing the runs of a task.

    Interrupted, or out of budget, it goes on where it stopped, and pays for no answer twice.

    Example: `hepm experience distill --namespace retail`
    """
    distill_lessons(
        "experience",
        place,
        choice,
        equalised=equalised or (),
        again=again,
        at_once=at_once,
        dry_run=dry_run,
        as_json=as_json,
    )


@app.takes
def list_(
    place: Place,
    zone: Annotated[Literal["golden", "warning", "preference"] | None, Option(help="Only this zone.")] = None,
    tool: Annotated[str | None, Option(help="Only about this tool.")] = None,
    run: Annotated[str | None, Option(help="Only from this run.")] = None,
    retired: RetiredOption = False,
    environment: EnvironmentOption = None,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List experiences, the newest last.

    Example: `hepm experience list --zone warning --tool cancel_pending_order`
    """
    list_lessons(
        "experience",
        place,
        property=("zone", zone),
        tool=tool,
        run=run,
        environment=environment,
        retired=retired,
        limit=limit,
        as_json=as_json,
    )


add_show_and_revive(
    app, "experience", "its words, the runs it comes from, where it was shown and what it evolved from", "e-1f3a"
)


@app.takes
def search(
    place: Place,
    state: Annotated[str, Argument(help="What the agent knows now, in a few lines.")],
    environment: Annotated[str, Option(help="Leave out lessons of other environments.")] = "",
    turn: Annotated[int, Option(min=0, help="The agent's current turn, from 1.")] = 0,
    horizon: Annotated[int, Option(min=0, help="The agent's maximum number of turns.")] = 0,
    k: Annotated[int, Option("-k", min=1, help="Maximum number.")] = 3,
    floor: Annotated[float | None, Option(min=-1, max=1, help="Minimum similarity.")] = None,
    model: ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the experiences that apply now; a model, if named, chooses among the 20 most similar.

    Example: `hepm experience search "wants to return two items" --environment retail --floor 0.2`
    """
    with place.open() as memory:
        client = ModelChoice(model).client(memory, place.namespace, "lesson")
        found = memory.experiences.search(
            state,
            namespace=place.namespace,
            environment=environment,
            turn=turn,
            horizon=horizon,
            k=k,
            floor=floor,
            model=client,
        )
        least = memory.library.floor if floor is None else floor
        nearest = found or memory.experiences.search(
            state, namespace=place.namespace, environment=environment, k=k, floor=-1.0
        )
    tell_cost(client)
    if as_json:
        below = [] if found else [_found_json(one) for one in nearest]
        print_json({"found": [_found_json(one) for one in found], "nearest": below, "cost": cost_of(client)})
        return
    if not found:
        tell_nearest("experience", nearest[0].similarity if nearest else None, least)
    for one in nearest:
        made = one.experience
        print(on_one_line(f"{one.similarity:.2f}  {one.id}  {made.zone}, {made.stage}: {made.lesson}"))
        print(on_one_line(f"      situation: {made.situation}"))
        print(on_one_line(f"      action:    {made.action}"))
        print(on_one_line(f"      outcome:   {made.outcome}"))
        print(on_one_line(f"      runs:      {', '.join(source.run for source in made.sources[:5])}"))


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


@app.takes
def evolve(
    place: Place,
    choice: ModelChoice,
    iterations: Annotated[int, Option(min=1, help="Number of rounds (PRIME: 5).")] = 5,
    seed: Annotated[int, Option(help="The same seed gives the same evolution.")] = 0,
    held_out: Annotated[
        float, Option("--held-out", min=0, max=0.9, help="Share of held-out tasks that reject worse children.")
    ] = 0.0,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Sharpen, generalise, combine and prune experiences (PRIME, table 3); `undo` reverts it.

    Example: `hepm experience evolve --seed 7 --held-out 0.2 --dry-run`
    """
    with place.open() as memory:
        client = choice.client(memory, place.namespace, "run")
        report = memory.experiences.evolve(
            namespace=place.namespace,
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


@app.takes
def evolutions(place: Place, as_json: JsonOption = False) -> None:
    """List past evolutions, which `undo` can revert.

    Example: `hepm experience evolutions`
    """
    with place.open() as memory:
        past = memory.experiences.evolutions(namespace=place.namespace)
    if as_json:
        print_json({"evolutions": [{**asdict(one), "made": dict(one.made)} for one in past]})
        return
    for one in past:
        made = ", ".join(f"{count} by {operator}" for operator, count in one.made.items()) or "none"
        print(f"{one.id}  made {made}; superseded {one.superseded}, pruned {one.pruned}; {one.living} living")
    if not past:
        print("none")


@app.takes
def undo(
    place: Place,
    evolution: Annotated[str, Argument(help="Its name, from `evolve` or `evolutions`.")],
    as_json: JsonOption = False,
) -> None:
    """Undo an evolution: delete its children and revive what it retired.

    Example: `hepm experience undo v0001-1a2b3c`
    """
    with place.open() as memory:
        undone = memory.experiences.undo(evolution, namespace=place.namespace)
    if as_json:
        print_json({name: list(ids) for name, ids in undone._asdict().items()})
    else:
        print(f"{len(undone.dropped)} children dropped, {len(undone.revived)} lessons found again")
