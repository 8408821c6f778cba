"""The tables and figures of the four papers, as data: one TOML file each, which `hepm papers` plays with a model.

A file has the title of the paper, its benches, and all its tables and figures, in the paper's order:

    title = "H-EPM"

    [bench.tau2]                        # a bench: options of `hepm bench` by their long names, and the environment
    env = "tau2-telecom-user"
    rollouts = 3
    option = ["temperature=0"]
    small = {tasks = "4"}               # what differs with --small

    [[table]]
    name = "1"                          # as --table takes it: "1", "fig-4b"
    title = "Success of tasks on three benchmarks"
    state = "model"                     # "model": made by its parts; "arithmetic"; "cannot"
    metrics = ["success"]               # its columns: what each row reads off the JSON of its bench

    [[table.part]]                      # rows that one bench makes
    bench = "tau2"
    label = "τ²-bench"
    rows = {off = "Base model", explicit = "H-EPM"}       # arm: its name in the paper. These arms are played.
    published = {"GPT-4.1" = [0.358, 0.512]}              # model: the figure of each row, in their order; with
                                                          # several metrics a list each; nan where none is printed

    [[table.part]]                      # rows that are the mean of several benches, once all of them are played
    mean_of = ["tau2", "acebench"]
    label = "mean"
    rows = {off = "Base model", explicit = "H-EPM"}

    [[table]]
    name = "5"
    title = "Half of a group guided"
    state = "cannot"
    by = "It trains weights on GPUs: `hepm.lab.rl.guidance.Guidance.guides` guides half of a group."

**Benches.** Tables that name one bench share its runs: its arms are those of all their rows. Values may hold {model},
{judge} (--judge, else the model) and {folder}, where the benches of a paper lie. `source` names what --source
NAME=PATH gives; without it, parts of that bench are left out, and the command says so. `after` names a bench that is
played first, say the rounds that fill the store of `memory`. `trials` is --trials, unless the bench has its own.

**Rows.** Of a bench that compares arms, rows are arms, or with users an arm and a session ("notes 3"). Of rounds they
are numbers of rounds ("5"). A metric is "success", "reward" or another
mean, or else a path into the record of a row, as `hepm bench --json` prints it: "later.length.value", "zones.golden";
one with "difference" in it also plays the arm `off`. Published shares are in [0, 1].

**States.** "model": the command plays it. "arithmetic": `by` names the function or test that gives its figures.
"cannot": `by` says why, and names the nearest thing here, if there is one.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

from hepm.errors import InputError, NotFoundError
from hepm.types import Object

State: TypeAlias = Literal["model", "arithmetic", "cannot"]
STATES: Final[Mapping[State, str]] = {
    "model": "runs with a model",
    "arithmetic": "reproduced by arithmetic",
    "cannot": "cannot be run here",
}
Records: TypeAlias = Mapping[str, Object]
"""JSON objects by name: benches, what they came to, or the rows of a table."""
PAPERS: Final = ("h-epm", "prime", "evolver", "multisessioncollab")
ALIASES: Final = {"msc": "multisessioncollab"}


@dataclass(frozen=True, kw_only=True)
class TablePart:
    """Rows of a table that one bench makes.

    Attributes:
        mean_of: The benches whose mean the rows are, in place of one `bench`.
        rows: What the paper calls a row, by arm or round.
        published: By model, the figure of each row, in the order of `rows`; a list for several metrics.
    """

    label: str
    rows: Mapping[str, str]
    bench: str = ""
    mean_of: Sequence[str] = ()
    published: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])

    @property
    def benches(self) -> Sequence[str]:
        """Those that make its rows."""
        return self.mean_of or (self.bench,)


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """A table or figure.

    Attributes:
        by: What gives its figures, or why it cannot be run here.
    """

    name: str
    title: str
    state: State
    by: str = ""
    metrics: Sequence[str] = ()
    parts: Sequence[TablePart] = ()

    @property
    def printed_name(self) -> str:
        """As the paper prints it: "table 1", "figure 4b"."""
        if self.name.startswith("fig-"):
            return f"figure {self.name.removeprefix('fig-')}"
        return f"table {self.name}"

    def rows(self, documents: Records) -> list[Object]:
        """Its rows, with what our benches measured, in the mean, and what was published, by model; None for no figure.

        Args:
            documents: The JSON of the benches, by name.
        """
        rows: list[Object] = []
        for part in self.parts:
            benches = [records_of(documents.get(bench, {})) for bench in part.benches]
            for number, (row, name) in enumerate(part.rows.items()):
                ours: list[float | None] = []
                for metric in self.metrics:
                    values = [value_of(records.get(row, {}), metric) for records in benches]
                    ours.append(None if None in values else fmean(cast("list[float]", values)))
                published: Object = {}
                for model, figures in part.published.items():
                    figure = figures[number]
                    published[model] = figure if isinstance(figure, list) else [figure]
                rows.append({"part": part.label, "row": row, "name": name, "ours": ours, "published": published})
        return rows


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper.

    Attributes:
        benches: What is played, by name: options of `hepm bench`, and the keys of the module's docstring.
    """

    name: str
    title: str
    benches: Records
    tables: Sequence[PaperTable]

    def find_tables(self, names: Sequence[str]) -> list[PaperTable]:
        """The tables of these names; without names all that a model can make.

        Raises:
            NotFoundError: there is none of a name.
            InputError: a named one is not made with a model.
        """
        known = {table.name: table for table in self.tables}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise NotFoundError(f"{self.title} has no table {', '.join(unknown)}: there are {', '.join(known)}.")
        found = [known[name] for name in dict.fromkeys(names)]
        for table in found:
            if table.state != "model":
                raise InputError(f"{table.printed_name} of {self.title} {STATES[table.state]}: {table.by}")
        return found or [table for table in self.tables if table.state == "model"]

    def arms_of(self, tables: Sequence[PaperTable]) -> dict[str, list[str]]:
        """The benches that tables need, in the order they are played, each with the rows that are read off it."""
        needed: dict[str, dict[str, None]] = {}
        for table in tables:
            for part in table.parts:
                # "notes 3": session 3 of an arm.
                arms = [row.partition(" ")[0] for row in part.rows]
                if "difference" in str(table.metrics):
                    arms.insert(0, "off")  # the arm that differences are to
                for bench in part.benches:
                    first = self.benches[bench].get("after", bench)
                    needed.setdefault(first, {})
                    needed[bench] = needed.get(bench, {}) | dict.fromkeys(arms)
        return {bench: list(arms) for bench, arms in needed.items()}

    def lacking(self, bench: str, sources: Collection[str]) -> str:
        """A source that a bench needs, or what it is played after, and that is not given; "" for none."""
        for name in (self.benches[bench].get("after", bench), bench):
            source = self.benches[name].get("source", "")
            if source and source not in sources:
                return source
        return ""

    def options(self, bench: str, *, small: bool, sources: Mapping[str, str]) -> Object:
        """The options of `hepm bench` for one of them, with the source that is given for it."""
        about = self.benches[bench]
        given = about | {"source": sources.get(about.get("source", ""))}
        if small:
            given |= about.get("small", {})
        return {name.replace("-", "_"): value for name, value in given.items() if name not in ("small", "after")}


