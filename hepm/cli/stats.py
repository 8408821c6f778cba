"""`hepm stats`: what a memory holds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from hepm.cli.options import STORE, JsonOption, StoreOption, known_namespace, open_existing
from hepm.cli.output import plain, print_json, print_table
from hepm.text import count_of, on_one_line

_LESSONS = ("experiences", "principles", "notes")


def stats(
    store: StoreOption = STORE,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="One partition; left out: all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Count what a memory holds, by namespace.

    Example: `hepm stats --store runs.hepm`
    """
    with open_existing(store) as memory:
        names = memory.namespaces() if namespace is None else [known_namespace(memory, namespace, store)]
        header = asdict(memory.header)
        totals = {name: asdict(memory.totals(namespace=name)) for name in names}
        called = {} if as_json else {name: sum(t.calls > 0 for t in memory.tools(namespace=name)) for name in names}
    if as_json:
        print_json({"store": str(store), **header, "namespaces": totals})
        return
    from rich.table import Table

    lessons = {name: sum(counts[kind] for kind in _LESSONS) for name, counts in totals.items()}
    title = f"{store}, {header['embedder'] or 'no vectors'}, revision {header['revision']}"
    table = Table(title=plain(title), title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("namespace")
    for column in (
        "runs",
        "success",
        "failure",
        "unlabelled",
        "tools",
        "edges",
        "states",
        *(["lessons"] if any(lessons.values()) else []),
    ):
        table.add_column(column, justify="right", no_wrap=True)
    for name, counts in totals.items():
        shown = [count for kind, count in (counts | {"tools": called[name]}).items() if kind not in _LESSONS]
        table.add_row(plain(name), *(f"{count:,}" for count in (*shown, lessons[name])[: len(table.columns) - 1]))
    print_table(table)
    for name, counts in totals.items():
        if more := counts["tools"] - called[name]:
            print(on_one_line(f"{name}: {count_of(called[name], 'tool')} called, {more:,} more described"))
