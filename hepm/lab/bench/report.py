"""What a bench found: scores by arm, paired differences, the tasks that memory won and lost, and one sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product, zip_longest
from math import comb, inf
from pathlib import Path
from statistics import fmean, median
from typing import Final, TypeAlias

import numpy as np
from rich.table import Table
from rich.text import Text

from hepm.errors import InputError
from hepm.evals.metrics import Bootstrap, interval
from hepm.evals.report import MethodDifference, table_of
from hepm.lab.bench.arms import ARMS, OFF
from hepm.lab.bench.folder import Ended, Facts, Key
from hepm.lab.bench.scores import CHANGED, FEWEST_TASKS, ArmScores, BenchReport, ChangedTask, SessionMean
from hepm.lab.bench.sessions import SESSION_MEASURES, draw_sessions, effort_sentence, session_tables
from hepm.text import CUT, count_of, on_one_line
from hepm.types import SUMMARY_TOOL
from hepm.uplift.drawing import draw_effects
from hepm.uplift.effect_text import COLUMNS, MeasuredInBothArms, effect_sentence
from hepm.uplift.sequence import Effect

_SHOWN_DIFFERENCES: Final = ("success", "calls", "tokens")
_SESSION_DIFFERENCES: Final = tuple(SESSION_MEASURES)
# Of the reports on a terminal; --json has everything.
_SHOWN: Final = 2  # won tasks, and lost ones, of each arm on a terminal
_SHOWN_STEPS: Final = 4  # of each of them
_CHARS: Final = 300  # of a step
_TO_SUCCESS: Final = ("turns", "calls")
# Steps around a call of the summary tool (H-EPM, table 8): its own, the one before, the one after.
_AROUND: Final[Mapping[str, int]] = {"summary": 0, "before": -1, "after": 1}


def _if_solved(facts: Facts, count: int) -> float | None:
    # A failed run may give up at once, or use all turns: its length says nothing of efficiency.
    if not facts.success:
        return None
    return count


def _per_turn(facts: Facts, count: int) -> float | None:
    if not facts.turns:
        return None
    return count / facts.turns


_Measure: TypeAlias = Callable[[Facts], float | None]  # None where a run has none
_MEASURES: Final[Mapping[str, _Measure]] = {
    "success": lambda facts: float(facts.success),
    "reward": lambda facts: facts.reward,
    "turns": lambda facts: _if_solved(facts, facts.turns),
    "calls": lambda facts: _if_solved(facts, facts.calls),
    "errors": lambda facts: facts.errors,
    "tokens": lambda facts: facts.usage.tokens,
    "requests_per_turn": lambda facts: _per_turn(facts, facts.usage.calls),
    "tokens_per_turn": lambda facts: _per_turn(facts, facts.usage.tokens),
}


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
) -> BenchReport:
    """Compare the arms on the tasks that all of them have finished.

    Args:
        families: The family of each task, where tasks of one are no independent evidence: families are resampled.
        sessions: Whether the trials of a task are sessions of one user: reported one by one, with the user's effort.
        without_memory: Arms of sessions that no sentence compares.
    """
    finished = _finished_in_all(ended, arms, tasks, trials)
    runs = {arm: _facts_by_task(ended, arm, finished, trials) for arm in arms}
    reference = OFF if OFF in arms else arms[0]
    scores: dict[str, ArmScores] = {}
    sentences: list[str] = []
    if finished:
        drawn = finished
        if families:
            drawn = [families[task] for task in finished]
        bootstrap = Bootstrap(drawn, seed=seed)  # one for all arms: they are compared on the same draws
        for arm in arms:
            scores[arm] = _scores(finished, drawn, runs[arm], runs[reference], bootstrap)
            if sessions:
                scores[arm] = _with_sessions(scores[arm], drawn, runs[arm], runs[reference], bootstrap)
            elif arm != reference:
                sentences.append(_sentence(arm, scores[arm], reference, len(finished)))
    report = BenchReport(
        environment,
        model,
        tasks=len(finished),
        trials=trials,
        reference=reference,
        arms=scores,
        unfinished=len(tasks) - len(finished),
        failed={str(key): reason for key, reason in failed.items()},
        calls=_calls_of(ended),
        paid_before=paid_before,
        sentences=sentences,
        unreflected=unreflected,
    )
    if not sessions or not finished:
        return report
    compared = [arm for arm in arms if arm not in (reference, *without_memory)]
    without = scores[reference].later
    efforts = [effort_sentence(arm, scores[arm].later, reference, without, report) for arm in compared]
    return replace(report, sentences=efforts)


def _with_sessions(
    scores: ArmScores,
    drawn: Sequence[str],
    runs: Sequence[Sequence[Facts]],
    others: Sequence[Sequence[Facts]],
    bootstrap: Bootstrap,
) -> ArmScores:
    def means(sessions: slice) -> Mapping[str, SessionMean]:
        mine = [of_user[sessions] for of_user in runs]
        # The reference has no difference to itself.
        theirs = None if runs is others else [of_user[sessions] for of_user in others]
        return session_means(drawn, mine, theirs, bootstrap)

    trials = len(runs[0])
    second = min(1, trials - 1)  # a single session is reported as it is
    by_session = [means(slice(trial, trial + 1)) for trial in range(trials)]
    return replace(scores, sessions=by_session, later=means(slice(second, None)))


def session_means(
    users: Sequence[str],
    runs: Sequence[Sequence[Facts]],
    others: Sequence[Sequence[Facts]] | None,
    bootstrap: Bootstrap,
) -> Mapping[str, SessionMean]:
    """By measure, the means of some sessions of each user; `others` are those in the reference arm."""
    means: dict[str, SessionMean] = {}
    for name, measure in SESSION_MEASURES.items():
        means_U = np.array([_mean(of_user, measure) for of_user in runs], dtype=np.float64)
        difference = None
        if others is not None:
            difference = _paired_difference(users, runs, others, measure, bootstrap)
        means[name] = SessionMean(float(means_U.mean()), interval(bootstrap.means(means_U)), difference)
    return means


def _calls_of(ended: Mapping[Key, Ended]) -> int:
    """Requests to the model in all runs, recorded ones too."""
    return sum(run.facts.usage.calls for run in ended.values())


def _facts_by_task(ended: Mapping[Key, Ended], arm: str, tasks: Sequence[str], trials: int) -> list[list[Facts]]:
    """The trials of each task in one arm."""
    by_task: list[list[Facts]] = []
    for task in tasks:
        by_task.append([ended[Key(arm, task, trial)].facts for trial in range(trials)])
    return by_task


def _finished_in_all(ended: Mapping[Key, Ended], arms: Sequence[str], tasks: Sequence[str], trials: int) -> list[str]:
    """The tasks of which every arm has every trial."""
    finished: list[str] = []
    for task in tasks:
        if all(Key(arm, task, trial) in ended for arm, trial in product(arms, range(trials))):
            finished.append(task)
    return finished


def _scores(
    tasks: Sequence[str],
    drawn: Sequence[str],
    runs: Sequence[Sequence[Facts]],
    others: Sequence[Sequence[Facts]],
    bootstrap: Bootstrap,
) -> ArmScores:
    """The scores of an arm beside the reference; `runs` and `others` hold the trials of each task.

    `drawn` has what is resampled, by task: the task itself or its family. For the reference, `others` is `runs`, the
    same object.
    """
    every = list(chain.from_iterable(runs))
    means: dict[str, float | None] = {}
    differences: dict[str, MethodDifference] = {}
    for name, measure in _measures_of(every).items():
        means[name] = _mean(every, measure)
        if runs is not others:
            difference = _paired_difference(drawn, runs, others, measure, bootstrap)
            if difference is not None:
                differences[name] = difference
    success_T = np.array([_mean(of_task, _MEASURES["success"]) for of_task in runs], dtype=np.float64)
    won: list[ChangedTask] = []
    lost: list[ChangedTask] = []
    for better, change in _changes(tasks, runs, others):
        if better:
            won.append(change)
        else:
            lost.append(change)
    memory_s: list[float] = []
    hints: list[str] = []
    for facts in every:
        memory_s += facts.memory_s
        hints += facts.hints
    return ArmScores(
        means,
        interval(bootstrap.means(success_T)),
        pass_k=_pass_k(runs),
        difference=differences,
        memory_ms=1_000 * median(memory_s) if memory_s else 0.0,
        hinted=sum(map(bool, hints)) / max(len(hints), 1),
        entropy=_entropies(every),
        cost_usd=_cost_usd(every),
        won=won,
        lost=lost,
    )


def _measures_of(runs: Sequence[Facts]) -> dict[str, _Measure]:
    """Our measures, and what the environment judged of these runs."""
    measures = dict(_MEASURES)
    for facts in runs:
        for name in facts.scores:
            measures[name] = partial(_judged, name=name)
    return measures


def _paired_difference(
    drawn: Sequence[str],
    runs: Sequence[Sequence[Facts]],
    others: Sequence[Sequence[Facts]],
    measure: _Measure,
    bootstrap: Bootstrap,
) -> MethodDifference | None:
    """The mean difference over the tasks where both arms have a value; None without any such task."""
    both: list[str] = []
    differences: list[float] = []
    for label, mine, theirs in zip(drawn, runs, others, strict=True):
        value, other = _mean(mine, measure), _mean(theirs, measure)
        if value is not None and other is not None:
            both.append(label)
            differences.append(value - other)
    if not both:
        return None
    values_T = np.array(differences)
    # Other tasks: the draws of all tasks do not fit.
    if len(both) < len(drawn):
        bootstrap = Bootstrap(both)
    return MethodDifference(float(values_T.mean()), interval(bootstrap.means(values_T)))


def _pass_k(runs: Sequence[Sequence[Facts]]) -> list[float]:
    # Of c successes in n trials, C(c, k) / C(n, k) is the chance that k trials drawn without repetition all succeed.
    trials = len(runs[0])
    successes = [_successes(of_task) for of_task in runs]
    chances: list[float] = []
    for k in range(1, trials + 1):
        ways = comb(trials, k)
        chances.append(fmean(comb(count, k) / ways for count in successes))
    return chances


def _successes(runs: Sequence[Facts]) -> int:
    return sum(facts.success for facts in runs)


def _cost_usd(runs: Sequence[Facts]) -> float | None:
    """What runs cost together; None if the price of one is unknown."""
    total = 0.0
    for facts in runs:
        if facts.usage.cost_usd is None:
            return None
        total += facts.usage.cost_usd
    return total


def _entropies(runs: Sequence[Facts]) -> dict[str, float]:
    """The mean entropy of first tokens at, before and after summaries; what no run has is left out."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for facts in runs:
        by_step = dict(enumerate(facts.entropies))
        for step, move in enumerate(facts.moves):
            if not move.startswith(f"{SUMMARY_TOOL}("):
                continue
            for name, offset in _AROUND.items():
                entropy = by_step.get(step + offset)
                if entropy is not None:
                    values[name].append(entropy)
    return {name: fmean(values[name]) for name in _AROUND if values[name]}


