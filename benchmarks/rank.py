"""Compare trained rankers with the hybrid policy and plain ones, alone and as one more voice in the hybrid.

usage: python benchmarks/rank.py [RUNS] [--part compare|cold|followed|scale] [--domain NAME]... [--model NAME]...
       [--seen] [--seeds 1] [--keep FOLDER] [--desks 10]

--keep keeps trained networks in a folder, so that a run that is cut off goes on from there.
compare: everything in one run, per domain with the task's family out of memory (five folds); --seen adds hints with the
run alone left out (ten folds). Weights of the hybrid and of each voice are fitted on other environments only (*cross*,
see benchmarks/fit_hybrid.py). Prints Markdown: hit@1, hit@2, hit@3 and MRR, the differences from the hybrid with paired
95 % intervals, and what hints of two tools are worth at divergences, each the mean over seeds of training.
cold: tools that no run in memory calls, memories of few runs, and a ranker of other environments, of which all others
among the ten domains are taken, whatever --domain names.
followed: success of simulated agents that follow hints, by the hybrid without and with a ranker.
scale: a training epoch and a suggestion with 5,000 tools, 200,000 edges and 500,000 states, and with half of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch
from fit_hybrid import FITTED, FLOOR, Judged, Sample, collect, environment, fit, pairs_of
from parts import rank_cold, rank_followed, rank_scale
from parts.rank_kept import Kept

from hepm.evals.baselines import Hint
from hepm.evals.domains import Domain, by_family, by_run, ten_domains
from hepm.evals.methods import FilledMemory
from hepm.evals.metrics import METRICS, POINTINGS, Bootstrap, interval, values_of
from hepm.ingest import Rejection, read_runs
from hepm.policy.hybrid.features import NAMES, RANKER
from hepm.policy.hybrid.fitted import FittedMemory
from hepm.policy.hybrid.odds import EncodedQuery
from hepm.rank import sgc
from hepm.rank.calls import EncodedQuery as Situation
from hepm.rank.calls import read_calls
from hepm.rank.data import NEXT, graph_data
from hepm.rank.gnn4plan import Gnn4Plan
from hepm.rank.ranker import Ranker
from hepm.rank.situations import tool_vectors
from hepm.rank.train import TrainOptions

BASELINES = ("sgc", "gnn4plan")
TRAINED = ("sage", "gatv2", "hetero")
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # of a voice in the hybrid
MU = 0.1  # share of the divergences in a fit, as in fit_hybrid


@dataclass
class Variant:
    """A way to rank: weights of the columns by domain, for each seed, with what outcomes say (`hybrid`) or without."""

    name: str
    weights: Sequence[Mapping[str, np.ndarray]]
    hybrid: bool

    def order(self, rows_CF: np.ndarray, added_C: np.ndarray, here, names: Sequence[str], domain: str, seed: int):
        scores = rows_CF @ self.weights[seed][domain] + (added_C if self.hybrid else 0)
        chances = np.exp(scores - scores.max())
        ranked = np.lexsort((np.argsort(np.argsort(np.array(names))), -chances))
        order = here.order(ranked) if self.hybrid else ranked
        return [names[at] for at in order], float(chances.max() / chances.sum())


def voices(
    models: Sequence[str], seeds: int, kept: Kept
) -> Callable[[FilledMemory], Callable[[EncodedQuery, str], np.ndarray]]:
    """Columns of each model and seed, log-chances of the candidates, learned from a memory."""

    def learn(filled: FilledMemory) -> Callable[[EncodedQuery, str], np.ndarray]:
        fitted = filled.mirror.fits.of(FittedMemory)
        data = graph_data(filled.mirror, filled.embedder)
        scorers = [scorer(model, seed, filled, data, kept) for model in models for seed in range(seeds)]

        def columns(query: EncodedQuery, last: str) -> np.ndarray:
            del last
            found = np.stack([one(query)[fitted.candidates] for one in scorers], axis=1)
            found = found - found.max(axis=0)
            return found - np.log(np.exp(found).sum(axis=0))

        return columns

    return learn


def scorer(model: str, seed: int, filled: FilledMemory, data, kept: Kept) -> Callable[[EncodedQuery], np.ndarray]:
    if model == "sgc":
        tools_TD = sgc.smoothed(data["tool"].x.numpy(), data[NEXT].edge_index.numpy())
        follows = [data[NEXT].edge_index[1][data[NEXT].edge_index[0] == at].numpy() for at in range(len(tools_TD))]

        def plain(query: EncodedQuery) -> np.ndarray:
            after = follows[query.before[0]] if query.before[0] >= 0 else np.zeros(0, dtype=np.intp)
            return 10 * sgc.scores(query.state_D, tools_TD, after)

        return plain
    if model == "gnn4plan":
        call, success_R = data["call"], data["run"].success
        rows = ((call["position"] > 0) & (call["state"] >= 0) & success_R[call["run"]]).nonzero()[:, 0].numpy()
        trained = Gnn4Plan.trained(data, rows, seed=seed)
        with torch.no_grad():
            tools_TH = trained.tools(data).numpy()
            weight, bias = (value.numpy() for value in (trained.state.weight, trained.state.bias))
        follows = [data[NEXT].edge_index[1][data[NEXT].edge_index[0] == at].numpy() for at in range(len(tools_TH))]

        def greedy(query: EncodedQuery) -> np.ndarray:
            found = tools_TH @ (weight @ query.state_D + bias)
            found[follows[query.before[0]] if query.before[0] >= 0 else []] += 20.0
            return found

        return greedy
    weights = kept.weights(data, TrainOptions(model, seed))
    ranker = Ranker(weights, data["tool"].name, lambda n: tool_vectors(n, {}, filled.embedder))
    here = ranker.on(read_calls(filled.mirror.store, filled.mirror.name))
    names = list(here.calls.number)

    def voice(query: EncodedQuery) -> np.ndarray:
        # The tools of a memory that is read whole have the same numbers everywhere.
        before_2 = np.array([tool if tool >= 0 else len(names) for tool in query.before[:2]])
        times_T, distance_T = np.zeros((2, len(names)), dtype=np.float32)
        times_T[list(query.called)] = [*query.called.values()]
        distance_T[list(query.distance)] = [*query.distance.values()]
        return ranker.scores(here, Situation(before_2, times_T, distance_T, query.flags, query.state_D), names)

    return voice


def fitted_across(unseen: Sequence[Sample], seen: Sequence[Sample], columns: Sequence[int]):
    """Weights for each domain from the other environments, zero for columns that are not named."""
    found: dict[str, np.ndarray] = {}
    for held_out in dict.fromkeys(environment(sample.name) for sample in unseen):
        parts = [
            [only(sample, columns) for sample in samples if environment(sample.name) != held_out]
            for samples in (unseen, seen)
        ]
        beside = [(MU, pairs_of(samples)) for samples in parts if any(sample.judged for sample in samples)]
        weights = np.zeros(unseen[0].rows_MF.shape[1])
        weights[list(columns)] = fit([*parts[0], *parts[1]], beside=beside)
        found |= {sample.name: weights for sample in unseen if environment(sample.name) == held_out}
    return found


def weighed(plain: Mapping[str, np.ndarray], columns: Sequence[int], weight: float) -> dict[str, np.ndarray]:
    """The hybrid's weights and one for the mean of some columns."""
    return {
        name: np.where(np.isin(np.arange(len(of)), columns), weight / len(columns), of) for name, of in plain.items()
    }


