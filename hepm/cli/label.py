"""`hepm label`: give runs of unknown outcome a label by hand, by rule, or by a model; correct and remove labels."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from hepm.cli.commands import argument, command, option, options_as
from hepm.cli.config import read_config
from hepm.cli.model import ModelChoice, cost_of, dry_run_option, model_options, tell_cost, tell_estimate
from hepm.cli.options import Bar, StorePlace, json_option, place_options, print_json, remark, rules_of, tell
from hepm.errors import BudgetSpentError
from hepm.text import count_of

if TYPE_CHECKING:
    from hepm.ingest.outcome import RunVerdict
    from hepm.llm import Client
    from hepm.memory import Memory
    from hepm.types import Outcome, ToolCall, Trajectory

_SHOWN_CALLS: Final = 12
_LINE: Final = 160
JUDGE: Final = "judge"
_KEYS: Final = "y: it succeeded, n: it failed, s: skip, q: quit"  # and the return key


@dataclass(frozen=True, slots=True)
class Which:
    """Which runs are looked at."""

    limit: int | None

    def runs(self, memory: Memory, namespace: str, *, removed: bool) -> Iterator[Trajectory]:
        """The unlabelled ones, the latest first."""
        return memory.labels.unlabelled(namespace=namespace, removed=removed, limit=self.limit)


which_options = options_as(
    "which",
    Which,
    option("--limit", "Maximum number of runs, the latest first.", least=1),
)


@command("label")
@argument("run", "Id of one run. Default: all of unknown outcome.", required=False)
@argument("outcome", "Of RUN: success, failure, a reward as a number, or none to remove its label.", required=False)
@option("--by", "Label by rules (tests, exit-code, user; comma-separated), or by the --model: judge.")
@option("--remove", "Remove all labels of a source: a rule, judge:MODEL, or judge for all models.")
@dry_run_option
@json_option
@place_options
@which_options
@model_options
def label(
    place: StorePlace,
    which: Which,
    choice: ModelChoice,
    run: str | None,
    outcome: str | None,
    by: str | None,
    remove: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Label runs of unknown outcome, which count for nothing until then; by default ask about each in the terminal.

    Example: `hepm label --by tests`, `hepm label run-7 failure`
    """
    chosen = {"RUN": run, "--by": by, "--remove": remove}
    ways = [name for name, value in chosen.items() if value is not None]
    if len(ways) > 1:
        raise click.UsageError(f"{' and '.join(ways)} exclude each other.")
    given = None
    if outcome is not None:
        given = _parse_outcome(outcome)
    with place.open() as memory:
        if run is not None:
            _label_one(memory, place.namespace, run, given, dry_run=dry_run, as_json=as_json)
        elif remove is not None:
            _derived(memory, place.namespace, remove, remove=not dry_run, as_json=as_json)
        elif by == JUDGE:
            _by_model(memory, place.namespace, which, choice, dry_run=dry_run, as_json=as_json)
        elif by is not None:
            _by_rule(memory, place.namespace, which, by, dry_run=dry_run, as_json=as_json)
        elif dry_run or as_json:
            _list(which.runs(memory, place.namespace, removed=True), as_json=as_json)
        else:
            _by_hand(memory, place.namespace, which.runs(memory, place.namespace, removed=True))


# One run


def _parse_outcome(text: str) -> Outcome:
    """The outcome of a word or a reward; an empty one removes the label."""
    from hepm.ingest.records import graded
    from hepm.types import Outcome

    if text == "none":
        return Outcome()
    if text in ("success", "failure"):
        return Outcome(None, text == "success")
    try:
        return graded(float(text))
    except ValueError as error:
        wrong = f"{text!r} is not success, failure, none, or a reward as a number."
        raise click.BadParameter(wrong, param_hint="OUTCOME") from error


def _label_one(
    memory: Memory, namespace: str, id: str, outcome: Outcome | None, *, dry_run: bool, as_json: bool
) -> None:
    from hepm.types import Outcome

    # Without an outcome: look at the run, or decide in the terminal.
    if outcome is None:
        _show_one(memory, namespace, id, dry_run=dry_run, as_json=as_json)
        return
    success_from = memory.header.success_from
    success = outcome.graded(success_from).success
    if success is not None and _is_known_by_lessons_alone(memory, namespace, id):
        if not dry_run:
            memory.lessons.record_outcome(id, success=success, namespace=namespace)
        _print_credited(id, success, as_json=as_json)
        return
    if dry_run:
        # An empty outcome changes nothing, and tells the present label.
        before = memory.labels.give(id, Outcome(), namespace=namespace)
    elif outcome == Outcome():
        before = memory.labels.remove(id, namespace=namespace)
    else:
        before = memory.labels.give(id, outcome, namespace=namespace)
    before = before.graded(success_from)
    if as_json:
        print_json({"run": id, "success": success, "before": before.outcome.success, "by": before.outcome_by})
    else:
        tell(f"{id}: {_word(success)}, was {_label_of(before)}")


