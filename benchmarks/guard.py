"""What the guard of sessions makes of hints that help or harm: simulated streams of sessions, with baselines.

usage: python benchmarks/guard.py [--streams 200] [--holdout 0.1]

A case says how often sessions of each level succeed. Each stream begins without any outcome; every session draws its
level from the outcomes before it, by the guard (`hepm.memory.guard`), or by Thompson sampling without its margin. With
--holdout a session draws its arm before, and a control succeeds as silent ones do; where the interval of `hepm uplift`
lies below 0, nearly all sessions are held out. One more case has lessons that harm at each level. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from random import Random
from typing import Final, NamedTuple

import numpy as np

from hepm.memory.guard import LEVELS, SILENT, LevelOutcomes, Outcomes, drawn, in_force
from hepm.memory.sessions import HARMED_HOLDOUT
from hepm.uplift.sequence import path_of

CASES: Final[Mapping[str, tuple[float, float]]] = {  # silent, hinted
    "harm, .9": (0.9, 0.8),
    "harm a little": (0.8, 0.7),
    "harm a lot": (0.6, 0.3),
    "harm by .02": (0.82, 0.8),
    "nothing matters, .5": (0.5, 0.5),
    "nothing matters, .9": (0.9, 0.9),
    "help a little": (0.5, 0.6),
    "help, .9": (0.85, 0.9),
    "help a lot": (0.3, 0.7),
}
HARMFUL_LESSONS: Final = "lessons harm at each level"
CONTROL_RATE: Final = 0.9
HELD_OUT_CASES: Final[Mapping[str, tuple[float, ...]]] = {**CASES, HARMFUL_LESSONS: (0.4, 0.4)}
SESSIONS: Final = 330
SOON: Final = 60
LATE: Final = slice(270, 330)
Draw = Callable[[Outcomes, Random], str]


def thompson(known: Outcomes, dice: Random) -> str:
    """The level with the higher share of successes, each drawn from what is known of it."""
    return max(LEVELS, key=lambda level: known[level].draw(dice))


DRAWS: Final[Mapping[str, Draw]] = {"guard": drawn, "thompson": thompson}


class Stream(NamedTuple):
    """Of one stream, session by session: its true rate, the level in force before it, whether it was held out, and
    whether memory was known to harm before it."""

    rates: list[float]
    in_force: list[str]
    controls: list[bool]
    harmed: list[bool]


def main() -> None:
    arguments = parse()
    started = time.perf_counter()
    cases = HELD_OUT_CASES if arguments.holdout else CASES
    jobs = [(case, name, arguments.streams, arguments.holdout) for case in cases for name in DRAWS]
    with ProcessPoolExecutor(arguments.processes) as pool:
        rows = list(pool.map(measured, *zip(*jobs, strict=True)))
    asked = {"holdout": arguments.holdout, "streams": arguments.streams}
    print(json.dumps(asked | {"seconds": round(time.perf_counter() - started, 1), "rows": rows}))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, default=200, help="streams of each case")
    parser.add_argument("--holdout", type=float, default=0.0, help="share of sessions that are held out")
    parser.add_argument("--processes", type=int, default=2, help="processes side by side")
    return parser.parse_args()


def measured(case: str, name: str, streams: int, holdout: float = 0.0) -> dict[str, object]:
    """Means over the streams of a case."""
    rates = HELD_OUT_CASES[case]
    control = CONTROL_RATE if case == HARMFUL_LESSONS else rates[0]
    found = [stream(rates, DRAWS[name], Random(seed), holdout=holdout, control=control) for seed in range(streams)]

    def mean(part: slice) -> float:
        return sum(sum(one.rates[part]) / len(one.rates[part]) for one in found) / streams

    def mean_with_memory(part: slice) -> float:
        with_memory = [
            rate for one in found for rate, held in zip(one.rates[part], one.controls[part], strict=True) if not held
        ]
        return sum(with_memory) / len(with_memory)

    best = max(*rates, control)
    first_harm = [one.harmed.index(True) for one in found if any(one.harmed)]
    silent = [one.in_force[SOON] == SILENT or one.harmed[SOON] for one in found]
    return {
        "case": case,
        "draws": name,
        "silent_rate": control,
        "best": best,
        "first_60": round(mean(slice(0, SOON)), 3),
        "next_60": round(mean(slice(SOON, 2 * SOON)), 3),
        "around_300": round(mean(LATE), 3),
        "behind_best": round(best - mean(LATE), 3),
        "behind_best_with_memory": round(best - mean_with_memory(LATE), 3),
        "silent_at_60": round(sum(silent) / streams, 3),
        "silent_at_300": round(sum(one.in_force[300] == SILENT or one.harmed[300] for one in found) / streams, 3),
        "harm_known": round(len(first_harm) / streams, 3),
        "harm_known_after": sorted(first_harm)[len(first_harm) // 2] if first_harm else None,
    }


def stream(
    rates: tuple[float, float],
    draw: Draw,
    dice: Random,
    *,
    holdout: float = 0.0,
    control: float = 0.0,
    sessions: int = SESSIONS,
) -> Stream:
    """One stream of sessions, each drawn from the outcomes of those before it.

    Args:
        control: The rate of sessions that are held out.
    """
    known = dict.fromkeys(LEVELS, LevelOutcomes())
    true = dict(zip(LEVELS, rates, strict=True))
    found = Stream([], [], [], [])
    outcomes: list[bool] = []
    chances: list[float] = []
    for _ in range(sessions):
        harmed = bool(holdout) and harms(outcomes, found.controls, chances)
        share = HARMED_HOLDOUT if harmed else holdout
        held_out = dice.random() < share if holdout else False
        found.in_force.append(in_force(known))
        level = SILENT if held_out else draw(known, dice)
        rate = control if held_out else true[level]
        succeeded = dice.random() < rate
        if not held_out:
            known[level] = LevelOutcomes(known[level].successes + succeeded, known[level].sessions + 1)
        found.rates.append(rate)
        found.harmed.append(harmed)
        found.controls.append(held_out)
        outcomes.append(succeeded)
        chances.append(1 - share)
    return found


def harms(outcomes: list[bool], controls: list[bool], chances: list[float]) -> bool:
    """Whether the interval of uplift lies below 0."""
    one_kind = np.zeros(len(outcomes), dtype=np.int64)
    path = path_of(
        np.array(outcomes, dtype=np.float64), ~np.array(controls, dtype=np.bool_), np.array(chances), one_kind
    )
    return path.last is not None and path.last.sure < 0


if __name__ == "__main__":
    main()
