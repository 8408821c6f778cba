"""Fit the hybrid policy's weights, and measure them on environments they were not fitted on.

usage: python benchmarks/fit_hybrid.py [RUNS] [--strict] [--divergences MU] [--without FEATURE]...

A conditional logit: P(tool) = softmax over candidates of w · features, fitted by Newton's method with an L2 penalty,
every domain weighing the same. Events are the next calls of successful runs, once with their task's family out of
memory (five folds) and once with the run alone left out (ten folds), as most users meet it. Where a failed run left the
way of a successful one, each tool of the better way stands against each of the chosen one: MU times the mean of
-log P(better | these two) is added, from either division. Ways:
  cross    weights for a domain from the other environments alone (all telecom variants count as one)
  groups   stricter: airline, retail and telecom count as one environment, the AgentDojo suites as another
  shipped  from all ten domains: the constants of hepm/policy/hybrid/features.py, printed last
Everything is ranked as the policy does it, with what outcomes say and with `contrast`, whose weight is not fitted. The
plain baselines are ranked in the same run.
--strict puts each run into the family of its own customer. --without leaves features out, to see what they are worth.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from hepm.evals.baselines import Hint, Training, baselines
from hepm.evals.domains import Domain, Split, by_family, by_run, ten_domains
from hepm.evals.methods import FilledMemory
from hepm.evals.metrics import Bootstrap, DivergencePoint, Hints, find_divergences, interval, rank_of, values_of
from hepm.ingest import Rejection, read_runs
from hepm.policy import Floors
from hepm.policy.hybrid.features import CONTRAST, NAMES, features
from hepm.policy.hybrid.fitted import FittedMemory
from hepm.policy.hybrid.odds import EncodedQuery
from hepm.policy.hybrid.outcomes import OutcomesHere

L2 = 1e-3
ITERATIONS = 20
FLOOR = Floors().chance
FITTED = tuple(name for name in NAMES if name != "contrast")


@dataclass
class Sample:
    """One domain's events in one division: candidates' features one below the other.

    Attributes:
        rows_MF: Of all candidates of all events.
        added_M: What outcomes and contrast add to each score. Not in the fit.
        here: What outcomes say, per event.
        plain: Rank of the tool that was called, per event, by each baseline.
        starts: Where each event's candidates begin.
        hits: Row of the tool that was called, -1 where it is no candidate.
        names: Tool of each row.
        judged: The divergences of the division.
    """

    name: str
    rows_MF: np.ndarray
    added_M: np.ndarray
    starts: np.ndarray
    hits: np.ndarray
    names: list[str]
    families: list[str]
    here: list[OutcomesHere] = field(default_factory=list[OutcomesHere])
    plain: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    judged: list[Judged] = field(default_factory=list["Judged"])

    def order(self, event: int, weights: np.ndarray) -> tuple[list[str], float]:
        """Candidates as the policy names them, and the chance of the likeliest."""
        start = self.starts[event]
        end = self.starts[event + 1] if event + 1 < len(self.starts) else len(self.names)
        return ordered(
            self.rows_MF[start:end] @ weights + self.added_M[start:end], self.names[start:end], self.here[event]
        )


@dataclass
class Judged:
    """A divergence with the features of all candidates, and what outcomes say there."""

    divergence: DivergencePoint
    rows_CF: np.ndarray
    added_C: np.ndarray
    candidates: list[str]
    here: OutcomesHere

    def pairs(self) -> list[tuple[int, int]]:
        """Rows of a better tool and of a chosen one."""
        number = {name: row for row, name in enumerate(self.candidates)}
        forks = [
            (sorted(fork.theirs & number.keys()), sorted(fork.own & number.keys())) for fork in self.divergence.forks
        ]
        return [(number[good], number[bad]) for better, chosen in forks for good in better for bad in chosen]

    def hint(self, weights: np.ndarray) -> Hint:
        """The two tools that are likeliest, where the first reaches the floor."""
        names, chance = ordered(self.rows_CF @ weights + self.added_C, self.candidates, self.here)
        return Hint(tuple(names[:2])) if chance >= FLOOR else Hint()


def ordered(scores: np.ndarray, names: Sequence[str], here: OutcomesHere) -> tuple[list[str], float]:
    chances = np.exp(scores - scores.max())
    by_name = np.argsort(np.argsort(np.array(names)))
    order = here.order(np.lexsort((by_name, -chances)))
    return [names[at] for at in order], float(chances.max() / chances.sum())


def collect(
    domain: Domain,
    columns: Sequence[int],
    splits: Iterable[Split],
    *,
    plainly: bool,
    further: Callable[[FilledMemory], Callable[[EncodedQuery, str], np.ndarray]] | None = None,
) -> Sample:
    """`further` learns from a memory, and adds columns to the candidates' features at a query after a tool."""
    found = Sample(domain.name, np.zeros((0, len(columns))), np.zeros(0), np.zeros(0), np.zeros(0), [], [])
    rows: list[np.ndarray] = []
    added: list[np.ndarray] = []
    starts: list[int] = []
    hits: list[int] = []
    divergences, _ = find_divergences(domain.runs)
    methods = baselines() if plainly else []
    for split in splits:
        events = [event for run in split.test if run.success for event in run.events]
        training = Training(split.train)
        if not training.events or not events:
            continue
        for method in methods:
            rankings = method.fit(training).rank(events)
            ranked = [rank_of(event.next, ranking) for event, ranking in zip(events, rankings, strict=True)]
            found.plain.setdefault(method.name, []).extend(ranked)
        filled = FilledMemory(training)
        fitted = filled.mirror.fits.of(FittedMemory)
        candidates = [fitted.calls.names[tool] for tool in fitted.candidates]
        more = None if further is None else further(filled)
        tested = set(split.test)
        here_divergences = [divergence for divergence in divergences if divergence.event.run in tested]
        moments = [*events, *(divergence.event for divergence in here_divergences)]
        for number, (event, query) in enumerate(zip(moments, filled.queries(moments), strict=True)):
            now = fitted.encode(query, event.last)
            here = OutcomesHere(fitted.odds, [now], fitted.candidates, fitted.candidates)
            all_features = features(fitted, now, fitted.candidates).astype(np.float64)
            of_event = all_features[:, columns]
            if more is not None:
                of_event = np.column_stack([of_event, more(now, event.last)])
            by_outcome = fitted.odds.trust * here.odds_QC[0].astype(np.float64)
            by_outcome += CONTRAST * all_features[:, NAMES.index("contrast")]
            if number >= len(events):
                divergence = here_divergences[number - len(events)]
                found.judged.append(Judged(divergence, of_event, by_outcome, candidates, here))
                continue
            starts.append(len(found.names))
            hits.append(len(found.names) + candidates.index(event.next) if event.next in candidates else -1)
            rows.append(of_event)
            added.append(by_outcome)
            found.here.append(here)
            found.names.extend(candidates)
            found.families.append(event.run.family)
    found.rows_MF, found.added_M = np.concatenate(rows), np.concatenate(added)
    found.starts, found.hits = np.array(starts), np.array(hits)
    return found


