"""Commands on a whole store: `hepm stats`, `forget`, `doctor` and `reembed`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from click.exceptions import Exit

from hepm.cli.commands import command, flag, option
from hepm.cli.options import (
    FROM_COMMAND,
    Bar,
    chosen_by,
    confirm,
    json_option,
    open_existing,
    print_json,
    print_rows,
    refuse,
    store_option,
    tell,
    with_memory,
    with_namespaces,
    yes_option,
)
from hepm.errors import StoreDamagedError
from hepm.text import count_of
from hepm.types import DEFAULT_NAMESPACE, Object

if TYPE_CHECKING:
    from hepm.graph.examination import Finding
    from hepm.memory import Memory
    from hepm.memory.guard import GuardState
    from hepm.memory.obstacles import Obstacle


@command("stats")
@with_namespaces
@json_option
def stats(memory: Memory, namespaces: Sequence[str], store: str, as_json: bool) -> None:
    """Print counts of a memory by namespace. `hepm tool list` and `hepm report` say more of tools.

    Example: `hepm stats --store runs.hepm`
    """
    counted: dict[str, Object] = {}
    guards: dict[str, GuardState] = {}
    header = asdict(memory.header)
    under_way = memory.sessions.by_namespace()
    for name in set(memory.namespaces()).difference(namespaces):
        del under_way[name]
    for name in namespaces:
        counted[name] = asdict(memory.totals(namespace=name))
        # Tools that runs only list, and never called, do not count.
        counted[name]["tools"] = len(memory.mirror(name).called())
        guards[name] = memory.sessions.guard(namespace=name)
    if as_json:
        levels = {name: guard.to_json() for name, guard in guards.items()}
        print_json({"store": store, **header, "namespaces": counted, "under_way": under_way, "guard": levels})
        return
    columns = ["namespace", "runs", "success", "failure", "unlabelled", "tools", "edges", "states", "lessons"]
    rows: list[list[str | int]] = []
    for name, counts in counted.items():
        *others, experiences, principles, notes = counts.values()
        rows.append([name, *others, experiences + principles + notes])
    print_rows(columns, rows, f"{store}, {header['embedder'] or 'no vectors'}, revision {header['revision']}")
    if not counted:
        print("No run is stored yet.")
    for name, number in sorted(under_way.items()):
        tell(
            f"{name}: {count_of(number, 'run')} under way, or left by a crash: runs count once they have ended, by "
            "POST /outcome to `hepm serve`, or without an outcome when they have rested for `serve.idle_s`"
        )
    for name, counts in counted.items():
        if counts["unlabelled"]:
            tell(
                f"{name}: {count_of(counts['unlabelled'], 'run')} without an outcome: they teach nothing until they "
                "are labelled, by hand (`hepm label`), by a model (`hepm label --by judge`), or by POST /outcome to "
                "`hepm serve`"
            )
        if guards[name].sessions:
            tell(f"{name}: guard: {guards[name].sentence}")


@command("forget")
@option("--trajectory --run", "Id of a run.")
@option("--task", "All runs of a task.")
@option("--user", "All runs of a user.")
@option("--environment", "All runs of an environment.")
@option("--token", "All runs that a token of this name recorded at a server.")
@flag("--dry-run", "Print what would be forgotten; change nothing.")
@yes_option
@json_option
@with_memory
def forget(memory: Memory, namespace: str, dry_run: bool, yes: bool, as_json: bool, **chosen: Any) -> None:
    """Forget the runs that match every option, with everything they added and lessons that quote them.

    A user who is named alone loses their notes too.

    Example: `hepm forget --user alice --namespace retail`
    """
    remove = partial(memory.forget, **chosen, namespace=namespace)
    forgotten = remove(dry_run=True)
    runs = count_of(len(forgotten), "run")
    if len(forgotten) > 20 and not (dry_run or yes):
        confirm(f"forget {runs} of {namespace} and all they added?")
    notes = 0
    if [name for name, value in chosen.items() if value] == ["user"]:
        notes = len(memory.preferences.history(chosen["user"], namespace=namespace))
    if not dry_run:
        with Bar(f"forgetting {runs}"):
            forgotten = remove()
    if as_json:
        print_json({"forgotten": forgotten, "notes": notes, "dry_run": dry_run})
    else:
        also = ""
        if notes:
            also = f", and {count_of(notes, 'version')} of notes"
        print(f"{count_of(len(forgotten), 'run')} {'would be ' if dry_run else ''}forgotten{also}")
    if not forgotten and not notes:
        raise Exit(1)


@command("doctor")
@with_namespaces
@flag("--repair", "Repair what can be repaired.")
@flag("--advice", "Say instead what keeps memory from helping, and which command mends it.")
@json_option
def doctor(memory: Memory, namespaces: Sequence[str], store: str, repair: bool, advice: bool, as_json: bool) -> None:
    """Compare all derived and copied data with the stored records; exit 1 if a problem remains.

    Example: `hepm doctor --repair`, `hepm doctor --advice`
    """
    if advice:
        refuse(repair, "", "--advice compares and repairs nothing: leave out --repair.")
        _advise(memory, namespaces, store, as_json=as_json)
        return

    def examine() -> dict[str, list[Finding]]:
        with Bar("runs compared") as bar:
            names = namespaces or [DEFAULT_NAMESPACE]
            return {name: memory.examine(namespace=name, on_progress=bar.show) for name in names}

    by_namespace = examine()
    if repair and any(by_namespace.values()):
        with Bar("repairing"):
            _repair(memory, by_namespace)
        by_namespace = examine()
    if as_json:
        print_json({"findings": {name: list(map(asdict, findings)) for name, findings in by_namespace.items()}})
    else:
        for name, findings in by_namespace.items():
            for finding in findings:
                tell(f"{name}: {finding.what} (repair: {finding.repair or 'none'})")
    if any(by_namespace.values()):
        raise Exit(1)
    if not as_json:
        print("all is well")


def _repair(memory: Memory, by_namespace: Mapping[str, Sequence[Finding]]) -> None:
    for name, findings in by_namespace.items():
        # A rebuild deletes what was prepared, too: it is made again when it is needed.
        if any(finding.repair == "rebuild" for finding in findings):
            # A record that cannot be read: the findings say so.
            with suppress(StoreDamagedError):
                memory.rebuild(namespace=name)
    memory.reembed()


def _advise(memory: Memory, namespaces: Sequence[str], store: str, *, as_json: bool) -> None:
    """Print what keeps memory from helping."""
    from hepm.memory.obstacles import obstacles

    found: list[Obstacle] = []
    for name in namespaces:
        found += obstacles(memory, namespace=name)
    if as_json:
        print_json({"advice": list(map(asdict, found))})
        return
    where = ""
    if chosen_by(store) == FROM_COMMAND:
        where = f" --store {shlex.quote(store)}"
    for obstacle in found:
        command = obstacle.command.replace(" --namespace ", f"{where} --namespace ")
        tell(f"{obstacle.namespace}: {obstacle.what}. {obstacle.mend[:1].upper()}{obstacle.mend[1:]}: {command}")
    if not found:
        print("nothing that is known keeps memory from helping")


@command("reembed")
@option("--embedder", "A model, a folder, or openai/MODEL. Default: the same.")
@store_option
def reembed(embedder: str | None, store: str) -> None:
    """Compute the vectors of all states. Repeat it to continue after an interruption.

    Example: `hepm reembed --embedder all-MiniLM-L6-v2`
    """
    with open_existing(store) as memory, Bar("texts embedded") as bar:
        written = memory.reembed(embedder, on_progress=bar.show)
    print(f"{written:,} texts embedded")
