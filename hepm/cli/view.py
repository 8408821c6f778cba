"""`hepm view`: the graph as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hepm.cli.options import NAMESPACE, STORE, NamespaceOption, StoreOption, check_target, open_existing
from hepm.text import count_of, on_one_line


def view(
    page: Annotated[Path, typer.Argument(help="The HTML file to write.")] = Path("graph.html"),
    tool: Annotated[str | None, typer.Option(help="Only this tool's neighbourhood.")] = None,
    most: Annotated[int | None, typer.Option(min=2, help="At most so many tools, the busiest first.")] = None,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
) -> None:
    """Write one self-contained HTML page of the graph; it opens without a network.

    Example: `hepm view retail.html --namespace retail`
    """
    from hepm.atomic_file import check_output_path
    from hepm.graph.page import write_page

    check_target(page, store)
    check_output_path(page, "the page")
    with open_existing(store, namespace) as memory:
        graph = memory.graph(namespace=namespace, evidence=True)
    report = write_page(graph, page, title=f"{Path(store).name} · {namespace}", focus=tool, max_tools=most)
    drawn = f"{count_of(report.tools, 'tool')} and {count_of(report.edges, 'edge')}"
    print(on_one_line(f"{drawn} drawn in {report.path}"))
