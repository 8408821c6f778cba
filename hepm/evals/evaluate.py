"""The evaluation itself: split, fit, rank, measure, per domain and over all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TypeAlias

import numpy as np

from hepm.errors import InputError
from hepm.evals.baselines import Method, Training
from hepm.evals.domains import Domain, DomainRun, Event, Split, by_request, by_run, counted, splits_of
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
from hepm.evals.sampling import FOLDS, Sample

HintsByK: TypeAlias = defaultdict[tuple[str, int], Hints]
"""By name of the method and maximum number of tools in a hint."""


def evaluate(
    domains: Sequence[Domain],
    methods: Sequence[Method],
    options: EvalOptions = EvalOptions(),
    *,
    on_progress: Callable[[str], None] = lambda _: None,
) -> EvalReport:
    """Measure every method on every domain.

    Raises:
        InputError: nothing could be measured; the sentence says why.
    """
    if not methods:
        raise InputError("there is no method to measure")
    if options.assume_success:
        domains = [domain.map_runs(_assume_success) for domain in domains]
    labels = [run.success for domain in domains for run in domain.all_runs]
    if not labels:
        raise InputError("there are no runs to evaluate")
    if set(labels) == {None}:
        raise InputError(
            f"none of the {len(labels)} runs says whether it succeeded, so nothing can be evaluated. Give each run a "
            "success or reward, or pass --assume-success to take every unlabelled run for a good one."
        )
    if True not in labels:
        raise InputError(f"none of the {len(labels)} runs succeeded, so nothing shows a good way; add successful runs.")
    measured: dict[str, _Measured] = {}
    skipped: dict[str, str] = {}
    domains = [by_request(domain) for domain in domains]
    sample = Sample.of(domains) if options.sample else Sample(domains)
    options = replace(options, folds=FOLDS if sample.folds else options.folds)
    for domain in sample.domains:
        on_progress(domain.name)
        found = _Measured(domain, methods, options, sample)
        if found.events:
            measured[domain.name] = found
        else:
            skipped[domain.name] = _why_nothing(domain, options)
    if not measured:
        raise InputError("nothing could be evaluated: " + "; ".join(f"{name}: {why}" for name, why in skipped.items()))
    for number, name in enumerate(sorted(measured)):
        measured[name].resample([options.seed, number])
    names = [method.name for method in methods]
    options = replace(options, reference=options.reference if options.reference in names else names[0])
    runs = [run for domain in counted(domains) for run in domain.all_runs]
    kept = sum(len(domain.all_runs) for domain in counted(sample.domains))
    settings = EvalSettings(
        **asdict(options),
        runs=len(runs),
        unlabelled=sum(run.success is None for run in runs),
        sampled=kept if sample.folds else None,
    )
    unseen, seen = [found.unseen for found in measured.values()], [found.seen for found in measured.values()]
    report = EvalReport(
        domains={name: found.report(options) for name, found in measured.items()},
        macro={name: _scores([*measured.values()], name, options.reference) for name in names},
        rescue=_pooled(unseen, options.k, options),
        rescue_seen=_pooled(seen, options.k, options),
        rescue_by_k=[_pooled(unseen, k, options) for k in options.ks],
        methods={method.name: method.about for method in methods},
        skipped=skipped,
        settings=settings,
        verdict="",
    )
    added = [report.domains[domain.name] for domain in counted(found.domain for found in measured.values())]
    events, families = sum(domain.events for domain in added), sum(domain.families for domain in added)
    return replace(report, verdict=verdict(report, events=events, families=families))


class _Measured:
    """What was ranked in one domain.

    Attributes:
        events: The predicted calls, in order of the rows of `ranks`.
        unseen: Hints with the families out of memory; none if failed runs are not looked at.
        seen: With the failed run alone out of memory.
        untested: Calls of successful runs whose fold had no memory to predict from.
    """

    def __init__(self, domain: Domain, methods: Sequence[Method], options: EvalOptions, sample: Sample) -> None:
        self.domain = domain
        self._sample = sample
        self.events: list[Event] = []
        self.unseen: HintsByK = defaultdict(Hints)
        self.seen: HintsByK = defaultdict(Hints)
        self._ranks: defaultdict[str, list[int]] = defaultdict(list)
        self._failures: Failures | None = None
        self._divergences: list[DivergencePoint] = []
        splits = list(splits_of(domain, options.split, options.folds))
        if options.rescue and not domain.derived and all(split.apart for split in splits):
            self._divergences, self._failures = find_divergences(domain.all_runs, among=domain.tested)
        diverged = [divergence.event.run for divergence in self._divergences]
        measured = sample.some_splits(splits, diverged)
        left_out = {run for split in splits if split not in measured for run in split.test}
        self.untested = sum(len(run.events) for run in domain.to_predict if run.success and run not in left_out)
        for split in measured:
            self._measure(split, methods, self.unseen, (options.k, *options.ks), rank=True)
        if self._failures and options.seen and options.split == "families":
            by_runs = by_run(domain.runs, FOLDS) if sample.folds else by_run(domain.runs)
            for split in sample.some_splits([*by_runs], diverged):
                self._measure(split, methods, self.seen, (options.k,), rank=False)

    def _measure(
        self, split: Split, methods: Sequence[Method], hints: HintsByK, ks: Sequence[int], *, rank: bool
    ) -> None:
        training, tested = Training(split.train), set(split.test)
        won, lost = ([e for run in split.test if run.success is label for e in run.events] for label in (True, False))
        here = [divergence for divergence in self._divergences if divergence.event.run in tested]
        all_won = len(won)
        won, lost = self._sample.some_calls(won), self._sample.some_calls(lost)
        here = self._sample.some_divergences(here)
        hinted = [*(divergence.event for divergence in here), *won, *lost] if self._failures else []
        if not training.events or not (hinted or (rank and won)):
            return
        if rank:
            self.events.extend(won)
            self.untested -= all_won
        for method in methods:
            predictor = method.fit(training)
            if rank:
                ranked = zip(won, predictor.rank(won), strict=True)
                self._ranks[method.name].extend(rank_of(event.next, ranking) for event, ranking in ranked)
            for k in ks if hinted else ():
                found = iter(predictor.hints(hinted, k))
                collected = hints[method.name, k]
                collected.at_divergences.extend(zip(here, found, strict=False))
                collected.in_successes.extend(zip(won, found, strict=False))
                collected.in_failures.extend(zip(lost, found, strict=False))

    def resample(self, seed: Sequence[int]) -> None:
        """Draw families; the draws are the same for every method."""
        self._bootstrap = Bootstrap([event.run.family for event in self.events], seed=seed)
        self._values = {name: values_of(np.array(ranks, dtype=np.int64)) for name, ranks in self._ranks.items()}

    def mean(self, method: str, metric: str) -> tuple[float, FloatArray]:
        """Of a metric over the events, and of each draw."""
        values_E = self._values[method][:, METRICS.index(metric)]
        return float(values_E.mean()), self._bootstrap.means(values_E)

    def report(self, options: EvalOptions) -> DomainReport:
        return DomainReport(
            events=len(self.events),
            families=self._bootstrap.families,
            untested=self.untested,
            methods={name: _scores([self], name, options.reference) for name in self._ranks},
            rescue=_pooled([self.unseen], options.k, options),
            rescue_seen=_pooled([self.seen], options.k, options),
            failures=self._failures,
            grouped=self.domain.grouped,
        )


def _scores(domains: Sequence[_Measured], method: str, reference: str) -> MethodScores:
    mine = {metric: _macro(domains, method, metric) for metric in METRICS}
    other = {metric: _macro(domains, reference, metric) for metric in METRICS if method != reference}
    return MethodScores(
        values={metric: mean for metric, (mean, _) in mine.items()},
        interval={metric: interval(draws_B) for metric, (_, draws_B) in mine.items()},
        difference={
            metric: MethodDifference(mine[metric][0] - mean, interval(mine[metric][1] - draws_B))
            for metric, (mean, draws_B) in other.items()
        },
    )


def _macro(domains: Sequence[_Measured], method: str, metric: str) -> tuple[float, FloatArray]:
    found = [domain.mean(method, metric) for domain in domains]
    return sum(mean for mean, _ in found) / len(found), np.mean([draws_B for _, draws_B in found], axis=0)


def _pooled(domains: Sequence[HintsByK], k: int, options: EvalOptions) -> dict[str, RescueAndHarm]:
    """By method, over domains together."""
    pooled: defaultdict[str, Hints] = defaultdict(Hints)
    for hints_by_k in domains:
        for (name, most), hints in hints_by_k.items():
            if most == k:
                pooled[name].add(hints)
    reference = pooled.get(options.reference)
    return {
        name: hints.measure(k=k, seed=options.seed, reference=None if hints is reference else reference)
        for name, hints in pooled.items()
    }


def _assume_success(run: DomainRun) -> DomainRun:
    outcome = replace(run.trajectory.outcome, success=True)
    return run if run.success is not None else replace(run, trajectory=replace(run.trajectory, outcome=outcome))


def _why_nothing(domain: Domain, options: EvalOptions) -> str:
    tested = [run for run in domain.to_predict if run.success and run.events]
    if not tested:
        return "no successful run calls two tools, so no next tool can be predicted"
    if domain.tested is not None:
        return "memory holds no successful run of it that calls two tools and may be used"
    if options.split == "models":
        return f"all runs are by one model ({tested[0].trajectory.model or 'unnamed'}), so none can be left out"
    families = {run.family for run in tested}
    return (
        f"its successful runs are of {'one task family' if len(families) == 1 else 'too few task families'} "
        f"({', '.join(sorted(families)[:3])}), and at least two are needed: one to remember, another to predict"
    )
