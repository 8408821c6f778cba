"""The evaluation itself: split, fit, rank, measure, per domain and over all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from hepm.errors import InputError
from hepm.evals.baselines import Hint, Method, Training
from hepm.evals.domains import Domain, DomainRun, Event, Split, by_family, by_request, by_run, counted
from hepm.evals.metrics import (
    METRICS,
    Bootstrap,
    DivergencePoint,
    Failures,
    FloatArray,
    Hints,
    RescueAndHarm,
    find_divergences,
    interval,
    rank_of,
    values_of,
)
from hepm.evals.report import (
    DomainReport,
    EvalOptions,
    EvalReport,
    EvalSettings,
    MethodDifference,
    MethodScores,
    verdict,
)
from hepm.evals.sampling import DIVERGENCES, FOLDS, PREDICTED, Sample
from hepm.ingest.side_by_side import answers_in_order

HintsOf: TypeAlias = defaultdict[str, Hints]
"""By name of the method."""
_WORTH_RUNS: Final = 2_000
"""Runs in all memories together, from which on several processes are worth their start."""


def evaluate(
    domains: Sequence[Domain],
    methods: Sequence[Method],
    options: EvalOptions = EvalOptions(),
    *,
    processes: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> EvalReport:
    """Measure every method on every domain.

    Args:
        processes: How many work side by side where there are many runs. The figures are the same.
        on_progress: Called with how many memories were asked, and of how many.
    Raises:
        InputError: nothing could be measured; the sentence says why.
    """
    if not methods:
        raise InputError("there is no method to measure")
    if options.assume_success:
        domains = [replace(domain, runs=[*map(_assume_success, domain.runs)]) for domain in domains]
    _check_labels(domains)
    domains = [by_request(domain) for domain in domains]
    sample = Sample.of(domains) if options.sample else Sample(domains)
    # A sample has folds of its own, in which a memory predicts more calls.
    if not sample.whole:
        options = replace(options, folds=FOLDS)
    # Differences need a reference that was measured.
    if all(method.name != options.reference for method in methods):
        options = replace(options, reference=methods[0].name)

    results = [_Measured(domain, options, sample) for domain in sample.domains]
    to_ask = [(result, questions) for result in results for questions in result.to_ask]
    if sum(len(questions.split.train) for _, questions in to_ask) < _WORTH_RUNS:
        processes = 1
    answers_of = partial(_answers, methods, options.k)
    answered = answers_in_order(answers_of, [questions for _, questions in to_ask], processes=processes)
    for number, ((result, questions), answers) in enumerate(zip(to_ask, answered, strict=True), 1):
        result.take(questions, answers)
        on_progress(number, len(to_ask))
    measured = {result.domain.name: result for result in results if result.events}
    skipped = {result.domain.name: _why_nothing(result.domain) for result in results if not result.events}
    if not measured:
        reasons = "; ".join(f"{name}: {why}" for name, why in skipped.items())
        raise InputError(f"nothing could be evaluated: {reasons}")
    # Domains are resampled with seeds of their own, numbered by name: the order of the files must not change figures.
    for number, name in enumerate(sorted(measured)):
        measured[name].resample([options.seed, number])

    return _report(measured, skipped, methods, options, _settings(domains, sample, options))


def _check_labels(domains: Sequence[Domain]) -> None:
    """InputError unless at least one run is known to have succeeded."""
    labels: list[bool | None] = []
    for domain in domains:
        labels.extend(run.success for run in domain.runs)
    if not labels:
        raise InputError("there are no runs to evaluate")
    if set(labels) == {None}:
        raise InputError(
            f"none of the {len(labels)} runs says whether it succeeded, so nothing can be evaluated. Give each run a "
            "success or reward, or pass --assume-success to take every unlabelled run for a good one."
        )
    if True not in labels:
        raise InputError(f"none of the {len(labels)} runs succeeded, so nothing shows a good way; add successful runs.")


def _settings(domains: Sequence[Domain], sample: Sample, options: EvalOptions) -> EvalSettings:
    """The options and the numbers of runs; a run counts once, in however many domains it is."""
    # Of domains that show the same runs twice, one counts.
    runs = unlabelled = kept = 0
    for domain in counted(domains):
        runs += len(domain.runs)
        unlabelled += sum(run.success is None for run in domain.runs)
    for domain in counted(sample.domains):
        kept += len(domain.runs)
    sampled = None if sample.whole else kept
    return EvalSettings(**asdict(options), runs=runs, unlabelled=unlabelled, sampled=sampled)


def _report(
    measured: dict[str, _Measured],
    skipped: dict[str, str],
    methods: Sequence[Method],
    options: EvalOptions,
    settings: EvalSettings,
) -> EvalReport:
    results = [*measured.values()]
    unseen: list[HintsOf] = []
    seen: list[HintsOf] = []
    for result in results:
        unseen.append(result.unseen)
        seen.append(result.seen)
    report = EvalReport(
        domains={name: result.report(options) for name, result in measured.items()},
        macro={method.name: _scores(results, method.name, options.reference) for method in methods},
        rescue=_pooled(unseen, options),
        rescue_seen=_pooled(seen, options),
        methods={method.name: method.about for method in methods},
        skipped=skipped,
        settings=settings,
        verdict="",
    )
    events = families = 0
    for domain in counted(result.domain for result in results):
        events += report.domains[domain.name].events
        families += report.domains[domain.name].families
    return replace(report, verdict=verdict(report, events=events, families=families))


class _Questions(NamedTuple):
    """What the memory of one split is asked.

    Attributes:
        won: The calls of its successful runs; each is ranked if `rank`.
        hinted: The calls that hints are asked for: at the divergences, then `won`; none without failed runs.
    """

    split: Split
    won: Sequence[Event]
    divergences: Sequence[DivergencePoint]
    hinted: Sequence[Event]
    rank: bool


class _Answers(NamedTuple):
    """What a method says: the rank of each call of `won`, and the hints at `hinted`."""

    ranks: list[int]
    hints: Sequence[Hint]


def _answers(methods: Sequence[Method], k: int, questions: _Questions) -> dict[str, _Answers]:
    """Let each method learn from a split, then ask it; none where there is nothing to learn from, or to ask."""
    training = Training(questions.split.train)
    ranked = questions.won if questions.rank else ()
    if not training.events or not (questions.hinted or ranked):
        return {}
    answers: dict[str, _Answers] = {}
    for method in methods:
        predictor = method.fit(training)
        ranks: list[int] = []
        for event, tools in zip(ranked, predictor.rank(ranked), strict=True):
            ranks.append(rank_of(event.next, tools))
        answers[method.name] = _Answers(ranks, predictor.hints(questions.hinted, k))
    return answers


class _Measured:
    """What is ranked in one domain.

    Attributes:
        to_ask: What its memories are asked; `take` has the answers, in this order.
        events: The predicted calls, in order of the rows of `ranks`.
        unseen: Hints with the families out of memory; none if failed runs are not looked at.
        seen: With the failed run alone out of memory.
    """

    def __init__(self, domain: Domain, options: EvalOptions, sample: Sample) -> None:
        self.domain = domain
        self.to_ask: list[_Questions] = []
        self._sample = sample
        self.events: list[Event] = []
        self.unseen: HintsOf = defaultdict(Hints)
        self.seen: HintsOf = defaultdict(Hints)
        self._ranks: defaultdict[str, list[int]] = defaultdict(list)
        self._failures: Failures | None = None
        self._divergences: list[DivergencePoint] = []
        splits = list(by_family(domain.runs, options.folds))
        if not domain.derived:
            self._divergences, self._failures = find_divergences(domain.runs)
        diverged = [divergence.event.run for divergence in self._divergences]

        for split in sample.some_splits(splits, diverged):
            self._ask(split, rank=True)
        # Once more with the other runs of each task in memory: what memory is worth where tasks come again.
        if self._failures and options.seen:
            by_runs = by_run(domain.runs) if sample.whole else by_run(domain.runs, FOLDS)
            for split in sample.some_splits([*by_runs], diverged):
                self._ask(split, rank=False)

    def _ask(self, split: Split, *, rank: bool) -> None:
        won: list[Event] = []
        for run in split.test:
            if run.success:
                won.extend(run.events)
        tested = set(split.test)
        divergences = [divergence for divergence in self._divergences if divergence.event.run in tested]
        some_won = self._sample.some(won, PREDICTED)
        some_divergences = self._sample.some(divergences, DIVERGENCES)
        hinted: list[Event] = []
        if self._failures:
            hinted = [*(divergence.event for divergence in some_divergences), *some_won]
        self.to_ask.append(_Questions(split, some_won, some_divergences, hinted, rank))

    def take(self, questions: _Questions, answers: Mapping[str, _Answers]) -> None:
        """Keep what the methods said to one memory's questions."""
        hints_of = self.seen
        if questions.rank:
            hints_of = self.unseen
        if answers and questions.rank:
            self.events.extend(questions.won)
        for name, answer in answers.items():
            self._ranks[name].extend(answer.ranks)
            if not answer.hints:
                continue
            # One list in the order of `hinted`, dealt out part by part.
            dealt = iter(answer.hints)
            collected = hints_of[name]
            collected.at_divergences.extend(zip(questions.divergences, dealt, strict=False))
            collected.in_successes.extend(zip(questions.won, dealt, strict=False))

    def resample(self, seed: Sequence[int]) -> None:
        """Draw families; the draws are the same for every method."""
        # One for all methods, so that differences between them are paired.
        self._bootstrap = Bootstrap([event.run.family for event in self.events], seed=seed)

    def means(self, method: str) -> tuple[FloatArray, FloatArray]:
        """Of METRICS over the events, shape (4,), and of each draw, shape (B, 4)."""
        values_EM = values_of(np.array(self._ranks[method], dtype=np.int64))
        return values_EM.mean(axis=0), self._bootstrap.means(values_EM)

    def report(self, options: EvalOptions) -> DomainReport:
        """Scores of each method in this domain; `resample` comes first."""
        return DomainReport(
            events=len(self.events),
            families=self._bootstrap.families,  # of the predicted calls, not of all runs
            methods={name: _scores([self], name, options.reference) for name in self._ranks},
            rescue=_pooled([self.unseen], options),
            rescue_seen=_pooled([self.seen], options),
            failures=self._failures,
            grouped=self.domain.grouped,
        )