def _judged(facts: Facts, name: str) -> float | None:
    return facts.scores.get(name)


def _mean(runs: Sequence[Facts], measure: _Measure) -> float | None:
    values: list[float] = []
    for facts in runs:
        value = measure(facts)
        if value is not None:
            values.append(value)
    if not values:
        return None
    return fmean(values)


def _changes(
    tasks: Sequence[str], runs: Sequence[Sequence[Facts]], others: Sequence[Sequence[Facts]]
) -> Iterator[tuple[bool, ChangedTask]]:
    """Of each task that one arm solved more often, whether it was this one, and the first trial that shows it."""
    for task, mine, theirs in zip(tasks, runs, others, strict=True):
        gained = _successes(mine) - _successes(theirs)
        if not gained:
            continue
        better = gained > 0
        for trial, (run, other) in enumerate(zip(mine, theirs, strict=True)):
            if run.success is better and other.success is not better:
                step = _first_difference(run.moves, other.moves)
                hint = ""
                if step < len(run.hints):
                    hint = run.hints[step]
                yield better, ChangedTask(task, trial, step, hint, other.moves[step:], run.moves[step:])
                break


def _first_difference(moves: Sequence[str], others: Sequence[str]) -> int:
    """The first step at which two runs differ; one that goes on where the other ended differs there."""
    step = 0
    for move, other in zip_longest(moves, others):
        if move != other:
            break
        step += 1
    return step


