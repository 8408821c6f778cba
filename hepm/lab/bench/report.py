"""What a bench found, for people: one sentence on each arm, a table, and the tasks won and lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import inf
from typing import TYPE_CHECKING, Final

from rich.table import Table

from hepm.evals.metrics import Bootstrap
from hepm.evals.report import rounded, table_of
from hepm.lab.bench.arms import OFF
from hepm.lab.bench.folder import Facts, Key
from hepm.lab.bench.scores import EFFORT, MEASURES, ArmComparison, ArmScores, ChangedTask, Measured
from hepm.text import count_of, cut
from hepm.types import Object
from hepm.uplift.effect_text import effect_sentence
from hepm.uplift.sequence import Effect

if TYPE_CHECKING:
    from hepm.lab.bench.play import Bench

FEWEST_TASKS: Final = 10
"""Below so many tasks, or users, no sentence says more than that."""
# Of the reports on a terminal; --json has everything.
_SHOWN: Final = 2  # won tasks, and lost ones, of each arm
_CHARS: Final = 300  # of what an arm did there
_LEGEND: Final = (
    "in brackets: 95 %; differences are paired by task; turns, calls: of successful runs, differences where both arms "
    "solved a task; memory ms: median of a turn"
)
# Of a measure in a table: so many digits, else three.
_DIGITS: Final = {"turns": 1, "calls": 1, "errors": 1, "tokens": 0, "requests_per_turn": 2, "tokens_per_turn": 0}


@dataclass(frozen=True)
class BenchReport:
    """A bench, over the tasks of which every arm has every trial.

    Attributes:
        finished: The ids of these tasks.
        reference: The arm that others are compared with.
        sentences: One on each arm but the reference.
    """

    bench: Bench
    finished: Sequence[str]
    reference: str
    arms: Mapping[str, ArmScores]
    sentences: Sequence[str]

    @property
    def unfinished(self) -> int:
        """Tasks that some arm has not finished."""
        return len(self.bench.tested) - len(self.finished)

    def to_json(self) -> Object:
        """As `hepm bench --json` prints it."""
        document = {
            "environment": self.bench.environment.name,
            "model": self.bench.endpoint.model,
            "tasks": len(self.finished),
            "trials": self.bench.options.trials,
            "reference": self.reference,
            "arms": {arm: asdict(scores) for arm, scores in self.arms.items()},
            "unfinished": self.unfinished,
            "failed": {str(key): reason for key, reason in self.bench.failed.items()},
            "calls": sum(run.facts.usage.calls for run in self.bench.ended.values()),
            "sentences": self.sentences,
            "unreflected": self.bench.unreflected,
            "success_from": self.bench.options.success_from,
        }
        return rounded(document)


def report_on(bench: Bench) -> BenchReport:
    """Compare the arms on the tasks that all of them have finished."""
    trials = range(bench.options.trials)
    finished: list[str] = []
    for task in bench.tested:
        if all(Key(arm, task.id, trial) in bench.ended for arm, trial in product(bench.arms, trials)):
            finished.append(task.id)
    reference = OFF if OFF in bench.arms else bench.arms[0]
    if not finished:
        return BenchReport(bench, (), reference, {}, ())
    runs: dict[str, list[list[Facts]]] = {}
    for arm in bench.arms:
        runs[arm] = [[bench.ended[Key(arm, task, trial)].facts for trial in trials] for task in finished]
    drawn = [bench.families.get(task, task) for task in finished]
    # One for all arms: they are compared on the same draws.
    comparison = ArmComparison(finished, drawn, Bootstrap(drawn, seed=bench.options.seed))
    scores: dict[str, ArmScores] = {}
    for arm in bench.arms:
        others = None if arm == reference else runs[reference]
        scores[arm] = comparison.scores(runs[arm], others, sessions=len(trials) * bench.has_sessions)
    sentence = _effort if bench.has_sessions else _sentence
    sentences: list[str] = []
    for arm in bench.arms:
        if arm != reference and arm not in bench.not_compared:
            sentences.append(sentence(arm, scores[arm], reference, scores[reference], len(finished)))
    return BenchReport(bench, finished, reference, scores, sentences)


def _sentence(arm: str, scores: ArmScores, reference: str, without: ArmScores, tasks: int) -> str:
    """What memory did to success."""
    # No task came out otherwise: there is no difference to weigh.
    if not (scores.won or scores.lost):
        if without.measures["success"].value:
            return f"With {arm} each task was solved as often as with {reference}: too few tasks, or no effect."
        return (
            f"With {arm} no task was solved, as with {reference}: too hard for this model, or its limits are too low."
        )
    difference = scores.measures["success"].difference
    effect = None
    if difference is not None and tasks >= FEWEST_TASKS:
        # Infinite: the interval is a bootstrap over tasks, which gives no number of tasks that would be enough.
        effect = Effect(difference.value, *difference.interval, tasks, sd=inf)
    gain = effect_sentence(effect, tasks, of="task")
    won = count_of(len(scores.won), "task")
    changed = f"It solved {won} that failed with {reference}, and failed {len(scores.lost):,} that were solved."
    return f"{arm} beside {reference}: {gain} {changed}"


def _effort(arm: str, scores: ArmScores, reference: str, without: ArmScores, users: int) -> str:
    """Whether users enforce less with what an arm remembers."""
    gain = scores.measures[EFFORT].difference
    assert gain
    low, high = gain.interval
    note = "" if users >= FEWEST_TASKS else ", too few to say more"
    return (
        f"With {arm}, users enforced a preference {scores.measures[EFFORT].value:.2f} times a session, with "
        f"{reference} {without.measures[EFFORT].value:.2f} times: a difference of {gain.value:+.2f} ({low:+.2f} to "
        f"{high:+.2f}) in {count_of(users, 'user')}{note}."
    )


def tables(report: BenchReport) -> list[Table | str]:
    """Scores with the overhead of a turn and differences, the won and the lost tasks, and the sentences below all."""
    parts: list[Table | str] = []
    if report.finished:
        parts += [_scores(report), f"success: a reward of {report.bench.options.success_from:g} or more; {_LEGEND}"]
    for arm, scores in report.arms.items():
        for what, changes in (("won", scores.won), ("lost", scores.lost)):
            for change in changes[:_SHOWN]:
                parts += _side_by_side(report.reference, arm, what, change)
    return [*parts, *_endings(report)]


def _shown(report: BenchReport) -> list[str]:
    """The measures that some arm has; the reward only where it says more than the success."""
    named: dict[str, None] = dict.fromkeys(MEASURES)
    is_graded = False
    for scores in report.arms.values():
        named |= dict.fromkeys(scores.measures)
        is_graded |= scores.measures["reward"].value != scores.measures["success"].value
    known = [name for name in named if any(name in scores.measures for scores in report.arms.values())]
    return [name for name in known if name != "reward" or is_graded]


def _scores(report: BenchReport) -> Table:
    """A column for each arm: each measure, and below it the difference to the reference."""
    bench, trials = report.bench, report.bench.options.trials
    title = f"{bench.environment.name} with {bench.endpoint.model}: {count_of(len(report.finished), 'task')}"
    if trials > 1:
        title += f", {count_of(trials, 'trial')} of each"
    table = table_of(title, "", *report.arms)
    arms = report.arms.values()
    for name in _shown(report):
        measured = [scores.measures.get(name) for scores in arms]
        table.add_row(name.replace("_", " "), *[_value(name, one) for one in measured])
        differences = [_difference(name, one) for one in measured]
        if any(differences):
            table.add_row(f"  beside {report.reference}", *differences)
    table.add_row(f"pass^{trials}", *[f"{scores.pass_k[-1]:.3f}" for scores in arms])
    table.add_row("won / lost", *[f"{len(scores.won)} / {len(scores.lost)}" for scores in arms])
    return table


def _value(name: str, measured: Measured | None) -> str:
    if measured is None:
        return "–"
    cell = f"{measured.value:,.{_DIGITS.get(name, 3)}f}"
    if name in ("success", "reward"):
        cell += f" ({measured.interval.low:.2f}–{measured.interval.high:.2f})"
    return cell


def _difference(name: str, measured: Measured | None) -> str:
    if measured is None or measured.difference is None:
        return ""
    digits = _DIGITS.get(name, 3)
    low, high = measured.difference.interval
    return f"{measured.difference.value:+,.{digits}f} ({low:+,.{digits}f} to {high:+,.{digits}f})"


def _side_by_side(reference: str, arm: str, what: str, change: ChangedTask) -> list[str]:
    """What both arms did in a task that came out differently."""
    said = f"memory said: {change.hint}" if change.hint else "memory said nothing"
    return [
        "",
        cut(f"{what} with {arm}: {change.task}, from step {change.step + 1}, where {said}", _CHARS),
        cut(f"{reference}: {' → '.join(change.without)}", _CHARS),
        cut(f"{arm}: {' → '.join(change.with_memory)}", _CHARS),
    ]


def _endings(report: BenchReport) -> Iterator[str]:
    """The end of a report: why runs broke off, how many tasks are unfinished, and the sentences."""
    # One line for each reason, as a server that is down ends all runs by the same one.
    reasons: defaultdict[str, list[Key]] = defaultdict(list)
    for key, reason in report.bench.failed.items():
        reasons[reason].append(key)
    for reason, keys in reasons.items():
        yield f"{count_of(len(keys), 'run')} broke off ({keys[0]}): {reason}"
    if report.bench.unreflected:
        sessions = count_of(report.bench.unreflected, "session")
        yield f"After {sessions} the model's notes could not be read, and the old ones stayed."
    if report.unfinished:
        yield f"{count_of(report.unfinished, 'task')} left out, not finished: repeat the command."
    yield from report.sentences
