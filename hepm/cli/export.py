"""`hepm export` and `hepm import`: the stored runs as a file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hepm.cli.ingest import ingest
from hepm.cli.options import NAMESPACE, STORE, JsonOption, NamespaceOption, StoreOption, open_existing


def export_runs(
    path: Annotated[str, typer.Argument(help="The file to write, JSON Lines; - writes to stdout.")] = "-",
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
) -> None:
    """Write every stored run of a namespace as a line of hepm's own JSON.

    Example: `hepm export runs.jsonl --namespace retail`
    """
    with open_existing(store, namespace) as memory:
        if path == "-":
            for line in memory.export(namespace=namespace):
                print(line)
            return
        target = Path(path)
        partial = target.with_name(target.name + ".part")
        count = 0
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            for line in memory.export(namespace=namespace):
                file.write(line + "\n")
                count += 1
        partial.replace(target)
    print(f"{count:,} runs written to {target}")


def import_runs(
    paths: Annotated[list[str], typer.Argument(help="Files that `hepm export` wrote; - reads stdin.")],
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """Read exported runs back; every count comes out the same.

    Example: `hepm import runs.jsonl --store other.hepm`
    """
    ingest(paths, store=store, namespace=namespace, format="hepm", keep_secrets=True, as_json=as_json)
