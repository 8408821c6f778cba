"""Next-tool quality on recorded runs: the ten domains of docs, five folds by task family, every method in one run.

usage: python benchmarks/quality.py [RUNS] [--method NAME]... [--reference NAME] [--seed 0] [--strict] [--markdown]

RUNS is a folder of recorded runs ($HEPM_RECORDED_RUNS, else ../shared/data). Prints one JSON line; --markdown prints
the table that goes into benchmarks/LOG.md instead. The baselines to beat are in the same table. --strict puts each run
into the family of the customer it is about, which the reference numbers do not (see hepm.evals.families).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from hepm.evals.domains import ten_domains
from hepm.evals.evaluate import EvalOptions, evaluate
from hepm.evals.methods import find_methods
from hepm.evals.metrics import METRICS
from hepm.evals.report import EvalReport, MethodScores
from hepm.ingest import Rejection, read_runs


def main() -> None:
    arguments = parse()
    started = time.perf_counter()
    records = [(name, run) for name, run in read_runs([arguments.runs]) if not isinstance(run, Rejection)]
    domains = ten_domains(records, families_by_task=not arguments.strict)
    read_s = time.perf_counter() - started
    report = evaluate(
        domains,
        find_methods(arguments.method),
        EvalOptions(seed=arguments.seed, reference=arguments.reference),
        on_progress=lambda name: print(name, file=sys.stderr),
    )
    if arguments.markdown:
        print("\n".join(markdown(report)))
        return
    found = {
        "benchmark": "quality",
        "runs": len(records),
        "events": sum(domain.events for domain in report.domains.values()),
        "read_s": round(read_s, 2),
        "evaluate_s": round(time.perf_counter() - started - read_s, 2),
        "seed": arguments.seed,
        "strict": arguments.strict,
        "commit": commit(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "versions": {name: version(name) for name in ("hepm", "numpy")},
        "report": report.to_json(),
    }
    print(json.dumps(found, ensure_ascii=False))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "runs", nargs="?", type=Path, default=Path(os.environ.get("HEPM_RECORDED_RUNS", "../shared/data"))
    )
    parser.add_argument("--method", action="append", default=[])
    parser.add_argument("--reference", default="second-order+similarity", help="the method others are compared with")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args()


def markdown(report: EvalReport) -> Iterator[str]:
    """The mean over the domains with intervals, each domain, then rescue and harm."""
    reference = report.settings.reference
    yield f"Mean over {len(report.domains)} domains, 95 % intervals; hit@2 and MRR against {reference}:\n"
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
    yield "\nRescue and harm of the top 2:\n"
    yield "| method | partings | rescue | misled | gain | harm |"
    yield "|---|---|---|---|---|---|"
    for name, found in report.rescue.items():
        gain = found.interval["gain"]
        yield (
            f"| {name} | {found.partings} | {found.rescue:.3f} | {found.misled:.3f} | "
            f"{found.gain:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}] | {found.harm:.3f} |"
        )
    yield f"\n{report.verdict}"


def against(scores: MethodScores, metric: str) -> str:
    found = scores.difference.get(metric)
    return f"{found.value:+.3f} [{found.interval.low:+.3f}, {found.interval.high:+.3f}]" if found else ""


def commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
