"""What most scripts need: the recorded runs they measure, and where and on what they measured."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hepm.evals.domains import Domain, DomainRun, Record, domains_of
from hepm.ingest.reading import read_runs
from hepm.ingest.records import Rejection
from hepm.types import Trajectory

DOMAINS = (
    "airline", "retail", "telecom", "telecom-solo", "agentdojo-banking", "agentdojo-slack",
    "agentdojo-travel", "agentdojo-workspace", "bfcl-multi_turn_base",
)  # fmt: skip
"""Those of the reference numbers, in the order of their tables, but `telecom+user`."""


def recorded_domains(records: Sequence[Record], *, families_by_task: bool = True) -> list[Domain]:
    """Those of the nine domains that the records hold, with families as in the reference numbers."""
    by_name = {domain.name: domain for domain in domains_of(records)}
    if families_by_task:
        by_name = {name: _by_task(domain) for name, domain in by_name.items()}
    return [by_name[name] for name in DOMAINS if name in by_name]


def _by_task(domain: Domain) -> Domain:
    """Every run belongs to the customer that most runs of its task name.

    Later versions of τ²-bench gave task numbers to other tasks, so that some of what is tested is known.
    """
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for run in sorted(domain.runs, key=lambda run: run.trajectory.source):
        numbered, _, customer = run.task.rpartition("/")
        if customer:
            votes[numbered][customer] += 1
    runs: list[DomainRun] = []
    for run in domain.runs:
        voted = votes[run.task.rpartition("/")[0]].most_common(1)
        runs.append(replace(run, family=voted[0][0]) if voted else run)
    return replace(domain, runs=runs)


def options(description: str | None, *, recorded: bool = True) -> argparse.ArgumentParser:
    """A parser; with `recorded` its first argument is the folder of recorded runs."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if recorded:
        default = Path(os.environ.get("HEPM_RECORDED_RUNS", "../shared/data"))
        parser.add_argument("runs", nargs="?", type=Path, default=default)
    return parser


def read_records(folder: Path) -> list[tuple[str, Trajectory]]:
    """Each recorded run with the name of its format; what cannot be read is left out."""
    return [(name, run) for name, run in read_runs([folder]) if not isinstance(run, Rejection)]


def about(benchmark: str) -> dict[str, str]:
    """Which measurement it is, of which commit, and where."""
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return {"benchmark": benchmark, "commit": asked.stdout.strip() or "unknown", "machine": machine}


def spanned(mean: float, low: float, high: float) -> str:
    """A signed value with its interval."""
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