def find_paper(name: str, places: Mapping[str, str] = MappingProxyType({})) -> Paper:
    """A paper by its name or alias, or the tables of a TOML file of your own.

    Args:
        places: What stands for {model}, {judge} and {folder}.

    Raises:
        InputError: it is not there, or cannot be read.
    """
    file = Path(__file__).parent / f"{ALIASES.get(name, name)}.toml"
    if name.endswith(".toml"):
        file = Path(name)
    try:
        # TOML has no null: nan stands for a figure that was not published.
        text = file.read_text("utf-8")
        for place, filling in places.items():
            # As a text of TOML: a folder's name may hold quotes.
            text = text.replace(f"{{{place}}}", json.dumps(filling)[1:-1])
        document = tomllib.loads(text, parse_float=lambda value: None if value == "nan" else float(value))
        benches: Records = document.get("bench", {})
        tables: list[PaperTable] = []
        for record in cast("list[Object]", document["table"]):
            parts = [TablePart(**part) for part in record.pop("part", ())]
            unknown = {bench for part in parts for bench in part.benches} - {*benches}
            if unknown:
                raise ValueError(f"table {record['name']} names the bench {', '.join(unknown)}, which is none")
            tables.append(PaperTable(**record, parts=parts))
        return Paper(name=file.stem, title=document["title"], benches=benches, tables=tables)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(
            f"{file} holds no tables as `hepm.lab.papers` describes them: {type(error).__name__}: {error}."
        ) from error


def records_of(document: Object) -> Records:
    """The records of a bench's JSON that rows name: arms and their sessions with their measures, or rounds."""
    records: dict[str, Object] = {}
    for arm, scores in document.get("arms", {}).items():
        records[arm] = scores | scores["measures"]
        for number, measures in enumerate(scores["sessions"], 1):
            records[f"{arm} {number}"] = measures
    for report in document.get("rounds", ()):
        records[str(report["number"])] = report
    return records


def value_of(record: Object, metric: str) -> float | None:
    """What a row reads off its record; None where it has none."""
    value: Any = record
    # The name of a measure may have a dot of its own: "entropy.before".
    for key in [metric] if metric in record else metric.split("."):
        value = cast("Object", value or {}).get(key)
    return cast("Object", value)["value"] if isinstance(value, dict) else value
