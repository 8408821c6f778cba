"""`hepm label`: give runs of unknown outcome a label by hand, by rule, or by a model; correct and remove labels."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Final

import click

from hepm.cli.commands import argument, command, option
from hepm.cli.model import ModelChoice, dry_run_option, model_options
from hepm.cli.options import Bar, names_in, refuse, remark, tell, with_memory
from hepm.errors import BudgetSpentError, InputError
from hepm.text import CUT, count_of, day_of, on_one_line
from hepm.types import REMOVED, Outcome, Trajectory

if TYPE_CHECKING:
    from hepm.ingest.outcome import RunVerdict
    from hepm.memory import Memory

_SHOWN_LINES: Final = 24
_WORDS: Final = {True: "success", False: "failure", None: "unlabelled"}


@command("label")
@argument("run", "Id of one run. Default: all of unknown outcome.", required=False)
@argument("outcome", "Of RUN: success, failure, a reward as a number, or none to remove its label.", required=False)
@option("--by", "Label by a rule (tests), or by the --model: judge.")
@option("--remove", "Remove all labels of a source: a rule, judge:MODEL, or judge for all models.")
@dry_run_option
@with_memory
@model_options
def label(
    memory: Memory,
    namespace: str,
    choice: ModelChoice,
    run: str | None,
    outcome: str | None,
    by: str | None,
    remove: str | None,
    dry_run: bool,
) -> None:
    """Label runs of unknown outcome, which count for nothing until then; by default ask about each in the terminal.

    Example: `hepm label --by tests`, `hepm label run-7 failure`
    """
    chosen = {"RUN": run, "--by": by, "--remove": remove}
    ways = [name for name, value in chosen.items() if value is not None]
    refuse(len(ways) > 1, "", f"{' and '.join(ways)} exclude each other.")
    refuse(run is not None and outcome is None, "OUTCOME", "is missing: success, failure, a reward, or none.")
    labels = memory.labels
    if run is not None:
        _one(memory, run, _outcome(outcome or ""), namespace)
    elif by is not None:
        _by(memory, choice, by, namespace, dry_run=dry_run)
    elif remove is not None and not dry_run:
        print(f"{count_of(labels.retract(remove, namespace=namespace), 'label')} by {remove} removed")
    else:
        runs: Iterable[Trajectory] = labels.unlabelled(namespace=namespace, removed=True)
        if remove is not None:
            runs = labels.derived(remove, namespace=namespace)
        if dry_run:
            for one in runs:
                tell(f"{one.id}: {_label_of(one)}, task {one.task or 'unknown'}")
        else:
            _by_hand(memory, runs, namespace)


def _outcome(text: str) -> Outcome:
    """The outcome of a word or a reward; an empty one removes the label."""
    from hepm.ingest.records import graded

    words = {"none": Outcome(), "success": Outcome(None, True), "failure": Outcome(None, False)}
    if text in words:
        return words[text]
    try:
        return graded(float(text))
    except ValueError as error:
        wrong = f"{text!r} is not success, failure, none, or a reward as a number."
        raise click.BadParameter(wrong, param_hint="OUTCOME") from error


def _one(memory: Memory, id: str, outcome: Outcome, namespace: str) -> None:
    """Give a run its outcome, or take it away."""
    if outcome == Outcome():
        before = memory.labels.remove(id, namespace=namespace)
    else:
        before = memory.labels.give(id, outcome, namespace=namespace)
    success_from = memory.header.success_from
    success = outcome.graded(success_from).success
    tell(f"{id}: {_WORDS[success]}, was {_label_of(before.graded(success_from))}")


def _label_of(run: Trajectory) -> str:
    word = _WORDS[run.outcome.success]
    if run.outcome_by in ("", REMOVED):
        return word
    return f"{word} by {run.outcome_by}"


def _by(memory: Memory, choice: ModelChoice, by: str, namespace: str, *, dry_run: bool) -> None:
    """Label by a model, or by rules."""
    # One after the other: a store may hold a million runs. Runs whose label was removed are left to people.
    runs = memory.labels.unlabelled(namespace=namespace, removed=False)
    if by == "judge":
        from hepm.experience.judge import OutcomeJudge

        client = choice.client(memory, namespace, "run")
        if client is None:
            raise click.UsageError("--by judge needs a model: give --model, or set HEPM_LLM_MODEL.")
        if dry_run:
            print(f"{count_of(sum(1 for _ in runs), 'run')} would be looked at")
            return
        _store(memory, OutcomeJudge(client).verdicts(runs), namespace, dry_run=False)
        return
    from hepm.ingest.outcome import check_rules, verdict_of

    rules = names_in(by)
    try:
        check_rules(rules)
    except InputError as error:
        raise click.BadParameter(str(error), param_hint="--by") from error
    unlabelled = _store(memory, (verdict_of(run, rules) for run in runs), namespace, dry_run=dry_run)
    # A store keeps the first 2,000 characters of a result, and a summary of tests stands at its end.
    if unlabelled:
        hint = "rules read a stored result only as far as it was kept; ingest the files again to let them read all"
        remark(f"hepm: {hint}")


def _store(memory: Memory, verdicts: Generator[RunVerdict], namespace: str, *, dry_run: bool) -> int:
    """Store labels, or print them if it is a dry run, and say how many; returns how many runs got none."""
    counts = dict.fromkeys(_WORDS, 0)
    judged = verdicts if dry_run else memory.labels.store(verdicts, namespace=namespace)
    with Bar("runs looked at") as bar, closing(judged):
        try:
            for verdict in judged:
                counts[verdict.success] += 1
                if verdict.problem:
                    remark(f"  {verdict.run.id}: {verdict.problem}")
                if dry_run and verdict.success is not None:
                    tell(f"{verdict.run.id}: {_WORDS[verdict.success]} by {verdict.by}")
                bar.show(sum(counts.values()))
        except BudgetSpentError as error:
            remark(f"hepm: {error}; repeat the command to go on")
    done = "would be labelled" if dry_run else "labelled"
    ends = f"{counts[True]:,} succeeded, {counts[False]:,} failed; {counts[None]:,} without a label"
    print(f"{count_of(counts[True] + counts[False], 'run')} {done}: {ends}")
    return counts[None]


def _by_hand(memory: Memory, runs: Iterable[Trajectory], namespace: str) -> None:
    """Ask about each run in the terminal."""
    # A pipe would answer all questions with its first lines.
    refuse(
        not (sys.stdin and sys.stdin.isatty()),
        "",
        "labelling by hand needs a terminal. Give --by with rules or judge, or RUN with its OUTCOME; "
        "--dry-run lists the runs.",
    )
    labelled = 0
    keys = click.Choice(["y", "n", "s", "q"], case_sensitive=False)
    for run in runs:
        print("\n".join(_card(run)))
        key = click.prompt("y: it succeeded, n: it failed, s: skip, q: quit", type=keys, show_choices=False)
        if key == "q":
            break
        if key != "s":
            # One by one, so that quitting or Ctrl-C loses none.
            memory.labels.give(run.id, Outcome(None, key == "y"), namespace=namespace)
            labelled += 1
        print()
    print(f"{count_of(labelled, 'run')} labelled")


def _card(run: Trajectory) -> list[str]:
    """What a person needs to see of a run: its request and how it ended, as a judge reads them."""
    from hepm.experience.model_distiller import quoted_run

    about = [f"run {run.id}", run.task and f"task {run.task}", run.environment and f"in {run.environment}"]
    if run.ended_at is not None:
        about.append(f"ended {day_of(run.ended_at)}")
    lines = quoted_run(run).splitlines()
    if len(lines) > _SHOWN_LINES:
        lines = [lines[0], CUT, *lines[2 - _SHOWN_LINES :]]
    return [on_one_line(", ".join(filter(None, about))), *(f"  {line}" for line in lines)]