def _scores(domains: Sequence[_Measured], method: str, reference: str) -> MethodScores:
    """Means over domains, each counting the same."""
    means_M, draws_BM = _macro(domains, method)
    differences: dict[str, MethodDifference] = {}
    if method != reference:
        other_M, other_BM = _macro(domains, reference)
        differences = {
            metric: MethodDifference(ahead, interval(ahead_B))
            for metric, ahead, ahead_B in zip(
                METRICS, (means_M - other_M).tolist(), (draws_BM - other_BM).T, strict=True
            )
        }
    intervals = {metric: interval(draws_B) for metric, draws_B in zip(METRICS, draws_BM.T, strict=True)}
    return MethodScores(dict(zip(METRICS, means_M.tolist(), strict=True)), intervals, differences)


def _macro(domains: Sequence[_Measured], method: str) -> tuple[FloatArray, FloatArray]:
    """The mean over domains, and the mean of each draw."""
    # Draws of different domains are independent: they are averaged draw by draw.
    means, draws = zip(*(domain.means(method) for domain in domains), strict=True)
    return np.mean(means, axis=0), np.mean(draws, axis=0)


def _pooled(domains: Sequence[HintsOf], options: EvalOptions) -> dict[str, RescueAndHarm]:
    """By method, over domains together."""
    pooled: defaultdict[str, Hints] = defaultdict(Hints)
    for hints_of in domains:
        for name, hints in hints_of.items():
            pooled[name].add(hints)
    return {name: hints.measure(k=options.k, seed=options.seed) for name, hints in pooled.items()}


def _assume_success(run: DomainRun) -> DomainRun:
    """The run, labelled a success if it has no label."""
    if run.success is not None:
        return run
    outcome = replace(run.trajectory.outcome, success=True)
    return replace(run, trajectory=replace(run.trajectory, outcome=outcome))


def _why_nothing(domain: Domain) -> str:
    """Why no call of a domain could be predicted, as half a sentence."""
    tested = [run for run in domain.runs if run.success and run.events]
    if not tested:
        return "no successful run calls two tools, so no next tool can be predicted"
    families = {run.family for run in tested}
    number = "one task family" if len(families) == 1 else "too few task families"
    return (
        f"its successful runs are of {number} ({', '.join(sorted(families)[:3])}), and at least two are needed: "
        "one to remember, another to predict"
    )