def with_voice(
    unseen: Sequence[Sample], plain: Mapping[str, np.ndarray], columns: Sequence[int]
) -> tuple[dict[str, np.ndarray], list[float]]:
    """The same with the weight, for each domain, that has the best mean MRR in other environments."""
    mrr: dict[float, dict[str, float]] = {}
    for weight in WEIGHTS:
        variant = Variant("", [weighed(plain, columns, weight)], True)
        mrr[weight] = {s.name: float(values(s, variant)[:, METRICS.index("mrr")].mean()) for s in unseen}
    found: dict[str, np.ndarray] = {}
    chosen: list[float] = []
    for name in plain:
        others = [s.name for s in unseen if environment(s.name) != environment(name)]
        best = max(WEIGHTS, key=lambda weight: np.mean([mrr[weight][other] for other in others]))
        found[name] = weighed(plain, columns, best)[name]
        chosen.append(best)
    return found, chosen


def only(sample: Sample, columns: Sequence[int]) -> Sample:
    judged = [replace(one, rows_CF=one.rows_CF[:, columns]) for one in sample.judged]
    return replace(sample, rows_MF=sample.rows_MF[:, columns], judged=judged)


def values(sample: Sample, variant: Variant) -> np.ndarray:
    """Mean over seeds of what each event adds to each metric."""
    return np.mean([values_of(ranks(sample, variant, seed)) for seed in range(len(variant.weights))], axis=0)


