"""Options that several commands share, each with one meaning."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hepm.cli.standard_input import check_stdin

if TYPE_CHECKING:
    from hepm.graph.store import Counting, Store
    from hepm.memory import Memory

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        "-s",
        envvar=["HEPM_STORE", "NEO4J_URI"],
        help="The memory: a file, a folder that holds one, or a Neo4j address (neo4j://host:7687).",
    ),
]
NamespaceOption = Annotated[str, typer.Option("--namespace", "-n", help="The partition of the store to work in.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

# The defaults of `Memory`, written again: `--help` and a misuse answer in half the time without its imports.
STORE: Final = "memory.hepm"
NAMESPACE: Final = "default"


def open_memory(store: str, *, embedder: str | None = None, counting: Counting | None = None) -> Memory:
    """Open a memory, making it when it is not there; an embeddings endpoint is told by the world's own variables."""
    from hepm.memory import Memory

    return Memory.open(
        store,
        embedder=embedder,
        counting=counting,
        endpoint=(os.environ.get("OPENAI_BASE_URL"), os.environ.get("OPENAI_API_KEY")),
    )


def store_file(store: str) -> Path | None:
    """The file behind `--store`, there or not; None where it names a server."""
    from hepm.graph.login import is_address
    from hepm.graph.sqlite.store import FILE_NAME

    if is_address(store):
        return None
    path = Path(store)
    return path / FILE_NAME if path.is_dir() else path


def open_existing(store: str, namespace: str | None = None) -> Memory:
    """Open a memory to read it; a missing one is the user's mistake, not an empty memory."""
    check_store(store)
    memory = open_memory(store)
    try:
        if namespace is not None:
            known_namespace(memory, namespace)
    except BaseException:
        memory.close()
        raise
    return memory


def check_store(store: str) -> None:
    """Refuse a file that is not there."""
    file = store_file(store)
    if file is not None and not file.exists():
        raise typer.BadParameter(
            f"there is no memory at {file}. Make one with `hepm ingest RUNS --store {store}`.", param_hint="--store"
        )


def known_namespace(memory: Memory | Store, namespace: str) -> str:
    """The namespace, where it holds anything; else a misspelling is likelier than a wish for nothing."""
    known = memory.namespaces()
    if namespace not in known:
        there = f"There are: {', '.join(known)}." if known else "The store is empty."
        raise typer.BadParameter(f"nothing is stored in {namespace!r}. {there}", param_hint="--namespace")
    return namespace


def check_sources(sources: Sequence[str]) -> None:
    """Refuse to read a standard input that is closed."""
    if "-" in sources:
        check_stdin("RUNS")


def check_target(target: Path, store: str) -> None:
    """Refuse to write over the store that is read."""
    file = store_file(store)
    if file is not None and target.exists() and file.exists() and target.samefile(file):
        raise typer.BadParameter(f"{target} is the store itself: name another file to write", param_hint="PATH")


def split_names(text: str | None) -> list[str] | None:
    """Tool names of a comma-separated list; None stays None."""
    return None if text is None else [name for part in text.split(",") if (name := part.strip())]
