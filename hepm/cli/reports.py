"""Reports: `hepm eval` and `view`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from hepm.cli import options
from hepm.cli.commands import PATH, argument, command, flag, option, options_as
from hepm.cli.options import Bar, StorePlace, json_option, place_options, print_json, refuse, remark, tell
from hepm.errors import InputError
from hepm.text import count_of

if TYPE_CHECKING:
    from hepm.evals.domains import Domain, Record, SplitName
    from hepm.ingest import Rejection
    from hepm.ingest.records import Item
    from hepm.memory import Memory


DividedBy: TypeAlias = Literal["families", "models"]
_MOST: Final = 200  # tools on a page


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs to remember and to predict."""

    runs: tuple[str, ...]
    train: tuple[str, ...]
    test: tuple[str, ...]
    split_by: DividedBy | None
    format: str

    def split(self) -> SplitName:
        """How the runs are divided, after checking that the options fit together."""
        refuse(bool(self.train) != bool(self.test), "", "--train and --test belong together")
        refuse(bool(self.runs) == bool(self.train), "", "give either RUNS, or --train and --test")
        refuse(
            self.train and self.split_by == "models",
            "",
            "--split models divides RUNS; --train and --test are divided already",
        )
        if not self.train:
            return self.split_by or "families"
        if self.split_by == "families":
            return "files, unseen families"
        return "files"

    def domains(self, *, every: bool = True) -> list[Domain]:
        """Read the runs, divided by environment; unless `every`, at most as many as some seconds allow."""
        from hepm.evals.domains import domains_of

        with Bar("runs read") as bar:
            records = self._read(self.train or self.runs, bar, every)
            tested = None
            if self.test:
                tested = self._read(self.test, bar, every)
            domains = domains_of(records, tested=tested)
        if not domains:
            raise InputError("there are no runs to evaluate: all that were read are attacks.")
        return domains

    def _read(self, sources: Sequence[str], bar: Bar, every: bool) -> list[Record]:
        from hepm.evals.domains import without_repeats
        from hepm.evals.sampling import READ_CHARS

        most_chars = None if every else READ_CHARS
        records = _read_records(sources, self.format, bar, most_chars)
        if not records:
            raise InputError(f"there are no runs to evaluate: none could be read from {', '.join(sources)}.")
        distinct = without_repeats(records)
        repeats = len(records) - len(distinct)
        if repeats:
            counts = "counts" if repeats == 1 else "count"
            remark(f"{count_of(repeats, 'run')} came again and {counts} once")
        return distinct


runs_options = options_as(
    "source",
    Runs,
    argument("runs", "Files, folders, globs or archives; - reads stdin.", nargs=-1),
    option("--train", "Runs to remember; repeatable.", multiple=True),
    option("--test", "Runs to predict from those of --train.", multiple=True),
    option(
        "--split split_by",
        "Predict each task family from the others (default for RUNS; for --test without it, families may be "
        "the same), or each model's runs from those of the others.",
        one_of=get_args(DividedBy),
    ),
    option("--format -f", "A reader's name; auto recognises each file.", default="auto"),
)


