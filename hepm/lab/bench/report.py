"""What a bench found, for people: one sentence on each arm, tables for a terminal, and the tasks won and lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product, zip_longest
from math import inf
from typing import Final

from rich.table import Table
from rich.text import Text

from hepm.evals.metrics import Bootstrap
from hepm.evals.report import MethodDifference, bare_table, table_of
from hepm.lab.bench.arms import OFF
from hepm.lab.bench.folder import Ended, Facts, Key
from hepm.lab.bench.scores import (
    AROUND,
    EFFORT,
    SESSION_MEASURES,
    ArmScores,
    BenchReport,
    ChangedTask,
    Compared,
    SessionMean,
    hinted_alike,
)
from hepm.text import CUT, count_of, on_one_line
from hepm.types import SUCCESS_FROM
from hepm.uplift.effect_text import COLUMNS, MeasuredInBothArms, effect_sentence
from hepm.uplift.sequence import Effect

FEWEST_TASKS: Final = 10
"""Below so many tasks, or users, no sentence says more than that."""
# Of the reports on a terminal; --json has everything.
_SHOWN: Final = 2  # won tasks, and lost ones, of each arm
_SHOWN_STEPS: Final = 4  # of each of them
_CHARS: Final = 300  # of a step


def report_on(
    ended: Mapping[Key, Ended],
    *,
    environment: str,
    model: str,
    arms: Sequence[str],
    tasks: Sequence[str],
    trials: int,
    failed: Mapping[Key, str],
    seed: int = 0,
    families: Mapping[str, str] | None = None,
    sessions: bool = False,
    without_memory: Sequence[str] = (),
    unreflected: int = 0,
    success_from: float = SUCCESS_FROM,
) -> BenchReport:
    """Compare the arms on the tasks that all of them have finished.

    Args:
        families: The family of each task, where tasks of one are no independent evidence: families are resampled.
        sessions: Whether the trials of a task are sessions of one user: reported one by one, with the user's effort.
        without_memory: Arms of sessions that no sentence compares.
        success_from: The reward from which on a run is a success.
    """
    every = [*product(arms, range(trials))]
    finished = [task for task in tasks if all(Key(arm, task, trial) in ended for arm, trial in every)]
    runs: dict[str, list[list[Facts]]] = {}
    for arm in arms:
        runs[arm] = [_trials_of(ended, arm, task, trials) for task in finished]
    reference = arms[0]
    if OFF in arms:
        reference = OFF
    scores: dict[str, ArmScores] = {}
    sentences: list[str] = []
    if finished:
        drawn = [(families or {}).get(task, task) for task in finished]
        bootstrap = Bootstrap(drawn, seed=seed)  # one for all arms: they are compared on the same draws
        for arm in arms:
            others = None
            if arm != reference:
                others = runs[reference]
            compared = Compared(finished, drawn, runs[arm], others, bootstrap)
            scores[arm] = compared.scores(sessions=trials * sessions)
        for arm in arms:
            if arm != reference and arm not in without_memory:
                sentence = _sentence
                if sessions:
                    sentence = _effort
                sentences.append(sentence(arm, scores[arm], reference, scores[reference], len(finished)))
    return BenchReport(
        environment,
        model,
        tasks=len(finished),
        trials=trials,
        reference=reference,
        arms=scores,
        unfinished=len(tasks) - len(finished),
        failed={str(key): reason for key, reason in failed.items()},
        calls=sum(run.facts.usage.calls for run in ended.values()),
        sentences=sentences,
        unreflected=unreflected,
        alike=hinted_alike(runs),
        success_from=success_from,
    )


def _trials_of(ended: Mapping[Key, Ended], arm: str, task: str, trials: int) -> list[Facts]:
    return [ended[Key(arm, task, trial)].facts for trial in range(trials)]


def _sentence(arm: str, scores: ArmScores, reference: str, without: ArmScores, tasks: int) -> str:
    """What memory did to success."""
    # No task came out otherwise: there is no difference to weigh.
    if not scores.won and not scores.lost:
        if without.means["success"]:
            return f"With {arm} each task was solved as often as with {reference}: too few tasks, or no effect."
        return (
            f"With {arm} no task was solved, as with {reference}: too hard for this model, or its limits are too low."
        )
    effect = None
    if tasks >= FEWEST_TASKS:
        effect = _effect(scores.difference["success"], tasks)
    gain = effect_sentence(effect, tasks, of="task")
    won = count_of(len(scores.won), "task")
    changed = f"It solved {won} that failed with {reference}, and failed {len(scores.lost):,} that were solved."
    return f"{arm} beside {reference}: {gain} {changed}"


def _effect(difference: MethodDifference, tasks: int) -> Effect:
    # Infinite: the interval is a bootstrap over paired tasks, which tells no number of tasks that would be enough.
    return Effect(difference.value, *difference.interval, tasks, sd=inf)


def _effort(arm: str, scores: ArmScores, reference: str, without: ArmScores, users: int) -> str:
    """Whether users enforce less with what an arm remembers."""
    gain = scores.difference[EFFORT]
    low, high = gain.interval
    # Less effort is better: a difference below 0 is a gain.
    verdict = "no more than chance explains"
    if high < 0:
        verdict = "less, by more than chance explains"
    elif low > 0:
        verdict = "more, by more than chance explains"
    if users < FEWEST_TASKS:
        verdict = "too few users to say more"
    return (
        f"With {arm}, users enforced a preference {scores.means[EFFORT]:.2f} times a session, with {reference} "
        f"{without.means[EFFORT]:.2f} times: {verdict} (difference {gain.value:+.2f}, 95 % interval {low:+.2f} "
        f"to {high:+.2f}, {count_of(users, 'user')})."
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
    passed: list[str] = []
    if report.has_sessions:
        title += f", {count_of(report.trials, 'session')} of each"
    elif report.trials > 1:
        title += f", {count_of(report.trials, 'trial')} of each"
        passed = [f"pass^{report.trials}"]
    legend = "turns, calls: of successful runs; ms: median time in memory per turn"
    rewards: list[str] = []
    if report.is_graded:
        rewards = ["reward", "95 %"]
        legend = f"success: a reward of {report.success_from:g} or more; {legend}"
    counted = ["turns", "calls", "errors"]
    table = table_of(
        title, "arm", "success", "95 %", *rewards, *report.judged, *passed, *counted, "tokens", "hinted", "ms"
    )
    for arm, scores in report.arms.items():
        means = scores.means
        row = [_number(means["success"], 3), f"{scores.interval.low:.2f} … {scores.interval.high:.2f}"]
        if rewards:
            low, high = scores.reward_interval
            row += [_number(means["reward"], 3), f"{low:.2f} … {high:.2f}"]
        row += [_number(means.get(name), 3) for name in report.judged]
        row += [_number(scores.pass_k[-1], 3) for _ in passed]
        row += [_number(means[name], 1) for name in counted]
        table.add_row(arm, *row, f"{means['tokens']:,.0f}", f"{scores.hinted:.0%}", f"{scores.memory_ms:.2f}")
    yield table
    yield Text(legend, style="dim")
    for arms in report.alike:
        yield Text(f"{', '.join(arms)}: got the same hints at each step, so that only chance parts them.")


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _differences(report: BenchReport) -> Iterator[Table]:
    if len(report.arms) < 2:
        return
    title = f"memory beside {report.reference}; adjusted: paired by task, turns and calls where both arms solved it"
    table = table_of(title, "arm", *COLUMNS, "won", "lost")
    without = report.arms[report.reference].means
    shares = ["success", *report.judged]
    if report.is_graded:
        shares.insert(1, "reward")
    names = [*shares, "calls", "tokens"]
    if report.has_sessions:
        names, shares = [*SESSION_MEASURES], ["success"]
    for arm, scores in report.arms.items():
        for name in names:
            mean, other = scores.means.get(name), without.get(name)
            if name not in scores.difference or mean is None or other is None:
                continue
            effect = _effect(scores.difference[name], report.tasks)
            measured = MeasuredInBothArms(f"{arm}: {name}", other, mean, effect, share=name in shares)
            won_and_lost = ("", "")
            if name == "success":
                won_and_lost = (str(len(scores.won)), str(len(scores.lost)))
            table.add_row(*measured.cells, *won_and_lost)
    yield table


def _sessions(report: BenchReport) -> Iterator[Table | Text]:
    """Each measure by arm and session, with its interval."""
    if not report.has_sessions:
        return
    title = "by session, with 95 % intervals over users"
    table = table_of(title, "arm", "session", *[name.replace("_", " ") for name in SESSION_MEASURES])
    for arm, scores in report.arms.items():
        named = arm
        for number, means in enumerate(scores.sessions, 1):
            table.add_row(named, str(number), *[_with_interval(means[measure]) for measure in SESSION_MEASURES])
            # Named once, above its sessions.
            named = ""
    yield table
    if report.unreflected:
        sessions = count_of(report.unreflected, "session")
        yield Text(f"After {sessions} the model's notes could not be read, and the old ones stayed.")


def _with_interval(mean: SessionMean) -> str:
    return f"{mean.value:.2f} ({mean.interval.low:.2f}–{mean.interval.high:.2f})"


def _overhead(report: BenchReport) -> Table:
    """What a turn takes, and how sure the model is around its summaries."""
    places = [name for name in AROUND if any(name in scores.entropy for scores in report.arms.values())]
    table = table_of("overhead per turn", "arm", "requests", "tokens", "ms", *[f"entropy {name}" for name in places])
    for arm, scores in report.arms.items():
        cells = [_number(scores.entropy.get(name), 3) for name in places]
        tokens = f"{scores.means['tokens_per_turn'] or 0.0:,.0f}"
        requests = _number(scores.means["requests_per_turn"] or 0.0, 2)
        table.add_row(arm, requests, tokens, f"{scores.memory_ms:.2f}", *cells)
    return table


def _side_by_side(reference: str, arm: str, what: str, change: ChangedTask) -> Table:
    hint = f"memory said: {_cut(change.hint)}" if change.hint else "memory said nothing"
    table = bare_table(f"{what} with {arm}: {change.task}, from step {change.step + 1}, where {hint}")
    for heading in (reference, arm):
        table.add_column(heading, ratio=1, overflow="fold")
    sides = (change.without, change.with_memory)
    for pair in list(zip_longest(*sides, fillvalue=""))[:_SHOWN_STEPS]:
        # Text, not str: brackets in a call would be read as markup.
        table.add_row(*[Text(_cut(step)) for step in pair])
    # Empty for a side that ends before.
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
