"""`hepm copy`: a memory into another one, whatever either lies in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hepm.cli.export import write_lines
from hepm.cli.options import NAMESPACE, JsonOption, known_namespace, open_existing, open_memory, store_file
from hepm.cli.output import print_json
from hepm.text import on_one_line

if TYPE_CHECKING:
    from hepm.ingest.copying import Copied

_SOURCE, _TARGET = "SOURCE", "TARGET"


def copy(
    source: Annotated[
        str, typer.Argument(help="The memory to read: a file, a folder, a Neo4j address, or an export (.jsonl).")
    ],
    target: Annotated[
        str, typer.Argument(help="The memory to fill, made when it is not there; or an export to write.")
    ],
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", help="Only this partition; may be given several times.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Copy runs, counts, states and vectors between an embedded store, Neo4j and an export, and compare at the end.

    Interrupted, it goes on where it stopped.

    Example: `hepm copy memory.hepm neo4j://localhost:7687`
    """
    if _same(source, target) or (_is_export(source) and _is_export(target)):
        raise typer.BadParameter("one of the two is to be another store", param_hint=_TARGET)
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
            print(on_one_line(_sentence(one)))
    if any(one.differences for one in copied):
        raise typer.Exit(1)


def _between_stores(source: str, target: str, namespaces: Sequence[str] | None) -> list[Copied]:
    from hepm.cli.progress import Bar

    with open_existing(source, named_by=_SOURCE) as memory:
        wanted = [known_namespace(memory, name, source, _SOURCE) for name in namespaces or memory.namespaces()]
        with (
            open_memory(target, counting=memory.header.counting, named_by=_TARGET) as other,
            Bar("runs compared and copied") as bar,
        ):
            return list(memory.copy_to(other, namespaces=wanted, on_progress=bar.show))


def _to_export(source: str, target: str, namespace: str) -> Copied:
    from hepm.cli.compressed import lines_of
    from hepm.ingest.copying import Copied

    with open_existing(source, namespace, named_by=_SOURCE) as memory:
        count = write_lines(memory.export(namespace=namespace), Path(target), "the runs")
        # As long as nobody stored a run in between, every line comes out the same again.
        pairs = zip_longest(lines_of(Path(target)), memory.export(namespace=namespace))
        apart = sum(one != other for one, other in pairs)
    return Copied(namespace, count, count, (f"{apart:,} lines of {target} differ from the runs",) if apart else ())


def _from_export(source: str, target: str, namespace: str) -> Copied:
    from hepm.cli.progress import Bar
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
        raise typer.BadParameter("an export holds one namespace: call it once for each", param_hint="--namespace")
    return namespaces[0] if namespaces else NAMESPACE


def _sentence(one: Copied) -> str:
    known = f", {one.runs - one.stored:,} known before" if one.runs > one.stored else ""
    verdict = "both hold the same" if not one.differences else "they differ: " + "; ".join(one.differences)
    return f"{one.namespace}: {one.stored:,} runs copied{known}; {verdict}"


def _same(source: str, target: str) -> bool:
    one, other = store_file(source), store_file(target)
    if one is None or other is None:
        return source.rstrip("/") == target.rstrip("/")
    return Path(one).absolute() == Path(other).absolute()
