"""`hepm search`: what agents knew in situations like this one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from hepm.cli.options import NAMESPACE, STORE, JsonOption, NamespaceOption, StoreOption, open_existing
from hepm.cli.output import print_json
from hepm.text import on_one_line


def search(
    text: Annotated[str, typer.Argument(help="What the agent knows now, in a few lines.")],
    k: Annotated[int, typer.Option("-k", min=1, help="At most so many.")] = 5,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """Find the remembered situations most like this one, over all tools, and what agents did next.

    Example: `hepm search "wants to return two items" --namespace retail`
    """
    with open_existing(store, namespace) as memory:
        found = memory.search(text, k=k, namespace=namespace)
    if as_json:
        print_json({"found": [asdict(one) for one in found]})
        return
    for one in found:
        way = f"{', '.join(one.after)} → {', '.join(one.before)}"
        print(on_one_line(f"{one.similarity:.2f}  {way}  ({one.count}×, run {one.run})"))
        for line in one.summary.splitlines():
            print(on_one_line(f"      {line}"))
    if not found:
        print("nothing is remembered here")
