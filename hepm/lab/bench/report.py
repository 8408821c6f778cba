"""What a bench found, for people: one sentence on each arm, tables for a terminal, and a picture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from math import inf
from typing import Final

from rich.table import Table
from rich.text import Text

from hepm.evals.metrics import Bootstrap, Interval
from hepm.evals.report import MethodDifference, bare_table, table_of
from hepm.lab.bench.arms import ARMS, OFF
from hepm.lab.bench.folder import Ended, Key
from hepm.lab.bench.scores import (
    AROUND,
    CHANGED,
    EFFORT,
    MEASURES,
    SESSION_MEASURES,
    ArmScores,
    BenchReport,
    ChangedTask,
    Compared,
    SessionMean,
    facts_of,
    finished_tasks,
    graded,
    told_alike,
)
from hepm.text import CUT, count_of, on_one_line
from hepm.types import SUCCESS_FROM
from hepm.uplift.effect_text import COLUMNS, MeasuredInBothArms, effect_sentence
from hepm.uplift.sequence import Effect

FEWEST_TASKS: Final = 10
"""Below so many tasks, or users, no sentence says more than that."""
_SHOWN_DIFFERENCES: Final = ("success", "reward", "calls", "tokens")
_SHARES: Final = ("success", "reward")
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
    paid_before: int = 0,
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
        sessions: Whether the trials of a task are sessions of one user: reported one by one, with the user's effort. A
            family is a user then, who counts once all of its tasks are finished.
        without_memory: Arms of sessions that no sentence compares.
        success_from: The reward from which on a run is a success.
    """
    finished = finished_tasks(ended, arms, tasks, trials)
    if sessions and families:
        begun = {families[task] for task in tasks if task not in finished}
        finished = [task for task in finished if families[task] not in begun]
    reference = OFF if OFF in arms else arms[0]
    scores: dict[str, ArmScores] = {}
    sentences: list[str] = []
    if finished:
        drawn = finished
        if families:
            drawn = [families[task] for task in finished]
        users = len({*drawn})
        bootstrap = Bootstrap(drawn, seed=seed)  # one for all arms: they are compared on the same draws
        others = facts_of(ended, reference, finished, trials)
        for arm in arms:
            runs = facts_of(ended, arm, finished, trials)
            compared = Compared(finished, drawn, runs, None if arm == reference else others, bootstrap)
            scores[arm] = compared.with_sessions() if sessions else compared.scores()
        for arm in arms:
            if arm == reference or arm in without_memory:
                continue
            if sessions:
                sentences.append(_effort(arm, scores[arm], reference, scores[reference], trials, users))
            else:
                sentences.append(_sentence(arm, scores[arm], reference, len(finished), graded(scores.values())))
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
        paid_before=paid_before,
        sentences=sentences,
        unreflected=unreflected,
        alike=told_alike(ended, arms, finished, trials),
        success_from=success_from,
    )


def _sentence(arm: str, scores: ArmScores, reference: str, tasks: int, is_graded: bool) -> str:
    besides = ""
    for name in scores.difference:
        if name == CHANGED:
            besides += f" It changed {100 * (scores.means[name] or 0.0):.1f} % of the calls."
        elif name not in MEASURES or (is_graded and name == "reward"):  # what is judged besides, as "f1"
            besides += f" {_judgement(name, scores, reference)}."
    # No task came out otherwise: there is no difference to weigh.
    if not scores.won and not scores.lost:
        hints = " hints" if ARMS[arm].strategy != "off" else ""
        why = f"each task was solved as often as with {reference}: too few tasks, or no effect"
        if not scores.means["success"]:
            why = f"no task was solved, as with {reference}: too hard for this model, or its limits are too low"
        return f"With {arm}{hints} {why}.{besides}"
    effect = None
    if tasks >= FEWEST_TASKS:
        effect = _effect(scores.difference["success"], tasks)
    gain = effect_sentence(effect, tasks, of="task")
    won = count_of(len(scores.won), "task")
    changed = f"It solved {won} that failed with {reference}, and failed {len(scores.lost):,} that were solved."
    return f"{arm} beside {reference}: {gain} {changed}{besides}"