@command("eval")
@option("--method", "Measure this method, or all; repeatable. Default: five.", multiple=True)
@flag("--all every", "Measure every run and call, however long it takes.")
@option(
    "--ablation", "Also without: weight, state, efficiency, adaptation; or k: hints of 1, 2 and 3 tools.", multiple=True
)
@flag("--assume-success", "Treat runs without an outcome as successes.")
@json_option
@runs_options
def eval_runs(
    source: Runs,
    method: tuple[str, ...],
    every: bool,
    ablation: tuple[str, ...],
    assume_success: bool,
    as_json: bool,
) -> None:
    """Measure how well memory predicts the next tool on unseen tasks, and whether hints would have helped.

    Runs of one task are never both remembered and tested, unless --split models or --test without --split families
    asks for it. Example: `hepm eval results/*.json`, `hepm eval --train may/ --test june/ --split families --json`
    """
    from rich.console import Console

    from hepm.evals.evaluate import EvalOptions, evaluate
    from hepm.evals.methods import KS, all_methods, find_methods
    from hepm.evals.report import tables
    from hepm.ingest.side_by_side import usable_cores

    # All misuse is said before anything is read, which may take minutes.
    split = source.split()
    options.check_sources([*source.runs, *source.train, *source.test])
    named: Sequence[str] = method
    if "all" in method:
        named = [each.name for each in all_methods()]
    # None named: the five that `find_methods` has as its default.
    methods = find_methods(named, ablations=ablation)
    domains = source.domains(every=every)
    settings = EvalOptions(split, assume_success=assume_success, sample=not every)
    if "k" in ablation:
        other_lengths = tuple(length for length in KS if length != settings.k)
        settings = replace(settings, ks=other_lengths)
    with Bar("memories asked") as bar:
        report = evaluate(domains, methods, settings, processes=usable_cores(), on_progress=bar.show)
    if as_json:
        print_json(report.to_json())
    else:
        Console().print(tables(report))


def _read_records(sources: Sequence[str], format: str, bar: Bar, most_chars: int | None) -> list[Record]:
    """Runs with the names of their readers; what could not be read is reported on stderr."""
    from hepm.evals.sampling import SampledReading
    from hepm.ingest import ReadOptions, Rejection, read_runs
    from hepm.ingest.formats.exported import Carried
    from hepm.ingest.records import Remark

    options_of_reading = ReadOptions(format=format)
    sample = SampledReading()
    read: Iterable[tuple[str, Item]] = read_runs(sources, options_of_reading)
    # A sample of a large archive need not read all of it.
    if most_chars is not None:
        read = sample.read(sources, options_of_reading, most_chars, on_run=bar.show)
    records: list[Record] = []
    rejected: list[Rejection] = []
    for name, item in read:
        # A lesson or the like, in an export.
        if isinstance(item, Carried | Remark):
            continue
        if isinstance(item, Rejection):
            rejected.append(item)
        else:
            records.append((name, item))
            bar.show(len(records))
    if not sample.complete:
        read_of = f"a sample of {count_of(len(records), 'run')} was read ({sample})"
        remark(f"{read_of}, of a large file its first ones; --all reads all")
    if rejected:
        sentence = f"hepm: {options.unusable(rejected)}"
        if len(rejected) > 1:
            sentence += ", the first"
        remark(f"{sentence}: {rejected[0].file}: {rejected[0].reason}")
    return records


@command("view")
@argument("page", "The HTML file to write.", required=False, default=Path("graph.html"), type=PATH)
@option("--tool", "Only this tool and its neighbours.")
@place_options
def view(place: StorePlace, page: Path, tool: str | None) -> None:
    """Write the graph as one self-contained HTML page, which opens without a network.
    Example: `hepm view retail.html --namespace retail`
    """
    from hepm.atomic_file import check_output_path

    options.check_target(page, place.store)
    check_output_path(page, "the page")
    with place.open() as memory:
        title = f"{Path(place.store).name} · {place.namespace}"
        tools, edges, left_out = write_page(memory, place.namespace, page, title, tool)
    tell(f"{tools} and {edges} drawn in {page}{left_out}")


def write_page(
    memory: Memory, namespace: str, page: Path, title: str, focus: str | None = None
) -> tuple[str, str, str]:
    """Write the page; returns how many tools and edges it has, and what is left out, in words."""
    from hepm.atomic_file import atomic_file
    from hepm.report.forks import forks_of
    from hepm.web.graph_page import content_of, left_out_of, render_page

    # The page holds all it shows: it opens without a server or a network.
    rules = memory.mirror(namespace).learned.rules(anew=False)
    forks = forks_of(rules, memory.store, namespace=namespace)
    content = content_of(memory, namespace, focus=focus, max_tools=_MOST, forks=forks)
    html = render_page(content, title=title).encode("utf-8")
    with atomic_file(page, "the page") as file:
        file.write_bytes(html)
    return count_of(content.tool_count, "tool"), count_of(len(content.edges), "edge"), left_out_of(content)
