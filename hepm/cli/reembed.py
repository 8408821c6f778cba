"""`hepm reembed`: vectors for states that lack one, or of another embedder for all."""

from __future__ import annotations

from typing import Annotated

import typer

from hepm.cli.options import STORE, StoreOption, open_existing


def reembed(
    embedder: Annotated[
        str | None,
        typer.Option(help="hash-512, a sentence-transformers model or folder, openai/MODEL; left out: the same."),
    ] = None,
    store: StoreOption = STORE,
) -> None:
    """Give every remembered state a vector. Interrupted, it goes on where it stopped.

    Example: `hepm reembed --embedder all-MiniLM-L6-v2`
    """
    from hepm.cli.progress import Bar

    with open_existing(store) as memory, Bar("texts embedded") as bar:
        written = memory.reembed(embedder, on_progress=bar.show)
    print(f"{written:,} texts embedded")