def _effect(difference: MethodDifference, tasks: int) -> Effect:
    # Infinite: the interval is a bootstrap over paired tasks, which tells no number of tasks that would be enough.
    return Effect(difference.value, *difference.interval, tasks, sd=inf)


def _judgement(name: str, scores: ArmScores, reference: str) -> str:
    gain = scores.difference[name]
    mean = f"{name.capitalize()} was {100 * (scores.means[name] or 0.0):.1f} %"
    # Equal in every task.
    if gain.interval.low == gain.value == gain.interval.high == 0:
        return f"{mean}, as with {reference}"
    low, high = map(_points, gain.interval)
    by = _by_chance(gain.interval) or "by more than chance explains"
    return f"{mean}, {_points(gain.value)} points [{low}, {high}], {by}"


def _by_chance(interval: Interval) -> str:
    """What is said where an interval holds 0; "" where it does not."""
    return "no more than chance explains" if interval.low <= 0 <= interval.high else ""


def _points(share: float) -> str:
    # + 0.0 makes 0.0 of -0.0; what rounds to 0 has no sign.
    return f"{100 * share + 0.0:+.1f}".replace("+0.0", "0").replace("-0.0", "0")


def _effort(arm: str, scores: ArmScores, reference: str, without: ArmScores, trials: int, users: int) -> str:
    """Whether users enforce less with what an arm remembers, from the second session on."""
    mean = scores.later[EFFORT]
    gain = mean.difference
    assert gain is not None
    # Less effort is better: a difference below 0 is a gain.
    low, high = gain.interval
    which = "less" if high < 0 else "more"
    verdict = _by_chance(gain.interval) or f"{which}, by more than chance explains"
    if users < FEWEST_TASKS:
        verdict = "too few users to say more"
    when = "from the second session on" if trials > 1 else "in the only session"
    return (
        f"With {arm}, users enforced a preference {mean.value:.2f} times a session {when}, with {reference} "
        f"{without.later[EFFORT].value:.2f} times: {verdict} (difference {gain.value:+.2f}, 95 % interval {low:+.2f} "
        f"to {high:+.2f}, {count_of(users, 'user')})."
    )


def tables(report: BenchReport) -> list[Table | Text]:
    """Scores, differences, the won and the lost tasks, and the sentences below all."""
    parts: list[Table | Text] = []
    if report.tasks:
        legend = "turns, calls: of successful runs; ms: median time in memory per turn"
        if report.is_graded:
            legend = f"success: a reward of {report.success_from:g} or more; {legend}"
        parts = [_scores(report), Text(legend, style="dim")]
        for arms in report.alike:
            parts.append(Text(f"{', '.join(arms)}: told the same at each step, so that only chance parts them."))
        parts += _differences(report)
        if report.has_sessions:
            parts += _sessions(report)
        parts.append(_overhead(report))
    if report.unreflected and report.tasks:
        sessions = count_of(report.unreflected, "session")
        parts.append(Text(f"After {sessions} the model's notes could not be read, and the old ones stayed."))
    for arm, scores in report.arms.items():
        for what, changes in (("won", scores.won), ("lost", scores.lost)):
            parts += [_side_by_side(report.reference, arm, what, change) for change in changes[:_SHOWN]]
    return [*parts, *_endings(report)]


