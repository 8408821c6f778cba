"""Fit the hybrid policy's weights, and measure them on environments they were not fitted on.

usage: python benchmarks/fit_hybrid.py [RUNS] [--strict] [--without FEATURE]...

A conditional logit: P(tool) = softmax over candidates of w · features, fitted by Newton's method with an L2 penalty,
every domain weighing the same. Each event's features come from a memory without its task family, in five folds. Ways:
  cross    weights for a domain from the other environments alone (all telecom variants count as one)
  groups   stricter: airline, retail and telecom count as one environment, the AgentDojo suites as another
  shipped  from all ten domains: the constants of hepm/policy/hybrid/weights.py, printed last
The plain baselines are ranked in the same run, and the hybrid's lead over each is given with its interval.
--strict puts each run into the family of its own customer. --without leaves features out, to see what they are worth.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from hepm.evals.domains import Domain, ten_domains
from hepm.evals.methods import baselines
from hepm.evals.methods.policies import FilledMemory, queries_of
from hepm.evals.metrics import Bootstrap, interval, rank_of, values_of
from hepm.evals.splits import by_family
from hepm.evals.training import Training
from hepm.ingest import Rejection, read_runs
from hepm.policy.hybrid.features import NAMES, features
from hepm.policy.hybrid.reading import Reading
from hepm.policy.hybrid.situation import read_query

L2 = 1e-3
ITERATIONS = 20


@dataclass
class Sample:
    """One domain's events: candidates' features one below the other.

    Attributes:
        rows_MF: Of all candidates of all events.
        plain: Rank of the tool that was called, per event, by each baseline.
        starts: Where each event's candidates begin.
        hits: Row of the tool that was called, -1 where it is no candidate.
        names: Tool of each row.
    """

    name: str
    rows_MF: np.ndarray
    starts: np.ndarray
    hits: np.ndarray
    names: list[str]
    families: list[str]
    plain: dict[str, list[int]] = field(default_factory=dict[str, list[int]])


def collect(domain: Domain, columns: Sequence[int]) -> Sample:
    rows: list[np.ndarray] = []
    starts: list[int] = []
    hits: list[int] = []
    names: list[str] = []
    families: list[str] = []
    plain: dict[str, list[int]] = {method.name: [] for method in baselines()}
    for split in by_family(domain.runs, 5):
        events = [event for run in split.test if run.success for event in run.events]
        training = Training(split.train)
        if not training.events or not events:
            continue
        for method in baselines():
            rankings = method.fit(training).rank(events)
            plain[method.name] += [rank_of(event, ranking) for event, ranking in zip(events, rankings, strict=True)]
        filled = FilledMemory(training)
        reading = filled.mirror.derived(Reading)
        candidates = [reading.calls.names[tool] for tool in reading.candidates]
        for event, query in zip(events, queries_of(events, filled.embedder), strict=True):
            starts.append(len(names))
            hits.append(len(names) + candidates.index(event.next) if event.next in candidates else -1)
            rows.append(features(reading, read_query(query, reading, event.last), reading.candidates)[:, columns])
            names.extend(candidates)
            families.append(event.run.family)
    return Sample(
        domain.name,
        np.concatenate(rows).astype(np.float64),
        np.array(starts),
        np.array(hits),
        names,
        families,
        plain,
    )


def fit(samples: Sequence[Sample], beside: Sequence[tuple[float, Sample]] = ()) -> np.ndarray:
    """Weights of the features. `beside` holds further samples, each with the share that its loss is added with."""
    # Features have scales of their own: the penalty falls on weights of features of unit deviation.
    scale = np.concatenate([sample.rows_MF for sample in samples]).std(0)
    parts = [(1 / len(samples), sample) for sample in samples] + list(beside)  # every domain weighs the same
    parts = [(share, replace(sample, rows_MF=sample.rows_MF / scale)) for share, sample in parts]
    weights = np.zeros(len(scale))
    loss, gradient, hessian = objective(parts, weights)
    for _ in range(ITERATIONS):
        step = np.linalg.solve(hessian, gradient)
        # Halved until it helps: far from the optimum a full Newton step overshoots.
        for halving in range(30):
            tried = objective(parts, weights - step / 2**halving)
            if tried[0] < loss:
                weights, (loss, gradient, hessian) = weights - step / 2**halving, tried
                break
    return weights / scale


def objective(parts: Sequence[tuple[float, Sample]], weights: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Penalised loss, gradient and Hessian."""
    loss, gradient, hessian = L2 * weights @ weights, 2 * L2 * weights, 2 * L2 * np.eye(len(weights))
    for share, sample in parts:
        of_sample = derivatives(sample, weights)
        loss, gradient, hessian = (
            total + share * part for total, part in zip((loss, gradient, hessian), of_sample, strict=True)
        )
    return loss, gradient, hessian


