"""What hints are worth to agents that follow them, on simulated service desks: every policy in one run.

usage: python benchmarks/followed_hints.py [--quick] [--desks 10] [--policy NAME]...

Prints one JSON line: the first hint at the decision on exact logs, and the success of agents that follow hints with
probability p after so many runs, beside agents without memory and an oracle. docs/reference/environments.md describes
the desks. Two desks are measured side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor

# Before numpy is loaded: its threads cost more than they bring on matrices of this size.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from parts.measured import about, options
from parts.simulator import SIZES, simulate

from hepm.policy import POLICIES

FOLLOWS = (0.25, 0.5, 0.75, 1.0)
QUICK_DESKS, QUICK_FOLLOWS, QUICK_SIZES = 3, (0.5, 1.0), (0, 10, 30, 100)


def main() -> None:
    arguments = parse()
    started = time.perf_counter()
    desks = arguments.desks or (QUICK_DESKS if arguments.quick else 10)
    names: list[str] = arguments.policy or sorted(POLICIES)
    with ProcessPoolExecutor(arguments.processes) as pool:
        found = simulate(
            {name: name for name in names},
            seeds=range(desks),
            follows=QUICK_FOLLOWS if arguments.quick else FOLLOWS,
            sizes=QUICK_SIZES if arguments.quick else SIZES,
            map_desks=pool.map,
        )
    measured = about("followed_hints") | {"desks": desks, "seconds": round(time.perf_counter() - started, 1)}
    print(json.dumps(measured | found.to_json()))


def parse() -> argparse.Namespace:
    parser = options(__doc__, recorded=False)
    parser.add_argument("--quick", action="store_true", help="fewer desks, probabilities and runs")
    parser.add_argument("--desks", type=int, default=0)
    parser.add_argument("--policy", action="append", default=[])
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