def _scores(report: BenchReport) -> Table:
    title = f"{report.environment} with {report.model}: {count_of(report.tasks, 'task')}"
    trials: list[str] = []
    if report.has_sessions:
        title += f", {count_of(report.trials, 'session')} of each"
    elif report.trials > 1:
        title += f", {count_of(report.trials, 'trial')} of each"
        trials = [f"pass^{report.trials}"]
    # What the environment judges besides, in any arm, in order.
    named = dict.fromkeys(chain.from_iterable(scores.means for scores in report.arms.values()))
    judged = [name for name in named if name not in MEASURES]
    counted = ["turns", "calls", "errors"]
    shown = ["success", "95 %"]
    if report.is_graded:
        shown += ["reward", "95 %"]
    table = table_of(title, "arm", *shown, *judged, *trials, *counted, "tokens", "hinted", "ms")
    for arm, scores in report.arms.items():
        means = scores.means
        row = [f"{means['success']:.3f}", f"{scores.interval.low:.2f} … {scores.interval.high:.2f}"]
        if report.is_graded:
            low, high = scores.reward_interval
            row += [f"{means['reward']:.3f}", f"{low:.2f} … {high:.2f}"]
        row += [_number(means.get(name), 3) for name in judged]
        row += [f"{scores.pass_k[-1]:.3f}" for _ in trials]
        row += [_number(means[name], 1) for name in counted]
        table.add_row(arm, *row, f"{means['tokens']:,.0f}", f"{scores.hinted:.0%}", f"{scores.memory_ms:.2f}")
    return table


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _differences(report: BenchReport) -> Iterator[Table]:
    if len(report.arms) < 2:
        return
    title = f"memory beside {report.reference}; adjusted: paired by task, turns and calls where both arms solved it"
    table = table_of(title, "arm", *COLUMNS, "won", "lost")
    without = report.arms[report.reference].means
    names = SESSION_MEASURES if report.has_sessions else _SHOWN_DIFFERENCES
    for arm, scores in report.arms.items():
        for name in names:
            difference = scores.difference.get(name)
            mean = scores.means[name]
            other = without[name]
            if difference is None or mean is None or other is None:
                continue
            if name == "reward" and not report.is_graded:
                continue
            effect = _effect(difference, report.tasks)
            measured = MeasuredInBothArms(f"{arm}: {name}", other, mean, effect, share=name in _SHARES)
            won_and_lost = ("", "")
            if name == "success":
                won_and_lost = (str(len(scores.won)), str(len(scores.lost)))
            table.add_row(*measured.cells, *won_and_lost)
    yield table


def _sessions(report: BenchReport) -> Iterator[Table]:
    """Each measure by arm and file or session with its interval, and the differences to the reference."""
    yield _by_session("by session, with 95 % intervals over users", report, _with_interval)
    if len(report.arms) > 1:
        title = f"difference to {report.reference} by session, paired by user and problem"
        yield _by_session(title, report, lambda mean: mean.difference and f"{mean.difference.value:+.2f}")


def _by_session(title: str, report: BenchReport, cell: Callable[[SessionMean], str | None]) -> Table:
    table = table_of(title, "arm", "session", *[name.replace("_", " ") for name in SESSION_MEASURES])
    for arm, scores in report.arms.items():
        named = arm
        numbered = [(str(number), means) for number, means in enumerate(scores.sessions, 1)]
        # With several files of problems, first all sessions of each.
        for part, means in (*scores.files.items(), *numbered):
            cells = [cell(means[measure]) for measure in SESSION_MEASURES]
            if None not in cells:
                # Named once, above its sessions.
                table.add_row(named, part, *cells)
                named = ""
    return table


def _with_interval(mean: SessionMean) -> str:
    return f"{mean.value:.2f} ({mean.interval.low:.2f}–{mean.interval.high:.2f})"


def _overhead(report: BenchReport) -> Table:
    """What a turn takes, and how sure the model is around its summaries."""
    measured = set(chain.from_iterable(scores.entropy for scores in report.arms.values()))
    places = [name for name in AROUND if name in measured]
    table = table_of("overhead per turn", "arm", "requests", "tokens", "ms", *[f"entropy {name}" for name in places])
    for arm, scores in report.arms.items():
        requests = scores.means["requests_per_turn"] or 0.0
        tokens = scores.means["tokens_per_turn"] or 0.0
        cells = [_number(scores.entropy.get(name), 3) for name in places]
        table.add_row(arm, f"{requests:.2f}", f"{tokens:,.0f}", f"{scores.memory_ms:.2f}", *cells)
    return table


def _side_by_side(reference: str, arm: str, what: str, change: ChangedTask) -> Table:
    hint = f"memory said: {_cut(change.hint)}" if change.hint else "memory said nothing"
    table = bare_table(f"{what} with {arm}: {change.task}, from step {change.step + 1}, where {hint}")
    sides = (change.without, change.with_memory)
    for heading in (reference, arm):
        table.add_column(heading, ratio=1, overflow="fold")
    for steps in list(zip_longest(*sides, fillvalue=""))[:_SHOWN_STEPS]:
        # Text, not str: brackets in a call would be read as markup.
        table.add_row(*[Text(_cut(step)) for step in steps])
    cut = [CUT if len(moves) > _SHOWN_STEPS else "" for moves in sides]
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
