"""`hepm forget`: runs out, and everything they added."""

from __future__ import annotations

from typing import Annotated

import typer

from hepm.cli.options import NAMESPACE, STORE, JsonOption, NamespaceOption, StoreOption, open_existing
from hepm.cli.output import print_json


def forget(
    trajectory: Annotated[str | None, typer.Option(help="Id of a run.")] = None,
    task: Annotated[str | None, typer.Option(help="All runs of a task.")] = None,
    user: Annotated[str | None, typer.Option(help="All runs of a user.")] = None,
    environment: Annotated[str | None, typer.Option(help="All runs of an environment.")] = None,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """Forget the runs that match every given option; all counts go back exactly.

    Example: `hepm forget --user alice --namespace retail`
    """
    with open_existing(store, namespace) as memory:
        gone = memory.forget(trajectory=trajectory, task=task, user=user, environment=environment, namespace=namespace)
    if as_json:
        print_json({"forgotten": gone})
    else:
        print(f"{len(gone):,} runs forgotten")
    if not gone:
        raise typer.Exit(1)
