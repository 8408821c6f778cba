"""`hepm forget`: runs out, and everything they added."""

from __future__ import annotations

from typing import Annotated

import typer

from hepm.cli.options import NAMESPACE, STORE, JsonOption, NamespaceOption, StoreOption, open_existing
from hepm.cli.output import print_json
from hepm.text import count_of


def forget(
    trajectory: Annotated[str | None, typer.Option("--trajectory", "--run", help="Id of a run.")] = None,
    task: Annotated[str | None, typer.Option(help="All runs of a task.")] = None,
    user: Annotated[str | None, typer.Option(help="All runs of a user.")] = None,
    environment: Annotated[str | None, typer.Option(help="All runs of an environment.")] = None,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """Forget the runs that match every given option; all counts go back exactly, and lessons in their words go.

    A user who is named alone loses their notes too.

    Example: `hepm forget --user alice --namespace retail`
    """
    with open_existing(store, namespace) as memory:
        notes = memory.preferences.history(user, namespace=namespace) if user else []
        gone = memory.forget(trajectory=trajectory, task=task, user=user, environment=environment, namespace=namespace)
        left = memory.preferences.history(user, namespace=namespace) if user else []
    versions = len(notes) - len(left)
    if as_json:
        print_json({"forgotten": gone, "notes": versions})
    else:
        also = f", and {count_of(versions, 'version')} of notes" if versions else ""
        print(f"{count_of(len(gone), 'run')} forgotten{also}")
    if not gone and not versions:
        raise typer.Exit(1)