def _show_one(memory: Memory, namespace: str, id: str, *, dry_run: bool, as_json: bool) -> None:
    """Print a run, or ask about it in the terminal."""
    from hepm.types import Outcome

    run = memory.run(id, namespace=namespace)
    if run is None:
        # Raises: there is no such run.
        memory.labels.give(id, Outcome(), namespace=namespace)
    elif as_json or dry_run:
        _list([run], as_json=as_json)
    else:
        _by_hand(memory, namespace, [run])


def _is_known_by_lessons_alone(memory: Memory, namespace: str, id: str) -> bool:
    """Whether lessons were shown in a run that is not stored."""
    if memory.run(id, namespace=namespace) is not None:
        return False
    return memory.lessons.showed_in(id, namespace=namespace)


def _print_credited(id: str, success: bool, *, as_json: bool) -> None:
    if as_json:
        print_json({"run": id, "success": success, "before": None, "by": ""})
    else:
        tell(f"{id}: {_word(success)}; it is not stored, and credits the lessons that were shown in it")


def _word(success: bool | None) -> str:
    return {True: "success", False: "failure", None: "unlabelled"}[success]


def _label_of(run: Trajectory) -> str:
    from hepm.types import REMOVED

    word = _word(run.outcome.success)
    if run.outcome_by in ("", REMOVED):
        return word
    return f"{word} by {run.outcome_by}"


def _about(run: Trajectory) -> dict[str, object]:
    return {
        "id": run.id,
        "environment": run.environment,
        "task": run.task,
        "user": run.user,
        "ended_at": run.ended_at,
        "success": run.outcome.success,
        "by": run.outcome_by,
        "calls": len(list(run.calls())),
        "errors": _errors_in(run),
    }


def _errors_in(run: Trajectory) -> int:
    """How many calls are known to have failed: most formats do not say."""
    return sum(call.error is True for call in run.calls())


def _list(runs: Iterable[Trajectory], *, as_json: bool) -> None:
    if as_json:
        print_json({"runs": [_about(run) for run in runs]})
        return
    listed = 0
    for run in runs:
        line = f"{run.id}: {_label_of(run)}"
        if run.task:
            line += f", task {run.task}"
        tell(f"{line}, {count_of(len(list(run.calls())), 'call')}, {_errors_in(run)} failed")
        listed += 1
    print(count_of(listed, "run"))


def _derived(memory: Memory, namespace: str, by: str, *, remove: bool, as_json: bool) -> None:
    if not remove:
        _list(memory.labels.derived(by, namespace=namespace), as_json=as_json)
        return
    count = memory.labels.retract(by, namespace=namespace)
    if as_json:
        print_json({"removed": count, "by": by})
    else:
        tell(f"{count_of(count, 'label')} by {by} removed")


# Many runs


def _by_rule(memory: Memory, namespace: str, which: Which, names: str, *, dry_run: bool, as_json: bool) -> None:
    from hepm.ingest.outcome import verdict_of

    rules = rules_of(names)
    # One after the other: a store may hold a million runs.
    verdicts = (verdict_of(run, rules) for run in which.runs(memory, namespace, removed=False))
    # A store keeps the first 600 characters of a result, and a summary of tests stands at its end.
    if _report(memory, namespace, verdicts, dry_run=dry_run, as_json=as_json)["unlabelled"]:
        hint = "rules read a stored result only as far as it was kept; ingest the files again to let them read all"
        remark(f"hepm: {hint}")


def _by_model(
    memory: Memory, namespace: str, which: Which, choice: ModelChoice, *, dry_run: bool, as_json: bool
) -> None:
    from hepm.experience.judge import OutcomeJudge

    client = choice.client(memory, namespace, "run")
    if client is None:
        raise click.UsageError("--by judge needs a model: give --model, or set HEPM_LLM_MODEL.")
    # Runs whose label was removed are left to people.
    judge = OutcomeJudge(client, read_config().model.concurrency)
    runs = which.runs(memory, namespace, removed=False)
    if dry_run:
        waiting = list(runs)
        tell_estimate(len(waiting), judge.estimate(waiting), as_json=as_json)
        return
    try:
        _report(memory, namespace, judge.verdicts(runs), as_json=as_json, client=client)
    finally:
        tell_cost(client)


