"""Options that several commands share, each with one meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hepm.memory import DEFAULT_NAMESPACE, DEFAULT_STORE, Memory

StoreOption = Annotated[
    Path, typer.Option("--store", "-s", envvar="HEPM_STORE", help="The memory: a file, or a folder that holds one.")
]
NamespaceOption = Annotated[str, typer.Option("--namespace", "-n", help="The partition of the store to work in.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

STORE = Path(DEFAULT_STORE)
NAMESPACE = DEFAULT_NAMESPACE


def open_existing(store: Path) -> Memory:
    """Open a memory to read it; a missing one is the user's mistake, not an empty memory."""
    if not store.exists():
        raise typer.BadParameter(
            f"there is no memory at {store}. Make one with `hepm ingest RUNS --store {store}`.", param_hint="--store"
        )
    return Memory.open(store)


def split_names(text: str | None) -> list[str] | None:
    """Tool names of a comma-separated list; None stays None."""
    return None if text is None else [name for part in text.split(",") if (name := part.strip())]