def _sentence(arm: str, scores: ArmScores, reference: str, tasks: int) -> str:
    besides = ""
    for name in scores.difference:
        if name == CHANGED:
            besides += f" It changed {100 * (scores.means[name] or 0.0):.1f} % of the calls."
        elif name not in _MEASURES:  # what the environment judges besides, as "security"
            besides += f" {_judgement(name, scores, reference)}."
    # No task came out otherwise: there is no difference to weigh.
    if not scores.won and not scores.lost:
        hints = " hints" if ARMS[arm].strategy != "off" else ""
        if not scores.means["success"]:
            why = f"no task was solved, as with {reference}: too hard for this model, or its limits are too low"
            return f"With {arm}{hints} {why}.{besides}"
        why = "too few tasks, or no effect"
        return f"With {arm}{hints} each task was solved as often as with {reference}: {why}.{besides}"
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
    low, high = gain.interval
    # Equal in every task.
    if low == gain.value == high == 0:
        return f"{mean}, as with {reference}"
    by = "no more than chance explains" if low <= 0 <= high else "by more than chance explains"
    return f"{mean}, {_points(gain.value)} points [{_points(low)}, {_points(high)}], {by}"


def _points(share: float) -> str:
    # + 0.0 makes 0.0 of -0.0; what rounds to 0 has no sign.
    return f"{100 * share + 0.0:+.1f}".replace("+0.0", "0").replace("-0.0", "0")


