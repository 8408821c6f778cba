"""Value of hints on recorded runs: prediction and divergences on nine domains, by policy in one run.

usage: python benchmarks/quality.py [RUNS] [--method NAME]... [--all] [--reference NAME] [--seed 0] [--strict]
           [--markdown]

RUNS is a folder of recorded runs ($HEPM_RECORDED_RUNS, else ../shared/data). Measures every policy beside the two plain
baselines to beat, or the methods named, or with --all every one. Prints one JSON line; --markdown prints the tables
that go into benchmarks/LOG.md instead. --strict puts each run into the family of the customer it is about, which the
reference numbers do not (see hepm.evals.domains). docs/use/evaluation.md explains the measures.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version

# Before numpy is loaded: its threads cost more than they bring on matrices of this size.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from parts.measured import about, options, read_records, recorded_domains

from hepm.evals.evaluate import EvalOptions, evaluate
from hepm.evals.methods import all_methods, find_methods, policies
from hepm.evals.metrics import HINTED, METRICS, Interval, RescueAndHarm
from hepm.evals.report import EvalReport, MethodScores

BASELINES = ("first-order", "second-order+similarity")


def main() -> None:
    arguments = parse()
    started = time.perf_counter()
    records = read_records(arguments.runs)
    domains = recorded_domains(records, families_by_task=not arguments.strict)
    read_s = time.perf_counter() - started
    names = arguments.method or [*BASELINES, *(policy.name for policy in policies())]
    report = evaluate(
        domains,
        all_methods() if arguments.all else find_methods(names),
        EvalOptions(seed=arguments.seed, reference=arguments.reference),
        on_progress=lambda asked, of: print(f"{asked} of {of}", file=sys.stderr),
    )
    if arguments.markdown:
        print("\n".join(markdown(report)))
        return
    found = about("quality") | {
        "runs": len(records),
        "events": sum(domain.events for domain in report.domains.values()),
        "read_s": round(read_s, 2),
        "evaluate_s": round(time.perf_counter() - started - read_s, 2),
        "seed": arguments.seed,
        "strict": arguments.strict,
        "versions": {name: version(name) for name in ("hepm", "numpy")},
        "report": report.to_json(),
    }
    print(json.dumps(found, ensure_ascii=False))


def parse() -> argparse.Namespace:
    parser = options(__doc__)
    parser.add_argument("--method", action="append", default=[])
    parser.add_argument("--all", action="store_true", help="every method")
    parser.add_argument("--reference", default="second-order+similarity", help="the method others are compared with")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args()


def markdown(report: EvalReport) -> Iterator[str]:
    """All measures by method, then prediction with intervals over the domains and in each."""
    reference = report.settings.reference
    yield from help_table(report)
    yield f"\nPrediction, mean over {len(report.domains)} domains, 95 % intervals; hit@2 and MRR against {reference}:\n"
    yield "| method | hit@1 | hit@2 | hit@3 | MRR | Δ hit@2 | Δ MRR |"
    yield "|---|---|---|---|---|---|---|"
    for name, scores in report.macro.items():
        cells = [
            f"{scores.values[metric]:.3f} [{scores.interval[metric].low:.3f}, {scores.interval[metric].high:.3f}]"
            for metric in METRICS
        ]
        yield f"| {name} | {' | '.join([*cells, against(scores, 'hit@2'), against(scores, 'mrr')])} |"
    yield "\nhit@1 / hit@2 / hit@3 / MRR per domain:\n"
    yield f"| method | {' | '.join(f'{name} ({domain.events})' for name, domain in report.domains.items())} |"
    yield "|---" * (len(report.domains) + 1) + "|"
    for name in report.macro:
        cells = [
            " / ".join(f"{domain.methods[name].values[metric]:.3f}" for metric in METRICS)
            for domain in report.domains.values()
        ]
        yield f"| {name} | {' | '.join(cells)} |"
    yield f"\n{report.verdict}"


def help_table(report: EvalReport) -> Iterator[str]:
    """One row a method."""
    found = next(iter(report.rescue.values()))
    yield (
        f"Prediction, mean over {len(report.domains)} domains; hints of at most {HINTED} tools at {found.divergences} "
        f"divergences of {found.families} families. "
        "Unseen: the task's family out of memory; seen: the run alone. 95 % intervals:\n"
    )
    columns = ("rescue / misled", "gain", "harm / silent", "warned of chosen / better")
    headings = [f"{column}, {memory}" for memory in ("unseen", "seen") for column in columns]
    yield f"| method | hit@1 / hit@2 / hit@3 / MRR | {' | '.join(headings)} |"
    yield "|---" * (len(headings) + 2) + "|"
    for name, scores in report.macro.items():
        predicted = " / ".join(f"{scores.values[metric]:.3f}" for metric in METRICS)
        cells = [*help_cells(report.rescue, name), *help_cells(report.rescue_seen, name)]
        yield f"| {name} | {predicted} | {' | '.join(cells)} |"


def help_cells(by_method: Mapping[str, RescueAndHarm], name: str) -> Iterator[str]:
    found = by_method[name]
    yield f"{found.rescue:.3f} / {found.misled:.3f}"
    yield f"{found.gain:+.3f} {signed(found.interval['gain'])}" if found.divergences else ""
    yield f"{found.harm:.3f} / {found.silent:.3f}"
    yield f"{found.warned:.3f} / {found.warned_better:.3f}"


def against(scores: MethodScores, metric: str) -> str:
    found = scores.difference.get(metric)
    return f"{found.value:+.3f} {signed(found.interval)}" if found else ""


def signed(found: Interval) -> str:
    return f"[{found.low:+.3f}, {found.high:+.3f}]"


if __name__ == "__main__":
    main()
