"""The evaluation itself: split, fit, rank, measure, per domain and over all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from hepm.errors import InputError
from hepm.evals.baselines import Hint, Method, Training
from hepm.evals.domains import Domain, Event, Split, by_family, by_request, by_run
from hepm.evals.metrics import (
    HINTED,
    METRICS,
    Bootstrap,
    DivergencePoint,
    FloatArray,
    Hints,
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
    verdict_of,
)
from hepm.evals.sampling import FOLDS, sample_of
from hepm.ingest.side_by_side import answers_in_order

_Answers: TypeAlias = dict[str, tuple[list[int], Sequence[Hint]]]
"""By method, the rank of each call that is predicted, and a hint at each divergence and each of these calls."""
RUN_FOLDS: Final = 10
"""Parts of the runs, for failed runs with themselves alone out of memory; `FOLDS` in a sample."""
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
    settings, domains = _settings([by_request(domain) for domain in domains], methods, options)

    results = [_Measured(domain) for domain in domains]
    to_ask: list[tuple[_Measured, _Asked]] = []
    for result in results:
        to_ask += [(result, asked) for asked in _questions(result.domain, settings)]
    if sum(len(asked.split.train) for _, asked in to_ask) < _WORTH_RUNS:
        processes = 1
    answers_of = partial(_answers, methods)
    answered = answers_in_order(answers_of, [asked for _, asked in to_ask], processes=processes)
    for number, ((result, asked), answers) in enumerate(zip(to_ask, answered, strict=True), 1):
        result.take(asked, answers)
        on_progress(number, len(to_ask))
    measured: list[_Measured] = []
    skipped: dict[str, str] = {}
    for result in results:
        if result.events:
            measured.append(result)
        else:
            skipped[result.domain.name] = _why_nothing(result.domain)
    if not measured:
        reasons = "; ".join(f"{name}: {why}" for name, why in skipped.items())
        raise InputError(f"nothing could be evaluated: {reasons}")
    # Domains are resampled with seeds of their own, numbered by name: the order of the files must not change figures.
    for number, result in enumerate(sorted(measured, key=lambda result: result.domain.name)):
        result.resample([options.seed, number])

    domains_measured: dict[str, DomainReport] = {}
    # By method: with the families out of memory, and (True) with the failed run alone out of memory.
    hints: dict[bool, defaultdict[str, Hints]] = {False: defaultdict(Hints), True: defaultdict(Hints)}
    for result in measured:
        domain, scores = result.domain, _scores([result], settings.reference)
        domains_measured[domain.name] = DomainReport(len(result.events), result.families, scores, domain.grouped)
        for asked, answers in result.answered:
            for name, (_, given) in answers.items():
                hints[asked.seen][name].add(asked.divergences, asked.won, given)
    rescue = {name: given.measure(seed=options.seed) for name, given in hints[False].items()}
    rescue_seen = {name: given.measure(seed=options.seed) for name, given in hints[True].items()}
    report = EvalReport(
        domains=domains_measured,
        macro=_scores(measured, settings.reference),
        rescue=rescue,
        rescue_seen=rescue_seen,
        methods={method.name: method.about for method in methods},
        skipped=skipped,
        settings=settings,
    )
    return replace(report, verdict=verdict_of(report))


def _settings(
    domains: Sequence[Domain], methods: Sequence[Method], options: EvalOptions
) -> tuple[EvalSettings, Sequence[Domain]]:
    """The options with the numbers of runs, and the domains to measure; InputError if no run succeeded."""
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
    settings = EvalSettings(**asdict(options), runs=len(labels), unlabelled=labels.count(None))
    # Differences need a reference that was measured.
    if all(method.name != options.reference for method in methods):
        settings = replace(settings, reference=methods[0].name)
    if options.sample:
        sample = sample_of(domains)
        if sample is not domains:
            runs = sum(len(domain.runs) for domain in sample)
            return replace(settings, folds=FOLDS, sampled=runs), sample
    return settings, domains


class _Asked(NamedTuple):
    """What the memory of one split is asked: to rank the calls of successful runs unless `seen`, and for hints.

    Attributes:
        won: The calls of its successful runs.
        divergences: Hints are asked for there, then at `won`.
        seen: Whether other runs of the tested tasks are in memory.
    """

    split: Split
    won: Sequence[Event]
    divergences: Sequence[DivergencePoint]
    seen: bool


def _questions(domain: Domain, settings: EvalSettings) -> Iterator[_Asked]:
    """What the memories of a domain are asked."""
    divergences = find_divergences(domain.runs)
    splits = [(split, False) for split in by_family(domain.runs, settings.folds)]
    # Once more with the other runs of each task in memory: what memory is worth where tasks come again.
    if settings.seen:
        run_folds = RUN_FOLDS
        if settings.sampled is not None:
            run_folds = FOLDS
        splits += [(split, True) for split in by_run(domain.runs, run_folds)]
    for split, seen in splits:
        won: list[Event] = []
        for run in split.test:
            if run.success:
                won += run.events
        tested = set(split.test)
        yield _Asked(split, won, [one for one in divergences if one.event.run in tested], seen)


def _answers(methods: Sequence[Method], asked: _Asked) -> _Answers:
    """Let each method learn from a split, then ask it; none where there is nothing to learn from, or to ask."""
    training = Training(asked.split.train)
    ranked: Sequence[Event] = () if asked.seen else asked.won
    hinted = [*(divergence.event for divergence in asked.divergences), *asked.won]
    if not (training.events and hinted):
        return {}
    answers: _Answers = {}
    for method in methods:
        predictor = method.fit(training)
        rankings = predictor.rank(ranked)
        ranks = [rank_of(event.next, tools) for event, tools in zip(ranked, rankings, strict=True)]
        answers[method.name] = ranks, predictor.hints(hinted, HINTED)
    return answers


class _Measured:
    """What the methods ranked in one domain.

    Attributes:
        answered: What each memory was asked, with the answers.
        events: The predicted calls.
        ranks: By method, in the order of the calls.
        means: By method, METRICS over the calls, shape (4,), and of each draw of families, shape (B, 4).
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.answered: list[tuple[_Asked, _Answers]] = []
        self.events: list[Event] = []
        self.ranks: defaultdict[str, list[int]] = defaultdict(list)
        self.families = 0
        self.means: dict[str, tuple[FloatArray, FloatArray]] = {}

    def take(self, asked: _Asked, answers: _Answers) -> None:
        """Keep what the methods said to one memory's questions."""
        self.answered.append((asked, answers))
        if answers and not asked.seen:
            self.events.extend(asked.won)
        for name, (ranks, _) in answers.items():
            self.ranks[name].extend(ranks)

    def resample(self, seed: Sequence[int]) -> None:
        """Draw families; the draws are the same for every method, so that differences between them are paired."""
        bootstrap = Bootstrap([event.run.family for event in self.events], seed=seed)
        self.families = bootstrap.families
        for name, ranks in self.ranks.items():
            values_EM = values_of(np.array(ranks, dtype=np.int64))
            self.means[name] = values_EM.mean(axis=0), bootstrap.means(values_EM)