def ranks(sample: Sample, variant: Variant, seed: int) -> np.ndarray:
    found: list[int] = []
    ends = np.append(sample.starts[1:], len(sample.names))
    for event, (start, end) in enumerate(zip(sample.starts, ends, strict=True)):
        names = sample.names[start:end]
        hit = sample.hits[event]
        part = slice(start, end)
        rows, added = sample.rows_MF[part], sample.added_M[part]
        order, _ = variant.order(rows, added, sample.here[event], names, sample.name, seed)
        found.append(order.index(sample.names[hit]) + 1 if hit >= 0 else 0)
    return np.array(found)


def gains(samples: Sequence[Sample], variant: Variant) -> np.ndarray:
    """Of each divergence, the share of hints of two tools that rescue less the share that mislead; mean over seeds."""

    def gain(one: Judged, domain: str, seed: int) -> float:
        names, chance = variant.order(one.rows_CF, one.added_C, one.here, one.candidates, domain, seed)
        shares = one.divergence.judge(Hint(tuple(names[:2])) if chance >= FLOOR else Hint())
        return shares[POINTINGS.index("rescue")] - shares[POINTINGS.index("misled")]

    seeds = range(len(variant.weights))
    return np.array([np.mean([gain(one, s.name, seed) for seed in seeds]) for s in samples for one in s.judged])


def table(variants: Sequence[Variant], unseen: Sequence[Sample], seen: Sequence[Sample]) -> Iterable[str]:
    placed = {v.name: {s.name: values(s, v) for s in unseen} for v in variants}
    bootstraps = [Bootstrap(sample.families, seed=[0, at]) for at, sample in enumerate(unseen)]
    divided = {title: some for title, some in (("unseen", unseen), ("seen", seen)) if any(s.judged for s in some)}
    families = {
        title: Bootstrap([f"{s.name}/{one.divergence.event.run.family}" for s in samples for one in s.judged])
        for title, samples in divided.items()
    }
    reference = placed["hybrid"]
    plain = {title: gains(samples, variants[0]) for title, samples in divided.items()}
    head = [cell for title in divided for cell in (f"gain, {title}", "against hybrid")]
    yield f"| | hit@1 / hit@2 / hit@3 / MRR | hit@2 against hybrid | MRR against hybrid | {' | '.join(head)} |"
    yield "|---" * (4 + len(head)) + "|"
    for variant in variants:
        found = [placed[variant.name][s.name] for s in unseen]
        means = np.mean([v.mean(0) for v in found], axis=0)
        cells = [" / ".join(f"{value:.3f}" for value in means)]
        ahead = [v - reference[s.name] for v, s in zip(found, unseen, strict=True)]
        for metric in (METRICS.index("hit@2"), METRICS.index("mrr")):
            drawn = [b.means(a[:, metric]) for b, a in zip(bootstraps, ahead, strict=True)]
            cells.append(spanned(np.mean([a[:, metric].mean() for a in ahead]), np.mean(drawn, axis=0)))
        for title, samples in divided.items():
            gained = gains(samples, variant)
            cells += [spanned(v.mean(), families[title].means(v)) for v in (gained, gained - plain[title])]
        yield f"| {variant.name} | {' | '.join(cells)} |"
    yield "\nhit@2 / MRR / gain, unseen, by domain:\n"
    yield f"| | {' | '.join(f'{s.name} ({len(s.starts)}, {len(s.judged)})' for s in unseen)} |"
    yield "|---" * (len(unseen) + 1) + "|"
    for variant in variants:
        cells = []
        for sample in unseen:
            means = placed[variant.name][sample.name].mean(0)
            gain = f"{gains([sample], variant).mean():+.3f}" if sample.judged else "–"
            cells.append(f"{means[METRICS.index('hit@2')]:.3f} / {means[METRICS.index('mrr')]:.3f} / {gain}")
        yield f"| {variant.name} | {' | '.join(cells)} |"
    yield "\nMRR against hybrid, by domain:\n"
    yield f"| | {' | '.join(s.name for s in unseen)} |"
    yield "|---" * (len(unseen) + 1) + "|"
    for variant in variants[1:]:
        cells = []
        for sample, bootstrap in zip(unseen, bootstraps, strict=True):
            ahead = (placed[variant.name][sample.name] - reference[sample.name])[:, METRICS.index("mrr")]
            cells.append(spanned(ahead.mean(), bootstrap.means(ahead)))
        yield f"| {variant.name} | {' | '.join(cells)} |"


