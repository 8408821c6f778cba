"""Commands on a whole store: ingest, stats, export, import, copy, forget, doctor and reembed."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, get_args

import click

from hepm.cli import options
from hepm.cli.commands import Argument, Command, options_as
from hepm.cli.config import read_config
from hepm.cli.lesson_exchange import (
    LessonExport,
    export_lessons_alone,
    holds_lessons,
    import_lessons_alone,
    lesson_export_options,
)
from hepm.cli.lesson_list import LessonKind
from hepm.cli.options import (
    Bar,
    Place,
    json_option,
    place_options,
    plain,
    print_json,
    store_option,
    success_from_option,
    yes_option,
)
from hepm.cli.tool import remarks
from hepm.errors import StoreDamagedError
from hepm.graph.open_store import embedded_file, mend_store
from hepm.text import count_of, on_one_line

if TYPE_CHECKING:
    from hepm.cli.config import ConfigFile
    from hepm.graph.examination.findings import Finding
    from hepm.ingest import ReadOptions
    from hepm.ingest.pipeline import IngestReport
    from hepm.ingest.prepare import IngestOptions
    from hepm.memory import Memory
    from hepm.types import Tool

_PREPARED_FROM: Final = 2_500
"""Runs from which on an ingest computes what suggestions need, which takes seconds, for the processes that come."""
_SHOWN_REJECTIONS = 10
PartName: TypeAlias = Literal["links", "runs", "counts", "states", "vectors", "lessons", "fit"]
EngineName: TypeAlias = Literal["local", "ray"]
TrainingForm: TypeAlias = Literal["chats", "hinted", "tagged"]
_OUTCOME_KEYS: Final = {"success_key": "success", "reward_key": "reward"}


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read."""

    format: str
    reward_key: str
    success_key: str


reading_options = options_as(
    "reading",
    Reading,
    click.option(
        "--format", "-f", default="auto", show_default=True, help="A reader's name; auto recognises each file."
    ),
    click.option(
        "--reward-key",
        default="reward",
        show_default=True,
        help="Key of the reward in chat records; a dotted path goes deeper.",
    ),
    click.option(
        "--success-key", default="success", show_default=True, help="Key of the success flag, or of a verdict in words."
    ),
)


@dataclass(frozen=True, slots=True)
class Preparing:
    """How runs are prepared before they are stored."""

    assume_success: bool
    distrust: tuple[str, ...]
    processes: int | None
    engine: EngineName

    def options(self, config: ConfigFile) -> IngestOptions:
        """The options of the library."""
        from hepm.ingest.prepare import IngestOptions, TrustByTags

        return IngestOptions(
            redactor=config.redaction.redactor(),
            assume_success=self.assume_success,
            processes=self.processes,
            trusted=TrustByTags.but(self.distrust) if self.distrust else None,
            outcome_by=config.outcome_by,
            engine=self.engine,
        )


preparing_options = options_as(
    "preparing",
    Preparing,
    click.option("--assume-success", is_flag=True, help="Treat runs without an outcome as successes."),
    click.option(
        "--distrust",
        multiple=True,
        metavar="KEY[=VALUE]",
        help="Store runs with this tag but learn nothing from them; repeatable.",
    ),
    click.option("--processes", type=click.IntRange(min=1), help="Processes that read files. Default: automatic."),
    click.option(
        "--engine",
        type=click.Choice(get_args(EngineName)),
        default="local",
        show_default=True,
        help="Where files are read: here, or on the Ray cluster of RAY_ADDRESS (or one started here).",
    ),
)


