"""The evaluation itself: split, fit, rank, measure, per domain and over all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from hepm.errors import InputError
from hepm.evals.baselines import Hint, Method, Training
from hepm.evals.domains import Domain, Event, Split, by_family, by_request, by_run, counted
from hepm.evals.metrics import (
    METRICS,
    Bootstrap,
    DivergencePoint,
    FloatArray,
    Hints,
    RescueAndHarm,
    find_divergences,
    interval,
    rank_of,
    values_of,
)
from hepm.evals.report import (
    FEWEST_EVENTS,
    FEWEST_FAMILIES,
    DomainReport,
    EvalOptions,
    EvalReport,
    EvalSettings,
    MethodDifference,
    MethodScores,
    verdict_of,
)
from hepm.evals.sampling import FOLDS, sample_of
from hepm.ingest.side_by_side import answers_in_order

_Answers: TypeAlias = dict[str, tuple[list[int], Sequence[Hint]]]
"""By method, the rank of each call that is predicted, and a hint at each divergence and each of these calls."""
_WORTH_RUNS: Final = 500
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
    _check_labels(domains)
    settings, domains = _settings([by_request(domain) for domain in domains], methods, options)

    results = [_Measured(domain, settings) for domain in domains]
    to_ask = [(result, asked) for result in results for asked in result.to_ask()]
    if sum(len(asked.split.train) for _, asked in to_ask) < _WORTH_RUNS:
        processes = 1
    answers_of = partial(_answers, methods, options.k)
    answered = answers_in_order(answers_of, [asked for _, asked in to_ask], processes=processes)
    for number, ((result, asked), answers) in enumerate(zip(to_ask, answered, strict=True), 1):
        result.take(asked, answers)
        on_progress(number, len(to_ask))
    measured = [result for result in results if result.events]
    skipped = {result.domain.name: _why_nothing(result.domain) for result in results if not result.events}
    if not measured:
        reasons = "; ".join(f"{name}: {why}" for name, why in skipped.items())
        raise InputError(f"nothing could be evaluated: {reasons}")
    # Domains are resampled with seeds of their own, numbered by name: the order of the files must not change figures.
    for number, result in enumerate(sorted(measured, key=lambda result: result.domain.name)):
        result.resample([options.seed, number])
    return _report(measured, skipped, methods, settings)


def _check_labels(domains: Sequence[Domain]) -> None:
    """InputError unless at least one run is known to have succeeded."""
    labels = [run.success for domain in domains for run in domain.runs]
    if not labels:
        raise InputError("there are no runs to evaluate")
    if set(labels) == {None}:
        raise InputError(
            f"none of the {len(labels)} runs says whether it succeeded, so nothing can be evaluated. Give each run a "
            "success or reward (docs/use/outcomes.md)."
        )
    if True not in labels:
        raise InputError(f"none of the {len(labels)} runs succeeded, so nothing shows a good way; add successful runs.")


def _settings(
    domains: Sequence[Domain], methods: Sequence[Method], options: EvalOptions
) -> tuple[EvalSettings, Sequence[Domain]]:
    """The options with the numbers of runs, and the domains to measure; a run counts once, in however many it is."""
    labels = [run.success for domain in counted(domains) for run in domain.runs]
    settings = EvalSettings(**asdict(options), runs=len(labels), unlabelled=labels.count(None))
    # Differences need a reference that was measured.
    if all(method.name != options.reference for method in methods):
        settings = replace(settings, reference=methods[0].name)
    sample = sample_of(domains) if options.sample else domains
    if sample is not domains:
        runs = sum(len(domain.runs) for domain in counted(sample))
        settings = replace(settings, folds=FOLDS, run_folds=FOLDS, sampled=runs)
    return settings, sample


def _report(
    measured: Sequence[_Measured], skipped: Mapping[str, str], methods: Sequence[Method], settings: EvalSettings
) -> EvalReport:
    # Of domains that show the same runs twice, one counts.
    counts = [result for result in measured if result.domain in [*counted(result.domain for result in measured)]]
    events = sum(len(result.events) for result in counts)
    families = sum(result.families for result in counts)
    report = EvalReport(
        domains={result.domain.name: result.report() for result in measured},
        macro={method.name: _scores(measured, method.name, settings.reference) for method in methods},
        rescue=_pooled([result.hints[False] for result in measured], settings),
        rescue_seen=_pooled([result.hints[True] for result in measured], settings),
        methods={method.name: method.about for method in methods},
        skipped=skipped,
        settings=settings,
        verdict="",
        enough=events >= FEWEST_EVENTS and families >= FEWEST_FAMILIES,
    )
    return replace(report, verdict=verdict_of(report, events=events, families=families))


class _Asked(NamedTuple):
    """What the memory of one split is asked.

    Attributes:
        won: The calls of its successful runs; they are ranked unless `seen`.
        divergences: Hints are asked for there, then at `won`, if `hinted`.
        seen: Whether other runs of the tested tasks are in memory.
    """

    split: Split
    won: Sequence[Event]
    divergences: Sequence[DivergencePoint]
    seen: bool
    hinted: bool


def _answers(methods: Sequence[Method], k: int, asked: _Asked) -> _Answers:
    """Let each method learn from a split, then ask it; none where there is nothing to learn from, or to ask."""
    training = Training(asked.split.train)
    ranked: Sequence[Event] = () if asked.seen else asked.won
    hinted: list[Event] = []
    if asked.hinted:
        hinted = [*(divergence.event for divergence in asked.divergences), *asked.won]
    if not training.events or not (hinted or ranked):
        return {}
    answers: _Answers = {}
    for method in methods:
        predictor = method.fit(training)
        rankings = predictor.rank(ranked)
        ranks = [rank_of(event.next, tools) for event, tools in zip(ranked, rankings, strict=True)]
        answers[method.name] = ranks, predictor.hints(hinted, k)
    return answers


class _Measured:
    """What is ranked in one domain.

    Attributes:
        events: The predicted calls, in order of the ranks.
        families: Of the predicted calls, not of all runs.
        hints: By method, with the families out of memory, and (True) with the failed run alone out of memory; none if
            failed runs are not looked at.
    """

    def __init__(self, domain: Domain, settings: EvalSettings) -> None:
        self.domain = domain
        self.events: list[Event] = []
        self.families = 0
        self.hints: dict[bool, defaultdict[str, Hints]] = {False: defaultdict(Hints), True: defaultdict(Hints)}
        self._settings = settings
        self._ranks: defaultdict[str, list[int]] = defaultdict(list)
        self._divergences: Sequence[DivergencePoint] = ()
        if not domain.derived:
            self._divergences = find_divergences(domain.runs)

    def to_ask(self) -> Iterator[_Asked]:
        """What its memories are asked; `take` has the answers, in this order."""
        splits = [(split, False) for split in by_family(self.domain.runs, self._settings.folds)]
        # Once more with the other runs of each task in memory: what memory is worth where tasks come again.
        if self._settings.seen and not self.domain.derived:
            splits += [(split, True) for split in by_run(self.domain.runs, self._settings.run_folds)]
        for split, seen in splits:
            won = [event for run in split.test if run.success for event in run.events]
            tested = set(split.test)
            here = [divergence for divergence in self._divergences if divergence.event.run in tested]
            yield _Asked(split, won, here, seen, hinted=not self.domain.derived)

    def take(self, asked: _Asked, answers: _Answers) -> None:
        """Keep what the methods said to one memory's questions."""
        if answers and not asked.seen:
            self.events.extend(asked.won)
        for name, (ranks, hints) in answers.items():
            self._ranks[name].extend(ranks)
            if hints:
                collected = self.hints[asked.seen][name]
                divergences = len(asked.divergences)
                collected.at_divergences += zip(asked.divergences, hints[:divergences], strict=True)
                collected.in_successes += zip(asked.won, hints[divergences:], strict=True)

    def resample(self, seed: Sequence[int]) -> None:
        """Draw families; the draws are the same for every method, so that differences between them are paired."""
        self._bootstrap = Bootstrap([event.run.family for event in self.events], seed=seed)
        self.families = self._bootstrap.families

    def means(self, method: str) -> tuple[FloatArray, FloatArray]:
        """Of METRICS over the events, shape (4,), and of each draw, shape (B, 4)."""
        values_EM = values_of(np.array(self._ranks[method], dtype=np.int64))
        return values_EM.mean(axis=0), self._bootstrap.means(values_EM)

    def report(self) -> DomainReport:
        """Scores of each method in this domain; `resample` comes first."""
        return DomainReport(
            events=len(self.events),
            families=self.families,
            methods={name: _scores([self], name, self._settings.reference) for name in self._ranks},
            rescue=_pooled([self.hints[False]], self._settings),
            rescue_seen=_pooled([self.hints[True]], self._settings),
            grouped=self.domain.grouped,
        )