def derivatives(sample: Sample, weights: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Mean negative log-likelihood of the events whose tool is a candidate, and its derivatives."""
    known = sample.hits >= 0
    sizes = np.diff(np.append(sample.starts, len(sample.rows_MF)))
    rows, sizes = sample.rows_MF[np.repeat(known, sizes)], sizes[known]
    starts = np.append(0, np.cumsum(sizes)[:-1])
    scores = rows @ weights
    highest = np.maximum.reduceat(scores, starts)
    raised = np.exp(scores - np.repeat(highest, sizes))
    totals = np.add.reduceat(raised, starts)
    chance = raised / np.repeat(totals, sizes)
    hits_EF = sample.rows_MF[sample.hits[known]]
    mean_EF = np.add.reduceat(chance[:, None] * rows, starts)
    loss = (highest + np.log(totals) - hits_EF @ weights).mean()
    hessian = (rows * chance[:, None]).T @ rows - mean_EF.T @ mean_EF
    return float(loss), (mean_EF - hits_EF).mean(0), hessian / known.sum()


def ranks(sample: Sample, weights: np.ndarray) -> np.ndarray:
    """Rank of the tool that was called, ties by name; 0 where it is no candidate."""
    scores = sample.rows_MF @ weights
    ends = np.append(sample.starts[1:], len(scores))
    found: list[int] = []
    for start, end, hit in zip(sample.starts, ends, sample.hits, strict=True):
        if hit < 0:
            found.append(0)
            continue
        others, name = scores[start:end], sample.names[hit]
        ties = sum(other == scores[hit] and n < name for other, n in zip(others, sample.names[start:end], strict=True))
        found.append(1 + int((others > scores[hit]).sum()) + ties)
    return np.array(found)


def compare(samples: Sequence[Sample], found: dict[str, np.ndarray]) -> None:
    """The baselines of the same run, and how far the hybrid is ahead of each."""
    print(
        "\n| baseline | hit@1 | hit@2 | hit@3 | MRR | hybrid ahead in hit@2 | in MRR |\n|---|---|---|---|---|---|---|"
    )
    for name in samples[0].plain:
        theirs = {s.name: values_of(np.array(s.plain[name])) for s in samples}
        ahead = {s.name: values_of(found[s.name]) - theirs[s.name] for s in samples}
        cells = [f"{value:.3f}" for value in np.mean([v.mean(0) for v in theirs.values()], axis=0)]
        for metric in (1, 3):
            draws = [Bootstrap(s.families, seed=[0, i]).means(ahead[s.name][:, metric]) for i, s in enumerate(samples)]
            at = interval(np.mean(draws, axis=0))
            lead = np.mean([v[:, metric].mean() for v in ahead.values()])
            cells.append(f"{lead:+.3f} [{at.low:+.3f}, {at.high:+.3f}]")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def best_chance(sample: Sample, weights: np.ndarray) -> np.ndarray:
    """Probability of the likeliest tool, per event."""
    scores = sample.rows_MF @ weights
    sizes = np.diff(np.append(sample.starts, len(scores)))
    highest = np.maximum.reduceat(scores, sample.starts)
    return 1 / np.add.reduceat(np.exp(scores - np.repeat(highest, sizes)), sample.starts)


def abstaining(samples: Sequence[Sample], found: dict[str, np.ndarray], chances: dict[str, np.ndarray]) -> None:
    """How often the top 2 are right where the likeliest tool is below and above a floor, over all events."""
    chance = np.concatenate([chances[sample.name] for sample in samples])
    hit = np.concatenate([(found[sample.name] > 0) & (found[sample.name] <= 2) for sample in samples])
    print("\n| floor on the likeliest tool | silent | hit@2 where silent | hit@2 where not |\n|---|---|---|---|")
    for floor in (0.1, 0.15, 0.2, 0.25, 0.3, 0.4):
        below = chance < floor
        silent = f"{hit[below].mean():.3f}" if below.any() else "-"
        print(f"| {floor} | {below.mean():.3f} | {silent} | {hit[~below].mean():.3f} |")


def environment(name: str) -> str:
    return "telecom" if name.startswith("telecom") else name


def group(name: str) -> str:
    if name.startswith(("airline", "retail", "telecom")):
        return "customer service"
    return "agentdojo" if name.startswith("agentdojo") else name


def report(title: str, samples: Sequence[Sample], found: dict[str, np.ndarray]) -> None:
    values = {sample.name: values_of(found[sample.name]) for sample in samples}
    print(f"\n{title}\n| domain | hit@1 | hit@2 | hit@3 | MRR |\n|---|---|---|---|---|")
    for name, of_domain in values.items():
        print(f"| {name} | " + " | ".join(f"{v:.3f}" for v in of_domain.mean(0)) + " |")
    means = np.mean([v.mean(0) for v in values.values()], axis=0)
    draws = [
        np.mean([Bootstrap(s.families, seed=[0, i]).means(values[s.name][:, m]) for i, s in enumerate(samples)], axis=0)
        for m in range(4)
    ]
    limits = [interval(drawn) for drawn in draws]
    cells = [f"{mean:.3f} [{at.low:.3f}, {at.high:.3f}]" for mean, at in zip(means, limits, strict=True)]
    print("| **mean** | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "runs", nargs="?", type=Path, default=Path(os.environ.get("HEPM_RECORDED_RUNS", "../shared/data"))
    )
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--without", action="append", default=[], choices=NAMES)
    arguments = parser.parse_args()
    kept = [name for name in NAMES if name not in arguments.without]
    columns = [NAMES.index(name) for name in kept]
    records = [(name, run) for name, run in read_runs([arguments.runs]) if not isinstance(run, Rejection)]
    domains = ten_domains(records, families_by_task=not arguments.strict)
    samples = [collect(domain, columns) for domain in domains]
    for title, apart in (("cross", environment), ("groups", group)):
        found: dict[str, np.ndarray] = {}
        chances: dict[str, np.ndarray] = {}
        for held_out in dict.fromkeys(apart(sample.name) for sample in samples):
            weights = fit([sample for sample in samples if apart(sample.name) != held_out])
            found.update({s.name: ranks(s, weights) for s in samples if apart(s.name) == held_out})
            chances.update({s.name: best_chance(s, weights) for s in samples if apart(s.name) == held_out})
        report(title, samples, found)
        if title == "cross":
            compare(samples, found)
            abstaining(samples, found, chances)
    shipped = fit(samples)
    report("shipped (fitted on these very domains)", samples, {s.name: ranks(s, shipped) for s in samples})
    print("\nshipped weights:")
    for name, weight in zip(kept, shipped, strict=True):
        print(f'    "{name}": {weight:.4f},')


if __name__ == "__main__":
    main()
