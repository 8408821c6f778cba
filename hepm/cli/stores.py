"""Commands on a whole store: stats, export, import, copy, forget, doctor and reembed."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import click

from hepm.cli.commands import Argument, Option
from hepm.cli.options import (
    STORE,
    JsonOption,
    Place,
    StoreOption,
    check_target,
    known_namespace,
    open_existing,
    open_memory,
    store_file,
)
from hepm.cli.output import Bar, plain, print_json, print_lines, print_table, write_lines
from hepm.errors import StoreDamagedError
from hepm.text import count_of, on_one_line

_MANY: Final = 20  # more runs than this are forgotten only after a confirmation
_LESSONS: Final = ("experiences", "principles", "notes")


def stats(
    store: StoreOption = STORE,
    namespace: Annotated[str | None, Option("--namespace", "-n", help="One partition. Default: all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print counts of a memory by namespace.

    Example: `hepm stats --store runs.hepm`
    """
    with open_existing(store) as memory:
        names = memory.namespaces() if namespace is None else [known_namespace(memory, namespace, store)]
        header = asdict(memory.header)
        totals = {name: asdict(memory.totals(namespace=name)) for name in names}
        called = {} if as_json else {name: sum(t.calls > 0 for t in memory.tools(namespace=name)) for name in names}
    if as_json:
        print_json({"store": str(store), **header, "namespaces": totals})
        return
    from rich.table import Table

    lessons = {name: sum(counts[kind] for kind in _LESSONS) for name, counts in totals.items()}
    title = f"{store}, {header['embedder'] or 'no vectors'}, revision {header['revision']}"
    table = Table(title=plain(title), title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("namespace")
    columns = ["runs", "success", "failure", "unlabelled", "tools", "edges", "states"]
    for column in [*columns, *(["lessons"] if any(lessons.values()) else [])]:
        table.add_column(column, justify="right", no_wrap=True)
    for name, counts in totals.items():
        shown = [count for kind, count in (counts | {"tools": called[name]}).items() if kind not in _LESSONS]
        table.add_row(plain(name), *(f"{count:,}" for count in (*shown, lessons[name])[: len(table.columns) - 1]))
    print_table(table)
    for name, counts in totals.items():
        if more := counts["tools"] - called[name]:
            print(on_one_line(f"{name}: {count_of(called[name], 'tool')} called, {more:,} more described"))


def export(
    place: Place,
    path: Annotated[str, Argument(help="The file to write; .gz or .xz compresses it, - writes to stdout.")] = "-",
) -> None:
    """Write every stored run of a namespace as a line of hepm's own JSON.

    Example: `hepm export runs.jsonl --namespace retail`
    """
    if path != "-":
        check_target(Path(path), place.store)
    with place.open() as memory:
        runs = memory.export(namespace=place.namespace)
        if path == "-":
            print_lines(runs)
        else:
            count = write_lines(runs, Path(path), "the runs")
            print(on_one_line(f"{count:,} runs written to {path}"))


def import_(
    place: Place,
    paths: Annotated[list[str], Argument(help="Files that `hepm export` wrote; - reads stdin.")],
    as_json: JsonOption = False,
) -> None:
    """Read exported runs back, with the same counts.

    Example: `hepm import runs.jsonl --store other.hepm`
    """
    from hepm.cli.ingest import Preparing, Reading, ingest

    # Secrets were removed when the runs were first stored.
    ingest(place, Reading("hepm"), Preparing(keep_secrets=True), paths, as_json=as_json)


def copy(
    source: Annotated[str, Argument(help="The memory to read: a file, a folder, or a Neo4j address.")],
    target: Annotated[str, Argument(help="The memory to fill, created if missing.")],
    namespace: Annotated[list[str] | None, Option("--namespace", "-n", help="Only this partition; repeatable.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Copy runs, lessons, counts, states and vectors between files and Neo4j, and compare at the end.

    Repeat it to continue after an interruption. `hepm export` and `hepm import` do the same with files of JSON.

    Example: `hepm copy memory.hepm neo4j://localhost:7687`
    """
    for name in (source, target):
        if re.search(r"\.jsonl(\.\w+)?$", name) and not Path(name).is_dir():
            raise click.BadParameter(f"{name} is no store: `hepm export` writes and `hepm import` reads JSON lines")
    if _identity(source) == _identity(target):
        raise click.BadParameter("name another store than the source", param_hint="TARGET")
    with open_existing(source, named_by="SOURCE") as memory:
        names = [known_namespace(memory, name, source, "SOURCE") for name in namespace or memory.namespaces()]
        with (
            open_memory(target, counting=memory.header.counting, named_by="TARGET") as filled,
            Bar("runs compared and copied") as bar,
        ):
            copied = list(memory.copy_to(filled, namespaces=names, on_progress=bar.show))
    if as_json:
        print_json({"copied": [asdict(done) for done in copied]})
    else:
        for done in copied:
            known = f", {done.runs - done.stored:,} known before" if done.runs > done.stored else ""
            verdict = "they differ: " + "; ".join(done.differences) if done.differences else "both hold the same"
            print(on_one_line(f"{done.namespace}: {done.stored:,} runs copied{known}; {verdict}"))
    if any(done.differences for done in copied):
        raise click.exceptions.Exit(1)


def _identity(store: str) -> str:
    file = store_file(store)
    return store.rstrip("/") if file is None else str(file.absolute())


def forget(
    place: Place,
    trajectory: Annotated[str | None, Option("--trajectory", "--run", help="Id of a run.")] = None,
    task: Annotated[str | None, Option(help="All runs of a task.")] = None,
    user: Annotated[str | None, Option(help="All runs of a user.")] = None,
    environment: Annotated[str | None, Option(help="All runs of an environment.")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print what would be forgotten; change nothing.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help=f"Do not ask, even for more than {_MANY} runs.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Forget the runs that match every option, with everything they added and lessons that quote them.

    A user who is named alone loses their notes too.

    Example: `hepm forget --user alice --namespace retail`
    """
    namespace = place.namespace
    with place.open() as memory:
        remove = partial(
            memory.forget, trajectory=trajectory, task=task, user=user, environment=environment, namespace=namespace
        )
        gone = remove(dry_run=True)
        if len(gone) > _MANY and not (dry_run or yes):
            question = f"forget {count_of(len(gone), 'run')} of {namespace} and all they added?"
            if not sys.stdin or not sys.stdin.isatty():
                raise click.UsageError(f"{question} Add --yes to do so, or --dry-run to see which.")
            click.confirm(question[0].upper() + question[1:], abort=True, err=True)
        versions = len(memory.preferences.history(user, namespace=namespace)) if user else 0
        if dry_run:
            versions = 0 if trajectory or task or environment else versions
        else:
            gone = remove()
            versions -= len(memory.preferences.history(user, namespace=namespace)) if user else 0
    if as_json:
        print_json({"forgotten": gone, "notes": versions, **({"dry_run": True} if dry_run else {})})
    else:
        also = f", and {count_of(versions, 'version')} of notes" if versions else ""
        print(f"{count_of(len(gone), 'run')} {'would be forgotten' if dry_run else 'forgotten'}{also}")
    if not gone and not versions:
        raise click.exceptions.Exit(1)


def doctor(
    store: StoreOption = STORE,
    repair: Annotated[bool, Option("--repair", help="Repair what can be repaired.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare all derived and copied data with the stored records; exit 1 if a problem remains.

    Example: `hepm doctor --repair`
    """
    with open_existing(store) as memory:
        found = {name: memory.examine(namespace=name) for name in memory.namespaces()}
        if repair and any(found.values()):
            for namespace, findings in found.items():
                if any(finding.repair == "rebuild" for finding in findings):
                    with suppress(StoreDamagedError):  # a record that cannot be read: the findings say so
                        memory.rebuild(namespace=namespace)
            memory.reembed()
            found = {name: memory.examine(namespace=name) for name in memory.namespaces()}
    if as_json:
        print_json({"findings": {name: [asdict(finding) for finding in found[name]] for name in found}})
    else:
        for namespace, findings in found.items():
            for finding in findings:
                print(on_one_line(f"{namespace}: {finding.what} (repair: {finding.repair or 'none'})"))
        if not any(found.values()):
            print("all is well")
    if any(found.values()):
        raise click.exceptions.Exit(1)


def reembed(
    embedder: Annotated[
        str | None,
        Option(help="hash-512, a sentence-transformers model or folder, or openai/MODEL. Default: the same."),
    ] = None,
    store: StoreOption = STORE,
) -> None:
    """Compute the vectors of all states. Repeat it to continue after an interruption.

    Example: `hepm reembed --embedder all-MiniLM-L6-v2`
    """
    with open_existing(store) as memory, Bar("texts embedded") as bar:
        written = memory.reembed(embedder, on_progress=bar.show)
    print(f"{written:,} texts embedded")
