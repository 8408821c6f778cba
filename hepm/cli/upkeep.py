"""`hepm experience evolve` and `undo`; `hepm principle prune`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from hepm.cli.commands import Argument, Option
from hepm.cli.lessons import experience, principle, principle_json, principle_line
from hepm.cli.model import DryRunOption, ModelChoice, cost_of, tell_cost
from hepm.cli.options import JsonOption, Place, print_json
from hepm.text import count_of, on_one_line


@experience.takes
def evolve(
    place: Place,
    choice: ModelChoice,
    iterations: Annotated[int, Option(min=1, help="Number of rounds (PRIME: 5).")] = 5,
    seed: Annotated[int, Option(help="The same seed gives the same evolution.")] = 0,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Sharpen, generalise, combine and prune experiences (PRIME, table 3); `undo` reverts it.
    Example: `hepm experience evolve --seed 7 --dry-run`
    """
    with place.open() as memory:
        client = choice.client(memory, place.namespace, "run")
        report = memory.experiences.evolve(
            namespace=place.namespace, iterations=iterations, seed=seed, model=client, dry_run=dry_run
        )
    tell_cost(client)
    pruned = report.count("pruned")
    if as_json:
        summary = {"evolution": report.id, "dry_run": dry_run, "kept": dict(report.kept), "pruned": pruned}
        print_json({**summary, "steps": [asdict(step) for step in report.plan], "cost": cost_of(client)})
        return
    for step in report.plan:
        result = f"{step.became} ({step.note})" if step.note else step.became
        print(on_one_line(f"{step.iteration}  {step.operator} of {' and '.join(step.of)}, {result}: {step.reason}"))
        if step.child is not None:
            print(on_one_line(f"      {step.child.lesson}"))
    made = ", ".join(f"{count} by {operator}" for operator, count in report.kept.items()) or "no child"
    if report.id and dry_run:
        print(f"it would make {made}, and prune {pruned}")
    elif report.id:
        print(f"{report.id} made {made}, and pruned {pruned}; `hepm experience undo {report.id}`")
    else:
        print("nothing changed")


@experience.takes
def undo(
    place: Place,
    evolution: Annotated[str, Argument(help="Its name, as `evolve` printed it.")],
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


@principle.takes
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
        print_json({"pruned": [principle_json(one) for one in gone], "dry_run": dry_run})
        return
    for one in gone:
        print(on_one_line(principle_line(one)))
    print(f"{count_of(len(gone), 'principle')} {'would be' if dry_run else 'were'} pruned")
