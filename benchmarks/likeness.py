"""Does likeness of requests find the runs of one task? Groups of recorded runs whose task ids are hidden.

usage: python benchmarks/likeness.py [RUNS] [--markdown]

RUNS is a folder of recorded runs ($HEPM_RECORDED_RUNS, else ../shared/data). Per environment: of the pairs of runs in
one group how many are of one task (*precision*), or of one family, and of the pairs of one task how many are in one
group (*recall*), for several least cosines (see hepm.experience.likeness). Then how long 100,000 made-up
requests take, a quarter of them like no other. What lessons gain from it: `lessons_at_divergences.py --tasks alike`.
"""

from __future__ import annotations

import json
import random
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence

from lessons import machine, parse

from hepm.evals.domains import DomainRun, domains_of
from hepm.experience import likeness
from hepm.ingest import Rejection, read_runs

COSINES = (0.65, 0.7, 0.75, 0.8, 0.85)
MANY = 100_000


def main() -> None:
    arguments = parse()
    records = [(name, run) for name, run in read_runs([arguments.runs]) if not isinstance(run, Rejection)]
    domains = [domain for domain in domains_of(records) if not domain.derived]
    found = {domain.name: {cosine: judged(domain.runs, cosine) for cosine in COSINES} for domain in domains}
    likeness.LIKE = 0.75  # type: ignore[misc]
    started = time.perf_counter()
    groups = likeness.RequestGroups(made_up(MANY)).group_of
    taken = {
        "requests": MANY,
        "groups": len(set(groups.values())),
        "seconds": round(time.perf_counter() - started, 1),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    if arguments.markdown:
        print(f"| precision (of one family) / recall at | {' | '.join(map(str, COSINES))} |")
        print("|---" * (len(COSINES) + 1) + "|")
        for name, rows in found.items():
            cells = [f"{row['precision']:.2f} ({row['family']:.2f}) / {row['recall']:.2f}" for row in rows.values()]
            print(f"| {name} | {' | '.join(cells)} |")
        print(f"\n{taken}")
        return
    print(json.dumps({"benchmark": "likeness", **machine(), "many": taken, "found": found}))


def judged(runs: Sequence[DomainRun], cosine: float) -> dict[str, float]:
    likeness.LIKE = cosine  # type: ignore[misc]
    groups = likeness.group_by_request(run.trajectory for run in runs)
    grouped = pairs(runs, lambda run: groups[run.id])
    right = pairs(runs, lambda run: f"{groups[run.id]}\n{run.task}")
    family = pairs(runs, lambda run: f"{groups[run.id]}\n{run.family}")
    return {
        "groups": len(set(groups.values())),
        "precision": round(right / max(grouped, 1), 4),
        "family": round(family / max(grouped, 1), 4),
        "recall": round(right / max(pairs(runs, lambda run: run.task), 1), 4),
    }


def pairs(runs: Sequence[DomainRun], key: Callable[[DomainRun], str]) -> int:
    return sum(times * (times - 1) // 2 for times in Counter(map(key, runs)).values())


def made_up(count: int) -> dict[str, str]:
    draw = random.Random(0)
    words = [f"w{chr(97 + at % 26)}{chr(97 + at // 26 % 26)}{chr(97 + at // 676)}" for at in range(5_000)]
    return {
        f"r{at:06}": " ".join(draw.choices(words, k=20)) if at % 4 == 0 else f"please {words[at % 500]} my order {at}"
        for at in range(count)
    }


if __name__ == "__main__":
    main()
