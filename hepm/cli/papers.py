"""`hepm papers`: the tables of the four papers, played with a model beside the published figures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click

from hepm.cli.bench import bench
from hepm.cli.commands import PATH, argument, command, flag, option
from hepm.cli.config import read_config
from hepm.cli.model import ModelChoice, dry_run_option, model_options
from hepm.cli.options import json_option, print_json, refuse, remark
from hepm.cli.playing import PlayOutcome, Shared, about_usage, estimated, print_parts
from hepm.errors import BudgetSpentError, InputError
from hepm.text import count_of, on_one_line

if TYPE_CHECKING:
    from rich.table import Table

    from hepm.lab.papers import Paper, PaperTable, TablePart
    from hepm.llm import Usage
    from hepm.types import Object

FOLDER: Final = Path("hepm-papers")
_ASSUMED: Final = (
    "This takes runs to be as long as the authors' own, and sessions of users to take all turns. Without --dry-run, a "
    "pilot by the model comes first: it says what the rest takes, and ends the command if that is beyond --budget."
)


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
@option("--base-url", "Address of the endpoint, up to and with /v1.", envvar="OPENAI_BASE_URL", show_envvar=True)
@option("--prices", "Dollars per million tokens in and out, such as 0.15,0.6.", config="model.prices")
@option("--folder", "Where answers and runs are kept.", type=PATH, default=FOLDER)
@dry_run_option
@json_option
@model_options
def papers(choice: ModelChoice, paper: str | None, as_json: bool, **options: Any) -> None:
    """Play the tables of a paper with a model, beside its published figures; without a paper, list them all.

    A repeated command goes on where it was stopped; no recorded answer is asked for again. The budget is that of the
    whole command. Example: `hepm papers h-epm --table 1 --model gpt-5-mini --dry-run`
    """
    from hepm.lab.papers import ALIASES, PAPERS, find_paper

    if paper is None:
        _list([find_paper(name) for name in PAPERS], as_json=as_json)
        return
    known = [*PAPERS, *ALIASES]
    is_known = paper in known or paper.endswith(".toml")
    refuse(not is_known, "PAPER", f"{paper!r} is none of {', '.join(known)}, and no .toml file")
    found = find_paper(paper)
    tables = found.find_tables(options.pop("table"))
    refuse(not choice.model, "--model", "name a model, or gold or none")
    made = PapersCommand(found, tables, choice, **options)
    made.play(as_json=as_json)


@dataclass(frozen=True, slots=True)
class PapersCommand:
    """Tables of one paper, with the options of the command."""

    paper: Paper
    tables: Sequence[PaperTable]
    choice: ModelChoice
    judge: str | None
    user_model: str | None
    trials: int
    small: bool
    source: Sequence[str]
    base_url: str | None
    prices: str | None
    folder: Path
    dry_run: bool

    def play(self, *, as_json: bool) -> None:
        """Play the benches that the tables need, and print the tables; in a dry run, say what that would take."""
        if self.user_model:
            # Environments read it when they ask for the model that plays their user.
            os.environ["HEPM_USER_MODEL"] = self.user_model
        budget, prices = self.choice.limits(self.prices)
        benches = self._benches()
        announced: Usage | None = None
        with TemporaryDirectory(prefix="hepm-papers-") as scratch:
            shared = Shared((budget, prices), Path(scratch), self.judge or "")
            if self._asks and not self.dry_run:
                announced = self._announce(benches, shared)
            outcomes = self._played(benches, shared)
        if self.dry_run:
            self._tell_estimate(outcomes, as_json=as_json)
            return
        self._tell(outcomes, announced, as_json=as_json)
        for outcome in outcomes.values():
            if outcome.ending is not None:
                raise outcome.ending
        # Their rows lack what they would have shown: repeating the command tries them again.
        if any(outcome.document.get("failed") for outcome in outcomes.values()):
            raise click.exceptions.Exit(1)

    @property
    def _asks(self) -> bool:
        """Whether a model is asked."""
        from hepm.lab.bench.models import GOLD, NONE, SCRIPTED

        return self.choice.model not in (GOLD, NONE, SCRIPTED)

    def _announce(self, benches: Mapping[str, list[str]], shared: Shared) -> Usage:
        """Make a pilot of each bench, and say what all will take.

        Raises:
            BudgetSpentError: the rest would go beyond the budget. What the pilot asked is kept.
        """
        from hepm.llm import Usage

        budget, prices = shared.limits
        outcomes = self._played(benches, replace(shared, piloting=True, stand_ins={}))
        rest = Usage(estimated=True)
        for outcome in outcomes.values():
            if outcome.ending is not None:
                raise outcome.ending
            rest += outcome.usage or Usage()
        if prices is not None:
            rest = replace(rest, cost_usd=prices.cost_usd(rest))
        total = budget.used + rest
        spent = about_usage(budget.used, prices and prices.cost_usd(budget.used)).removeprefix("about ")
        remark(f"the pilot asked {spent}; the rest takes {about_usage(rest, prices and prices.cost_usd(rest))}")
        short = budget.shortage(total)
        if short:
            raise BudgetSpentError(
                "the rest would go beyond the budget: repeat the command with a larger one, or with --small. What the "
                "pilot asked is kept."
            )
        return total

    def _played(self, benches: Mapping[str, list[str]], shared: Shared) -> dict[str, PlayOutcome]:
        """What the benches come to, up to the first that ends early."""
        outcomes: dict[str, PlayOutcome] = {}
        with click.Context(bench, obj=shared) as context:
            for name, rows in benches.items():
                remark(f"{self.paper.title}: {name}")
                outcomes[name] = context.invoke(bench, **self._options(name, rows))
                if outcomes[name].ending is not None:
                    break
        return outcomes

    def _benches(self) -> Mapping[str, list[str]]:
        """The benches to play, with their rows; those whose source is not given are left out."""
        given = self._sources()
        needed = self.paper.arms_of(self.tables)
        playable: dict[str, list[str]] = {}
        missing: dict[str, list[str]] = {}
        for name, rows in needed.items():
            # What a bench is played after may need a source, too: without the rounds there is no memory to test.
            about = self.paper.benches[name]
            first = self.paper.benches.get(about.get("after", ""), {})
            wanted = [known["source"] for known in (first, about) if "source" in known and "without" not in known]
            lacking = [source for source in wanted if source not in given]
            if lacking:
                missing.setdefault(lacking[0], []).append(name)
            else:
                playable[name] = rows
        alike = [name for name in playable if self.paper.stands_in(name, given)]
        if alike:
            remark(f"{', '.join(alike)}: look-alikes of our own, for want of a --source or of a key")
        for source, names in missing.items():
            remark(f"{', '.join(names)} left out: give --source {source}=PATH")
        if not playable:
            needed_sources = " ".join(f"--source {source}=PATH" for source in missing)
            raise InputError(f"nothing can be played without {needed_sources}.")
        return playable

    def _sources(self) -> Mapping[str, str]:
        known = sorted({about["source"] for about in self.paper.benches.values() if "source" in about})
        sources: dict[str, str] = {}
        for given in self.source:
            name, equals, path = given.partition("=")
            refuse(not (name and equals and path), "--source", f"{given!r} is not NAME=PATH")
            refuse(
                name not in known,
                "--source",
                f"{name!r} is no source of this paper: {', '.join(known) or 'it has none'}",
            )
            sources[name] = path
        return sources

    def _options(self, name: str, rows: Sequence[str]) -> Object:
        """The options of `hepm bench` for one of the benches."""
        sources = self._sources()
        options = self.paper.options(name, small=self.small, sources=sources)
        source = self.paper.benches[name].get("source", "")
        if source in sources and not self.paper.stands_in(name, sources):
            options["source"] = sources[source]
        if "rounds" not in options:
            options.setdefault("trials", self.trials)
            options["arms"] = ",".join(rows)
        # A model that is none writes nothing: lessons are then found by counting.
        writer = self.choice.model if self._asks else ""
        places = {
            "model": writer,
            "judge": self.judge or writer,
            "folder": self.folder / self.paper.name,
        }
        known = {parameter.name: parameter for parameter in bench.params}
        for key, value in options.items():
            filled = value
            try:
                if isinstance(value, str):
                    filled = value.format(**places)
                # Values of a file are text where the option is a number, or the other way round.
                options[key] = known[key].type_cast_value(click.get_current_context(), filled)
            except (LookupError, ValueError) as error:
                raise InputError(
                    f"the bench {name} of {self.paper.title} has {key} = {value!r}: its keys are the options of "
                    f"`hepm bench`, and its places {', '.join(places)}."
                ) from error
        if not options.get("model"):
            # Of a bench of another model where none is asked: the same one plays it.
            options["model"] = self.choice.model
        given: Object = {
            "model": self.choice.model,
            "budget": self.choice.budget,
            "base_url": self.base_url,
            "prices": self.prices,
            "concurrency": read_config().model.concurrency,
            "folder": self.folder / self.paper.name / name,
            "dry_run": self.dry_run,
        }
        return given | options

    def _tell_estimate(self, outcomes: Mapping[str, PlayOutcome], *, as_json: bool) -> None:
        from hepm.llm import Usage

        _, prices = self.choice.limits(self.prices)
        total = sum((outcome.usage or Usage() for outcome in outcomes.values()), Usage(estimated=True))
        whole = estimated(len(outcomes), total, "comparison", self.folder, prices=prices)
        if as_json:
            print_json(whole.document | {"made_of": {name: outcome.document for name, outcome in outcomes.items()}})
            return
        for outcome in (*outcomes.values(), whole):
            print_parts(outcome.parts)
        print(_ASSUMED)

    def _tell(self, outcomes: Mapping[str, PlayOutcome], announced: Usage | None, *, as_json: bool) -> None:
        tables: list[Object] = []
        for table in map(self._as_played, self.tables):
            about: Object = {"table": table.name, "title": table.title, "metrics": table.metrics}
            tables.append(about | {"rows": _rows(table, outcomes)})
        if as_json:
            document: Object = {"paper": self.paper.name, "tables": tables}
            if announced is not None:
                document["announced"] = {"calls": announced.calls, "tokens": announced.tokens}
            print_json(document | {"benches": {name: outcome.document for name, outcome in outcomes.items()}})
            return
        for table, known in zip(self.tables, tables, strict=True):
            title = f"\n{self.paper.title}, {table.printed_name}: {table.title} ({' / '.join(table.metrics)})"
            # Apart from the table, which may be narrower.
            print_parts([title, _shown(known["rows"], str(self.choice.model))])
        for name, outcome in outcomes.items():
            failed = outcome.document.get("failed", {})
            for run, reason in list(failed.items())[:1]:
                print(f"\n{name}: {count_of(len(failed), 'run')} broke off ({run}): {on_one_line(reason)}")

    def _as_played(self, table: PaperTable) -> PaperTable:
        """The table, whose parts say where a look-alike stood in."""
        sources = self._sources()
        parts: list[TablePart] = []
        for part in table.parts:
            played = part
            if any(self.paper.stands_in(bench_name, sources) for bench_name in part.benches):
                played = replace(part, label=f"{part.label}, look-alike", metrics=())
            parts.append(played)
        return replace(table, parts=parts)


def _list(known: Sequence[Paper], *, as_json: bool) -> None:
    """All tables and figures with their state."""
    from hepm.lab.papers import STATES

    if as_json:
        print_json({paper.name: [asdict(table) for table in paper.tables] for paper in known})
        return
    for paper in known:
        print(f"{paper.name}: {paper.title}")
        for table in paper.tables:
            print(f"  {table.name:<7} {table.title}: {STATES[table.state]}{'; ' if table.by else ''}{table.by}")


def _rows(table: PaperTable, outcomes: Mapping[str, PlayOutcome]) -> list[Object]:
    """The rows of a table, each with what our benches measured, and what was published, by model."""
    rows: list[Object] = []
    for part in table.parts:
        for row, name in part.rows.items():
            published = {model: part.figures(model, row, len(table.metrics)) for model in part.published}
            ours = _ours(part, row, table.metrics, outcomes)
            rows.append({"part": part.label, "row": row, "name": name, "ours": ours, "published": published})
    return rows


def _ours(part: TablePart, row: str, metrics: Sequence[str], outcomes: Mapping[str, PlayOutcome]) -> list[float | None]:
    """What our benches measured of a row, in the mean; None for what some of them lack."""
    from hepm.lab.papers import records_of, value_of

    records: list[Object] = []
    for bench_name in part.benches:
        outcome = outcomes.get(bench_name)
        records.append(records_of(outcome.document).get(row, {}) if outcome else {})
    means: list[float | None] = []
    for metric in part.metrics or metrics:
        values = [value_of(record, metric) for record in records]
        found = [value for value in values if value is not None]
        means.append(fmean(found) if len(found) == len(values) else None)
    return means


def _shown(rows: Sequence[Object], model: str) -> Table:
    """A table for people: ours, and what was published of each model."""
    from hepm.evals.report import table_of

    published = list(dict.fromkeys(name for row in rows for name in row["published"]))
    shown = table_of("", "", "", model, *(f"{name}\n(paper)" for name in published))
    for row in rows:
        others = [_figures(row["published"].get(name, ())) for name in published]
        shown.add_row(row["part"], row["name"], _figures(row["ours"]), *others)
    return shown


def _figures(values: Sequence[float | None]) -> str:
    return " / ".join("–" if value is None else f"{value:.3f}" for value in values) or "–"