@click.command("ingest", cls=Command)
@click.argument(
    "runs",
    cls=Argument,
    nargs=-1,
    required=True,
    help="Files, folders, globs or archives of recorded runs; - reads stdin.",
)
@click.option("--tools", help="Tool descriptions: an OpenAI tool list or an MCP tools/list.")
@click.option("--embedder", help="New store: hash-512, a model name, or a folder.")
@success_from_option
@json_option
@place_options
@reading_options
@preparing_options
def ingest(
    place: Place,
    reading: Reading,
    preparing: Preparing,
    runs: tuple[str, ...],
    tools: str | None,
    embedder: str | None,
    success_from: float | None,
    as_json: bool,
) -> None:
    """Read recorded runs and store them. You can repeat it: a run is stored once.
    Example: `hepm ingest results/*.json --namespace retail`
    """
    from hepm.ingest import ReadOptions, load_tools

    options.check_sources(runs)
    config = read_config()
    read = ReadOptions(**asdict(reading), ids=config.ingest.ids, command_names=config.ingest.command_names)
    described = load_tools(tools) if tools else []
    created: dict[str, Any] = {"embedder": embedder, "success_from": success_from}
    prepared = preparing.options(config)
    report = _store_runs(place, read, prepared, runs, described, created, as_json=as_json)
    if unmatched := _unmatched_keys(runs, read, report):
        keys = " or ".join(map(repr, unmatched))
        sentence = f"hepm: no outcome was found under {keys} in any run; ingest again with the right key"
        print(on_one_line(sentence), file=sys.stderr)
    if unmatched or not report.read:
        raise click.exceptions.Exit(1)


def _store_runs(
    place: Place,
    reading: ReadOptions,
    preparing: IngestOptions,
    runs: Sequence[str],
    tools: Sequence[Tool],
    created: Mapping[str, Any],
    *,
    as_json: bool,
) -> IngestReport:
    """Store runs, with a bar, and print the report. `created` is for a store that is made now."""
    from hepm.ingest import read_runs

    read_runs([], reading)  # rejects an unknown format before a store is created
    stored = 0
    with (
        options.no_empty_store(place.store),
        place.create(**created) as memory,
        Bar("runs read") as bar,
    ):

        def show(report: IngestReport) -> None:
            nonlocal stored
            stored = report.stored
            bar.show(report.read)

        try:
            with redirect_stdout(sys.stderr):  # where Ray writes what it has to say
                report = memory.ingest(
                    runs, namespace=place.namespace, reading=reading, options=preparing, tools=tools, on_batch=show
                )
            if report.stored >= _PREPARED_FROM:
                bar.what = "tools prepared for suggestions"
                memory.prepare(namespace=place.namespace, on_progress=bar.show)
        except KeyboardInterrupt:
            with suppress(OSError):
                so_far = count_of(stored, "run")
                print(f"hepm: interrupted with {so_far} stored so far; repeat the command to go on", file=sys.stderr)
            raise
    if as_json:
        print_json(report.to_json())
    else:
        _print_report(report)
    return report


def _print_report(report: IngestReport) -> None:
    print(report)
    remedy = "label them with `hepm label`"
    if not report.by_format.keys() <= {"claude-code", "codex"}:  # their transcripts have no outcomes
        remedy = f"name the key of outcomes with --success-key or --reward-key, pass --assume-success, or {remedy}"
    if n := report.without_calls:
        print(f"{n:,} of them hold{'s' * (n == 1)} no tool call, so that nothing is learned there")
    if n := report.distrusted:
        kept = "is not trusted: it is kept, and counts" if n == 1 else "are not trusted: they are kept, and count"
        print(f"{n:,} of them {kept} for nothing")
    for rule, n in sorted(report.by_rule.items()):
        print(f"{n:,} of them {'has a label' if n == 1 else 'have labels'} by the rule {rule!r}")
    if n := report.unlabelled:
        unknown = "has no outcome and counts" if n == 1 else "have no outcome and count"
        print(f"{n:,} of them {unknown} for nothing yet: {remedy}")
    if report.rejected:
        print(f"{options.unusable(report.rejected)}:", file=sys.stderr)
    for one in report.rejected[:_SHOWN_REJECTIONS]:
        record = "" if one.record is None else f" record {one.record}"
        print(on_one_line(f"  {one.file}{record}: {one.reason}"), file=sys.stderr)
    if len(report.rejected) > _SHOWN_REJECTIONS:
        print(f"  … and {len(report.rejected) - _SHOWN_REJECTIONS:,} more; --json lists all", file=sys.stderr)