def _scores(domains: Sequence[_Measured], method: str, reference: str) -> MethodScores:
    """Means over domains, each counting the same."""
    means_M, draws_BM = _macro(domains, method)
    differences: dict[str, MethodDifference] = {}
    if method != reference:
        other_M, other_BM = _macro(domains, reference)
        for number, metric in enumerate(METRICS):
            ahead = interval(draws_BM[:, number] - other_BM[:, number])
            differences[metric] = MethodDifference(float(means_M[number] - other_M[number]), ahead)
    intervals = {metric: interval(draws_B) for metric, draws_B in zip(METRICS, draws_BM.T, strict=True)}
    return MethodScores(dict(zip(METRICS, means_M.tolist(), strict=True)), intervals, differences)


def _macro(domains: Sequence[_Measured], method: str) -> tuple[FloatArray, FloatArray]:
    """The mean over domains, and the mean of each draw."""
    # Draws of different domains are independent: they are averaged draw by draw.
    means, draws = zip(*(domain.means(method) for domain in domains), strict=True)
    return np.mean(means, axis=0), np.mean(draws, axis=0)


def _pooled(domains: Sequence[Mapping[str, Hints]], options: EvalOptions) -> dict[str, RescueAndHarm]:
    """By method, over domains together."""
    pooled: defaultdict[str, Hints] = defaultdict(Hints)
    for hints_of in domains:
        for name, hints in hints_of.items():
            pooled[name].at_divergences += hints.at_divergences
            pooled[name].in_successes += hints.in_successes
    return {name: hints.measure(k=options.k, seed=options.seed) for name, hints in pooled.items()}


def _why_nothing(domain: Domain) -> str:
    """Why no call of a domain could be predicted, as half a sentence."""
    families = {run.family for run in domain.runs if run.success and run.events}
    if not families:
        return "no successful run calls two tools, so no next tool can be predicted"
    return (
        f"its successful runs are of too few task families ({', '.join(sorted(families)[:3])}), and at least two are "
        "needed: one to remember, another to predict"
    )
