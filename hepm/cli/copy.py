"""`hepm copy`: a memory into another one, whatever either lies in."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hepm.cli.options import JsonOption, known_namespace, open_existing, open_memory, store_file
from hepm.cli.output import print_json
from hepm.types import on_one_line

if TYPE_CHECKING:
    from hepm.ingest.copying import Copied


def copy(
    source: Annotated[str, typer.Argument(help="The memory to read: a file, a folder, or a Neo4j address.")],
    target: Annotated[str, typer.Argument(help="The memory to fill, made when it is not there.")],
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", help="Only this partition; may be given several times.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Copy runs, counts, states and vectors between an embedded store and Neo4j, and compare both at the end.

    Interrupted, it goes on where it stopped. For a file of runs see `hepm export` and `hepm import`.

    Example: `hepm copy memory.hepm neo4j://localhost:7687`
    """
    from hepm.cli.progress import Bar

    if _same(source, target):
        raise typer.BadParameter("source and target are the same store", param_hint="TARGET")
    with open_existing(source) as memory:
        wanted = [known_namespace(memory, name) for name in namespace or memory.namespaces()]
        with open_memory(target, counting=memory.header.counting) as other, Bar("runs compared and copied") as bar:
            copied = list(memory.copy_to(other, namespaces=wanted, on_progress=bar.show))
    if as_json:
        print_json({"copied": [asdict(one) for one in copied]})
    else:
        for one in copied:
            print(on_one_line(_sentence(one)))
    if any(one.differences for one in copied):
        raise typer.Exit(1)


def _sentence(one: Copied) -> str:
    known = f", {one.runs - one.stored:,} known before" if one.runs > one.stored else ""
    verdict = "both hold the same" if not one.differences else "they differ: " + "; ".join(one.differences)
    return f"{one.namespace}: {one.stored:,} runs copied{known}; {verdict}"


def _same(source: str, target: str) -> bool:
    one, other = store_file(source), store_file(target)
    if one is None or other is None:
        return source.rstrip("/") == target.rstrip("/")
    return Path(one).absolute() == Path(other).absolute()
