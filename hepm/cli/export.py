"""`hepm export` and `hepm import`: the stored runs as a file, and back."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from hepm.atomic_file import atomic_file
from hepm.cli.ingest import ingest
from hepm.cli.options import NAMESPACE, STORE, JsonOption, NamespaceOption, StoreOption, check_target, open_existing
from hepm.cli.output import raw
from hepm.text import on_one_line


def export_runs(
    path: Annotated[str, typer.Argument(help="The file to write; .gz or .xz compresses it, - writes to stdout.")] = "-",
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
) -> None:
    """Write every stored run of a namespace as a line of hepm's own JSON.

    Example: `hepm export runs.jsonl --namespace retail`
    """
    if path != "-":
        check_target(Path(path), store)
    with open_existing(store, namespace) as memory:
        runs = memory.export(namespace=namespace)
        if path == "-":
            print_lines(runs)
            return
        count = write_lines(runs, Path(path), "the runs")
    print(on_one_line(f"{count:,} runs written to {path}"))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines to stdout."""
    # JSON is UTF-8 whatever a terminal shows.
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        stdout.reconfigure(encoding="utf-8", newline="\n")
    for line in lines:
        print(raw(line))


def write_lines(lines: Iterable[str], target: Path, what: str) -> int:
    """Write a file atomically (see `atomic_file`), compressed where its name ends in .gz, .xz, .bz2 or .zst.

    Args:
        what: The lines, as the sentence of a refusal names them: "the runs".
    """
    from hepm.cli.compressed import check_name

    check_name(target.name)
    with atomic_file(target, what) as file:
        return _write(lines, file, target.name)


def _write(lines: Iterable[str], target: Path, name: str) -> int:
    from hepm.cli.compressed import compressing

    count = 0
    with target.open("wb") as file, compressing(file, name) as sink:
        for line in lines:
            sink.write(f"{line}\n".encode("utf-8", "backslashreplace"))
            count += 1
    return count


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
