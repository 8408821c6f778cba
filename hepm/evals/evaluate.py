"""The evaluation itself: split, fit, rank, measure, per domain and over all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from hepm.errors import InputError
from hepm.evals.domains import Domain, by_request, counted
from hepm.evals.events import Event, Run
from hepm.evals.methods import Method, Predictor
from hepm.evals.metrics import METRICS, Bootstrap, FloatArray, interval, rank_of, values_of
from hepm.evals.report import Difference, DomainReport, EvalReport, Failures, MethodScores, Settings, SplitName
from hepm.evals.rescue import Divergence, Divergences, Hints, RescueAndHarm, find_divergences
from hepm.evals.splits import Split, across, as_given, by_family, by_model, by_run
from hepm.evals.training import Training
from hepm.evals.verdict import Findings, judged, verdict

Progress: TypeAlias = Callable[[str], None]
HintsByK: TypeAlias = defaultdict[tuple[str, int], Hints]
"""By name of the method and tools of a hint."""


@dataclass(frozen=True)
class EvalOptions:
    """How to evaluate.

    Attributes:
        split: "families" keeps them apart in folds, "models" leaves one out at a time; domains with tested files use
            those, whole ("files") or with their families taken out of memory ("files, unseen families").
        k: How many tools a hint holds.
        ks: Further lengths of a hint to judge rescue and harm by.
        reference: The method that others are compared with; the first one where it is not measured.
        rescue: Whether to look at failed runs: with their families out of memory and, where the split is "families",
            also with themselves alone left out (see `by_run`).
    """

    split: SplitName = "families"
    folds: int = 5
    k: int = 2
    ks: tuple[int, ...] = ()
    seed: int = 0
    reference: str = "first-order"
    rescue: bool = True
    assume_success: bool = False


def evaluate(
    domains: Sequence[Domain],
    methods: Sequence[Method],
    options: EvalOptions = EvalOptions(),
    *,
    on_progress: Progress = lambda _: None,
) -> EvalReport:
    """Measure every method on every domain.

    Raises:
        InputError: nothing could be measured; the sentence says why.
    """
    if not methods:
        raise InputError("no method was asked for")
    if options.assume_success:
        domains = [_assume_success(domain) for domain in domains]
    _check_labels(domains)
    measured: dict[str, _Measured] = {}
    skipped: dict[str, str] = {}
    domains = [by_request(domain) for domain in domains]
    for domain in domains:
        on_progress(domain.name)
        found = _measure(domain, methods, options)
        if isinstance(found, str):
            skipped[domain.name] = found
        else:
            measured[domain.name] = found
    if not measured:
        raise InputError("nothing could be evaluated: " + "; ".join(f"{name}: {why}" for name, why in skipped.items()))
    return _report(domains, measured, skipped, methods, options)


@dataclass
class _Measured:
    """What was ranked in one domain; rows of all arrays are its events."""

    domain: Domain
    options: EvalOptions
    untested: int = 0
    events: list[Event] = field(default_factory=list[Event])
    ranks: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    divergences: Divergences | None = None
    unseen: HintsByK = field(default_factory=lambda: defaultdict(Hints))
    seen: HintsByK = field(default_factory=lambda: defaultdict(Hints))


def _measure(domain: Domain, methods: Sequence[Method], options: EvalOptions) -> _Measured | str:
    found = _Measured(domain, options)
    splits = list(_splits(domain, options))
    apart = all(split.apart for split in splits)
    if options.rescue and apart and not domain.derived:
        found.divergences = find_divergences([*domain.runs, *(domain.tested or ())], among=domain.tested)
    for split in splits:
        _measure_split(found, split, methods)
    if found.divergences is not None and options.split == "families":
        for split in by_run(domain.runs):
            _measure_seen(found, split, methods)
    tested = domain.runs if domain.tested is None else domain.tested
    found.untested = sum(len(run.events) for run in tested if run.success) - len(found.events)
    return found if found.events else _why_nothing(domain, options)


def _measure_split(found: _Measured, split: Split, methods: Sequence[Method]) -> None:
    training = Training(split.train)
    events = _events(split, success=True)
    places = _Places.of(found.divergences, split) if found.divergences else None
    if not training.events or not (events or places):
        return
    found.events.extend(events)
    for method in methods:
        predictor = method.fit(training)
        ranks = [rank_of(*pair) for pair in zip(events, predictor.rank(events), strict=True)]
        found.ranks.setdefault(method.name, []).extend(ranks)
        if places:
            for k in (found.options.k, *found.options.ks):
                found.unseen[method.name, k].add(places.hints(predictor, k))


def _measure_seen(found: _Measured, split: Split, methods: Sequence[Method]) -> None:
    training = Training(split.train)
    if not training.events or not (found.divergences and (places := _Places.of(found.divergences, split))):
        return
    for method in methods:
        found.seen[method.name, found.options.k].add(places.hints(method.fit(training), found.options.k))


@dataclass(frozen=True)
class _Places:
    """Where hints are asked for in the tested runs of a split."""

    divergences: Sequence[Divergence]
    successes: Sequence[Event]
    failures: Sequence[Event]

    @classmethod
    def of(cls, divergences: Divergences, split: Split) -> _Places | None:
        """None where no tested run holds such a place."""
        tested = set(split.test)
        within = [divergence for divergence in divergences.found if divergence.event.run in tested]
        found = cls(within, _events(split, success=True), _events(split, success=False))
        return found if within or found.successes or found.failures else None

    def hints(self, predictor: Predictor, k: int) -> Hints:
        """Hints of at most k tools."""
        diverging = [divergence.event for divergence in self.divergences]
        hints = iter(predictor.hints([*diverging, *self.successes, *self.failures], k))
        return Hints(
            at_divergences=list(zip(self.divergences, hints, strict=False)),
            in_successes=list(zip(self.successes, hints, strict=False)),
            in_failures=list(zip(self.failures, hints, strict=False)),
        )


def _events(split: Split, *, success: bool) -> list[Event]:
    return [event for run in split.test if run.success is success for event in run.events]


def _splits(domain: Domain, options: EvalOptions) -> Iterator[Split]:
    if domain.tested is None:
        return by_model(domain.runs) if options.split == "models" else by_family(domain.runs, options.folds)
    if options.split == "files, unseen families":
        return across(domain.runs, domain.tested, options.folds)
    return as_given(domain.runs, domain.tested)


def _report(
    domains: Sequence[Domain],
    measured: Mapping[str, _Measured],
    skipped: Mapping[str, str],
    methods: Sequence[Method],
    options: EvalOptions,
) -> EvalReport:
    names = [method.name for method in methods]
    options = replace(options, reference=options.reference if options.reference in names else names[0])
    draws = {
        name: _Draws(found, [options.seed, number]) for number, (name, found) in enumerate(sorted(measured.items()))
    }
    runs = [run for domain in counted(domains) for run in [*domain.runs, *(domain.tested or ())]]
    with_hints = [found for found in measured.values() if found.divergences is not None]
    unseen, seen = [found.unseen for found in with_hints], [found.seen for found in with_hints]
    report = EvalReport(
        domains={name: _domain_report(found, draws[name], options) for name, found in measured.items()},
        macro={name: _scores([*draws.values()], name, options.reference) for name in names},
        rescue=_pooled(unseen, options.k, options.seed),
        rescue_seen=_pooled(seen, options.k, options.seed),
        rescue_by_k=[_pooled(unseen, k, options.seed) for k in options.ks],
        about={method.name: method.about for method in methods},
        skipped=skipped,
        settings=Settings(
            split=options.split,
            folds=options.folds,
            k=options.k,
            seed=options.seed,
            reference=options.reference,
            runs=len(runs),
            unlabelled=sum(run.success is None for run in runs),
            assume_success=options.assume_success,
        ),
        verdict="",
    )
    return replace(report, verdict=verdict(_findings(report, measured, draws)))


class _Draws:
    """Metrics of every event and method of a domain, and how they vary."""

    def __init__(self, found: _Measured, seed: Sequence[int]) -> None:
        self._bootstrap = Bootstrap([event.run.family for event in found.events], seed=seed)
        self.families = self._bootstrap.families
        self._values = {name: values_of(np.array(ranks, dtype=np.int64)) for name, ranks in found.ranks.items()}

    def mean(self, method: str, metric: str) -> float:
        """Over the events."""
        return float(self._values[method][:, METRICS.index(metric)].mean())

    def means(self, method: str, metric: str) -> FloatArray:
        """Of each draw; draws are the same for every method."""
        return self._bootstrap.means(self._values[method][:, METRICS.index(metric)])


def _scores(domains: Sequence[_Draws], method: str, reference: str) -> MethodScores:
    values = {metric: _mean(domains, method, metric) for metric in METRICS}
    others = METRICS if method != reference else ()
    return MethodScores(
        values=values,
        interval={metric: interval(_means(domains, method, metric)) for metric in METRICS},
        difference={metric: _difference(domains, method, reference, metric) for metric in others},
    )


def _difference(domains: Sequence[_Draws], method: str, reference: str, metric: str) -> Difference:
    return Difference(
        _mean(domains, method, metric) - _mean(domains, reference, metric),
        interval(_means(domains, method, metric) - _means(domains, reference, metric)),
    )


def _mean(domains: Sequence[_Draws], method: str, metric: str) -> float:
    return sum(domain.mean(method, metric) for domain in domains) / len(domains)


def _means(domains: Sequence[_Draws], method: str, metric: str) -> FloatArray:
    return np.mean([domain.means(method, metric) for domain in domains], axis=0)


def _domain_report(found: _Measured, draws: _Draws, options: EvalOptions) -> DomainReport:
    failures = None
    if found.divergences is not None:
        counts = (len(found.divergences.found), found.divergences.alone, found.divergences.no_other_way)
        failures = Failures(sum(counts), *counts)
    return DomainReport(
        events=len(found.events),
        families=draws.families,
        untested=found.untested,
        methods={name: _scores([draws], name, options.reference) for name in found.ranks},
        rescue=_pooled([found.unseen], options.k, options.seed),
        rescue_seen=_pooled([found.seen], options.k, options.seed),
        failures=failures,
        grouped=found.domain.grouped,
    )


def _pooled(domains: Sequence[HintsByK], k: int, seed: int) -> dict[str, RescueAndHarm]:
    """By method, over domains together."""
    pooled: defaultdict[str, Hints] = defaultdict(Hints)
    for hints_by_k in domains:
        for (name, length), hints in hints_by_k.items():
            if length == k:
                pooled[name].add(hints)
    return {name: hints.measure(k=k, seed=seed) for name, hints in pooled.items()}


def _findings(report: EvalReport, measured: Mapping[str, _Measured], draws: Mapping[str, _Draws]) -> Findings:
    method = judged(report.macro)
    plain = "global" if "global" in report.macro else report.settings.reference
    metric = f"hit@{min(report.settings.k, 3)}"
    added = [report.domains[domain.name] for domain in counted(found.domain for found in measured.values())]
    return Findings(
        method=method,
        events=sum(domain.events for domain in added),
        families=sum(domain.families for domain in added),
        hit=report.macro[method].values[metric],
        k=min(report.settings.k, 3),
        plain=("the most frequent tools" if plain == "global" else plain, report.macro[plain].values[metric]),
        ahead=_difference([*draws.values()], method, plain, metric) if method != plain else None,
        rescue=report.rescue.get(method),
        seen=report.rescue_seen.get(method),
        apart=report.settings.split in ("families", "files, unseen families"),
        grouped=any(domain.grouped for domain in report.domains.values()),
    )


def _assume_success(domain: Domain) -> Domain:
    tested = None if domain.tested is None else [_taken_for_good(run) for run in domain.tested]
    return replace(domain, runs=[_taken_for_good(run) for run in domain.runs], tested=tested)


def _taken_for_good(run: Run) -> Run:
    if run.success is not None:
        return run
    outcome = replace(run.trajectory.outcome, success=True)
    return replace(run, trajectory=replace(run.trajectory, outcome=outcome))


def _check_labels(domains: Sequence[Domain]) -> None:
    runs = [run for domain in domains for run in [*domain.runs, *(domain.tested or ())]]
    if not runs:
        raise InputError("there are no runs to evaluate")
    if all(run.success is None for run in runs):
        raise InputError(
            f"none of the {len(runs)} runs says whether it succeeded, so nothing can be evaluated. Give each run a "
            "success or reward, or pass --assume-success to take every unlabelled run for a good one."
        )
    if not any(run.success for run in runs):
        raise InputError(f"none of the {len(runs)} runs succeeded, so nothing shows a good way; add successful runs.")


def _why_nothing(domain: Domain, options: EvalOptions) -> str:
    tested = [run for run in (domain.runs if domain.tested is None else domain.tested) if run.success and run.events]
    if not tested:
        return "no successful run calls two tools, so no next tool can be predicted"
    if domain.tested is not None:
        return "memory holds no successful run of it that calls two tools and may be used"
    if options.split == "models":
        return f"all runs are by one model ({tested[0].model or 'unnamed'}), so none can be left out"
    families = {run.family for run in tested}
    return (
        f"its successful runs are of {'one task family' if len(families) == 1 else 'too few task families'} "
        f"({', '.join(sorted(families)[:3])}), and at least two are needed: one to remember, another to predict"
    )
