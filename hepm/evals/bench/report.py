"""What a bench found: scores by arm, paired differences, the tasks that memory won and lost, and one sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product, zip_longest
from math import comb, inf
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from rich.table import Table
from rich.text import Text

from hepm.errors import InputError
from hepm.evals.bench.arms import ARMS, OFF
from hepm.evals.bench.folder import Ended, Facts, Key
from hepm.evals.metrics import Bootstrap, Interval, interval
from hepm.evals.report import Difference, rounded, table_of
from hepm.text import CUT, count_of, on_one_line
from hepm.types import SUMMARY_TOOL
from hepm.uplift.drawing import draw_effects
from hepm.uplift.saying import COLUMNS, Measured, effect_sentence
from hepm.uplift.sequence import Effect

if TYPE_CHECKING:
    from hepm.evals.collaboration.report import CollaborationReport

FEWEST_TASKS: Final = 10
_SHOWN_DIFFERENCES: Final = ("success", "calls", "tokens")
_SHOWN: Final = 2  # won tasks, and lost ones, of each arm on a terminal
_CHARS: Final = 300
_TO_SUCCESS: Final = ("turns", "calls")
_Measure: TypeAlias = Callable[[Facts], float | None]  # None where a run has none
_MEASURES: Final[Mapping[str, _Measure]] = {
    "success": lambda facts: float(facts.success),
    "reward": lambda facts: facts.reward,
    "turns": lambda facts: facts.turns if facts.success else None,
    "calls": lambda facts: facts.calls if facts.success else None,
    "errors": lambda facts: facts.errors,
    "tokens": lambda facts: facts.usage.tokens,
    "requests_per_turn": lambda facts: facts.usage.calls / facts.turns if facts.turns else None,
    "tokens_per_turn": lambda facts: facts.usage.tokens / facts.turns if facts.turns else None,
}
_AROUND: Final[Mapping[str, int]] = {"summary": 0, "before": -1, "after": 1}  # H-EPM, table 8


@dataclass(frozen=True)
class Change:
    """A task that came out differently with memory: the first pair of runs of which one succeeded.

    Attributes:
        trial: Of both runs, from 0.
        step: The first step at which they differ, from 0.
        hint: What memory said there.
        without, with_memory: What the model did at each step from there on.
    """

    task: str
    trial: int
    step: int
    hint: str
    without: tuple[str, ...]
    with_memory: tuple[str, ...]


@dataclass(frozen=True)
class ArmScores:
    """One arm.

    Attributes:
        means: Success, reward, tool errors and tokens over runs; turns and calls over successful ones; and what the
            environment judges besides ("security") over the runs of which it does.
        interval: Of the success.
        pass_k: The chance that k trials of a task all succeed, for k = 1 to the number of trials (τ-bench).
        difference: To the reference arm, paired by task; of turns and calls on tasks that both solved.
        memory_ms: Median milliseconds in memory per turn.
        hinted: Share of the turns at which memory said something.
        entropy: Mean entropy of an answer's first token in nats: of calls of the summary tool, and of the answers
            before and after them (H-EPM, C.3); empty without log-probabilities.
        cost_usd: None without prices.
        won, lost: Tasks that succeeded more often, and less often, than in the reference arm.
    """

    means: Mapping[str, float | None]
    interval: Interval
    pass_k: Sequence[float]
    difference: Mapping[str, Difference]
    memory_ms: float
    hinted: float
    entropy: Mapping[str, float]
    cost_usd: float | None
    won: Sequence[Change]
    lost: Sequence[Change]


@dataclass(frozen=True)
class BenchReport:
    """A whole bench, over the tasks of which every arm has every trial.

    Attributes:
        reference: The arm that others are compared with.
        unfinished: Tasks that some arm has not finished.
        failed: Why runs broke off.
        sentences: One on each arm but the reference.
    """

    environment: str
    model: str
    tasks: int
    trials: int
    reference: str
    arms: Mapping[str, ArmScores]
    unfinished: int
    failed: Mapping[str, str]
    calls: int
    paid_before: int
    sentences: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """As `hepm bench --json` prints it."""
        return rounded(asdict(self))


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
) -> BenchReport:
    """Compare the arms on the tasks that all of them have finished."""
    keys = {task: {arm: [Key(arm, task, trial) for trial in range(trials)] for arm in arms} for task in tasks}
    whole = [task for task in tasks if all(key in ended for of_arm in keys[task].values() for key in of_arm)]
    runs = {arm: [[ended[key].facts for key in keys[task][arm]] for task in whole] for arm in arms}
    reference = OFF if OFF in arms else arms[0]
    bootstrap = Bootstrap(whole, seed=seed) if whole else None
    scores = {arm: _scores(whole, runs[arm], runs[reference], bootstrap) for arm in arms} if bootstrap else {}
    return BenchReport(
        environment,
        model,
        tasks=len(whole),
        trials=trials,
        reference=reference,
        arms=scores,
        unfinished=len(tasks) - len(whole),
        failed={str(key): reason for key, reason in failed.items()},
        calls=sum(one.facts.usage.calls for one in ended.values()),
        paid_before=paid_before,
        sentences=[_sentence(arm, found, reference, len(whole)) for arm, found in scores.items() if arm != reference],
    )


def _scores(
    tasks: Sequence[str], runs: Sequence[Sequence[Facts]], others: Sequence[Sequence[Facts]], bootstrap: Bootstrap
) -> ArmScores:
    every = [facts for of_task in runs for facts in of_task]
    means: dict[str, float | None] = {}
    differences: dict[str, Difference] = {}
    judged = dict.fromkeys(name for facts in every for name in facts.scores)
    for name, measure in (_MEASURES | {name: partial(_judged, name=name) for name in judged}).items():
        means[name] = _mean(every, measure)
        pairs = [(_mean(mine, measure), _mean(theirs, measure)) for mine, theirs in zip(runs, others, strict=True)]
        both = [at for at, pair in enumerate(pairs) if None not in pair]
        if runs is not others and both:
            values_T = np.array([(pairs[at][0] or 0.0) - (pairs[at][1] or 0.0) for at in both])
            drawn = bootstrap if len(both) == len(tasks) else Bootstrap([tasks[at] for at in both])
            differences[name] = Difference(float(values_T.mean()), interval(drawn.means(values_T)))
    success_T = np.array([_mean(of_task, _MEASURES["success"]) for of_task in runs], dtype=np.float64)
    trials = len(runs[0])
    won = [sum(facts.success for facts in of_task) for of_task in runs]
    changes = list(_changes(tasks, runs, others))
    memory_s = [seconds for facts in every for seconds in facts.memory_s]
    hints = [hint for facts in every for hint in facts.hints]
    costs = [facts.usage.cost_usd for facts in every]
    return ArmScores(
        means,
        interval(bootstrap.means(success_T)),
        pass_k=[fmean(comb(c, k) / comb(trials, k) for c in won) for k in range(1, trials + 1)],
        difference=differences,
        memory_ms=1_000 * median(memory_s) if memory_s else 0.0,
        hinted=sum(map(bool, hints)) / max(len(hints), 1),
        entropy=_entropies(every),
        cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
        won=[change for better, change in changes if better],
        lost=[change for better, change in changes if not better],
    )


def _entropies(runs: Sequence[Facts]) -> dict[str, float]:
    found: defaultdict[str, list[float]] = defaultdict(list)
    for facts in runs:
        known = dict(enumerate(facts.entropies))
        summaries = [at for at, move in enumerate(facts.moves) if move.startswith(f"{SUMMARY_TOOL}(")]
        for (name, offset), at in product(_AROUND.items(), summaries):
            if (entropy := known.get(at + offset)) is not None:
                found[name].append(entropy)
    return {name: fmean(found[name]) for name in _AROUND if found[name]}


def _judged(facts: Facts, name: str) -> float | None:
    return facts.scores.get(name)


def _mean(runs: Sequence[Facts], measure: _Measure) -> float | None:
    values = [value for facts in runs if (value := measure(facts)) is not None]
    return fmean(values) if values else None


def _changes(
    tasks: Sequence[str], runs: Sequence[Sequence[Facts]], others: Sequence[Sequence[Facts]]
) -> Iterator[tuple[bool, Change]]:
    for task, mine, theirs in zip(tasks, runs, others, strict=True):
        better = sum(facts.success for facts in mine) - sum(facts.success for facts in theirs)
        for trial, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            if better and one.success is not other.success and one.success is (better > 0):
                at = next(n for n, (a, b) in enumerate(zip_longest(one.moves, other.moves)) if a != b)
                hint = one.hints[at] if at < len(one.hints) else ""
                yield better > 0, Change(task, trial, at, hint, other.moves[at:], one.moves[at:])
                break


def _sentence(arm: str, found: ArmScores, reference: str, tasks: int) -> str:
    gain = found.difference["success"]
    hints = " hints" if ARMS[arm].strategy != "off" else ""
    judged = [name for name in found.difference if name not in _MEASURES]
    besides = "".join(f" {_judgement(name, found, reference)}." for name in judged)
    if not (found.won or found.lost):
        if not found.means["success"]:
            so = f"no task was solved, as with {reference}: too hard for this model, or its limits are too low"
            return f"With {arm}{hints} {so}.{besides}"
        so = "too few tasks, or no effect"
        return f"With {arm}{hints} each task was solved as often as with {reference}: {so}.{besides}"
    said = effect_sentence(_effect(gain, tasks) if tasks >= FEWEST_TASKS else None, tasks, of="task")
    won = count_of(len(found.won), "task")
    changed = f"It solved {won} that failed with {reference}, and failed {len(found.lost):,} that were solved."
    return f"{arm} beside {reference}: {said} {changed}{besides}"


def _effect(found: Difference, tasks: int) -> Effect:
    return Effect(found.value, *found.interval, tasks, inf)


def _judgement(name: str, found: ArmScores, reference: str) -> str:
    gain, mean = found.difference[name], f"{name.capitalize()} was {100 * (found.means[name] or 0.0):.1f} %"
    low, high = gain.interval
    if low == gain.value == high == 0:
        return f"{mean}, as with {reference}"
    so = "no more than chance explains" if low <= 0 <= high else "by more than chance explains"
    return f"{mean}, {_points(gain.value)} points [{_points(low)}, {_points(high)}], {so}"


def _points(share: float) -> str:
    return f"{100 * share + 0.0:+.1f}".replace("+0.0", "0").replace("-0.0", "0")


def tables(report: BenchReport) -> list[Table | Text]:
    """Scores, differences, the won and the lost tasks, and the sentences below all."""
    if not report.tasks:
        return list(endings(report, "run", "task"))
    trials = f", {count_of(report.trials, 'trial')} of each" if report.trials > 1 else ""
    title = f"{report.environment} with {report.model}: {count_of(report.tasks, 'task')}{trials}"
    last = [f"pass^{report.trials}"] if report.trials > 1 else []
    judged = list(
        dict.fromkeys(name for found in report.arms.values() for name in found.means if name not in _MEASURES)
    )
    names = ["success", "95 %", *judged, *last, "turns", "calls", "errors", "tokens", "hinted", "ms"]
    table = table_of(title, "arm", *names)
    for arm, found in report.arms.items():
        means = found.means
        row = [f"{means['success']:.3f}", f"{found.interval.low:.2f} … {found.interval.high:.2f}"]
        row += ["–" if (mean := means.get(name)) is None else f"{mean:.3f}" for name in judged]
        row += [f"{found.pass_k[-1]:.3f}"] if last else []
        row += ["–" if means[name] is None else f"{means[name]:.1f}" for name in (*_TO_SUCCESS, "errors")]
        row += [f"{means['tokens']:,.0f}", f"{found.hinted:.0%}", f"{found.memory_ms:.2f}"]
        table.add_row(arm, *row)
    parts: list[Table | Text] = [
        table,
        Text("turns, calls: of successful runs; ms: median time in memory per turn", style="dim"),
        _differences(report),
        _overhead(report),
    ]
    for arm, found in report.arms.items():
        for what, changes in (("won", found.won), ("lost", found.lost)):
            parts += [_side_by_side(report.reference, arm, what, change) for change in changes[:_SHOWN]]
    return [*parts, *endings(report, "run", "task")]


def endings(report: BenchReport | CollaborationReport, run: str, task: str) -> Iterator[Text]:
    """The end of a report: why runs broke off, how many tasks are unfinished, and the sentences."""
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for key, reason in report.failed.items():
        reasons[reason].append(key)
    for reason, keys in reasons.items():
        yield Text(on_one_line(f"{count_of(len(keys), run)} broke off ({keys[0]}): {reason}"))
    if report.unfinished:
        yield Text(f"{count_of(report.unfinished, task)} left out, not finished: repeat the command.")
    yield from (Text(f"\n{on_one_line(sentence)}", style="bold") for sentence in report.sentences)


def _differences(report: BenchReport) -> Table | Text:
    if len(report.arms) < 2:
        return Text("")
    title = f"memory beside {report.reference}, paired by task"
    table = table_of(title, "arm", *COLUMNS, "won", "lost")
    without = report.arms[report.reference].means
    for arm, found in report.arms.items():
        for name in _SHOWN_DIFFERENCES:
            gain, mean, other = found.difference.get(name), found.means[name], without[name]
            if arm == report.reference or gain is None or mean is None or other is None:
                continue
            row = Measured(f"{arm}: {name}", other, mean, _effect(gain, report.tasks), share=name == "success")
            tasks = [str(len(changes)) for changes in (found.won, found.lost)] if row.share else ["", ""]
            table.add_row(*row.cells, *tasks)
    return table


def _overhead(report: BenchReport) -> Table:
    """What a turn takes, and how sure the model is around its summaries."""
    measured = [name for name in _AROUND if any(name in found.entropy for found in report.arms.values())]
    table = table_of("overhead per turn", "arm", "requests", "tokens", "ms", *(f"entropy {name}" for name in measured))
    for arm, found in report.arms.items():
        requests, tokens = found.means["requests_per_turn"] or 0.0, found.means["tokens_per_turn"] or 0.0
        sure = [f"{found.entropy[name]:.3f}" if name in found.entropy else "–" for name in measured]
        table.add_row(arm, f"{requests:.2f}", f"{tokens:,.0f}", f"{found.memory_ms:.2f}", *sure)
    return table


def _side_by_side(reference: str, arm: str, what: str, change: Change) -> Table | Text:
    hint = f"memory said: {_cut(change.hint)}" if change.hint else "memory said nothing"
    title = f"{what} with {arm}: {change.task}, from step {change.step + 1}, where {hint}"
    table = Table(
        title=Text(f"\n{on_one_line(title)}"), title_justify="left", box=None, pad_edge=False, header_style="dim"
    )
    for heading in (reference, arm):
        table.add_column(heading, ratio=1, overflow="fold")
    steps = list(zip_longest(change.without, change.with_memory, fillvalue=""))
    for without, with_memory in steps[:4]:
        table.add_row(Text(_cut(without)), Text(_cut(with_memory)))
    if len(steps) > 4:
        table.add_row(*(CUT if len(moves) > 4 else "" for moves in (change.without, change.with_memory)))
    return table


def _cut(text: str) -> str:
    line = on_one_line(" ".join(text.split()))
    return line if len(line) <= _CHARS else line[: _CHARS - 1] + CUT


def draw(report: BenchReport, file: Path) -> None:
    """Draw by how much each arm solves more than the reference; see `hepm.uplift.drawing.draw_effects`."""
    effects = {
        arm: _effect(found.difference["success"], report.tasks)
        for arm, found in report.arms.items()
        if "success" in found.difference
    }
    if not effects:
        raise InputError("there is nothing to draw: no task is finished in two arms.")
    tasks = count_of(report.tasks, "task")
    draw_effects(file, f"{report.environment} with {report.model}, {tasks}, beside {report.reference}", effects)