def _scores(domains: Sequence[_Measured], reference: str) -> dict[str, MethodScores]:
    """By method, means over domains, each counting the same."""
    other_M, other_BM = _mean(domains, reference)
    scores: dict[str, MethodScores] = {}
    for method in domains[0].means:
        means_M, draws_BM = _mean(domains, method)
        found = MethodScores({}, {}, {})
        for number, metric in enumerate(METRICS):
            found.values[metric] = float(means_M[number])
            found.interval[metric] = interval(draws_BM[:, number])
            if method != reference:
                ahead = interval(draws_BM[:, number] - other_BM[:, number])
                found.difference[metric] = MethodDifference(float(means_M[number] - other_M[number]), ahead)
        scores[method] = found
    return scores


def _mean(domains: Sequence[_Measured], method: str) -> tuple[FloatArray, FloatArray]:
    """The mean over domains, and the mean of each draw."""
    # Draws of different domains are independent: they are averaged draw by draw.
    means, draws = zip(*(domain.means[method] for domain in domains), strict=True)
    return np.mean(means, axis=0), np.mean(draws, axis=0)


def _why_nothing(domain: Domain) -> str:
    """Why no call of a domain could be predicted, as half a sentence."""
    families = {run.family for run in domain.runs if run.success and run.events}
    if not families:
        return "no successful run calls two tools, so no next tool can be predicted"
    return (
        f"its successful runs are of too few task families ({', '.join(sorted(families)[:3])}), and at least two are "
        "needed: one to remember, another to predict"
    )
