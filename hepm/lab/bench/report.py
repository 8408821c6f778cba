"""What a bench found, for people: one sentence on each arm, tables for a terminal, and the tasks won and lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice, product, zip_longest
from math import inf
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from hepm.evals.metrics import Bootstrap
from hepm.evals.report import MethodDifference, bare_table, rows_table, table_of
from hepm.lab.bench.arms import OFF
from hepm.lab.bench.folder import Facts, Key
from hepm.lab.bench.scores import (
    AROUND,
    EFFORT,
    SESSION_MEASURES,
    ArmScores,
    BenchReport,
    ChangedTask,
    Compared,
    Measures,
)
from hepm.text import CUT, count_of, on_one_line
from hepm.uplift.effect_text import COLUMNS, MeasuredInBothArms, effect_sentence
from hepm.uplift.sequence import Effect

if TYPE_CHECKING:
    from hepm.lab.bench.play import Bench

FEWEST_TASKS: Final = 10
"""Below so many tasks, or users, no sentence says more than that."""
# Of the reports on a terminal; --json has everything.
_SHOWN: Final = 2  # won tasks, and lost ones, of each arm
_SHOWN_STEPS: Final = 4  # of each of them
_CHARS: Final = 300  # of a step


def report_on(bench: Bench) -> BenchReport:
    """Compare the arms on the tasks that all of them have finished."""
    arms, ended, trials = bench.arms, bench.ended, bench.options.trials
    finished: list[str] = []
    for task in bench.tested:
        if all(Key(arm, task.id, trial) in ended for arm, trial in product(arms, range(trials))):
            finished.append(task.id)
    runs: dict[str, list[list[Facts]]] = {}
    for arm in arms:
        runs[arm] = [[ended[Key(arm, task, trial)].facts for trial in range(trials)] for task in finished]
    reference = OFF if OFF in arms else arms[0]
    scores: dict[str, ArmScores] = {}
    sentences: list[str] = []
    if finished:
        drawn = [bench.families.get(task, task) for task in finished]
        bootstrap = Bootstrap(drawn, seed=bench.options.seed)  # one for all arms: they are compared on the same draws
        for arm in arms:
            others = None if arm == reference else runs[reference]
            compared = Compared(finished, drawn, runs[arm], others, bootstrap)
            scores[arm] = compared.scores(sessions=trials * bench.has_sessions)
        sentence = _effort if bench.has_sessions else _sentence
        for arm in arms:
            if arm != reference and arm not in bench.not_compared:
                sentences.append(sentence(arm, scores[arm], reference, scores[reference], len(finished)))
    return BenchReport(
        bench.environment.name,
        bench.endpoint.model,
        tasks=len(finished),
        trials=trials,
        reference=reference,
        arms=scores,
        unfinished=len(bench.tested) - len(finished),
        failed={str(key): reason for key, reason in bench.failed.items()},
        calls=sum(run.facts.usage.calls for run in ended.values()),
        sentences=sentences,
        unreflected=bench.unreflected,
        success_from=bench.options.success_from,
    )


def _sentence(arm: str, scores: ArmScores, reference: str, without: ArmScores, tasks: int) -> str:
    """What memory did to success."""
    # No task came out otherwise: there is no difference to weigh.
    if not scores.won and not scores.lost:
        if without.mean("success"):
            return f"With {arm} each task was solved as often as with {reference}: too few tasks, or no effect."
        return (
            f"With {arm} no task was solved, as with {reference}: too hard for this model, or its limits are too low."
        )
    effect = None
    if tasks >= FEWEST_TASKS:
        effect = _effect(scores.measures["success"].difference, tasks)
    gain = effect_sentence(effect, tasks, of="task")
    won = count_of(len(scores.won), "task")
    changed = f"It solved {won} that failed with {reference}, and failed {len(scores.lost):,} that were solved."
    return f"{arm} beside {reference}: {gain} {changed}"


def _effect(difference: MethodDifference | None, tasks: int) -> Effect | None:
    if difference is None:
        return None
    # Infinite: the interval is a bootstrap over paired tasks, which tells no number of tasks that would be enough.
    return Effect(difference.value, *difference.interval, tasks, sd=inf)


def _effort(arm: str, scores: ArmScores, reference: str, without: ArmScores, users: int) -> str:
    """Whether users enforce less with what an arm remembers."""
    gain = scores.measures[EFFORT].difference
    assert gain
    low, high = gain.interval
    note = "" if users >= FEWEST_TASKS else ", too few to say more"
    return (
        f"With {arm}, users enforced a preference {scores.mean(EFFORT):.2f} times a session, with {reference} "
        f"{without.mean(EFFORT):.2f} times: a difference of {gain.value:+.2f} ({low:+.2f} to {high:+.2f}) in "
        f"{count_of(users, 'user')}{note}."
    )


def tables(report: BenchReport) -> list[Table | Text]:
    """Scores, differences, the won and the lost tasks, and the sentences below all."""
    parts: list[Table | Text] = []
    if report.tasks:
        parts = [*_scores(report), *_differences(report), *_sessions(report), _overhead(report)]
    for arm, scores in report.arms.items():
        for what, changes in (("won", scores.won), ("lost", scores.lost)):
            parts += [_side_by_side(report.reference, arm, what, change) for change in changes[:_SHOWN]]
    return [*parts, *_endings(report)]


def _scores(report: BenchReport) -> Iterator[Table | Text]:
    title = f"{report.environment} with {report.model}: {count_of(report.tasks, 'task')}"
    legend = "in brackets: 95 %; turns, calls: of successful runs; ms: median time in memory per turn"
    columns = {"arm": "{0[0]}", "success": "{0[1].measures[success]:3+}"}
    if report.is_graded:
        columns["reward"] = "{0[1].measures[reward]:3+}"
        legend = f"success: a reward of {report.success_from:g} or more; {legend}"
    columns |= {name: f"{{0[1].measures[{name}]:3}}" for name in report.judged}
    if report.has_sessions:
        title += f", {count_of(report.trials, 'session')} of each"
    elif report.trials > 1:
        title += f", {count_of(report.trials, 'trial')} of each"
        columns[f"pass^{report.trials}"] = f"{{0[1].pass_k[{report.trials - 1}]:.3f}}"
    columns |= {name: f"{{0[1].measures[{name}]:1}}" for name in ("turns", "calls", "errors")}
    columns |= {"tokens": "{0[1].measures[tokens]:0}", "hinted": "{0[1].hinted:.0%}", "ms": "{0[1].memory_ms:.2f}"}
    yield rows_table(title, columns, report.arms.items())
    yield Text(legend, style="dim")


def _differences(report: BenchReport) -> Iterator[Table]:
    if len(report.arms) < 2:
        return
    title = f"memory beside {report.reference}; adjusted: paired by task, turns and calls where both arms solved it"
    table = table_of(title, "arm", *COLUMNS, "won", "lost")
    without = report.arms[report.reference].measures
    shares, counted = ["success", *report.judged], ["calls", "tokens"]
    if report.is_graded:
        shares.insert(1, "reward")
    if report.has_sessions:
        shares, counted = ["success"], [name for name in SESSION_MEASURES if name != "success"]
    for arm, scores in report.arms.items():
        for name in (*shares, *counted):
            mine, other = scores.measures[name], without[name].value
            effect = _effect(mine.difference, report.tasks)
            if effect is None or mine.value is None or other is None:
                continue
            measured = MeasuredInBothArms(f"{arm}: {name}", other, mine.value, effect, share=name in shares)
            changed = (str(len(scores.won)), str(len(scores.lost))) if name == "success" else ("", "")
            table.add_row(*measured.cells, *changed)
    yield table


def _sessions(report: BenchReport) -> Iterator[Table | Text]:
    """Each measure by arm and session, with its interval."""
    if not report.has_sessions:
        return
    columns = {"arm": "{0[0]}", "session": "{0[1]}"}
    columns |= {name.replace("_", " "): f"{{0[2][{name}]:2+}}" for name in SESSION_MEASURES}
    rows: list[tuple[str, int, Measures]] = []
    for arm, scores in report.arms.items():
        rows += [(arm, number, measures) for number, measures in enumerate(scores.sessions, 1)]
    yield rows_table("by session, with 95 % intervals over users", columns, rows)
    if report.unreflected:
        sessions = count_of(report.unreflected, "session")
        yield Text(f"After {sessions} the model's notes could not be read, and the old ones stayed.")


def _overhead(report: BenchReport) -> Table:
    """What a turn takes, and how sure the model is around its summaries."""
    columns = {
        "arm": "{0[0]}",
        "requests": "{0[1].measures[requests_per_turn]:2}",
        "tokens": "{0[1].measures[tokens_per_turn]:0}",
        "ms": "{0[1].memory_ms:.2f}",
    }
    if any(scores.entropy for scores in report.arms.values()):
        columns |= {f"entropy {name}": f"{{0[1].entropy[{name}]:3}}" for name in AROUND}
    return rows_table("overhead per turn", columns, report.arms.items())


def _side_by_side(reference: str, arm: str, what: str, change: ChangedTask) -> Table:
    hint = f"memory said: {_cut(change.hint)}" if change.hint else "memory said nothing"
    table = bare_table(f"{what} with {arm}: {change.task}, from step {change.step + 1}, where {hint}")
    for heading in (reference, arm):
        table.add_column(heading, ratio=1, overflow="fold")
    sides = (change.without, change.with_memory)
    for pair in islice(zip_longest(*sides, fillvalue=""), _SHOWN_STEPS):
        # Text, not str: brackets in a call would be read as markup.
        table.add_row(*[Text(_cut(step)) for step in pair])
    cut = [CUT * (len(moves) > _SHOWN_STEPS) for moves in sides]
    if any(cut):
        table.add_row(*cut)
    return table


def _cut(text: str) -> str:
    line = on_one_line(" ".join(text.split()))
    if len(line) <= _CHARS:
        return line
    return line[: _CHARS - 1] + CUT


def _endings(report: BenchReport) -> Iterator[Text]:
    """The end of a report: why runs broke off, how many tasks are unfinished, and the sentences."""
    # One line for each reason, as a server that is down ends all runs by the same one.
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for key, reason in report.failed.items():
        reasons[reason].append(key)
    for reason, keys in reasons.items():
        yield Text(on_one_line(f"{count_of(len(keys), 'run')} broke off ({keys[0]}): {reason}"))
    if report.unfinished:
        yield Text(f"{count_of(report.unfinished, 'task')} left out, not finished: repeat the command.")
    for sentence in report.sentences:
        yield Text(f"\n{on_one_line(sentence)}", style="bold")
