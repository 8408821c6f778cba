"""Where a ranker meets what it was not trained on: few runs, runs of no such environment, tools of no run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from hepm.errors import InputError
from hepm.evals.baselines import Method, Training
from hepm.evals.domains import Domain, DomainRun, by_family
from hepm.evals.evaluate import evaluate
from hepm.evals.methods import FilledMemory, PolicyPredictor
from hepm.evals.metrics import METRICS, Bootstrap, interval, values_of
from hepm.evals.report import EvalOptions
from hepm.policy import Floors, Hybrid
from hepm.rank.calls import RankerQuery
from hepm.rank.data import graph_data
from hepm.rank.policy import Gnn
from hepm.rank.ranker import Ranker
from hepm.rank.situations import tool_vectors
from hepm.rank.train import GraphRanker, TrainOptions, export, train

SIZES = (10, 30, 100, None)
ABSENT = 0.1  # share of a domain's tools that no run in memory calls
Made = Callable[[Training], Ranker | None]


def ranker_of(network: GraphRanker, filled: FilledMemory, described: Mapping[str, str] = {}) -> Ranker:
    """A network at work in a memory, which need not be the one that it was trained on."""
    data = graph_data(filled.mirror, filled.embedder)
    return Ranker(
        export(network, data), data["tool"].name, lambda names: tool_vectors(names, described, filled.embedder)
    )


def compared(domains: Sequence[Domain], memory: Callable[[Training], Training], made: Mapping[str, Made]) -> str:
    """A table of the hybrid, and of each ranker in the hybrid and alone; without a ranker the hybrid answers alone."""
    kept = cache(memory)

    def method(name: str, ranker: Made, *, alone: bool) -> Method:
        def fit(training: Training) -> PolicyPredictor:
            found, kept_training = ranker(kept(training)), kept(training)

            def make(floors: Floors) -> Hybrid | Gnn:
                return Gnn(found, floors=floors) if alone and found else Hybrid(floors=floors, ranker=found)

            return PolicyPredictor(make, kept_training)

        return Method(name, "", fit)

    methods = [method("hybrid", lambda _: None, alone=False)]
    for name, ranker in made.items():
        once = cache(ranker)
        methods += [method(f"hybrid + {name}", once, alone=False), method(f"{name}, alone", once, alone=True)]
    report = evaluate(domains, methods, EvalOptions(reference="hybrid", seen=False))
    rows = [
        "| | hit@1 / hit@2 / hit@3 / MRR | hit@2 against hybrid | MRR against hybrid | gain |",
        "|---|---|---|---|---|",
    ]
    for name, scores in report.macro.items():
        cells = [" / ".join(f"{scores.values[metric]:.3f}" for metric in METRICS)]
        for metric in ("hit@2", "mrr"):
            found = scores.difference.get(metric)
            cells.append(f"{found.value:+.3f} [{found.interval.low:+.3f}, {found.interval.high:+.3f}]" if found else "")
        if helped := report.rescue.get(name):
            low, high = helped.interval["gain"]
            cells.append(f"{helped.gain:+.3f} [{low:+.3f}, {high:+.3f}]")
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def few_runs(
    domains: Sequence[Domain], every: Sequence[Domain], options: TrainOptions, environment: Callable[[str], str]
) -> Iterator[str]:
    """Memories of some runs of each domain, drawn at random, and of all.

    One ranker is trained on the memory itself, another one on the runs of all other environments.
    """

    @cache
    def of_others(apart: str) -> GraphRanker:
        filled = FilledMemory(Training([run for d in every if environment(d.name) != apart for run in d.runs]))
        return train(graph_data(filled.mirror, filled.embedder), options)

    for size in SIZES:
        refused = 0

        def some(training: Training, size: int | None = size) -> Training:
            order = np.random.default_rng(options.seed).permutation(len(training.runs))[:size]
            found = Training([training.runs[at] for at in order.tolist()])
            return found if found.events else training

        def own(training: Training) -> Ranker | None:
            nonlocal refused
            filled = FilledMemory.of(training)
            try:
                return ranker_of(train(graph_data(filled.mirror, filled.embedder), options), filled)
            except InputError:  # too few tasks
                refused += 1
                return None

        def others(training: Training) -> Ranker:
            return ranker_of(of_others(environment(training.runs[0].domain)), FilledMemory.of(training))

        found = compared(domains, some, {"ranker of this memory": own, "ranker of other environments": others})
        runs = "all runs" if size is None else f"{size} runs"
        yield f"\nMemories of {runs}; of {5 * len(domains)} trainings {refused} refused as too few tasks:\n\n{found}"


def absent_tools(domains: Sequence[Domain], options: TrainOptions) -> Iterator[str]:
    """Some tools are out of memory with all runs that call them, and are ranked by name and description alone."""
    ranks: dict[str, list[int]] = {"ranker": [], "text alone": [], "by chance": []}
    families: list[str] = []
    for domain in domains:
        described = {tool.name: tool.description for run in domain.runs for tool in run.trajectory.tools}
        for split in by_family(domain.runs, 5):
            absent = drawn_tools(split.train, options.seed)
            training = Training([run for run in split.train if not absent & set(run.calls)])
            events = [event for run in split.test if run.success for event in run.events if event.next in absent]
            if not events or not training.events:
                continue
            filled = FilledMemory(training)
            try:
                network = train(graph_data(filled.mirror, filled.embedder), options)
            except InputError:
                continue
            ranker = ranker_of(network, filled, described)
            here, further = ranker.here(filled.mirror), sorted(absent)
            _, won_K = here.runs_2K
            names, open_K = [*here.calls.number, *further], np.append(won_K > 0, [True] * len(further))
            texts = tool_vectors(names, described, filled.embedder)
            for event, query in zip(events, filled.queries(events), strict=True):
                [now] = RankerQuery.each_of(replace(query, after=(event.last,)), here.calls)
                at = names.index(event.next)
                cosines = texts @ now.state_D if now.state_D is not None else np.zeros(len(names))
                for name, scores in (("ranker", ranker.scores(here, now, names)), ("text alone", cosines)):
                    ranks[name].append(1 + int((scores[open_K] > scores[at]).sum()))
                ranks["by chance"].append(1 + int(open_K.sum()) // 2)
                families.append(f"{domain.name} {event.run.family}")
    yield f"\n{len(families)} calls of tools that no run in memory called, ranked among all tools:\n"
    yield "| | hit@1 / hit@2 / hit@3 / MRR | MRR, 95 % | mean rank |\n|---|---|---|---|"
    for name, found in ranks.items():
        values = values_of(np.array(found))
        low, high = interval(Bootstrap(families, seed=0).means(values[:, METRICS.index("mrr")]))
        means = " / ".join(f"{value:.3f}" for value in values.mean(0))
        yield f"| {name} | {means} | [{low:.3f}, {high:.3f}] | {np.mean(found):.1f} |"


def drawn_tools(runs: Sequence[DomainRun], seed: int) -> set[str]:
    tools = sorted({tool for run in runs for tool in run.calls})
    count = max(1, round(ABSENT * len(tools)))
    return set(np.random.default_rng(seed).permutation(tools)[:count].tolist())


def report(
    domains: Sequence[Domain], every: Sequence[Domain], options: TrainOptions, environment: Callable[[str], str]
) -> Iterator[str]:
    """Markdown of all, asked in some of the domains."""
    yield from absent_tools(domains, options)
    yield from few_runs(domains, every, options, environment)