def _unmatched_keys(runs: Sequence[str], reading: ReadOptions, report: IngestReport) -> list[str]:
    """The user's keys of outcomes that label no run. Pipes, which cannot be read again, count by the report alone."""
    from hepm.ingest import read_runs
    from hepm.ingest.reading import KEYED
    from hepm.types import Outcome, Trajectory

    keys = {name: key for name, usual in _OUTCOME_KEYS.items() if (key := getattr(reading, name)) != usual}
    if report.stored and report.unlabelled == report.stored:
        return list(keys.values())
    if any(source == "-" or Path(source).is_fifo() for source in runs):
        return []

    def labels(name: str, key: str) -> bool:
        alone = replace(reading, **{"success_key": "", "reward_key": "", "label_key": "", name: key})
        found = (item for kind, item in read_runs(runs, alone) if kind in KEYED)
        return any(isinstance(run, Trajectory) and run.outcome != Outcome() for run in found)

    return [key for name, key in keys.items() if not labels(name, key)]


def _without_outcome(runs: int) -> str:
    have, teach, them = ("has", "teaches", "it") if runs == 1 else ("have", "teach", "them")
    return (
        f"{count_of(runs, 'run')} {have} no outcome yet and {teach} nothing: label {them} by hand (`hepm label`), by a "
        "model (`hepm label --by judge`), or POST /outcome to `hepm serve` at the end of each run"
    )


_MANY: Final = 20  # more runs than this are forgotten only after a confirmation
_SHOWN_REMARKS: Final = 10
_LESSONS: Final = ("experiences", "principles", "notes")


