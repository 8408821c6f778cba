"""What the guard of sessions makes of hints that help or harm: simulated streams of sessions, with baselines.

usage: python benchmarks/guard.py [--streams 200] [--markdown]

A case says how often sessions of each level succeed. Each stream begins without any outcome; every session draws its
level from the outcomes before it, by the guard (`hepm.memory.levels`), or by Thompson sampling alone. Prints one JSON
line, or with --markdown a table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from random import Random
from typing import Final, NamedTuple

from hepm.memory.levels import LEVELS, SILENT, LevelOutcomes, Outcomes, drawn, in_force, thompson

CASES: Final[Mapping[str, tuple[float, ...]]] = {  # silent, .95, .9, .75, .6
    "all harm, the lower the more": (0.9, 0.9, 0.8, 0.6, 0.3),
    "all harm a little": (0.8, 0.7, 0.7, 0.7, 0.7),
    "all harm a lot": (0.6, 0.3, 0.3, 0.3, 0.3),
    "nothing matters, .5": (0.5,) * 5,
    "nothing matters, .9": (0.9,) * 5,
    "all help a little": (0.5, 0.6, 0.6, 0.6, 0.6),
    "all help a lot": (0.3, 0.7, 0.7, 0.7, 0.7),
    "the lower the better": (0.4, 0.45, 0.5, 0.55, 0.6),
    "only .6 speaks, and helps": (0.5, 0.5, 0.5, 0.5, 0.7),
    "only .6 speaks, and harms": (0.7, 0.7, 0.7, 0.7, 0.4),
    "sure hints help, others harm": (0.6, 0.65, 0.7, 0.5, 0.3),
    "the surest help, others harm": (0.7, 0.75, 0.65, 0.5, 0.4),
}
SESSIONS: Final = 330
SOON: Final = 60
LATE: Final = slice(270, 330)
Draw = Callable[[Outcomes, Random], str]
DRAWS: Final[Mapping[str, Draw]] = {"guard": drawn, "thompson": thompson}


class Stream(NamedTuple):
    """Of one stream: the true rates of its sessions, and which level was in force before each."""

    rates: list[float]
    in_force: list[str]


def main() -> None:
    arguments = parse()
    started = time.perf_counter()
    jobs = [(case, name, arguments.streams) for case in CASES for name in DRAWS]
    with ProcessPoolExecutor(arguments.processes) as pool:
        rows = list(pool.map(measured, *zip(*jobs, strict=True)))
    if arguments.markdown:
        print("\n".join(table(rows)))
        return
    about = {
        "benchmark": "guard",
        "streams": arguments.streams,
        "seconds": round(time.perf_counter() - started, 1),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    }
    print(json.dumps(about | {"rows": rows}))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, default=200, help="streams of each case")
    parser.add_argument("--processes", type=int, default=2, help="processes side by side")
    parser.add_argument("--markdown", action="store_true", help="print a table")
    return parser.parse_args()


def measured(case: str, name: str, streams: int) -> dict[str, object]:
    """Means over the streams of a case."""
    rates = CASES[case]
    found = [stream(rates, DRAWS[name], Random(seed)) for seed in range(streams)]

    def mean(part: slice) -> float:
        return sum(sum(one.rates[part]) / len(one.rates[part]) for one in found) / streams

    return {
        "case": case,
        "draws": name,
        "silent_rate": rates[0],
        "best": max(rates),
        "first_60": round(mean(slice(0, SOON)), 3),
        "next_60": round(mean(slice(SOON, 2 * SOON)), 3),
        "around_300": round(mean(LATE), 3),
        "behind_best": round(max(rates) - mean(LATE), 3),
        "silent_at_60": round(sum(one.in_force[SOON] == SILENT for one in found) / streams, 3),
    }


def stream(rates: tuple[float, ...], draw: Draw, dice: Random) -> Stream:
    """One stream of sessions, each drawn from the outcomes of those before it."""
    known = dict.fromkeys(LEVELS, LevelOutcomes())
    true = dict(zip(LEVELS, rates, strict=True))
    found = Stream([], [])
    for _ in range(SESSIONS):
        found.in_force.append(in_force(known))
        level = draw(known, dice)
        found.rates.append(true[level])
        succeeded = dice.random() < true[level]
        known[level] = LevelOutcomes(known[level].successes + succeeded, known[level].sessions + 1)
    return found


def table(rows: list[dict[str, object]]) -> list[str]:
    """The rows as a table of benchmarks/LOG.md: the guard's, and behind a slash those of Thompson sampling alone."""
    head = "| case | silent, best | first 60 | next 60 | around 300 | behind best | silence in force at 60 |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for guard, thompson_alone in zip(rows[::2], rows[1::2], strict=True):
        both = (f"{guard[key]} / {thompson_alone[key]}" for key in ("first_60", "next_60", "around_300", "behind_best"))
        about = f"{guard['silent_rate']}, {guard['best']}"
        lines.append(f"| {guard['case']} | {about} | {' | '.join(both)} | {guard['silent_at_60']} |")
    return lines


if __name__ == "__main__":
    main()
