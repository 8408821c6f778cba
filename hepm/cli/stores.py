"""Commands on a whole store: count, write out, read back, copy, forget, check and embed."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import click

from hepm.cli.commands import Argument, Option
from hepm.cli.options import (
    NAMESPACE,
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
from hepm.cli.output import Bar, plain, print_json, print_table
from hepm.errors import StoreDamagedError
from hepm.text import count_of, on_one_line

if TYPE_CHECKING:
    from hepm.ingest.copying import Copied
    from hepm.memory import Memory

MANY: Final = 20
"""More runs than this are forgotten only when the user confirms it."""

_LESSONS: Final = ("experiences", "principles", "notes")
_SOURCE, _TARGET = "SOURCE", "TARGET"


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
    from hepm.cli.files import print_lines, write_lines

    if path != "-":
        check_target(Path(path), place.store)
    with place.open() as memory:
        runs = memory.export(namespace=place.namespace)
        if path == "-":
            print_lines(runs)
            return
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
    from hepm.cli.ingest import ingest

    ingest(place, paths, format="hepm", keep_secrets=True, as_json=as_json)


def copy(
    source: Annotated[
        str, Argument(help="The memory to read: a file, a folder, a Neo4j address, or an export (.jsonl).")
    ],
    target: Annotated[str, Argument(help="The memory to fill, created if missing; or an export to write.")],
    namespace: Annotated[list[str] | None, Option("--namespace", "-n", help="Only this partition; repeatable.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Copy runs, counts, states and vectors between an embedded store, Neo4j and an export, and compare at the end.

    Interrupted, it goes on where it stopped.

    Example: `hepm copy memory.hepm neo4j://localhost:7687`
    """
    if _same(source, target) or (_is_export(source) and _is_export(target)):
        raise click.BadParameter("one of the two is to be another store", param_hint=_TARGET)
    if _is_export(source):
        copied = [_from_export(source, target, _one(namespace))]
    elif _is_export(target):
        copied = [_to_export(source, target, _one(namespace))]
    else:
        copied = _between_stores(source, target, namespace)
    if as_json:
        print_json({"copied": [asdict(one) for one in copied]})
    else:
        for one in copied:
            known = f", {one.runs - one.stored:,} known before" if one.runs > one.stored else ""
            verdict = "they differ: " + "; ".join(one.differences) if one.differences else "both hold the same"
            print(on_one_line(f"{one.namespace}: {one.stored:,} runs copied{known}; {verdict}"))
    if any(one.differences for one in copied):
        raise click.exceptions.Exit(1)


def _between_stores(source: str, target: str, namespaces: Sequence[str] | None) -> list[Copied]:
    with open_existing(source, named_by=_SOURCE) as memory:
        wanted = [known_namespace(memory, name, source, _SOURCE) for name in namespaces or memory.namespaces()]
        with (
            open_memory(target, counting=memory.header.counting, named_by=_TARGET) as other,
            Bar("runs compared and copied") as bar,
        ):
            return list(memory.copy_to(other, namespaces=wanted, on_progress=bar.show))


def _to_export(source: str, target: str, namespace: str) -> Copied:
    from hepm.cli.files import lines_of, write_lines
    from hepm.ingest.copying import Copied

    with open_existing(source, namespace, named_by=_SOURCE) as memory:
        count = write_lines(memory.export(namespace=namespace), Path(target), "the runs")
        # As long as nobody stored a run in between, every line comes out the same again.
        pairs = zip_longest(lines_of(Path(target)), memory.export(namespace=namespace))
        apart = sum(one != other for one, other in pairs)
    return Copied(namespace, count, count, (f"{apart:,} lines of {target} differ from the runs",) if apart else ())


def _from_export(source: str, target: str, namespace: str) -> Copied:
    from hepm.ingest import ReadOptions
    from hepm.ingest.copying import Copied
    from hepm.ingest.prepare import IngestOptions

    with open_memory(target, named_by=_TARGET) as memory, Bar("runs read") as bar:
        report = memory.ingest(
            source,
            namespace=namespace,
            reading=ReadOptions("hepm"),
            options=IngestOptions(redactor=None),  # they were redacted when they were first stored
            on_batch=lambda so_far: bar.show(so_far.read),
        )
        wrong = [f"{one.file} record {one.record}: {one.reason}" for one in report.rejected]
        wrong += [finding.what for finding in memory.examine(namespace=namespace)]
    return Copied(namespace, report.read, report.stored, tuple(wrong))


def _is_export(name: str) -> bool:
    return re.search(r"\.jsonl(\.(gz|xz|bz2|zst))?$", name) is not None and not Path(name).is_dir()


def _one(namespaces: Sequence[str] | None) -> str:
    if namespaces and len(namespaces) > 1:
        raise click.BadParameter("an export holds one namespace: call it once for each", param_hint="--namespace")
    return namespaces[0] if namespaces else NAMESPACE


def _same(source: str, target: str) -> bool:
    one, other = store_file(source), store_file(target)
    if one is None or other is None:
        return source.rstrip("/") == target.rstrip("/")
    return Path(one).absolute() == Path(other).absolute()


def forget(
    place: Place,
    trajectory: Annotated[str | None, Option("--trajectory", "--run", help="Id of a run.")] = None,
    task: Annotated[str | None, Option(help="All runs of a task.")] = None,
    user: Annotated[str | None, Option(help="All runs of a user.")] = None,
    environment: Annotated[str | None, Option(help="All runs of an environment.")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print what would be forgotten; change nothing.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help=f"Do not ask, even for more than {MANY} runs.")] = False,
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
        if len(gone) > MANY and not (dry_run or yes):
            _confirm(f"forget {count_of(len(gone), 'run')} of {namespace} and all they added?")
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


def _confirm(question: str) -> None:
    if not sys.stdin or not sys.stdin.isatty():
        raise click.UsageError(f"{question} Add --yes to do so, or --dry-run to see which.")
    click.confirm(question[0].upper() + question[1:], abort=True, err=True)


def doctor(
    store: StoreOption = STORE,
    repair: Annotated[bool, Option("--repair", help="Repair what can be repaired.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare all derived and copied data with the stored records; exit 1 if a problem remains.

    Example: `hepm doctor --repair`
    """
    with open_existing(store) as memory:
        found = _examine(memory)
        if repair and any(found.values()):
            for namespace, findings in found.items():
                if any(finding["repair"] == "rebuild" for finding in findings):
                    with suppress(StoreDamagedError):  # a record that cannot be read: the findings say so
                        memory.rebuild(namespace=namespace)
            memory.reembed()
            found = _examine(memory)
    if as_json:
        print_json({"findings": found})
    else:
        for namespace, findings in found.items():
            for finding in findings:
                print(on_one_line(f"{namespace}: {finding['what']} (repair: {finding['repair'] or 'none'})"))
        if not any(found.values()):
            print("all is well")
    if any(found.values()):
        raise click.exceptions.Exit(1)


def _examine(memory: Memory) -> dict[str, list[dict[str, str]]]:
    return {
        namespace: [{"what": f.what, "repair": f.repair} for f in memory.examine(namespace=namespace)]
        for namespace in memory.namespaces()
    }


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