@click.command("stats", cls=Command)
@store_option
@click.option("--namespace", "-n", help="One partition. Default: all.")
@json_option
def stats(store: str, namespace: str | None, as_json: bool) -> None:
    """Print counts of a memory by namespace, and tools that have begun to fail or whose description changed.
    Example: `hepm stats --store runs.hepm`
    """
    with options.open_existing(store) as memory:
        names = memory.namespaces() if namespace is None else [options.known_namespace(memory, namespace, store)]
        header = asdict(memory.header)
        del header["rewards_read"]  # true of every store that was opened
        totals = {name: asdict(memory.totals(namespace=name)) for name in names}
        tools = {name: memory.tools.list(namespace=name) for name in names}
        called = {name: sum(tool.calls > 0 for tool in rows) for name, rows in tools.items()}
        said = {name: remarks(memory, rows, name) for name, rows in tools.items()}
        guards = {name: memory.sessions.guard(namespace=name) for name in names}
    if as_json:
        levels = {name: guard.to_json() for name, guard in guards.items()}
        print_json({"store": str(store), **header, "namespaces": totals, "tools": said, "guard": levels})
        return
    from rich.table import Table

    lessons = {name: sum(counts[kind] for kind in _LESSONS) for name, counts in totals.items()}
    title = f"{store}, {header['embedder'] or 'no vectors'}, revision {header['revision']}"
    table = Table(title=plain(title), title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("namespace")
    columns = ["runs", "success", "failure", "unlabelled", "tools", "edges", "states"]
    for column in [*columns, *(["lessons"] if any(lessons.values()) else [])]:
        table.add_column(column, justify="right", no_wrap=True)
    for name, counts in totals.items():
        shown = [count for kind, count in (counts | {"tools": called[name]}).items() if kind not in _LESSONS]
        table.add_row(plain(name), *(f"{count:,}" for count in (*shown, lessons[name])[: len(table.columns) - 1]))
    options.print_table(table)
    if not totals:
        print("No run is stored yet. A run under way counts once it has ended: see `hepm serve`.")
    for name, counts in totals.items():
        if waiting := counts["unlabelled"]:
            print(on_one_line(f"{name}: {_without_outcome(waiting)}"))
        if more := counts["tools"] - called[name]:
            print(on_one_line(f"{name}: {count_of(called[name], 'tool')} called, {more:,} more described"))
        if guards[name].sessions:
            print(on_one_line(f"{name}: guard: {guards[name].sentence}"))
        sentences = [f"{tool} {sentence}" for tool, about in said[name].items() for sentence in about]
        for sentence in sentences[:_SHOWN_REMARKS]:
            print(on_one_line(f"{name}: {sentence}"))
        if (more := len(sentences) - _SHOWN_REMARKS) > 0:
            print(on_one_line(f"{name}: {more:,} more such sentences; `hepm tool list` has all"))


@click.command("export", cls=Command)
@click.argument(
    "path",
    cls=Argument,
    required=False,
    default="-",
    help="The file to write, such as runs.jsonl.gz, AGENTS.md or SKILL.md; - writes to stdout.",
)
@click.option(
    "--sft",
    type=click.Choice(get_args(TrainingForm)),
    help="Successful runs alone, to train a model on: as chats, also with the tools that hints named, or those of "
    "tagged agents, with EvolveR's settings beside.",
)
@place_options
@lesson_export_options
def export(place: Place, lessons: LessonExport, path: str, sft: TrainingForm | None) -> None:
    """Write the runs and lessons of a namespace as lines of hepm's own JSON, or lessons alone, to read and edit.

    Lessons alone go to AGENTS.md, CLAUDE.md and GEMINI.md (a section; the rest of the file stays), to SKILL.md, and to
    other names in .md (Markdown); --form or --kind writes them to any file.

    Example: `hepm export runs.jsonl --namespace retail`
    """
    form = lessons.form_for(path)
    if form is not None and sft is not None:
        raise click.UsageError("--sft writes runs, and this is an export of lessons alone.")
    if sft == "tagged" and path == "-":
        raise click.BadParameter("--sft tagged needs a file: settings are written beside it")
    if path != "-":
        options.check_target(Path(path), place.store)
    if form is not None:
        export_lessons_alone(place, path, form, lessons)
        return
    if sft == "tagged":
        _export_cold_start(place, Path(path))
        return
    if sft is not None:
        _export_examples(place, path, hints=sft == "hinted")
        return
    kinds = Counter[str]()

    def counted(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            kinds[line.split('"', 4)[3]] += 1  # the first key after the version
            yield line

    with place.open() as memory:
        lines = counted(memory.export(namespace=place.namespace))
        if path == "-":
            options.print_lines(lines)
        else:
            options.write_lines(lines, Path(path), "the runs")
            taught = f" and {count_of(kinds['lesson'], 'lesson')}" if kinds["lesson"] else ""
            print(on_one_line(f"{kinds['id']:,} runs{taught} written to {path}"))


def _export_examples(place: Place, path: str, *, hints: bool) -> None:
    """Write what `hepm.rl.sft.sft_examples` gives, one example a line."""
    from hepm.rl.sft import sft_examples

    with place.open() as memory:
        examples = sft_examples(memory, hints=hints, namespace=place.namespace)
        lines = (json.dumps(example, ensure_ascii=False) for example in examples)
        if path == "-":
            options.print_lines(lines)
        else:
            written = options.write_lines(lines, Path(path), "the examples")
            print(on_one_line(f"{count_of(written, 'example')} written to {path}"))


def _export_cold_start(place: Place, path: Path) -> None:
    """Write what `hepm.rl.sft.cold_start` gives, one example a line, and the settings beside."""
    from hepm.rl.sft import COLD_START, cold_start

    settings = path.with_name(f"{path.name}.settings.json")
    with place.open() as memory:
        lines = (json.dumps(one, ensure_ascii=False) for one in cold_start(memory, namespace=place.namespace))
        written = options.write_lines(lines, path, "the examples")
    options.write_lines([json.dumps(COLD_START)], settings, "the settings")
    print(on_one_line(f"{count_of(written, 'example')} written to {path}, settings to {settings}"))


@click.command("import", cls=Command)
@click.argument(
    "paths",
    cls=Argument,
    nargs=-1,
    required=True,
    help="Files that `hepm export` wrote, edited or not, or a skill's folder; - reads stdin.",
)
@click.option(
    "--retire-missing",
    type=click.Choice(get_args(LessonKind)),
    multiple=True,
    help="Retire lessons of this kind that a file of lessons lacks; repeatable.",
)
@json_option
@place_options
def import_(place: Place, paths: tuple[str, ...], retire_missing: tuple[LessonKind, ...], as_json: bool) -> None:
    """Read an export back: runs, counts, lessons and credit; or a file of lessons alone, all or none.

    An edited lesson replaces the original. In a section for agents or a skill, a deleted line retires its lesson.

    Example: `hepm import runs.jsonl --store other.hepm`
    """
    from hepm.ingest import ReadOptions
    from hepm.ingest.prepare import IngestOptions

    options.check_sources(paths, "PATHS")
    if any(holds_lessons(path) for path in paths):
        path, *others = paths
        if others:
            raise click.UsageError("name one file of lessons alone, and runs in a command of their own.")
        import_lessons_alone(place, path, retire_missing, as_json=as_json)
        return
    if retire_missing:
        raise click.UsageError("--retire-missing is for a file of lessons alone.")
    # Secrets were removed when the runs were first stored.
    report = _store_runs(place, ReadOptions("hepm"), IngestOptions(redactor=None), paths, (), {}, as_json=as_json)
    if not report.read:
        raise click.exceptions.Exit(1)


@click.command("copy", cls=Command)
@click.argument("source", cls=Argument, help="The memory to read: a file, a folder, or a Neo4j address.")
@click.argument("target", cls=Argument, help="The memory to fill, created if missing.")
@click.option("--namespace", "-n", multiple=True, help="Only this partition; repeatable.")
@json_option
def copy(source: str, target: str, namespace: tuple[str, ...], as_json: bool) -> None:
    """Copy runs, lessons, counts, states and vectors between files and Neo4j, and compare at the end.

    Repeat it to continue after an interruption. `hepm export` and `hepm import` do the same with files of JSON.
    Example: `hepm copy memory.hepm neo4j://localhost:7687`
    """
    for name in (source, target):
        if re.search(r"\.jsonl(\.\w+)?$", name) and not Path(name).is_dir():
            raise click.BadParameter(f"{name} is no store: `hepm export` writes and `hepm import` reads JSON lines")
    files = [embedded_file(name) for name in (source, target)]
    one, other = (file.absolute() if file else name for file, name in zip(files, (source, target), strict=True))
    if str(one).rstrip("/") == str(other).rstrip("/"):
        raise click.BadParameter("name another store than the source", param_hint="TARGET")
    with options.open_existing(source, named_by="SOURCE") as memory:
        names = [options.known_namespace(memory, name, source, "SOURCE") for name in namespace or memory.namespaces()]
        with (
            _target(target, memory) as filled,
            Bar("runs compared and copied") as bar,
        ):
            copied = list(memory.copy_to(filled, namespaces=names, on_progress=bar.show))
    if as_json:
        print_json({"copied": [asdict(done) for done in copied]})
    else:
        for done in copied:
            known = f", {done.runs - done.stored:,} known before" if done.runs > done.stored else ""
            verdict = "they differ: " + "; ".join(done.differences) if done.differences else "both hold the same"
            print(on_one_line(f"{done.namespace}: {done.stored:,} runs copied{known}; {verdict}"))
    if any(done.differences for done in copied):
        raise click.exceptions.Exit(1)


def _target(target: str, source: Memory) -> Memory:
    """The memory to copy into; a new one counts as the source does."""
    file = embedded_file(target)
    is_new = file is not None and not file.exists()
    about = {"counting": source.header.counting, "success_from": source.header.success_from if is_new else None}
    return options.open_memory(target, named_by="TARGET", **cast(Any, about))


@click.command("forget", cls=Command)
@click.option("--trajectory", "--run", help="Id of a run.")
@click.option("--task", help="All runs of a task.")
@click.option("--user", help="All runs of a user.")
@click.option("--environment", help="All runs of an environment.")
@click.option("--token", help="All runs that a token of this name recorded at a server.")
@click.option("--dry-run", is_flag=True, help="Print what would be forgotten; change nothing.")
@yes_option
@json_option
@place_options
def forget(
    place: Place,
    trajectory: str | None,
    task: str | None,
    user: str | None,
    environment: str | None,
    token: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Forget the runs that match every option, with everything they added and lessons that quote them.

    A user who is named alone loses their notes too. Example: `hepm forget --user alice --namespace retail`
    """
    chosen = {"trajectory": trajectory, "task": task, "user": user, "environment": environment, "token": token}
    with place.open() as memory:
        remove = partial(memory.forget, **chosen, namespace=place.namespace)

        def versions() -> int:
            return len(memory.preferences.history(user, namespace=place.namespace)) if user else 0

        gone = remove(dry_run=True)
        if len(gone) > _MANY and not (dry_run or yes):
            options.confirm(f"forget {count_of(len(gone), 'run')} of {place.namespace} and all they added?")
        notes = versions()
        if dry_run:
            notes = 0 if trajectory or task or environment or token else notes
        else:
            gone = remove()
            notes -= versions()
    if as_json:
        print_json({"forgotten": gone, "notes": notes, **({"dry_run": True} if dry_run else {})})
    else:
        also = f", and {count_of(notes, 'version')} of notes" if notes else ""
        print(f"{count_of(len(gone), 'run')} {'would be forgotten' if dry_run else 'forgotten'}{also}")
    if not gone and not notes:
        raise click.exceptions.Exit(1)


@click.command("doctor", cls=Command)
@store_option
@click.option(
    "--part",
    type=click.Choice(get_args(PartName)),
    multiple=True,
    help="Compare only this; repeatable. Default: everything.",
)
@click.option("--namespace", "-n", multiple=True, help="Only this partition; repeatable.")
@click.option("--repair", is_flag=True, help="Repair what can be repaired.")
@click.option("--advice", is_flag=True, help="Say instead what keeps memory from helping, and which command mends it.")
@json_option
def doctor(
    store: str, part: tuple[PartName, ...], namespace: tuple[str, ...], repair: bool, advice: bool, as_json: bool
) -> None:
    """Compare all derived and copied data with the stored records; exit 1 if a problem remains.
    Example: `hepm doctor --repair`, `hepm doctor --part counts --part states`, `hepm doctor --advice`
    """
    if advice:
        if part or repair:
            raise click.UsageError("--advice compares and repairs nothing: leave out --part and --repair.")
        _advise(store, namespace, as_json=as_json)
        return
    if repair:
        options.check_store(store)
        for what in mend_store(store):
            print(on_one_line(f"hepm: reset: {what}"), file=sys.stderr)
    with options.open_existing(store) as memory, Bar("runs and states compared") as bar:
        known = [options.known_namespace(memory, name, store) for name in namespace or memory.namespaces()]
        names = known or [options.NAMESPACE]  # a damaged name is none

        def examine() -> dict[str, list[Finding]]:
            return {name: memory.examine(namespace=name, parts=part or None, on_progress=bar.show) for name in names}

        found = examine()
        if repair and any(found.values()):
            _repair(memory, found)
            found = examine()
    if as_json:
        print_json({"findings": {name: [asdict(finding) for finding in findings] for name, findings in found.items()}})
    elif not any(found.values()):
        print("all is well")
    else:
        for name, findings in found.items():
            for finding in findings:
                print(on_one_line(f"{name}: {finding.what} (repair: {finding.repair or 'none'})"))
    if any(found.values()):
        raise click.exceptions.Exit(1)


def _repair(memory: Memory, found: Mapping[str, Sequence[Finding]]) -> None:
    for name, findings in found.items():
        # A rebuild deletes what was prepared, too: it is made again when it is needed.
        if any(finding.repair in ("rebuild", "prepare") for finding in findings):
            with suppress(StoreDamagedError):  # a record that cannot be read: the findings say so
                memory.rebuild(namespace=name)
    memory.reembed()


def _advise(store: str, namespaces: Sequence[str] | None, *, as_json: bool) -> None:
    """Print what keeps memory from helping."""
    from hepm.memory.obstacles import obstacles

    with options.open_existing(store) as memory:
        named = [options.known_namespace(memory, name, store) for name in namespaces or ()]
        found = [one for name in named or [None] for one in obstacles(memory, namespace=name)]
    if as_json:
        print_json({"advice": [one.to_json() for one in found]})
        return
    where = "" if options.chosen_by(store) != "from --store" else f" --store {shlex.quote(store)}"
    for one in found:
        # Each command of a pipe names its namespace, and one that is to fill another store names that first.
        command = re.sub(r"(?<!\.hepm) --namespace ", lambda _: f"{where} --namespace ", one.command)
        print(on_one_line(f"{one.namespace}: {one.what}. {one.mend[:1].upper()}{one.mend[1:]}: {command}"))
    if not found:
        print("nothing that is known keeps memory from helping")


@click.command("reembed", cls=Command)
@click.option("--embedder", help="A model, a folder, or openai/MODEL. Default: the same.")
@store_option
def reembed(embedder: str | None, store: str) -> None:
    """Compute the vectors of all states. Repeat it to continue after an interruption.
    Example: `hepm reembed --embedder all-MiniLM-L6-v2`
    """
    with options.open_existing(store) as memory, Bar("texts embedded") as bar:
        written = memory.reembed(embedder, on_progress=bar.show)
    print(f"{written:,} texts embedded")
