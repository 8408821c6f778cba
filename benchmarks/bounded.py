"""What the bounds of the hybrid policy cost in prediction, on all recorded runs in one memory.

usage: python benchmarks/bounded.py [RUNS] [--runs 400]

RUNS is a folder of recorded runs ($HEPM_RECORDED_RUNS, else ../shared/data). All runs but those of a fifth of the
families are in memory; the next calls of `--runs` successful runs of that fifth are predicted, once with the bounds of
`hepm.graph.calls.call_history` and `hepm.policy.hybrid`, once without any. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hepm.evals.domains import Domain, domains_of, fold_of
from hepm.evals.evaluate import EvalOptions, evaluate
from hepm.evals.methods import find_methods
from hepm.graph.calls import call_history
from hepm.ingest import Rejection, read_runs
from hepm.policy.hybrid import after, fitted, odds, ridge

MANY = 10**9
FOLDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "recorded", nargs="?", type=Path, default=Path(os.environ.get("HEPM_RECORDED_RUNS", "../shared/data"))
    )
    parser.add_argument("--runs", type=int, default=400)
    arguments = parser.parse_args()
    records = [(name, run) for name, run in read_runs([arguments.recorded]) if not isinstance(run, Rejection)]
    runs = [run for domain in domains_of(records) if not domain.derived for run in domain.runs]
    held = [run for run in runs if fold_of(run.family, FOLDS) == 0]
    tested = [run for run in held if run.success]
    tested = tested[:: max(len(tested) // arguments.runs, 1)][: arguments.runs]
    domain = Domain("everything", [run for run in runs if fold_of(run.family, FOLDS)], tested)
    found: dict[str, object] = {"benchmark": "bounded", "runs in memory": len(domain.runs), "predicted": len(tested)}
    for name in ("bounded", "unbounded"):
        if name == "unbounded":
            for module in (call_history, after, odds, ridge):
                module.MOST_CALLS = MANY  # type: ignore[misc]
            fitted.MOST_STATES = fitted.MOST_RUNS = MANY  # type: ignore[misc]
        started = time.process_time()
        report = evaluate([domain], find_methods(["hybrid"]), EvalOptions(reference="hybrid"))
        values = report.macro["hybrid"].values
        found[name] = {metric: round(value, 4) for metric, value in values.items()}
        found[f"{name}, CPU s"] = round(time.process_time() - started)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
