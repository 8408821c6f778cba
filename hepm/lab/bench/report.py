"""What a bench found: JSON, and for people tables with a row for each arm, the tasks won and lost, and one sentence on
each arm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain, product
from math import inf
from typing import TYPE_CHECKING, Final

from rich.table import Table

from hepm.evals.report import table_of
from hepm.lab.bench.arms import OFF
from hepm.lab.bench.folder import Facts, Key
from hepm.lab.bench.scores import EFFORT, MEASURES, ArmComparison
from hepm.text import count_of, cut
from hepm.types import Object
from hepm.uplift.effect_text import effect_sentence
from hepm.uplift.sequence import Effect

if TYPE_CHECKING:
    from hepm.lab.bench.play import Bench

FEWEST_TASKS: Final = 10
"""Below so many tasks, or users, no sentence says more than that."""
# Of what an arm did in a task, in the reports on a terminal; --json has everything.
_CHARS: Final = 300
_LEGEND: Final = (
    "in brackets: 95 %; differences are paired by task; turns, calls: of successful runs; memory ms: median of a turn; "
    "--json has the intervals and differences of all measures"
)
_SCORE: Final = "{0[value]:.3f} ({0[interval][0]:.2f}–{0[interval][1]:.2f})"
_DIFFERENCE: Final = "{0[value]:+.3f} ({0[interval][0]:+.3f} to {0[interval][1]:+.3f})"
_MEANS: Final = {
    "turns": "{0[value]:.1f}",
    "calls": "{0[value]:.1f}",
    "errors": "{0[value]:.1f}",
    "tokens": "{0[value]:,.0f}",
    "requests_per_turn": "{0[value]:.2f}",
    "tokens_per_turn": "{0[value]:,.0f}",
}


def report_on(bench: Bench) -> Object:
    """The arms, compared on the tasks of which every arm has every trial, as `hepm bench --json` prints them.

    tasks: How many these are. unfinished: Tasks that some arm has not finished. reference: The arm that others are
    compared with. arms: See `ArmComparison.scores`. failed: Why runs broke off. unreflected: Sessions after which a
    model's notes could not be read. sentences: One on each arm but the reference.
    """
    options = bench.options
    trials = range(options.trials)
    finished = [
        task.id
        for task in bench.tested
        if all(Key(arm, task.id, trial) in bench.ended for arm, trial in product(bench.arms, trials))
    ]
    reference = OFF if OFF in bench.arms else bench.arms[0]
    runs: dict[str, list[list[Facts]]] = {}
    for arm in bench.arms if finished else ():
        runs[arm] = [[bench.ended[Key(arm, task, trial)].facts for trial in trials] for task in finished]
    comparison = ArmComparison(finished, [bench.families.get(task, task) for task in finished], options.seed)
    arms = {
        arm: comparison.scores(
            of_arm, None if arm == reference else runs[reference], sessions=len(trials) * bench.has_sessions
        )
        for arm, of_arm in runs.items()
    }
    sentence = _effort if bench.has_sessions else _sentence
    sentences = [
        sentence(arm, scores, reference, arms[reference], len(finished))
        for arm, scores in arms.items()
        if arm not in (reference, *bench.not_compared)
    ]
    return {
        "environment": bench.environment.name,
        "model": bench.endpoint.model,
        "tasks": len(finished),
        "trials": options.trials,
        "reference": reference,
        "arms": arms,
        "unfinished": len(bench.tested) - len(finished),
        "failed": {str(key): reason for key, reason in bench.failed.items()},
        "calls": sum(run.facts.usage.calls for run in bench.ended.values()),
        "sentences": sentences,
        "unreflected": bench.unreflected,
        "success_from": options.success_from,
    }


def _sentence(arm: str, scores: Object, reference: str, without: Object, tasks: int) -> str:
    """What memory did to success."""
    # No task came out otherwise: there is no difference to weigh.
    if not (scores["won"] or scores["lost"]):
        if without["measures"]["success"]["value"]:
            return f"With {arm} each task was solved as often as with {reference}: too few tasks, or no effect."
        return (
            f"With {arm} no task was solved, as with {reference}: too hard for this model, or its limits are too low."
        )
    effect = None
    if tasks >= FEWEST_TASKS:
        difference = scores["measures"]["success"]["difference"]
        # Infinite: the interval is a bootstrap over tasks, which gives no number of tasks that would be enough.
        low, high = difference["interval"]
        effect = Effect(difference["value"], low, high, tasks, sd=inf)
    gain = effect_sentence(effect, tasks, of="task")
    won = count_of(len(scores["won"]), "task")
    changed = f"It solved {won} that failed with {reference}, and failed {len(scores['lost']):,} that were solved."
    return f"{arm} beside {reference}: {gain} {changed}"


def _effort(arm: str, scores: Object, reference: str, without: Object, users: int) -> str:
    """Whether users enforce less with what an arm remembers."""
    effort = scores["measures"][EFFORT]
    value, (low, high) = effort["difference"]["value"], effort["difference"]["interval"]
    note = "" if users >= FEWEST_TASKS else ", too few to say more"
    return (
        f"With {arm}, users enforced a preference {effort['value']:.2f} times a session, with {reference} "
        f"{without['measures'][EFFORT]['value']:.2f} times: a difference of {value:+.2f} ({low:+.2f} to {high:+.2f}) "
        f"in {count_of(users, 'user')}{note}."
    )


def tables(report: Object) -> list[Table | str]:
    """A table of each score, one of means with the overhead of a turn, the won and the lost tasks, and sentences."""
    arms: Mapping[str, Object] = report["arms"]
    parts: list[Table | str] = []
    if arms:
        parts += [*_figures(report, arms), f"success: a reward of {report['success_from']:g} or more; {_LEGEND}"]
    for (arm, scores), what in product(arms.items(), ("won", "lost")):
        for change in scores[what][:2]:
            parts += _side_by_side(report["reference"], arm, what, change)
    return [*parts, *_endings(report)]


def _figures(report: Object, arms: Mapping[str, Object]) -> Iterator[Table]:
    """What is judged of runs, a table each with the difference to the reference; then the means of the rest."""
    measures: list[Object] = [scores["measures"] for scores in arms.values()]
    columns = {
        name: [of_arm.get(name, {}) for of_arm in measures] for name in dict.fromkeys(chain(MEASURES, *measures))
    }
    if columns["reward"] == columns["success"]:  # no reward was between 0 and 1
        del columns["reward"]
    title = f"{report['environment']} with {report['model']}: {count_of(report['tasks'], 'task')}"
    if report["trials"] > 1:
        title += f", {count_of(report['trials'], 'trial')} of each"
    for name in [name for name in columns if name in ("success", "reward") or name not in MEASURES]:
        table = table_of(title, "", name.replace("_", " "), f"beside {report['reference']}")
        for arm, measured in zip(arms, columns.pop(name), strict=True):
            table.add_row(arm, _cell(_SCORE, measured) or "–", _cell(_DIFFERENCE, measured.get("difference")))
        yield table
        title = ""
    known = {name: column for name, column in columns.items() if any(column)}
    # A word a line, so that a row fits a terminal.
    headings = [name.replace("_", "\n").replace(".", "\n") for name in known]
    table = table_of("", "", f"pass^{report['trials']}", "won", "lost", *headings)
    for number, (arm, scores) in enumerate(arms.items()):
        cells = [f"{scores['pass_k'][-1]:.3f}", f"{len(scores['won']):,}", f"{len(scores['lost']):,}"]
        for name, column in known.items():
            cells.append(_cell(_MEANS.get(name, "{0[value]:.3f}"), column[number]) or "–")
        table.add_row(arm, *cells)
    yield table


def _cell(template: str, measured: Object | None) -> str:
    """A measure in a table; "" where an arm has none."""
    return template.format(measured) if measured else ""


def _side_by_side(reference: str, arm: str, what: str, change: Object) -> list[str]:
    """What both arms did in a task that came out differently."""
    said = f"memory said: {change['hint']}" if change["hint"] else "memory said nothing"
    return [
        "",
        cut(f"{what} with {arm}: {change['task']}, from step {change['step'] + 1}, where {said}", _CHARS),
        cut(f"{reference}: {' → '.join(change['without'])}", _CHARS),
        cut(f"{arm}: {' → '.join(change['with_memory'])}", _CHARS),
    ]


def _endings(report: Object) -> Iterator[str]:
    """The end of a report: why runs broke off, how many tasks are unfinished, and the sentences."""
    # One line for each reason, as a server that is down ends all runs by the same one.
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for key, reason in report["failed"].items():
        reasons[reason].append(key)
    for reason, keys in reasons.items():
        yield f"{count_of(len(keys), 'run')} broke off ({keys[0]}): {reason}"
    if report["unreflected"]:
        yield (
            f"After {count_of(report['unreflected'], 'session')} the model's notes could not be read, and the old ones "
            "stayed."
        )
    if report["unfinished"]:
        yield f"{count_of(report['unfinished'], 'task')} left out, not finished: repeat the command."
    yield from report["sentences"]
