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

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
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
_REFERENCE: Final = "off"  # the arm that differences are to
_BENCH_ONLY: Final = ("small", "after")
"""Keys of a bench that are no options of `hepm bench`."""


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

    def figures(self, model: str, row: str, metrics: int) -> list[float | None]:
        """What was published of a row; None for what was not."""
        figure: Any = self.published[model][list(self.rows).index(row)]
        if metrics == 1:
            return [figure]
        return list(figure)

    def ours(self, row: str, metrics: Sequence[str], documents: Records) -> list[float | None]:
        """What our benches measured of a row, in the mean; None for what some of them lack."""
        records = [records_of(documents.get(bench, {})).get(row, {}) for bench in self.benches]
        means: list[float | None] = []
        for metric in metrics:
            values = [value_of(record, metric) for record in records]
            found = [value for value in values if value is not None]
            means.append(fmean(found) if len(found) == len(values) else None)
        return means


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
        """Its rows, with what our benches measured, and what was published, by model.

        Args:
            documents: The JSON of the benches, by name.
        """
        rows: list[Object] = []
        for part in self.parts:
            for row, name in part.rows.items():
                published = {model: part.figures(model, row, len(self.metrics)) for model in part.published}
                ours = part.ours(row, self.metrics, documents)
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
        if not names:
            return [table for table in self.tables if table.state == "model"]
        known = {table.name: table for table in self.tables}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise NotFoundError(f"{self.title} has no table {', '.join(unknown)}: there are {', '.join(known)}.")
        found = [known[name] for name in dict.fromkeys(names)]
        for table in found:
            if table.state != "model":
                raise InputError(f"{table.printed_name} of {self.title} {STATES[table.state]}: {table.by}")
        return found

    def arms_of(self, tables: Sequence[PaperTable]) -> dict[str, list[str]]:
        """The benches that tables need, in the order they are played, each with the rows that are read off it."""
        needed: dict[str, list[str]] = {}
        for table in tables:
            for part in table.parts:
                # "notes 3": session 3 of an arm.
                arms = [row.partition(" ")[0] for row in part.rows]
                if "difference" in str(table.metrics):
                    arms.insert(0, _REFERENCE)
                for bench in part.benches:
                    first = self.benches[bench].get("after")
                    if first is not None:
                        needed.setdefault(first, [])
                    needed[bench] = [*dict.fromkeys([*needed.get(bench, ()), *arms])]
        return needed

    def lacking(self, bench: str, sources: Collection[str]) -> str:
        """A source that a bench needs, or what it is played after, and that is not given; "" for none."""
        first = self.benches[bench].get("after", bench)
        for name in (first, bench):
            source = self.benches[name].get("source", "")
            if source and source not in sources:
                return source
        return ""

    def options(self, bench: str, *, small: bool, sources: Mapping[str, str] | None = None) -> Object:
        """The options of `hepm bench` for one of them, as the file gives them, with its source."""
        given = dict(self.benches[bench])
        path = (sources or {}).get(given.pop("source", ""))
        if path is not None:
            given["source"] = path
        if small:
            given |= given.get("small", {})
        return {name.replace("-", "_"): value for name, value in given.items() if name not in _BENCH_ONLY}


def find_paper(name: str) -> Paper:
    """A paper by its name or alias, or the tables of a TOML file of your own.

    Raises:
        NotFoundError: there is no such file.
        InputError: it cannot be read.
    """
    file = Path(__file__).parent / f"{ALIASES.get(name, name)}.toml"
    if name.endswith(".toml"):
        file = Path(name)
    if not file.is_file():
        raise NotFoundError(f"there is no file {file}.")
    try:
        # TOML has no null: nan stands for a figure that was not published.
        text = file.read_text("utf-8")
        document = tomllib.loads(text, parse_float=lambda value: None if value == "nan" else float(value))
        return _read(file.stem, document)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(
            f"{file} holds no tables as `hepm.lab.papers` describes them: {type(error).__name__}: {error}."
        ) from error


def _read(name: str, document: Object) -> Paper:
    tables: list[PaperTable] = []
    benches: Records = document.get("bench", {})
    for record in cast("list[Object]", document["table"]):
        parts = [TablePart(**part) for part in record.pop("part", ())]
        for part in parts:
            unknown = {*part.benches} - {*benches}
            if unknown:
                raise ValueError(f"table {record['name']} names the bench {', '.join(unknown)}, which is none")
        tables.append(PaperTable(**record, parts=parts))
    return Paper(name=name, title=document["title"], benches=benches, tables=tables)


def records_of(document: Object) -> Records:
    """The records of a bench's JSON that rows name: arms and their sessions, or rounds."""
    records: dict[str, Object] = dict(document.get("arms", {}))
    for arm, record in document.get("arms", {}).items():
        for number, means in enumerate(record.get("sessions", ()), 1):
            records[f"{arm} {number}"] = means
    for report in document.get("rounds", ()):
        records[str(report["number"])] = report
    return records


def value_of(record: Object, metric: str) -> float | None:
    """What a row reads off its record; None where it has none."""
    measures: Object = record.get("measures", record)
    value: Any = measures if metric.partition(".")[0] in measures else record
    keys = [metric] if metric in measures else metric.split(".")
    for key in keys:
        value = cast("Object", value or {}).get(key)
    return cast("Object", value)["value"] if isinstance(value, dict) else value