def pairs_of(samples: Sequence[Sample]) -> Sample:
    """Each better tool against each chosen one, as an event with two candidates."""
    rows = [one.rows_CF[list(pair)] for sample in samples for one in sample.judged for pair in one.pairs()]
    starts = 2 * np.arange(len(rows))
    return Sample("divergences", np.concatenate(rows), np.zeros(2 * len(rows)), starts, starts, [], [])


def fit_both(unseen: Sequence[Sample], seen: Sequence[Sample], mu: float) -> np.ndarray:
    """Weights from both divisions, and from the divergences of either."""
    beside = [(mu, pairs_of(samples)) for samples in (unseen, seen)] if mu else []
    return fit([*unseen, *seen], beside=beside)


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
        else:
            break  # converged
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
    """Rank of the tool that was called; 0 where it is no candidate."""
    called = [sample.names[hit] if hit >= 0 else "" for hit in sample.hits]
    orders = (sample.order(event, weights)[0] for event in range(len(called)))
    return np.array([order.index(name) + 1 if name else 0 for order, name in zip(orders, called, strict=True)])


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
    return np.array([sample.order(event, weights)[1] for event in range(len(sample.starts))])


def helped(title: str, samples: Sequence[Sample], weights: dict[str, np.ndarray]) -> None:
    """Rescue, misled, gain and harm of the top 2, by weights for each domain."""
    found = Hints([(one.divergence, one.hint(weights[s.name])) for s in samples for one in s.judged]).measure(k=2)
    gain = found.interval["gain"]
    place = np.concatenate([ranks(sample, weights[sample.name]) for sample in samples])
    said = np.concatenate([best_chance(sample, weights[sample.name]) for sample in samples]) >= FLOOR
    harm = 1 - ((place[said] > 0) & (place[said] <= 2)).mean()
    print(
        f"| {title} | {found.divergences} | {found.rescue:.3f} | {found.misled:.3f} | {found.gain:+.3f} "
        f"[{gain.low:+.3f}, {gain.high:+.3f}] | {harm:.3f} | {1 - said.mean():.3f} |",
        flush=True,
    )


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
    parser.add_argument("--divergences", type=float, default=0.1, metavar="MU")
    parser.add_argument("--without", action="append", default=[], choices=FITTED)
    arguments = parser.parse_args()
    kept = [name for name in FITTED if name not in arguments.without]
    columns = [NAMES.index(name) for name in kept]
    records = [(name, run) for name, run in read_runs([arguments.runs]) if not isinstance(run, Rejection)]
    domains = ten_domains(records, families_by_task=not arguments.strict)
    unseen = [collect(domain, columns, by_family(domain.runs, 5), plainly=True) for domain in domains]
    seen = [collect(domain, columns, by_run(domain.runs, 10), plainly=False) for domain in domains]
    for title, apart in (("cross", environment), ("groups", group)):
        weights: dict[str, np.ndarray] = {}
        for held_out in dict.fromkeys(apart(sample.name) for sample in unseen):
            others = [[s for s in samples if apart(s.name) != held_out] for samples in (unseen, seen)]
            found = fit_both(*others, arguments.divergences)
            weights.update({s.name: found for s in unseen if apart(s.name) == held_out})
        placed = {s.name: ranks(s, weights[s.name]) for s in unseen}
        report(title, unseen, placed)
        if title == "cross":
            compare(unseen, placed)
            print("\n| top 2 | divergences | rescue | misled | gain | harm | silent |\n|---|---|---|---|---|---|---|")
            helped("families unseen", unseen, weights)
            helped("families seen", seen, weights)
    shipped = fit_both(unseen, seen, arguments.divergences)
    report("shipped (fitted on these very domains)", unseen, {s.name: ranks(s, shipped) for s in unseen})
    print("\nshipped weights:")
    for name, weight in zip(kept, shipped, strict=True):
        print(f'    "{name}": {weight:.4f},')


if __name__ == "__main__":
    main()
