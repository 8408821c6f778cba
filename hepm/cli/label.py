"""`hepm label`: give runs of unknown outcome a label by hand, by rule, or by a model; correct and remove labels."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from hepm.cli.commands import argument, command, option
from hepm.cli.config import read_config
from hepm.cli.model import ModelChoice, cost_of, dry_run_option, model_options, tell_cost, tell_estimate
from hepm.cli.options import Bar, StorePlace, json_option, place_options, print_json, refuse, remark, tell
from hepm.errors import BudgetSpentError, InputError
from hepm.text import count_of
from hepm.types import REMOVED, Object, Outcome, Trajectory

if TYPE_CHECKING:
    from hepm.ingest.outcome import RunVerdict
    from hepm.llm import Client
    from hepm.memory import Memory

_SHOWN_TURNS: Final = 16
_SPEAKERS: Final = {"assistant": "agent", "user": "user"}
_LINE: Final = 160
JUDGE: Final = "judge"
_KEYS: Final = "y: it succeeded, n: it failed, s: skip, q: quit"  # and the return key


@command("label")
@argument("run", "Id of one run. Default: all of unknown outcome.", required=False)
@argument("outcome", "Of RUN: success, failure, a reward as a number, or none to remove its label.", required=False)
@option("--by", "Label by rules (tests, exit-code; comma-separated), or by the --model: judge.")
@option("--remove", "Remove all labels of a source: a rule, judge:MODEL, or judge for all models.")
@dry_run_option
@json_option
@place_options
@model_options
def label(
    place: StorePlace,
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
    refuse(len(ways) > 1, "", f"{' and '.join(ways)} exclude each other.")
    given = None
    if outcome is not None:
        given = _parse_outcome(outcome)
    with place.open() as memory:
        labelling = _Labelling(memory, place.namespace, dry_run, as_json)
        if run is not None:
            labelling.one(run, given)
        elif remove is not None:
            labelling.remove(remove)
        elif by == JUDGE:
            labelling.by_model(choice)
        elif by is not None:
            labelling.by_rule(by)
        elif dry_run or as_json:
            labelling.list(labelling.runs(removed=True))
        else:
            labelling.by_hand(labelling.runs(removed=True))


def _parse_outcome(text: str) -> Outcome:
    """The outcome of a word or a reward; an empty one removes the label."""
    from hepm.ingest.records import graded

    if text == "none":
        return Outcome()
    if text in ("success", "failure"):
        return Outcome(None, text == "success")
    try:
        return graded(float(text))
    except ValueError as error:
        wrong = f"{text!r} is not success, failure, none, or a reward as a number."
        raise click.BadParameter(wrong, param_hint="OUTCOME") from error


@dataclass(frozen=True, slots=True)
class _Labelling:
    """The labels of a namespace, given in one of several ways; a dry run only says what would be done."""

    memory: Memory
    namespace: str
    dry_run: bool
    as_json: bool

    def runs(self, *, removed: bool) -> Iterator[Trajectory]:
        """The unlabelled ones, the latest first."""
        return self.memory.labels.unlabelled(namespace=self.namespace, removed=removed)

    # One run

    def one(self, id: str, outcome: Outcome | None) -> None:
        """Give a run its outcome, take it away, or look at it."""
        labels = self.memory.labels
        run = self.memory.run(id, namespace=self.namespace)
        if outcome is None and run is not None:
            look = self.list if self.as_json or self.dry_run else self.by_hand
            look([run])
            return
        outcome = outcome or Outcome()
        if self.dry_run or run is None:
            # An empty outcome changes nothing, and tells the present label. Raises if there is no such run.
            before = labels.give(id, Outcome(), namespace=self.namespace)
        elif outcome == Outcome():
            before = labels.remove(id, namespace=self.namespace)
        else:
            before = labels.give(id, outcome, namespace=self.namespace)
        success_from = self.memory.header.success_from
        before, success = before.graded(success_from), outcome.graded(success_from).success
        document = {"run": id, "success": success, "before": before.outcome.success, "by": before.outcome_by}
        self._tell(document, f"{id}: {_word(success)}, was {_label_of(before)}")

    def _tell(self, document: Mapping[str, object], sentence: str) -> None:
        if self.as_json:
            print_json(document)
        else:
            tell(sentence)

    def list(self, runs: Iterable[Trajectory]) -> None:
        """Print runs."""
        documents = [_about(run) for run in runs]
        if self.as_json:
            print_json({"runs": documents})
            return
        for about in documents:
            task = f", task {about['task']}" if about["task"] else ""
            tell(f"{about['id']}: {about['label']}{task}, {about['calls']} calls, {about['errors']} failed")
        print(count_of(len(documents), "run"))

    # Many runs

    def remove(self, by: str) -> None:
        """Remove all labels of a source."""
        if self.dry_run:
            self.list(self.memory.labels.derived(by, namespace=self.namespace))
            return
        count = self.memory.labels.retract(by, namespace=self.namespace)
        self._tell({"removed": count, "by": by}, f"{count_of(count, 'label')} by {by} removed")

    def by_rule(self, names: str) -> None:
        """Label by rules."""
        from hepm.ingest.outcome import check_rules, verdict_of

        rules = tuple(name.strip() for name in names.split(","))
        try:
            check_rules(rules)
        except InputError as error:
            raise click.BadParameter(str(error), param_hint="--by") from error
        # One after the other: a store may hold a million runs.
        verdicts = (verdict_of(run, rules) for run in self.runs(removed=False))
        # A store keeps the first 600 characters of a result, and a summary of tests stands at its end.
        if self._report(verdicts)["unlabelled"]:
            hint = "rules read a stored result only as far as it was kept; ingest the files again to let them read all"
            remark(f"hepm: {hint}")

    def by_model(self, choice: ModelChoice) -> None:
        """Label by a model."""
        from hepm.experience.judge import OutcomeJudge

        client = choice.client(self.memory, self.namespace, "run")
        if client is None:
            raise click.UsageError("--by judge needs a model: give --model, or set HEPM_LLM_MODEL.")
        judge = OutcomeJudge(client, read_config().model.concurrency)
        # Runs whose label was removed are left to people.
        runs = self.runs(removed=False)
        if self.dry_run:
            waiting = list(runs)
            tell_estimate(len(waiting), judge.estimate(waiting), as_json=self.as_json)
            return
        try:
            self._report(judge.verdicts(runs), client)
        finally:
            tell_cost(client)

    def _report(self, verdicts: Generator[RunVerdict], client: Client | None = None) -> dict[str, int]:
        counts = {"success": 0, "failure": 0, "unlabelled": 0}
        problems: list[tuple[str, str]] = []
        stopped = ""
        judged = verdicts
        if not self.dry_run:
            judged = self.memory.labels.store(verdicts, namespace=self.namespace)
        with Bar("runs looked at") as bar, closing(judged):
            try:
                for verdict in judged:
                    counts[_word(verdict.success)] += 1
                    if verdict.problem:
                        problems.append((verdict.run.id, verdict.problem))
                    if self.dry_run and verdict.success is not None and not self.as_json:
                        tell(f"{verdict.run.id}: {_word(verdict.success)} by {verdict.by}")
                    bar.show(sum(counts.values()))
            except BudgetSpentError as error:
                stopped = str(error)
        if self.as_json:
            document: Object = {**counts, "problems": problems, "stopped": stopped, "dry_run": self.dry_run}
            if client is not None:
                document["cost"] = cost_of(client)
            print_json(document)
            return counts
        labelled = counts["success"] + counts["failure"]
        done = "would be labelled" if self.dry_run else "labelled"
        ends = f"{counts['success']:,} succeeded, {counts['failure']:,} failed"
        print(f"{count_of(labelled, 'run')} {done}: {ends}; {counts['unlabelled']:,} without a label")
        for id, why in problems:
            remark(f"  {id}: {why}")
        if stopped:
            remark(f"hepm: {stopped}; repeat the command to go on")
        elif labelled and not self.dry_run:
            remark("`hepm lesson distill` learns from them")
        return counts

    def by_hand(self, runs: Iterable[Trajectory]) -> None:
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
            key = click.prompt(_KEYS, type=keys, show_choices=False)
            if key == "q":
                break
            if key != "s":
                # One by one, so that quitting or Ctrl-C loses none.
                self.memory.labels.give(run.id, Outcome(None, key == "y"), namespace=self.namespace)
                labelled += 1
            print()
        print(f"{count_of(labelled, 'run')} labelled")


def _word(success: bool | None) -> str:
    return {True: "success", False: "failure", None: "unlabelled"}[success]


def _label_of(run: Trajectory) -> str:
    word = _word(run.outcome.success)
    if run.outcome_by in ("", REMOVED):
        return word
    return f"{word} by {run.outcome_by}"


def _about(run: Trajectory) -> dict[str, object]:
    calls = list(run.calls())
    return {
        "id": run.id,
        "environment": run.environment,
        "task": run.task,
        "user": run.user,
        "ended_at": run.ended_at,
        "success": run.outcome.success,
        "by": run.outcome_by,
        "label": _label_of(run),
        "calls": len(calls),
        # Known ones: most formats do not say.
        "errors": sum(call.error is True for call in calls),
    }


def _card(run: Trajectory) -> Iterator[str]:
    """What a person needs to see of a run, in lines without control characters: its request, and how it ended."""
    from hepm.experience.transcript import plain, went_wrong

    head = f"run {run.id}"
    if run.task:
        head += f", task {run.task}"
    if run.environment:
        head += f", in {run.environment}"
    if run.ended_at is not None:
        head += f", ended {datetime.fromtimestamp(run.ended_at, UTC):%Y-%m-%d %H:%M} UTC"
    calls = list(run.calls())
    yield plain(f"{head}: {count_of(len(calls), 'call')}, {sum(map(went_wrong, calls))} failed", 4 * _LINE)
    turns = [turn for turn in run.turns if turn.role != "system"]
    if len(turns) > _SHOWN_TURNS:
        turns = [turns[0], *turns[1 - _SHOWN_TURNS :]]
    for turn in turns:
        if turn.text:
            yield f"  {_SPEAKERS[turn.role]}: {plain(turn.text, 3 * _LINE)}"
        for call in turn.calls:
            arguments = json.dumps(dict(call.arguments), ensure_ascii=False, default=str)
            yield f"  {'✗' if went_wrong(call) else '·'} {plain(f'{call.name} {arguments}', _LINE)}"
            if went_wrong(call) and call.result:
                yield f"      {plain(call.result, _LINE)}"
