"""What hints are worth to agents that follow them, on simulated service desks: every policy in one run.

usage: python benchmarks/followed_hints.py [--quick] [--desks 10] [--policy NAME]... [--markdown]

Prints one JSON line: the first hint at the decision on exact logs, and the success of agents that follow hints with
probability p after so many runs, beside agents without memory and an oracle. --markdown prints the tables for
benchmarks/LOG.md instead. docs/reference/environments.md describes the desks. Two desks are measured side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor

# Before numpy is loaded: its threads cost more than they bring on matrices of this size.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from parts.measured import about, options

from hepm.evals.simulator import SIZES, Case, FirstTool, Scores, Setting, simulate
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
    if arguments.markdown:
        print("\n".join([*first_table(found.first_tools), *success_tables(found.scores)]))
        return
    measured = about("followed_hints") | {"desks": desks, "seconds": round(time.perf_counter() - started, 1)}
    print(json.dumps(measured | found.to_json()))


def parse() -> argparse.Namespace:
    parser = options(__doc__, recorded=False)
    parser.add_argument("--quick", action="store_true", help="fewer desks, probabilities and runs")
    parser.add_argument("--desks", type=int, default=0)
    parser.add_argument("--policy", action="append", default=[])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args()


def first_table(first: Mapping[str, Mapping[Case, FirstTool]]) -> Iterator[str]:
    """Right / failed / none / warned, by policy and log."""
    yield "First hint at the decision, shares of right / failed / other / none; failed tool warned of:\n"
    yield "| policy | 10 won, 10 failed | 3 won, 12 failed | one kind only failed: that kind | the others |"
    yield "|---|---|---|---|---|"
    for name, by_case in first.items():
        cells = (
            f"{s.right:.2f} / {s.failed:.2f} / {s.other:.2f} / {s.none:.2f}; {s.warned:.2f}" for s in by_case.values()
        )
        yield f"| {name} | {' | '.join(cells)} |"


def success_tables(success: Mapping[Setting, Sequence[Scores]]) -> Iterator[str]:
    """Success by memory size, one table for each way of learning; the ends stand in both."""
    for learning, title in (
        ("logs", "memory of agents that had no hints"),
        ("online", "memory of one's own hinted runs"),
    ):
        shown = {setting: means for setting, means in success.items() if setting.learning in ("", learning)}
        sizes = [mean.runs for mean in max(shown.values(), key=len)]
        yield f"\nSuccess, {title}; mean over desks [95 %], after the last size also without kinds that only failed:\n"
        yield f"| policy | p | {' | '.join(f'{size} runs' for size in sizes)} | known kinds |"
        yield "|---" * (len(sizes) + 3) + "|"
        for setting, means in shown.items():
            cells = [f"{m.success:.2f} [{m.interval.low:.2f}, {m.interval.high:.2f}]" for m in means]
            cells += [""] * (len(sizes) - len(cells))
            yield f"| {setting.policy} | {setting.follow:g} | {' | '.join(cells)} | {means[-1].known:.2f} |"


if __name__ == "__main__":
    main()
