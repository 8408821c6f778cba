"""Are warnings true, and of use? What the hybrid policy warns of on recorded runs, and in a memory's first runs.

usage: python benchmarks/warned.py [RUNS] [--domain NAME]... [--calls 150] [--seed 0] [--markdown]

RUNS is a folder of recorded runs ($HEPM_RECORDED_RUNS, else ../shared/data). *Unseen*: the families of a run are out of
memory, five folds; *seen*: the run alone is, ten folds; *first N runs*: memory holds N other runs of the domain, drawn
by the seed. At calls of successful runs, `--calls` of each domain, are counted: the share with a warning, of these the
share that warns of what the run called next, and the same share of all warnings; at divergences (hepm.evals.metrics)
the share where the tool of the failed run is warned of, and where that of the successful one is. `calls only` is the
plain baseline: it warns of a tool that failed in two or more runs and succeeded in none after the last tool, where
another one succeeded. Prints one JSON line, or with --markdown the table of benchmarks/LOG.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

# Before numpy is loaded: its threads cost more than they bring on matrices of this size.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hepm.evals.baselines import Training
from hepm.evals.domains import Domain, DomainRun, Event, Split, by_family, by_request, by_run, counted, ten_domains
from hepm.evals.methods import FilledMemory
from hepm.evals.metrics import DivergencePoint, find_divergences
from hepm.graph.rows import spread_over
from hepm.ingest import Rejection, read_runs
from hepm.policy import Floors, Hybrid
from hepm.types import ToolName

YOUNG = (3, 10, 30)
YOUNG_MEMORIES, YOUNG_CALLS = 6, 40
FEWEST_FAILURES = 2  # of the plain baseline
Warned = frozenset[ToolName]


def main() -> None:
    arguments = parse()
    records = [(name, run) for name, run in read_runs([arguments.runs]) if not isinstance(run, Rejection)]
    found: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for domain in counted(map(by_request, ten_domains(records))):
        if arguments.domain and domain.name not in arguments.domain:
            continue
        print(domain.name, file=sys.stderr, flush=True)
        divergences, _ = find_divergences(domain.runs)
        for memory, split, calls in splits(domain, arguments):
            measure(found[memory], split, calls, divergences)
    if arguments.markdown:
        print("\n".join(markdown(found)))
        return
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    shares = {memory: {how: shares_of(counts) for how, counts in by.items()} for memory, by in found.items()}
    print(json.dumps({"benchmark": "warned", "commit": commit.stdout.strip(), "seed": arguments.seed, **shares}))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "runs", nargs="?", type=Path, default=Path(os.environ.get("HEPM_RECORDED_RUNS", "../shared/data"))
    )
    parser.add_argument("--domain", action="append", default=[])
    parser.add_argument("--calls", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args()


def splits(domain: Domain, arguments: argparse.Namespace) -> Iterator[tuple[str, Split, int]]:
    """Each memory to ask, by its kind, and at how many calls of successful runs."""
    for name, parts in (("unseen", [*by_family(domain.runs)]), ("seen", [*by_run(domain.runs)])):
        for split in parts:
            yield name, split, arguments.calls // len(parts)
    random = Random(f"{domain.name} {arguments.seed}")
    for size in YOUNG:
        for _ in range(YOUNG_MEMORIES):
            drawn = random.sample(domain.runs, min(size + 10, len(domain.runs)))
            yield f"first {size} runs", Split(drawn[:size], drawn[size:], apart=False), YOUNG_CALLS


def measure(found: dict[str, Counter[str]], split: Split, calls: int, divergences: Sequence[DivergencePoint]) -> None:
    """Add what is warned of at calls of successful runs, and at divergences, of the runs out of memory."""
    tested = set(split.test)
    won = [event for run in split.test if run.success for event in run.events]
    won = [won[at] for at in spread_over(len(won), min(calls, len(won)))]
    here = [divergence for divergence in divergences if divergence.event.run in tested]
    if not here and not won:
        return
    events = [*won, *(divergence.event for divergence in here)]
    for how, warned in (("hybrid", by_hybrid(split.train, events)), ("calls only", by_calls(split.train, events))):
        counts = found[how]
        for event, tools in zip(won, warned, strict=False):
            counts.update(calls=1, warned=bool(tools), warnings=len(tools), of_right=event.next in tools)
        for divergence, tools in zip(here, warned[len(won) :], strict=True):
            for better, chosen in divergence.forks:
                part = 1 / len(divergence.forks)
                counts["divergences"] += part  # pyright: ignore[reportArgumentType]  # shares are counted
                counts["of_chosen"] += part * (not chosen.isdisjoint(tools))  # pyright: ignore[reportArgumentType]
                counts["of_better"] += part * (not better.isdisjoint(tools))  # pyright: ignore[reportArgumentType]


def by_hybrid(known: Sequence[DomainRun], events: Sequence[Event]) -> list[Warned]:
    """What the policy warns of, whatever it suggests: warnings need no chance."""
    memory = FilledMemory(Training(known))
    policy = Hybrid(floors=Floors(chance=0, further=0))
    return [
        frozenset(way.tool for way in policy.suggest(memory.mirror, query).warnings) for query in memory.queries(events)
    ]


def by_calls(known: Sequence[DomainRun], events: Sequence[Event]) -> list[Warned]:
    """What failed in all runs that called it after the last tool, where another one succeeded."""
    runs: dict[tuple[ToolName, bool], Counter[ToolName]] = defaultdict(Counter)
    for run in known:
        for last, tool in {(event.last, event.next) for event in run.all_events if run.success is not None}:
            runs[last, bool(run.success)][tool] += 1
    return [
        frozenset(
            tool
            for tool, failures in runs[event.last, False].items()
            if failures >= FEWEST_FAILURES and runs[event.last, True] and tool not in runs[event.last, True]
        )
        for event in events
    ]


def shares_of(counts: Counter[str]) -> dict[str, float]:
    def share(part: str, whole: str) -> float:
        return round(counts[part] / max(counts[whole], 1), 4)

    return {
        "calls": counts["calls"],
        "divergences": round(counts["divergences"]),
        "warned": share("warned", "calls"),
        "of the right call": share("of_right", "warned"),
        "of all warnings": share("of_right", "warnings"),
        "of the failed way": share("of_chosen", "divergences"),
        "of the better way": share("of_better", "divergences"),
    }


def markdown(found: dict[str, dict[str, Counter[str]]]) -> Iterator[str]:
    """One row for each memory and way to warn."""
    columns = [*shares_of(Counter())]
    yield f"| memory | warns | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 2) + "|"
    for memory, by in found.items():
        for how, counts in by.items():
            shares = shares_of(counts)
            cells = [f"{shares[column]:g}" if column in columns[:2] else f"{shares[column]:.3f}" for column in columns]
            yield f"| {memory} | {how} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
