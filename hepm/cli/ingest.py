"""`hepm ingest`: runs in."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click

from hepm.cli.commands import Argument, Option
from hepm.cli.options import (
    JsonOption,
    Place,
    check_sources,
    open_memory,
    store_file,
)
from hepm.cli.output import print_json
from hepm.errors import HepmError
from hepm.text import count_of, on_one_line

if TYPE_CHECKING:
    from hepm.cli.output import Bar
    from hepm.ingest import Rejection
    from hepm.ingest.pipeline import IngestReport

_SHOWN_REJECTIONS = 10


def ingest(
    place: Place,
    runs: Annotated[list[str], Argument(help="Files, folders, globs or archives of recorded runs; - reads stdin.")],
    format: Annotated[str, Option("--format", "-f", help="A reader's name; auto recognises each file.")] = "auto",
    tools: Annotated[str | None, Option(help="Tool descriptions: an OpenAI tool list or an MCP tools/list.")] = None,
    reward_key: Annotated[str, Option(help="Key of the reward in chat JSONL; a dotted path goes deeper.")] = "reward",
    success_key: Annotated[str, Option(help="Key of the success flag in chat JSONL.")] = "success",
    label_key: Annotated[str, Option(help="Key of a textual label in chat JSONL.")] = "label",
    ids: Annotated[
        Literal["own", "content"], Option(help="Identify runs by their own id, or by a hash of their content.")
    ] = "own",
    assume_success: Annotated[bool, Option(help="Treat runs without an outcome as successes.")] = False,
    shortest: Annotated[
        bool, Option(help="Count only the shortest successful run of each task (fixed when a store is created).")
    ] = False,
    own_states: Annotated[
        bool, Option("--own-states", help="Store only the agents' own summaries as states (as in H-EPM).")
    ] = False,
    vectors: Annotated[
        bool, Option(help="Compute vectors of state summaries now; else `hepm reembed` does so later.")
    ] = True,
    embedder: Annotated[
        str | None, Option(help="Embedder of a new store: hash-512, a model name, or a folder.")
    ] = None,
    distrust: Annotated[
        list[str] | None,
        Option(
            metavar="KEY[=VALUE]",
            help="Store runs with this tag but learn nothing from them; repeatable.",
        ),
    ] = None,
    redact: Annotated[list[str] | None, Option(help="Another KIND=REGEX to redact; repeatable.")] = None,
    keep_secrets: Annotated[bool, Option(help="Store texts unchanged, including keys and passwords.")] = False,
    processes: Annotated[
        int | None, Option(min=1, help="Number of processes that read files; chosen automatically by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read recorded runs and store them. You can repeat it: a run is stored once.

    Example: `hepm ingest results/*.json --namespace retail`
    """
    from hepm.cli.output import Bar
    from hepm.ingest import ReadOptions, load_tools, read_runs
    from hepm.ingest.prepare import IngestOptions, TrustByTags
    from hepm.ingest.redact import DEFAULT_RULES, Redactor

    check_sources(runs)
    reading = ReadOptions(format, reward_key, success_key, label_key, ids)
    redactor = None if keep_secrets else Redactor((*DEFAULT_RULES, *map(_rule, redact or ())))
    trusted = TrustByTags.but(distrust) if distrust else None
    read_runs([], reading)  # says now, before a store is made, that the format is unknown
    described = load_tools(tools) if tools else []
    with (
        _interruption_told() as so_far,
        no_empty_store(place.store),
        open_memory(place.store, embedder=embedder, counting="shortest" if shortest else None) as memory,
        Bar("runs read") as bar,
    ):
        report = memory.ingest(
            runs,
            namespace=place.namespace,
            reading=reading,
            options=IngestOptions(redactor, assume_success, processes, trusted, own_states),
            tools=described,
            vectors=vectors,
            on_batch=lambda report: _show(report, so_far, bar),
        )
    if as_json:
        print_json(report.to_json())
    else:
        kinds = ", ".join(f"{count:,} {name}" for name, count in sorted(report.by_format.items()))
        stored = count_of(report.stored, "run")
        print(f"{stored} stored, {report.duplicates:,} known before; read: {kinds or 'nothing'}")
        if n := report.without_calls:
            print(f"{_of_them(n, 'holds', 'hold')} no tool call, so that nothing is learned there")
        if n := report.distrusted:
            kept = _of_them(n, "is not trusted: it is kept, and counts", "are not trusted: they are kept, and count")
            print(f"{kept} for nothing")
        if n := report.unlabelled:
            print(
                f"{_of_them(n, 'has no outcome and counts', 'have no outcome and count')} for nothing yet: "
                "name the key of outcomes with --success-key or --reward-key, or pass --assume-success"
            )
        _tell_rejections(report.rejected)
    named = [
        key for key, usual in ((success_key, "success"), (reward_key, "reward"), (label_key, "label")) if key != usual
    ]
    if named and report.stored and report.unlabelled == report.stored:
        keys = " or ".join(map(repr, named))
        print(
            on_one_line(f"hepm: no outcome was found under {keys} in any run; ingest again with the right key"),
            file=sys.stderr,
        )
        raise click.exceptions.Exit(1)
    if not report.read:
        raise click.exceptions.Exit(1)


def _show(report: IngestReport, so_far: list[IngestReport], bar: Bar) -> None:
    so_far[:] = [report]
    bar.show(report.read)


def _of_them(number: int, one: str, many: str) -> str:
    return f"{number:,} of them {one if number == 1 else many}"


@contextlib.contextmanager
def _interruption_told() -> Generator[list[IngestReport]]:
    """Say at Ctrl-C what is stored by the last of the reports that are put into the list."""
    so_far: list[IngestReport] = []
    try:
        yield so_far
    except KeyboardInterrupt:
        stored = count_of(so_far[-1].stored if so_far else 0, "run")
        with contextlib.suppress(OSError):
            print(f"hepm: interrupted with {stored} stored so far; repeat the command to go on", file=sys.stderr)
        raise


@contextlib.contextmanager
def no_empty_store(store: str) -> Generator[None]:
    """Take away a store that was made inside and holds nothing at the end, whatever ended it."""
    file = store_file(store)
    there = file is None or file.exists()
    try:
        yield
    finally:
        if file is not None and not there and file.exists() and _is_empty(file):
            log = file.with_name(file.name + "-wal")
            if not log.exists():  # else another process has opened it meanwhile, and may be storing runs
                file.unlink()


def _is_empty(file: Path) -> bool:
    if not file.stat().st_size:
        return True
    with contextlib.suppress(HepmError), open_memory(str(file)) as memory:
        return not memory.namespaces()
    return False


def _rule(option: str) -> tuple[str, str]:
    kind, equals, expression = option.partition("=")
    if not (kind and equals and expression):
        raise click.BadParameter(
            f"{option!r} is not KIND=REGEX, such as 'ssn=\\d{{3}}-\\d{{2}}-\\d{{4}}'", param_hint="--redact"
        )
    return kind, expression


def _tell_rejections(rejected: Sequence[Rejection]) -> None:
    if rejected:
        print(f"{count_of(len(rejected), 'record')} could not be used:", file=sys.stderr)
    for one in rejected[:_SHOWN_REJECTIONS]:
        record = "" if one.record is None else f" record {one.record}"
        print(on_one_line(f"  {one.file}{record}: {one.reason}"), file=sys.stderr)
    if len(rejected) > _SHOWN_REJECTIONS:
        print(f"  … and {len(rejected) - _SHOWN_REJECTIONS:,} more; --json lists all", file=sys.stderr)
