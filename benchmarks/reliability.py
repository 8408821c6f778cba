"""Is a stated chance honest? The first tool that hints name on recorded runs, by the chance that they state.

usage: python benchmarks/reliability.py [RUNS] [--domain NAME]... [--calls 300] [--plot FILE] [--markdown]

RUNS is a folder of recorded runs ($HEPM_RECORDED_RUNS, else ../shared/data). *Unseen*: the families of a run are out of
memory, five folds; *seen*: the run alone is, ten folds. At `--calls` calls of successful runs of each domain the
default policy is asked with speak="weighed", so that it names what has a chance of .1 or more. Printed are the share of
calls at which it names a tool and the share of these that were right, from each chance on: called next, or after rare
detours (`hepm.evidence.chance.is_right`), in brackets called next; and the calibration error (ECE): the mean
difference of both in ten bins of equal width, weighted by calls. The baseline is the raw score of the same tools
(speak="all"). --plot draws a reliability diagram.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

# Before numpy is loaded: its threads cost more than they bring on matrices of this size.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from parts.measured import options, read_records, recorded_domains

from hepm.evals.baselines import Training
from hepm.evals.domains import DomainRun, Event, Split, by_family, by_request, by_run
from hepm.evals.methods import FilledMemory
from hepm.evidence.chance import is_right
from hepm.evidence.decisions import Decision, FactNumbers, Situation, read_run
from hepm.evidence.upkeep import live_evidence
from hepm.graph.delta import RunRecord
from hepm.graph.rows import RunRow, spread_over
from hepm.ingest.transitions import tool_names, transitions
from hepm.policy import Floors, Hybrid, Query, floors_of
from hepm.types import StateSummary, ToolName

FROM = (0.1, 0.4, 0.7, 0.9, 0.93, 0.95)
BINS = 10
RAW = Floors(support=0, similarity=-1.0, chance=0.0, further=0.0)


class Stated(NamedTuple):
    """What a hint said of its first tool: its chance, whether it was right, and whether the run called it next."""

    chance: float
    right: bool
    next: bool


class Asked(NamedTuple):
    """All calls of one kind of memory: how many, and what was stated with honest chances and with raw ones."""

    calls: int
    honest: list[Stated]
    raw: list[Stated]


def main() -> None:
    arguments = parse()
    records = read_records(arguments.runs)
    found = {memory: Asked(0, [], []) for memory in ("unseen", "seen")}
    for domain in map(by_request, recorded_domains(records)):
        if arguments.domain and domain.name not in arguments.domain:
            continue
        print(domain.name, file=sys.stderr, flush=True)
        for memory, parts in (("unseen", [*by_family(domain.runs)]), ("seen", [*by_run(domain.runs)])):
            for split in parts:
                found[memory] = added(found[memory], split, arguments.calls // len(parts))
    if arguments.plot:
        draw(arguments.plot, found)
    if arguments.markdown:
        print("\n".join(markdown(found)))
    else:
        print(json.dumps({memory: figures(asked) for memory, asked in found.items()}))


def parse() -> argparse.Namespace:
    parser = options(__doc__)
    parser.add_argument("--domain", action="append", default=[])
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args()


def added(asked: Asked, split: Split, calls: int) -> Asked:
    """The same with some calls of the successful runs that are out of memory."""
    won = [event for run in split.test if run.success for event in run.all_events]
    won = [won[at] for at in spread_over(len(won), min(calls, len(won)))]
    if not won:
        return asked
    filled = FilledMemory.of(Training(split.train))
    stated: dict[str, list[Stated]] = defaultdict(list)
    for name, floors in (("honest", floors_of("weighed")), ("raw", RAW)):
        policy = Hybrid(floors=floors)
        for event, query in zip(won, filled.queries(won), strict=True):
            hint = policy.suggest(filled.mirror, query)
            if hint:
                tool = hint[0].tool
                stated[name].append(Stated(hint[0].score, came(tool, event, query, filled), tool == event.next))
    return Asked(asked.calls + len(won), asked.honest + stated["honest"], asked.raw + stated["raw"])


def came(tool: ToolName, event: Event, query: Query, filled: FilledMemory) -> bool:
    """Whether a hint was right there."""
    situation = Situation.of(query.after, query.history, query.state or StateSummary())
    evidence = live_evidence(filled.mirror).at(situation.place)
    share = evidence.at(situation, blind=False, allowed=evidence.support.keys(), witness={}).share
    calls_before = [turn for turn in event.run.trajectory.turns[: event.turn] if tool_names(turn)]
    return is_right(decisions_of(event.run)[len(calls_before)], tool, share)


@cache
def decisions_of(run: DomainRun) -> list[Decision]:
    """The decisions of a run, as a memory of it would have them."""
    columns = RunRecord.of(run.trajectory, transitions(run.trajectory), digest="", record="").columns
    row = RunRow(
        0, run.id, success=True, sequence=columns["sequence"], environment="", task="", user="", request="", vector=None
    )
    return read_run(row, FactNumbers()).decisions


def figures(asked: Asked) -> dict[str, object]:
    """Calibration errors, and what is said from each chance on."""
    said = {str(least): said_from(asked, least) for least in FROM}
    return {"calls": asked.calls, "ece": ece(asked.honest), "ece raw": ece(asked.raw), "said, right": said}


def said_from(asked: Asked, least: float) -> tuple[float, float, float]:
    """The share of calls at which a tool with such a chance is named, and of these the shares right and called next."""
    said = [one for one in asked.honest if one.chance >= least]
    if not said:
        return 0.0, 0.0, 0.0
    right, following = np.mean([(one.right, one.next) for one in said], axis=0).round(3).tolist()
    return round(len(said) / asked.calls, 3), right, following


def binned(stated: Sequence[Stated]) -> list[tuple[float, float, int]]:
    """Of each bin with hints: the mean chance, the share that was right, and how many."""
    chance_H: NDArray[np.float64] = np.array([one.chance for one in stated])
    right_H: NDArray[np.float64] = np.array([one.right for one in stated], dtype=np.float64)
    bin_H = np.minimum((chance_H * BINS).astype(int), BINS - 1)
    parts = [bin_H == number for number in range(BINS)]
    return [
        (float(chance_H[part].mean()), float(right_H[part].mean()), int(part.sum())) for part in parts if part.any()
    ]


def ece(stated: Sequence[Stated]) -> float:
    """Expected calibration error."""
    return round(sum(abs(chance - right) * hints for chance, right, hints in binned(stated)) / len(stated), 3)


def markdown(found: dict[str, Asked]) -> list[str]:
    lines = ["| from a stated chance of | unseen: said / right (next) | seen: said / right (next) |", "|---|---|---|"]
    for least in FROM:
        cells = ["{:.2f} / {:.2f} ({:.2f})".format(*said_from(asked, least)) for asked in found.values()]
        lines.append(f"| {least:g} | {' | '.join(cells)} |")
    errors = ", ".join(f"{memory} {ece(asked.honest)} (raw {ece(asked.raw)})" for memory, asked in found.items())
    return [*lines, "", f"ECE {errors}; {found['unseen'].calls:,} and {found['seen'].calls:,} calls."]


def draw(file: Path, found: dict[str, Asked]) -> None:
    """Stated chances against the shares that were right; the area of a point is its number of hints."""
    from parts.drawing import drawing

    with drawing(file, "Of hints with a stated chance, so many were right", size=(8.0, 3.8), panels=2) as panels:
        for axes, (memory, asked) in zip(panels, found.items(), strict=True):
            axes.plot([0, 1], [0, 1], color="#7d8b99", linewidth=1)
            for stated, colour, label in (
                (asked.raw, "#c0492b", "raw score"),
                (asked.honest, "#6a3fb5", "what is stated"),
            ):
                points = binned(stated)
                chances, rights, hints = zip(*points, strict=True)
                areas = [12 + 400 * number / len(stated) for number in hints]
                axes.plot(chances, rights, color=colour, linewidth=1, alpha=0.6)
                axes.scatter(chances, rights, s=areas, color=colour, label=label, alpha=0.8, linewidth=0)
            axes.set_xlabel(f"chance, task {memory}")
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1)
        panels[0].set_ylabel("share that was right")
        panels[0].legend(frameon=False, loc="upper left")


if __name__ == "__main__":
    main()
