"""Options that several commands share, each with one meaning."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from hepm.graph.store import Counting
from hepm.memory import DEFAULT_NAMESPACE, DEFAULT_STORE, Memory

StoreOption = Annotated[
    Path, typer.Option("--store", "-s", envvar="HEPM_STORE", help="The memory: a file, or a folder that holds one.")
]
NamespaceOption = Annotated[str, typer.Option("--namespace", "-n", help="The partition of the store to work in.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

STORE = Path(DEFAULT_STORE)
NAMESPACE = DEFAULT_NAMESPACE


def open_memory(store: Path, *, embedder: str | None = None, counting: Counting | None = None) -> Memory:
    """Open a memory, making it when it is not there; an embeddings endpoint is told by the world's own variables."""
    return Memory.open(
        store,
        embedder=embedder,
        counting=counting,
        endpoint=(os.environ.get("OPENAI_BASE_URL"), os.environ.get("OPENAI_API_KEY")),
    )


def open_existing(store: Path, namespace: str | None = None) -> Memory:
    """Open a memory to read it; a missing one is the user's mistake, not an empty memory."""
    if not store.exists():
        raise typer.BadParameter(
            f"there is no memory at {store}. Make one with `hepm ingest RUNS --store {store}`.", param_hint="--store"
        )
    memory = open_memory(store)
    if namespace is not None:
        known_namespace(memory, namespace)
    return memory


def known_namespace(memory: Memory, namespace: str) -> str:
    """The namespace, where it holds anything; else a misspelling is likelier than a wish for nothing."""
    known = memory.namespaces()
    if namespace not in known:
        there = f"There are: {', '.join(known)}." if known else "The store is empty."
        raise typer.BadParameter(f"nothing is stored in {namespace!r}. {there}", param_hint="--namespace")
    return namespace


def split_names(text: str | None) -> list[str] | None:
    """Tool names of a comma-separated list; None stays None."""
    return None if text is None else [name for part in text.split(",") if (name := part.strip())]
