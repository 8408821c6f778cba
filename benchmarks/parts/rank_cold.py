"""Where a ranker meets what it was not trained on: few runs, tools of no run, runs of no such environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from hepm.errors import InputError
from hepm.evals.baselines import Method, Training
from hepm.evals.domains import Domain, Run, by_family
from hepm.evals.evaluate import evaluate
from hepm.evals.methods import FilledMemory, PolicyPredictor
from hepm.evals.metrics import METRICS, Bootstrap, interval, values_of
from hepm.evals.report import EvalOptions
from hepm.policy import Hybrid
from hepm.policy.hybrid.fitted import FittedMemory
from hepm.rank.data import graph_data
from hepm.rank.policy import Gnn
from hepm.rank.ranker import Ranker
from hepm.rank.situations import tool_vectors
from hepm.rank.train import GraphRanker, TrainOptions, export, train

SIZES = (10, 30, 100)
ABSENT = 0.1  # share of a domain's tools that no run in memory calls
HEAD = "| | hit@1 / hit@2 / hit@3 / MRR | MRR against hybrid | gain |\n|---|---|---|---|"


def ranker_of(network: GraphRanker, filled: FilledMemory, described: Mapping[str, str] = {}) -> Ranker:
    """A network at work in a memory, which need not be the one that it was trained on."""
    data = graph_data(filled.mirror, filled.embedder)
    return Ranker(
        export(network, data), data["tool"].name, lambda names: tool_vectors(names, described, filled.embedder)
    )


def compared(
    domains: Sequence[Domain], memory: Callable[[Training], Training], ranker: Callable[[Training], Ranker | None]
) -> Iterator[str]:
    """Rows of the hybrid, the hybrid with a ranker and the ranker alone; without a ranker the hybrid answers alone."""
    kept, made = cache(memory), cache(ranker)

    def hybrid(training: Training, *, voice: bool) -> PolicyPredictor:
        found = made(kept(training)) if voice else None
        return PolicyPredictor(lambda floors: Hybrid(floors=floors, voice=found), kept(training))

    def alone(training: Training) -> PolicyPredictor:
        found = made(kept(training))
        if found is None:
            return hybrid(training, voice=False)
        return PolicyPredictor(lambda floors: Gnn(found, floors=floors), kept(training))

    methods = [
        Method("hybrid", "", lambda training: hybrid(training, voice=False)),
        Method("hybrid + ranker", "", lambda training: hybrid(training, voice=True)),
        Method("ranker alone", "", alone),
    ]
    report = evaluate(domains, methods, EvalOptions(reference="hybrid", seen=False))
    yield HEAD
    for name, scores in report.macro.items():
        low, high = scores.difference["mrr"].interval
        gains = [of.rescue[name].gain for of in report.domains.values() if of.rescue and of.rescue[name].divergences]
        values = " / ".join(f"{scores.values[metric]:.3f}" for metric in METRICS)
        gain = f"{np.mean(gains):+.3f}" if gains else ""
        yield f"| {name} | {values} | [{low:+.3f}, {high:+.3f}] | {gain} |"


def few_runs(domains: Sequence[Domain], options: TrainOptions) -> Iterator[str]:
    """Memories of some runs of each domain, drawn at random; the ranker is trained on these."""
    for size in SIZES:
        refused = [0]

        def some(training: Training, size: int = size) -> Training:
            order = np.random.default_rng(options.seed).permutation(len(training.runs))[:size]
            found = Training([training.runs[at] for at in order.tolist()])
            return found if found.events else training

        def ranker(training: Training, refused: list[int] = refused) -> Ranker | None:
            filled = FilledMemory.of(training)
            try:
                return ranker_of(train(graph_data(filled.mirror, filled.embedder), options), filled)
            except InputError:  # too few tasks
                refused[0] += 1
                return None

        rows = list(compared(domains, some, ranker))
        yield f"\nMemories of {size} runs; of {5 * len(domains)} trainings {refused[0]} refused as too few tasks:\n"
        yield from rows


def other_environments(
    domains: Sequence[Domain], options: TrainOptions, environment: Callable[[str], str]
) -> Iterator[str]:
    """The ranker is trained on all other environments in one memory, and then works in the memory of each domain."""
    for domain in domains:
        others = [run for d in domains if environment(d.name) != environment(domain.name) for run in d.runs]
        filled = FilledMemory(Training(others))
        network = train(graph_data(filled.mirror, filled.embedder), options)

        def ranker(training: Training, network: GraphRanker = network) -> Ranker:
            return ranker_of(network, FilledMemory.of(training))

        yield f"\n{domain.name}, the ranker trained on the runs of other environments:\n"
        yield from compared([domain], lambda training: training, ranker)


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
            fitted = filled.mirror.fits.of(FittedMemory)
            try:
                network = train(graph_data(filled.mirror, filled.embedder), options)
            except InputError:
                continue
            ranker = ranker_of(network, filled, described)
            here, further = ranker.on(fitted.calls), sorted(absent)
            names = [*fitted.calls.names, *further]
            open_K = np.append(np.isin(np.arange(len(fitted.calls.names)), fitted.candidates), [True] * len(further))
            texts = tool_vectors(names, described, filled.embedder)
            for event, query in zip(events, filled.queries(events), strict=True):
                now, at = fitted.encode(query, event.last), names.index(event.next)
                cosines = texts @ now.state_D if now.state_D is not None else np.zeros(len(names))
                for name, scores in (("ranker", ranker.scores(here, now, further)), ("text alone", cosines)):
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


def drawn_tools(runs: Sequence[Run], seed: int) -> set[str]:
    tools = sorted({tool for run in runs for tool in run.calls})
    count = max(1, round(ABSENT * len(tools)))
    return set(np.random.default_rng(seed).permutation(tools)[:count].tolist())


def report(domains: Sequence[Domain], options: TrainOptions, environment: Callable[[str], str]) -> Iterator[str]:
    """Markdown of all three."""
    yield from few_runs(domains, options)
    yield from absent_tools(domains, options)
    yield from other_environments(domains, options, environment)
