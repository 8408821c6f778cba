"""What it would cost to fit the hybrid's weights for rescue, not for prediction alone.

usage: python benchmarks/fit_for_rescue.py [RUNS] [--share MU]...

Where a failed run left the way of a successful one, each tool of the better way stands against each of the chosen one.
The mean of -log P(better | these two) over all such pairs is added to the loss of benchmarks/fit_hybrid.py, MU times.
Weights for a domain come from the other environments alone, features from a memory without the task's family. Prints,
per MU, prediction as the mean over ten domains, and rescue, misled, gain and harm of the top 2 over all partings,
beside first-order counts ranked in the same run.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fit_hybrid import Sample, collect, environment, fit, ranks

from hepm.evals.domains import Domain, ten_domains
from hepm.evals.methods import Ranking, find_methods
from hepm.evals.methods.policies import FilledMemory, queries_of
from hepm.evals.metrics import values_of
from hepm.evals.partings import Parting, find_partings
from hepm.evals.rescue import Hints
from hepm.evals.splits import by_family
from hepm.evals.training import Training
from hepm.ingest import Rejection, read_runs
from hepm.policy.hybrid.features import NAMES, features
from hepm.policy.hybrid.reading import Reading
from hepm.policy.hybrid.situation import read_query

BASELINE = "first-order"


@dataclass
class Judged:
    """A parting with the features of all candidates, and what the baseline ranks there."""

    parting: Parting
    rows_CF: np.ndarray
    candidates: list[str]
    plain: Ranking

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Rows of a better tool and of a chosen one."""
        number = {name: row for row, name in enumerate(self.candidates)}
        forks = [
            (sorted(fork.better & number.keys()), sorted(fork.chosen & number.keys())) for fork in self.parting.forks
        ]
        return [(number[good], number[bad]) for better, chosen in forks for good in better for bad in chosen]

    def ranking(self, weights: np.ndarray) -> Ranking:
        """Likeliest first, ties by name."""
        scored = zip(self.candidates, (self.rows_CF @ weights).tolist(), strict=True)
        return sorted(scored, key=lambda found: (-found[1], found[0]))


def judge(domain: Domain) -> list[Judged]:
    judged: list[Judged] = []
    found = find_partings(domain.runs).found
    for split in by_family(domain.runs, 5):
        tested = set(split.test)
        partings = [parting for parting in found if parting.moment.run in tested]
        training = Training(split.train)
        if not partings or not training.events:
            continue
        moments = [parting.moment for parting in partings]
        plain = find_methods([BASELINE])[0].fit(training).rank(moments)
        filled = FilledMemory(training)
        reading = filled.mirror.derived(Reading)
        candidates = [reading.calls.names[tool] for tool in reading.candidates]
        for parting, query, ranking in zip(partings, queries_of(moments, filled.embedder), plain, strict=True):
            rows = features(reading, read_query(query, reading, parting.moment.last), reading.candidates)
            judged.append(Judged(parting, rows.astype(np.float64), candidates, ranking))
    return judged


def pairs_of(judged: Sequence[Judged]) -> Sample:
    """Each pair as an event with two candidates, the better one called."""
    rows = [one.rows_CF[list(pair)] for one in judged for pair in one.pairs]
    starts = 2 * np.arange(len(rows))
    return Sample("partings", np.concatenate(rows), starts, hits=starts, names=[], families=[])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "runs", nargs="?", type=Path, default=Path(os.environ.get("HEPM_RECORDED_RUNS", "../shared/data"))
    )
    parser.add_argument("--share", action="append", type=float, default=[], metavar="MU")
    arguments = parser.parse_args()
    records = [(name, run) for name, run in read_runs([arguments.runs]) if not isinstance(run, Rejection)]
    domains = ten_domains(records, families_by_task=True)
    samples = [collect(domain, range(len(NAMES))) for domain in domains]
    judged = {domain.name: judge(domain) for domain in domains}
    print("| | hit@1 | hit@2 | hit@3 | MRR | rescue | misled | gain | harm |\n|---|---|---|---|---|---|---|---|---|")
    plain = {sample.name: np.array(sample.plain[BASELINE]) for sample in samples}
    report(BASELINE, plain, [(one.parting, one.plain) for found in judged.values() for one in found])
    for share in arguments.share or [0, 0.3, 1, 3, 10]:
        ranked: dict[str, np.ndarray] = {}
        hints: list[tuple[Parting, Ranking]] = []
        for held_out in dict.fromkeys(environment(sample.name) for sample in samples):
            known = [sample for sample in samples if environment(sample.name) != held_out]
            pairs = pairs_of([one for sample in known for one in judged[sample.name]])
            weights = fit(known, beside=[(share, pairs)])
            for sample in samples:
                if environment(sample.name) == held_out:
                    ranked[sample.name] = ranks(sample, weights)
                    hints += [(one.parting, one.ranking(weights)) for one in judged[sample.name]]
        report(f"mu = {share:g}", ranked, hints)


def report(title: str, ranked: dict[str, np.ndarray], hints: list[tuple[Parting, Ranking]]) -> None:
    predicted = np.mean([values_of(of_domain).mean(0) for of_domain in ranked.values()], axis=0)
    found = Hints(hints).measure(k=2)
    gain = found.interval["gain"]
    all_ranks = np.concatenate(list(ranked.values()))
    harm = 1 - ((all_ranks > 0) & (all_ranks <= 2)).mean()
    cells = [f"{value:.3f}" for value in (*predicted, found.rescue, found.misled)]
    print(
        f"| {title} | {' | '.join(cells)} | {found.gain:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}] | {harm:.3f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
