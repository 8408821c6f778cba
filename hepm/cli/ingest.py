"""`hepm ingest`: read recorded runs and store them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from click.exceptions import Exit

from hepm.cli.commands import Several, argument, command, flag, option
from hepm.cli.config import read_config
from hepm.cli.lesson_list import remark_pending
from hepm.cli.options import (
    Bar,
    StorePlace,
    format_option,
    json_option,
    place_options,
    print_json,
    remark,
)
from hepm.errors import StoreError
from hepm.ingest.records import ReadOptions, Rejection
from hepm.text import count_of, on_one_line
from hepm.types import Tool

if TYPE_CHECKING:
    from hepm.ingest.pipeline import IngestReport
    from hepm.ingest.prepare import IngestOptions

_SHOWN_REJECTIONS: Final = 10
_WITHOUT_OUTCOMES: Final = frozenset({"claude-code", "codex"})  # formats of transcripts that have none


@command("ingest")
@argument("runs", "Files, folders, globs or tar archives of recorded runs; - reads stdin.", nargs=-1, required=True)
@format_option
@option("--reward-key", "Key of the reward in chat records; a dotted path goes deeper.", default="reward")
@option("--success-key", "Key of the success flag, or of a verdict in words.", default="success")
@flag("--assume-success", "Treat runs without an outcome as successes.")
@option(
    "--distrust",
    "Store runs with this tag but learn nothing from them; repeatable.",
    multiple=True,
    metavar="KEY[=VALUE]",
)
@option("--tools", "Tool descriptions: an OpenAI tool list or an MCP tools/list.")
@option("--embedder", "New store: hash-512, a model name, or a folder.")
@option(
    "--success-from",
    "Reward from which on a run is a success, if it says nothing else; kept in the store. Default: .7.",
    least=0.01,
    most=1.0,
)
@json_option
@place_options
def ingest(
    place: StorePlace,
    runs: Several,
    format: str,
    reward_key: str,
    success_key: str,
    assume_success: bool,
    distrust: Several,
    tools: str | None,
    as_json: bool,
    **created: Any,
) -> None:
    """Read recorded runs and store them. You can repeat it: a run is stored once.

    Example: `hepm ingest results/*.json --namespace retail`
    """
    from hepm.ingest.prepare import IngestOptions
    from hepm.ingest.side_by_side import usable_cores
    from hepm.ingest.tools import load_tools

    config = read_config()
    read = ReadOptions(format=format, reward_key=reward_key, success_key=success_key, **asdict(config.ingest))
    # The descriptions in the runs themselves count, too.
    described = load_tools(tools) if tools else []
    prepared = IngestOptions(
        redactor=config.redaction.redactor(),
        assume_success=assume_success,
        processes=usable_cores(),
        distrusted=tuple(distrust),
        outcome_by=config.outcome_by,
    )
    report = store_runs(place, read, prepared, runs, described, created, as_json=as_json)
    # A key that no run has is likely misspelt, and its runs would wait for outcomes for ever.
    usual = ReadOptions()
    keys = [key for key in (success_key, reward_key) if key not in (usual.success_key, usual.reward_key)]
    unmatched = bool(keys and report.stored) and report.unlabelled >= report.stored
    if unmatched:
        named = " or ".join(map(repr, keys))
        remark(f"hepm: no outcome was found under {named} in any run; ingest again with the right key")
    if unmatched or not report.read:
        raise Exit(1)


def store_runs(
    place: StorePlace,
    reading: ReadOptions,
    preparing: IngestOptions,
    runs: Sequence[str],
    tools: Sequence[Tool],
    created: Mapping[str, Any],
    *,
    as_json: bool,
) -> IngestReport:
    """Store runs, with a bar, and print the report. `created` is for a store that is made now."""
    from hepm.ingest.reading import read_runs

    # Rejects an unknown format before a store is created.
    read_runs([], reading)
    with place.create(**created) as memory, Bar("runs read") as bar:
        try:
            report = memory.ingest(
                runs,
                namespace=place.namespace,
                reading=reading,
                options=preparing,
                tools=tools,
                on_batch=lambda report: bar.show(report.read),
            )
            if report.lessons:
                remark_pending(memory, place.namespace)
            # After many runs it computes what suggestions need, which takes seconds, for the processes that come.
            if report.stored >= 2_500:
                memory.prepare(namespace=place.namespace)
        except KeyboardInterrupt:
            # Ctrl-C may have ended the reader of stderr, too, and the store may not answer.
            with suppress(OSError, StoreError):
                # Counted in the store: the last batch may be committed before the report knows it.
                held = count_of(memory.totals(namespace=place.namespace).trajectories, "run")
                remark(f"hepm: interrupted with {held} in the store; repeat the command to go on")
            raise
    if as_json:
        print_json(report.to_json())
    else:
        _print_report(report)
    return report


def _print_report(report: IngestReport) -> None:
    print(report)
    for sentence in _remarks_on(report):
        print(sentence)
    if report.rejected:
        remark(f"{count_of(len(report.rejected), 'input')} could not be used:")
    alike: dict[str, list[Rejection]] = {}  # by reason: a folder may hold thousands of files that no reader knows
    for rejection in report.rejected:
        alike.setdefault(rejection.reason, []).append(rejection)
    for reason, [first, *others] in islice(alike.items(), _SHOWN_REJECTIONS):
        place = first.file
        if first.record is not None:
            place += f" record {first.record}"
        if others:
            place += f" and {len(others):,} more"
        remark(f"  {place}: {reason}")
    more = len(alike) - _SHOWN_REJECTIONS
    if more > 0:
        remark(f"  … and {count_of(more, 'other reason')}; --json lists all")


def _remarks_on(report: IngestReport) -> Iterator[str]:
    """What to know of the runs that were stored: which of them teach nothing, and who labelled them."""
    if not report.read and not report.rejected and not report.lessons:
        yield "there was nothing to read: no file holds a run"
    for kind, count in sorted(report.unread.items()):
        yield on_one_line(
            f"{count_of(count, 'part')} of messages left out: hepm does not know the type {kind[:40]!r}"
            f" (first in {report.unread_in[kind]})"
        )
    if report.without_calls:
        yield f"{report.without_calls:,} of them without a tool call: nothing is learned there"
    if report.distrusted:
        yield f"{report.distrusted:,} of them not trusted: kept, and counting for nothing"
    for rule, labelled in sorted(report.by_rule.items()):
        yield f"{labelled:,} of them labelled by the rule {rule!r}"
    if report.unlabelled:
        remedy = "label them with `hepm label`"
        # Formats such as transcripts have no key for an outcome.
        if not report.by_format.keys() <= _WITHOUT_OUTCOMES:
            remedy = f"name the key of outcomes with --success-key or --reward-key, pass --assume-success, or {remedy}"
        yield f"{report.unlabelled:,} of them without an outcome, counting for nothing yet: {remedy}"