def _report(
    memory: Memory,
    namespace: str,
    verdicts: Generator[RunVerdict],
    *,
    dry_run: bool = False,
    as_json: bool,
    client: Client | None = None,
) -> dict[str, int]:
    counts = {"success": 0, "failure": 0, "unlabelled": 0}
    problems: list[tuple[str, str]] = []
    stopped = ""
    judged = verdicts
    if not dry_run:
        judged = memory.labels.store(verdicts, namespace=namespace)
    with Bar("runs looked at") as bar, closing(judged):
        try:
            for verdict in judged:
                counts[_word(verdict.success)] += 1
                if verdict.problem:
                    problems.append((verdict.run.id, verdict.problem))
                if dry_run and verdict.success is not None and not as_json:
                    tell(f"{verdict.run.id}: {_word(verdict.success)} by {verdict.by}")
                bar.show(sum(counts.values()))
        except BudgetSpentError as error:
            stopped = str(error)
    if as_json:
        document: dict[str, object] = {**counts, "problems": problems, "stopped": stopped, "dry_run": dry_run}
        if client is not None:
            document["cost"] = cost_of(client)
        print_json(document)
        return counts
    _print_labelled(counts, problems, stopped, dry_run=dry_run)
    return counts


def _print_labelled(
    counts: Mapping[str, int], problems: Sequence[tuple[str, str]], stopped: str, *, dry_run: bool
) -> None:
    labelled = counts["success"] + counts["failure"]
    done = "would be labelled" if dry_run else "labelled"
    ends = f"{counts['success']:,} succeeded, {counts['failure']:,} failed"
    print(f"{count_of(labelled, 'run')} {done}: {ends}; {counts['unlabelled']:,} without a label")
    for id, why in problems:
        remark(f"  {id}: {why}")
    if stopped:
        remark(f"hepm: {stopped}; repeat the command to go on")
    elif labelled and not dry_run:
        remark("`hepm lesson distill` learns from them")


# By hand


def _by_hand(memory: Memory, namespace: str, runs: Iterable[Trajectory]) -> None:
    from hepm.types import Outcome

    # A pipe would answer all questions with its first lines.
    if not (sys.stdin and sys.stdin.isatty()):
        raise click.UsageError(
            "labelling by hand needs a terminal. Give --by with rules or judge, or RUN with its OUTCOME; "
            "--dry-run lists the runs."
        )
    # Labels are stored one by one, so that quitting or Ctrl-C loses none.
    labelled = seen = 0
    for run in runs:
        seen += 1
        print("\n".join(_card(run)))
        key = click.prompt(_KEYS, type=click.Choice(["y", "n", "s", "q"], case_sensitive=False), show_choices=False)
        if key == "q":
            break
        if key != "s":
            memory.labels.give(run.id, Outcome(None, key == "y"), namespace=namespace)
            labelled += 1
        print()
    if seen:
        print(f"{count_of(labelled, 'run')} labelled")
    else:
        print("every run has a label")


def _card(run: Trajectory) -> Iterator[str]:
    """What a person needs to see of a run, in lines without control characters."""
    from hepm.experience.transcript import plain

    yield plain(_head_of(run), 4 * _LINE)
    spoken = [turn for turn in run.turns if turn.text and turn.role != "system"]
    request = next((turn for turn in spoken if turn.role == "user"), None)
    if request is not None:
        yield f"  user: {plain(request.text, 3 * _LINE)}"
    calls = list(run.calls())
    if len(calls) > _SHOWN_CALLS:
        yield f"  … {len(calls) - _SHOWN_CALLS} calls before"
    for call in calls[-_SHOWN_CALLS:]:
        yield from _lines_of(call)
    # How it ended, unless that is the request itself.
    for turn in spoken[-2:]:
        if turn is not request:
            speaker = "agent" if turn.role == "assistant" else "user"
            yield f"  {speaker}: {plain(turn.text, 3 * _LINE)}"


def _head_of(run: Trajectory) -> str:
    """`run 7, task refund, in shop, ended 2026-01-31 08:15 UTC: 3 calls, 1 failed`."""
    from hepm.experience.transcript import went_wrong

    head = f"run {run.id}"
    if run.task:
        head += f", task {run.task}"
    if run.environment:
        head += f", in {run.environment}"
    if run.ended_at is not None:
        head += f", ended {datetime.fromtimestamp(run.ended_at, UTC):%Y-%m-%d %H:%M} UTC"
    calls = list(run.calls())
    failed = sum(map(went_wrong, calls))
    return f"{head}: {count_of(len(calls), 'call')}, {failed} failed"


def _lines_of(call: ToolCall) -> Iterator[str]:
    """A call with its arguments, and the result of one that went wrong."""
    from hepm.experience.transcript import plain, went_wrong

    arguments = json.dumps(dict(call.arguments), ensure_ascii=False, default=str)
    line = plain(f"{call.name} {arguments}", _LINE)
    if not went_wrong(call):
        yield f"  · {line}"
        return
    yield f"  ✗ {line}"
    if call.result:
        yield f"      {plain(call.result, _LINE)}"
