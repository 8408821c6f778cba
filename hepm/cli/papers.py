"""`hepm papers`: the tables of the four papers, played with a model beside the published figures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import click

from hepm.cli.bench import PlayOutcome, Shared, base_url_option, bench, prices_option, print_parts
from hepm.cli.commands import PATH, argument, command, flag, option
from hepm.cli.model import ModelChoice, dry_run_option, model_options
from hepm.cli.options import json_option, pairs, print_json, refuse, remark, tell
from hepm.errors import InputError
from hepm.text import count_of
from hepm.types import Objects

if TYPE_CHECKING:
    from rich.table import Table

    from hepm.lab.papers import Paper, PaperTable
    from hepm.types import Object

FOLDER: Final = Path("hepm-papers")
_Names: TypeAlias = dict[str, list[str]]


@command("papers")
@argument(
    "paper",
    "h-epm, prime, evolver, multisessioncollab, msc, or a .toml file of your own. Default: list all tables.",
    required=False,
)
@option("--table", "A table, such as 1 or fig-4b; repeat it for more. Default: all that a model makes.", multiple=True)
@option("--judge", "Model that judges and distills where the paper's is another than the agent's. Default: --model.")
@option("--user-model", "Model that plays users.", envvar="HEPM_USER_MODEL", show_envvar=True)
@option("--trials", "Runs of each task in each arm, with seeds of their own.", least=1, default=3)
@flag("--small", "Few tasks of each bench.")
@option("--source", "NAME=PATH of a checkout or file that a bench needs; repeat it for more.", multiple=True)
@base_url_option
@prices_option
@option("--folder", "Where answers and runs are kept.", type=PATH, default=FOLDER)
@dry_run_option
@json_option
@model_options
def papers(choice: ModelChoice, paper: str | None, as_json: bool, **options: Any) -> None:
    """Play the tables of a paper with a model, beside its published figures; without a paper, list them all.

    A repeated command goes on where it was stopped; no recorded answer is asked for again. The budget is that of the
    whole command.

    Example: `hepm papers h-epm --table 1 --model gpt-5-mini --dry-run`
    """
    from hepm.lab.papers import ALIASES, PAPERS, find_paper

    if paper is None:
        _list([find_paper(name) for name in PAPERS], as_json=as_json)
        return
    known = [*PAPERS, *ALIASES]
    options["folder"] /= Path(ALIASES.get(paper, paper)).stem
    is_known = paper in known or paper.endswith(".toml")
    refuse(not is_known, "PAPER", f"{paper!r} is none of {', '.join(known)}, and no .toml file")
    found = find_paper(paper, _places(choice, options))
    tables = found.find_tables(options.pop("table"))
    refuse(not choice.model, "--model", "name a model, or gold or none")
    sources = pairs(options.pop("source"), "--source", "NAME=PATH")
    if options["user_model"]:
        # Environments read it when they ask for the model that plays their user.
        os.environ["HEPM_USER_MODEL"] = options["user_model"]
    benches = _playable(found, tables, sources)
    outcomes = _played(found, benches, choice, sources, options)
    documents = {name: outcome.document for name, outcome in outcomes.items()}
    if not options["dry_run"]:
        _print(found, tables, documents, str(choice.model), as_json=as_json)
    elif as_json:
        print_json(documents)
    else:
        for outcome in outcomes.values():
            print_parts(outcome.parts)
    for outcome in outcomes.values():
        if outcome.ending is not None:
            raise outcome.ending
    # Their rows lack what they would have shown: repeating the command tries them again.
    if any(document.get("failed") for document in documents.values()):
        raise click.exceptions.Exit(1)


def _playable(paper: Paper, tables: Sequence[PaperTable], sources: Mapping[str, str]) -> _Names:
    """The benches that tables need, with their rows; those whose source is not given are left out."""
    known = sorted({about["source"] for about in paper.benches.values() if "source" in about})
    for name in sources:
        there_are = ", ".join(known) or "it has none"
        refuse(name not in known, "--source", f"{name!r} is no source of this paper: {there_are}")
    playable: _Names = {}
    missing: _Names = {}
    for name, rows in paper.arms_of(tables).items():
        lacking = paper.lacking(name, sources)
        if lacking:
            missing.setdefault(lacking, []).append(name)
        else:
            playable[name] = rows
    for source, names in missing.items():
        remark(f"{', '.join(names)} left out: give --source {source}=PATH")
    if not playable:
        needed = " ".join(f"--source {source}=PATH" for source in missing)
        raise InputError(f"nothing can be played without {needed}.")
    return playable


def _places(choice: ModelChoice, options: Object) -> dict[str, str]:
    """What stands for the places in a file of tables."""
    from hepm.lab.bench.models import GOLD, NONE

    # A model that is none writes nothing: lessons are then found by counting.
    writer = "" if choice.model in (GOLD, NONE) else choice.model or ""
    return {"model": writer, "judge": options["judge"] or writer, "folder": options["folder"].as_posix()}


def _played(
    paper: Paper, benches: Mapping[str, list[str]], choice: ModelChoice, sources: Mapping[str, str], options: Object
) -> dict[str, PlayOutcome]:
    """What the benches come to, each called as `hepm bench` is, up to the first that ends early."""
    outcomes: dict[str, PlayOutcome] = {}
    shared = Shared(choice.limits(options["prices"]), options["judge"] or "")
    with click.Context(click.Command("hepm"), info_name="hepm", obj=shared) as context:
        for name, rows in benches.items():
            remark(f"{paper.title}: {name}")
            given: Object = {
                "folder": options["folder"] / name,
                "budget": choice.budget,
                "base_url": options["base_url"],
                "prices": options["prices"],
            }
            own = paper.options(name, small=options["small"], sources=sources)
            if "rounds" not in own:
                given |= {"trials": options["trials"], "arms": ",".join(rows)}
            given |= own
            given["model"] = own.get("model") or choice.model
            words = [given.pop("env"), *["--dry-run"] * options["dry_run"]]
            for key, value in given.items():
                several = cast("list[object]", value) if isinstance(value, list) else [value]
                for text in several:
                    if text not in (None, ""):
                        words += [f"--{key.replace('_', '-')}", str(text)]
            outcomes[name] = bench.invoke(bench.make_context("bench", words, parent=context))
            if outcomes[name].ending is not None:
                break
    return outcomes


def _print(
    paper: Paper, tables: Sequence[PaperTable], documents: Mapping[str, Object], model: str, *, as_json: bool
) -> None:
    """The tables, and what broke off in the benches."""
    if as_json:
        known: Objects = []
        for table in tables:
            known.append(
                {
                    "table": table.name,
                    "title": table.title,
                    "metrics": table.metrics,
                    "rows": table.rows(documents),
                }
            )
        print_json({"paper": paper.name, "tables": known, "benches": documents})
        return
    for table in tables:
        title = f"{paper.title}, {table.printed_name}: {table.title} ({' / '.join(table.metrics)})"
        # Apart from the table, which may be narrower.
        print_parts(["", title, _shown(table.rows(documents), model)])
    for name, document in documents.items():
        failed = document.get("failed", {})
        for run, reason in list(failed.items())[:1]:
            tell(f"{name}: {count_of(len(failed), 'run')} broke off ({run}): {reason}")


def _list(known: Sequence[Paper], *, as_json: bool) -> None:
    """All tables and figures with their state."""
    from hepm.lab.papers import STATES

    if as_json:
        print_json({paper.name: list(map(asdict, paper.tables)) for paper in known})
        return
    for paper in known:
        print(f"{paper.name}: {paper.title}")
        for table in paper.tables:
            by = f"; {table.by}" if table.by else ""
            print(f"  {table.name:<7} {table.title}: {STATES[table.state]}{by}")


def _shown(rows: Sequence[Object], model: str) -> Table:
    """A table for people, as wide as the terminal: ours, and beside it what was published of each model."""
    from hepm.evals.report import bare_table

    table = bare_table("")
    table.add_column("")
    for heading in ("", model):
        table.add_column(heading, no_wrap=True)
    table.add_column("published")
    for row in rows:
        published: list[str] = []
        for name, values in row["published"].items():
            if values != [None] * len(values):
                published.append(f"{name} {_figures(values)}")
        table.add_row(row["part"], row["name"], _figures(row["ours"]), "; ".join(published) or "not published")
    return table


def _figures(values: Sequence[float | None]) -> str:
    return " / ".join("–" if value is None else f"{value:.3f}" for value in values)
