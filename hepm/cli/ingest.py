"""`hepm ingest`: runs in."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import click

from hepm.cli.commands import Argument, Option
from hepm.cli.options import JsonOption, Place, check_sources, no_empty_store, open_memory
from hepm.cli.output import Bar, print_json
from hepm.text import count_of, on_one_line

if TYPE_CHECKING:
    from hepm.ingest import ReadOptions
    from hepm.ingest.pipeline import IngestReport
    from hepm.ingest.prepare import IngestOptions

_SHOWN_REJECTIONS = 10
_OUTCOME_KEYS: Final = {"success_key": "success", "reward_key": "reward", "label_key": "label"}


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read."""

    format: Annotated[str, Option("--format", "-f", help="A reader's name; auto recognises each file.")] = "auto"
    reward_key: Annotated[str, Option(help="Key of the reward in chat JSONL; a dotted path goes deeper.")] = "reward"
    success_key: Annotated[str, Option(help="Key of the success flag in chat JSONL.")] = "success"
    label_key: Annotated[str, Option(help="Key of a textual label in chat JSONL.")] = "label"
    ids: Annotated[
        Literal["own", "content"], Option(help="Identify runs by their own id, or by a hash of their content.")
    ] = "own"


@dataclass(frozen=True, slots=True)
class Preparing:
    """How runs are prepared before they are stored."""

    assume_success: Annotated[bool, Option(help="Treat runs without an outcome as successes.")] = False
    own_states: Annotated[
        bool, Option("--own-states", help="Store only the agents' own summaries as states (as in H-EPM).")
    ] = False
    distrust: Annotated[
        list[str] | None,
        Option(metavar="KEY[=VALUE]", help="Store runs with this tag but learn nothing from them; repeatable."),
    ] = None
    redact: Annotated[list[str] | None, Option(help="Another KIND=REGEX to redact; repeatable.")] = None
    keep_secrets: Annotated[bool, Option(help="Store texts unchanged, including keys and passwords.")] = False
    processes: Annotated[
        int | None, Option(min=1, help="Number of processes that read files; chosen automatically by default.")
    ] = None

    def options(self) -> IngestOptions:
        """The options of the library."""
        from hepm.ingest.prepare import IngestOptions, TrustByTags
        from hepm.ingest.redact import DEFAULT_RULES, Redactor

        redactor = None if self.keep_secrets else Redactor((*DEFAULT_RULES, *map(_rule, self.redact or ())))
        trusted = TrustByTags.but(self.distrust) if self.distrust else None
        return IngestOptions(redactor, self.assume_success, self.processes, trusted, self.own_states)


def ingest(
    place: Place,
    reading: Reading,
    preparing: Preparing,
    runs: Annotated[list[str], Argument(help="Files, folders, globs or archives of recorded runs; - reads stdin.")],
    tools: Annotated[str | None, Option(help="Tool descriptions: an OpenAI tool list or an MCP tools/list.")] = None,
    shortest: Annotated[
        bool, Option(help="Count only the shortest successful run of each task (fixed when a store is created).")
    ] = False,
    vectors: Annotated[
        bool, Option(help="Compute vectors of state summaries now; else `hepm reembed` does so later.")
    ] = True,
    embedder: Annotated[
        str | None, Option(help="Embedder of a new store: hash-512, a model name, or a folder.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read recorded runs and store them. You can repeat it: a run is stored once.

    Example: `hepm ingest results/*.json --namespace retail`
    """
    from hepm.ingest import ReadOptions, load_tools, read_runs

    check_sources(runs)
    read, options = ReadOptions(**asdict(reading)), preparing.options()
    read_runs([], read)  # rejects an unknown format before a store is created
    described = load_tools(tools) if tools else []
    stored = 0
    with (
        no_empty_store(place.store),
        open_memory(place.store, embedder=embedder, counting="shortest" if shortest else None) as memory,
        Bar("runs read") as bar,
    ):

        def show(report: IngestReport) -> None:
            nonlocal stored
            stored = report.stored
            bar.show(report.read)

        try:
            report = memory.ingest(
                runs,
                namespace=place.namespace,
                reading=read,
                options=options,
                tools=described,
                vectors=vectors,
                on_batch=show,
            )
        except KeyboardInterrupt:
            with contextlib.suppress(OSError):
                so_far = count_of(stored, "run")
                print(f"hepm: interrupted with {so_far} stored so far; repeat the command to go on", file=sys.stderr)
            raise
    if as_json:
        print_json(report.to_json())
    else:
        _print_report(report)
    if unmatched := _unmatched_keys(runs, read, report):
        keys = " or ".join(map(repr, unmatched))
        sentence = f"hepm: no outcome was found under {keys} in any run; ingest again with the right key"
        print(on_one_line(sentence), file=sys.stderr)
    if unmatched or not report.read:
        raise click.exceptions.Exit(1)


def _print_report(report: IngestReport) -> None:
    def of_them(number: int, one: str, many: str) -> str:
        return f"{number:,} of them {one if number == 1 else many}"

    kinds = ", ".join(f"{count:,} {name}" for name, count in sorted(report.by_format.items()))
    stored = count_of(report.stored, "run")
    print(f"{stored} stored, {report.duplicates:,} known before; read: {kinds or 'nothing'}")
    if n := report.without_calls:
        print(f"{of_them(n, 'holds', 'hold')} no tool call, so that nothing is learned there")
    if n := report.distrusted:
        kept = of_them(n, "is not trusted: it is kept, and counts", "are not trusted: they are kept, and count")
        print(f"{kept} for nothing")
    if n := report.unlabelled:
        print(
            f"{of_them(n, 'has no outcome and counts', 'have no outcome and count')} for nothing yet: "
            "name the key of outcomes with --success-key or --reward-key, or pass --assume-success"
        )
    if report.rejected:
        print(f"{count_of(len(report.rejected), 'record')} could not be used:", file=sys.stderr)
    for one in report.rejected[:_SHOWN_REJECTIONS]:
        record = "" if one.record is None else f" record {one.record}"
        print(on_one_line(f"  {one.file}{record}: {one.reason}"), file=sys.stderr)
    if len(report.rejected) > _SHOWN_REJECTIONS:
        print(f"  … and {len(report.rejected) - _SHOWN_REJECTIONS:,} more; --json lists all", file=sys.stderr)


def _unmatched_keys(runs: Sequence[str], reading: ReadOptions, report: IngestReport) -> list[str]:
    """The user's keys of outcomes that label no run. Pipes, which cannot be read again, count by the report alone."""
    from hepm.ingest import read_runs
    from hepm.types import Outcome, Trajectory

    keys = {name: key for name, usual in _OUTCOME_KEYS.items() if (key := getattr(reading, name)) != usual}
    if report.stored and report.unlabelled == report.stored:
        return list(keys.values())
    unmatched: list[str] = []
    if any(source == "-" or Path(source).is_fifo() for source in runs):
        return unmatched
    for name, key in keys.items():
        alone = replace(reading, **(dict.fromkeys(_OUTCOME_KEYS, "") | {name: key}))
        found = (item for kind, item in read_runs(runs, alone) if kind == "chat")
        if not any(isinstance(run, Trajectory) and run.outcome != Outcome() for run in found):
            unmatched.append(key)
    return unmatched


def _rule(option: str) -> tuple[str, str]:
    kind, equals, expression = option.partition("=")
    if not (kind and equals and expression):
        raise click.BadParameter(
            f"{option!r} is not KIND=REGEX, such as 'ssn=\\d{{3}}-\\d{{2}}-\\d{{4}}'", param_hint="--redact"
        )
    return kind, expression
