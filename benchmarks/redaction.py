"""Redaction: made-up secrets that survive, by kind and by place in a run, and what it changes in recorded runs.

usage: python -m benchmarks.redaction [RUNS] [--seeds 8]

The secrets are those of tests/ingest/secrets.txt, drawn anew for each seed. RUNS is a folder of recorded runs: it
counts the results that redaction changes and shows the changes, for a reader to judge. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path

from hepm import Trajectory
from hepm.ingest.prepare import shorten
from hepm.ingest.reading import read_runs
from hepm.ingest.redact import Redactor
from tests.ingest.made_up_secrets import PLACES, left_of, samples


def survivors(seeds: int) -> dict[str, object]:
    """How many secrets are left, and how many were placed."""
    redactor = Redactor()
    by_kind: Counter[str] = Counter()
    by_place: Counter[str] = Counter()
    placed = 0
    for seed in range(seeds):
        for sample in samples(seed):
            for place, run_with in PLACES.items():
                placed += 1
                if left_of(sample.secrets, redactor(run_with(sample.text))):
                    by_kind[sample.heading] += 1
                    by_place[place] += 1
    return {"placed": placed, "left": by_place.total(), "left by kind": by_kind, "left by place": by_place}


def changes(folder: Path) -> dict[str, object]:
    """What redaction changes in the results of recorded runs, and the CPU seconds it takes for all of their results."""
    results: Counter[str] = Counter()
    for _, run in read_runs([folder]):
        if isinstance(run, Trajectory):
            results.update(call.result for call in shorten(run).calls() if call.result is not None)
    redactor = Redactor()
    started = time.process_time()
    changed = [result for result in results if redactor.text(result) != result]
    seconds = round(time.process_time() - started, 2)
    shown = [redactor.text(result)[:300] for result in changed]
    counted = {"results": results.total(), "distinct": len(results), "changed": sum(results[one] for one in changed)}
    return {**counted, "CPU s": seconds, "changes": shown}


def main() -> None:
    """Measure, and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=Path)
    parser.add_argument("--seeds", type=int, default=8)
    asked = parser.parse_args()
    found = survivors(asked.seeds)
    if asked.runs is not None:
        found["recorded runs"] = changes(asked.runs)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