def tables(report: BenchReport) -> list[Table | Text]:
    """Scores, differences, the won and the lost tasks, and the sentences below all."""
    if not report.tasks:
        return list(endings(report, "run", "task"))
    parts: list[Table | Text] = [
        _scores_table(report),
        Text("turns, calls: of successful runs; ms: median time in memory per turn", style="dim"),
        _differences(report),
    ]
    if _has_sessions(report):
        parts += session_tables(report)
    parts.append(_overhead(report))
    if report.unreflected:
        sessions = count_of(report.unreflected, "session")
        parts.append(Text(f"After {sessions} the model's notes could not be read, and the old ones stayed."))
    for arm, scores in report.arms.items():
        for what, changes in (("won", scores.won), ("lost", scores.lost)):
            parts += [_side_by_side(report.reference, arm, what, change) for change in changes[:_SHOWN]]
    return [*parts, *endings(report, "run", "task")]


def _has_sessions(report: BenchReport) -> bool:
    return any(scores.sessions for scores in report.arms.values())


def _scores_table(report: BenchReport) -> Table:
    title = f"{report.environment} with {report.model}: {count_of(report.tasks, 'task')}"
    trials: list[str] = []
    if _has_sessions(report):
        title += f", {count_of(report.trials, 'session')} of each"
    elif report.trials > 1:
        title += f", {count_of(report.trials, 'trial')} of each"
        trials = [f"pass^{report.trials}"]
    judged = _judged_names(report)
    names = ["success", "95 %", *judged, *trials, "turns", "calls", "errors", "tokens", "hinted", "ms"]
    table = table_of(title, "arm", *names)
    for arm, scores in report.arms.items():
        means = scores.means
        row = [f"{means['success']:.3f}", f"{scores.interval.low:.2f} … {scores.interval.high:.2f}"]
        for name in judged:
            row.append(_number(means.get(name), 3))
        if trials:
            row.append(f"{scores.pass_k[-1]:.3f}")
        for name in (*_TO_SUCCESS, "errors"):
            row.append(_number(means[name], 1))
        row += [f"{means['tokens']:,.0f}", f"{scores.hinted:.0%}", f"{scores.memory_ms:.2f}"]
        table.add_row(arm, *row)
    return table


def _judged_names(report: BenchReport) -> list[str]:
    """What the environment judges besides, in any arm, in order."""
    names: dict[str, None] = {}
    for scores in report.arms.values():
        for name in scores.means:
            if name not in _MEASURES:
                names[name] = None
    return list(names)


def _number(value: float | None, digits: int) -> str:
    if value is None:
        return "–"
    return f"{value:.{digits}f}"


