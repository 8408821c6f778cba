"""Reports: `hepm eval` and `view`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hepm.cli.commands import PATH, Several, argument, command, flag, option
from hepm.cli.options import (
    Bar,
    StorePlace,
    check_target,
    format_option,
    json_option,
    place_options,
    print_json,
    print_table,
    remark_unusable,
    tell,
)
from hepm.errors import InputError

if TYPE_CHECKING:
    from hepm.evals.domains import Domain
    from hepm.memory import Memory


@command("eval")
@option("--method", "Measure this method, or all; repeatable. Default: five.", multiple=True)
@flag("--all every", "Measure every run and call, however long it takes.")
@json_option
@argument("runs", "Files, folders, globs or tar archives; - reads stdin.", nargs=-1, required=True)
@format_option
def eval_runs(
    runs: Several,
    format: str,
    method: Several,
    every: bool,
    as_json: bool,
) -> None:
    """Measure how well memory predicts the next tool on unseen tasks, and whether hints would have helped.

    Each task family is predicted from the others.

    Example: `hepm eval results/*.json`
    """
    from hepm.evals.evaluate import EvalOptions, evaluate
    from hepm.evals.methods import all_methods, find_methods
    from hepm.evals.report import tables
    from hepm.ingest.side_by_side import usable_cores

    # All misuse is said before anything is read, which may take minutes.
    named: Sequence[str] = method
    if "all" in method:
        named = [each.name for each in all_methods()]
    # None named: the five that `find_methods` has as its default.
    methods = find_methods(named)
    domains = _domains(runs, format)
    settings = EvalOptions(sample=not every)
    with Bar("memories asked") as bar:
        report = evaluate(domains, methods, settings, processes=usable_cores(), on_progress=bar.show)
    if as_json:
        print_json(report.to_json())
    else:
        print_table(tables(report))


def _domains(sources: Sequence[str], format: str) -> list[Domain]:
    """Read the runs, divided by environment; what could not be read is reported on stderr."""
    from hepm.evals.domains import domains_of, read_records
    from hepm.ingest.records import ReadOptions

    with Bar("runs read") as bar:
        records, rejected = read_records(sources, ReadOptions(format=format), on_run=bar.show)
    remark_unusable(rejected)
    if not records:
        raise InputError(f"there are no runs to evaluate: none could be read from {', '.join(sources)}.")
    domains = domains_of(records)
    if not domains:
        raise InputError("there are no runs to evaluate: all that were read are attacks.")
    return domains


@command("view")
@argument("page", "The HTML file to write.", required=False, default=Path("graph.html"), type=PATH)
@option("--tool", "Only this tool and its neighbours.")
@place_options
def view(place: StorePlace, page: Path, tool: str | None) -> None:
    """Write the graph as one self-contained HTML page, which opens without a network.

    Example: `hepm view retail.html --namespace retail`
    """
    from hepm.atomic_file import check_output_path

    check_target(page, place.store)
    check_output_path(page, "the page")
    with place.open() as memory:
        title = f"{Path(place.store).name} · {place.namespace}"
        tell(f"{page} written: {write_page(memory, place.namespace, page, title, tool)}")


def write_page(memory: Memory, namespace: str, page: Path, title: str, focus: str | None = None) -> str:
    """Write the page; returns what it shows, in words."""
    from hepm.atomic_file import atomic_file
    from hepm.report.forks import forks_of
    from hepm.web.graph_page import graph_data, render_page

    # The page holds all it shows: it opens without a server or a network.
    forks = forks_of(memory.evidence(namespace).rules(anew=False), memory.store, namespace=namespace)
    content = graph_data(memory, namespace, focus=focus, forks=forks)
    with atomic_file(page, "the page") as file:
        file.write_bytes(render_page(content, title=title).encode("utf-8"))
    return content["counts"]