def spanned(mean: float, drawn: np.ndarray) -> str:
    low, high = interval(drawn)
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "runs", nargs="?", type=Path, default=Path(os.environ.get("HEPM_RECORDED_RUNS", "../shared/data"))
    )
    parser.add_argument("--domain", action="append", default=[])
    parser.add_argument("--model", action="append", default=[], choices=(*BASELINES, *TRAINED))
    parser.add_argument("--seen", action="store_true")
    parser.add_argument("--seeds", type=int, default=1, help="rankers of each model, whose measures are averaged")
    parser.add_argument("--desks", type=int, default=10, help="of followed hints")
    parser.add_argument("--keep", type=Path, help="folder of trained networks, which are not trained again")
    parser.add_argument("--part", choices=("compare", "cold", "followed", "scale"), default="compare")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.part == "scale":
        for model in arguments.model or ["hetero"]:
            for line in rank_scale.report(model, 1):
                print(line, flush=True)
        return
    if arguments.part == "followed":
        for line in rank_followed.report(TrainOptions(*(arguments.model or ["hetero"])), arguments.desks):
            print(line, flush=True)
        return
    records = [(name, run) for name, run in read_runs([arguments.runs]) if not isinstance(run, Rejection)]
    every = ten_domains(records)
    domains = [d for d in every if not arguments.domain or d.name in arguments.domain]
    if arguments.part == "cold":
        for model in arguments.model or ["hetero"]:
            for line in rank_cold.report(domains, every, TrainOptions(model), environment):
                print(line, flush=True)
        return
    models = arguments.model or [*BASELINES, *TRAINED]
    compare(domains, models, arguments.seeds, Kept(arguments.keep), seen_too=arguments.seen)


def compare(domains: Sequence[Domain], models: Sequence[str], seeds: int, kept: Kept, *, seen_too: bool) -> None:
    columns = [NAMES.index(name) for name in FITTED]
    unseen: list[Sample] = []
    seen: list[Sample] = []
    for domain in domains:
        started, learn = time.perf_counter(), voices(models, seeds, kept)
        unseen.append(collect(domain, columns, by_family(domain.runs, 5), plainly=False, further=learn))
        if seen_too:
            seen.append(collect(domain, columns, by_run(domain.runs, 10), plainly=False, further=learn))
        print(f"{domain.name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    own = [*range(len(FITTED))]
    variants = [
        Variant("hybrid", [plain := fitted_across(unseen, seen, own)], True),
        Variant("linear ranker", [plain], False),
    ]
    width = len(own) + len(models) * seeds
    for first, model in zip(range(len(own), width, seeds), models, strict=True):
        of_model = range(first, first + seeds)
        alone = [{sample.name: np.eye(width)[at] for sample in unseen} for at in of_model]
        variants.append(Variant(model, alone, False))
        if model in TRAINED:
            found = [with_voice(unseen, plain, [at]) for at in of_model]
            print(f"weights of {model} in the hybrid: {[c for _, c in found]}", file=sys.stderr, flush=True)
            variants.append(Variant(f"hybrid + {model}", [weights for weights, _ in found], True))
            shipped = [weighed(plain, [at], RANKER) for at in of_model]
            variants.append(Variant(f"hybrid + {model}, weight {RANKER:g}", shipped, True))
            if seeds > 1:
                together, _ = with_voice(unseen, plain, of_model)
                variants.append(Variant(f"hybrid + mean of {seeds} {model}", [together], True))
            refitted = [fitted_across(unseen, seen, [*own, at]) for at in of_model]
            variants.append(Variant(f"linear ranker + {model}", refitted, False))
    for line in table(variants, unseen, seen):
        print(line, flush=True)


if __name__ == "__main__":
    main()