def endings(report: BenchReport, run: str, task: str) -> Iterator[Text]:
    """The end of a report: why runs broke off, how many tasks are unfinished, and the sentences."""
    # One line for each reason, as a server that is down ends all runs by the same one.
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for key, reason in report.failed.items():
        reasons[reason].append(key)
    for reason, keys in reasons.items():
        yield Text(on_one_line(f"{count_of(len(keys), run)} broke off ({keys[0]}): {reason}"))
    if report.unfinished:
        yield Text(f"{count_of(report.unfinished, task)} left out, not finished: repeat the command.")
    for sentence in report.sentences:
        yield Text(f"\n{on_one_line(sentence)}", style="bold")


def _differences(report: BenchReport) -> Table | Text:
    if len(report.arms) < 2:
        return Text("")
    title = f"memory beside {report.reference}; adjusted: paired by task, turns and calls where both arms solved it"
    table = table_of(title, "arm", *COLUMNS, "won", "lost")
    without = report.arms[report.reference].means
    for arm, scores in report.arms.items():
        if arm == report.reference:
            continue
        shown = _SESSION_DIFFERENCES if scores.sessions else _SHOWN_DIFFERENCES
        for name in shown:
            difference = scores.difference.get(name)
            mean = scores.means[name]
            other = without[name]
            if difference is None or mean is None or other is None:
                continue
            effect = _effect(difference, report.tasks)
            measured = MeasuredInBothArms(f"{arm}: {name}", other, mean, effect, share=name == "success")
            won_and_lost = ("", "")
            if name == "success":
                won_and_lost = (str(len(scores.won)), str(len(scores.lost)))
            table.add_row(*measured.cells, *won_and_lost)
    return table


def _overhead(report: BenchReport) -> Table:
    """What a turn takes, and how sure the model is around its summaries."""
    places: list[str] = []
    for name in _AROUND:
        if any(name in scores.entropy for scores in report.arms.values()):
            places.append(name)
    headings = [f"entropy {name}" for name in places]
    table = table_of("overhead per turn", "arm", "requests", "tokens", "ms", *headings)
    for arm, scores in report.arms.items():
        requests = scores.means["requests_per_turn"] or 0.0
        tokens = scores.means["tokens_per_turn"] or 0.0
        entropies = [_number(scores.entropy.get(name), 3) for name in places]
        table.add_row(arm, f"{requests:.2f}", f"{tokens:,.0f}", f"{scores.memory_ms:.2f}", *entropies)
    return table


def _side_by_side(reference: str, arm: str, what: str, change: ChangedTask) -> Table | Text:
    hint = f"memory said: {_cut(change.hint)}" if change.hint else "memory said nothing"
    title = f"{what} with {arm}: {change.task}, from step {change.step + 1}, where {hint}"
    table = Table(
        title=Text(f"\n{on_one_line(title)}"), title_justify="left", box=None, pad_edge=False, header_style="dim"
    )
    for heading in (reference, arm):
        table.add_column(heading, ratio=1, overflow="fold")
    steps = list(zip_longest(change.without, change.with_memory, fillvalue=""))
    for without, with_memory in steps[:_SHOWN_STEPS]:
        # Text, not str: brackets in a call would be read as markup.
        table.add_row(Text(_cut(without)), Text(_cut(with_memory)))
    if len(steps) > _SHOWN_STEPS:
        table.add_row(_cut_mark(change.without), _cut_mark(change.with_memory))
    return table


def _cut_mark(moves: Sequence[str]) -> str:
    """Below the steps of a run: whether it goes on."""
    return CUT if len(moves) > _SHOWN_STEPS else ""


def _cut(text: str) -> str:
    line = on_one_line(" ".join(text.split()))
    if len(line) <= _CHARS:
        return line
    return line[: _CHARS - 1] + CUT


def draw(report: BenchReport, file: Path) -> None:
    """Draw by how much each arm solves more than the reference; where trials are sessions, draw these one by one."""
    if _has_sessions(report):
        draw_sessions(report, file)
        return
    effects: dict[str, Effect] = {}
    for arm, scores in report.arms.items():
        if "success" in scores.difference:  # the reference has no difference to itself
            effects[arm] = _effect(scores.difference["success"], report.tasks)
    if not effects:
        raise InputError("there is nothing to draw: no task is finished in two arms.")
    tasks = count_of(report.tasks, "task")
    draw_effects(file, f"{report.environment} with {report.model}, {tasks}, beside {report.reference}", effects)
