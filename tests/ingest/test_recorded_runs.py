"""The recorded runs, counted: what is read, what of it succeeded, and why the rest is not read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from hepm.ingest.formats.hepm import parse_run, write_run
from hepm.ingest.prepare import shorten
from hepm.ingest.reading import read_runs
from hepm.ingest.records import Rejection
from hepm.ingest.redact import Redactor
from hepm.types import JSON, Trajectory

pytestmark = pytest.mark.xdist_group("recorded_runs")  # the runs are read once

Item = tuple[str, Trajectory | Rejection]

READ = {
    "agentdojo": 15221,
    "bfcl-multi-turn": 800,
    "state-bench": 200,
    "tau-bench": 315,
    "tau-bench-avaljotsingh": 100,
    "tau2-bench": 790,
    "tau2-bench-activegraph": 29,
}
"""Of AgentDojo 15,428 were recorded; 207 hold no messages, and nothing can be learned from them."""

SUCCEEDED = {
    "agentdojo": 6700,
    "bfcl-multi-turn": 800,
    "state-bench": 0,
    "tau-bench": 162,
    "tau-bench-avaljotsingh": 73,
    "tau2-bench": 501,
    "tau2-bench-activegraph": 14,
}

REJECTED = {
    ("acebench", "no reader knows it"): 4,
    ("agentdojo", "the run holds no messages"): 207,
    ("state-bench", "no reader knows it"): 1,
    ("tau-bench", "no reader knows it"): 2,
    ("tau2-bench", "no reader knows it"): 8,
}
"""Definitions of tasks, splits of tasks and dialogues kept as one text are files without recorded runs."""


@pytest.fixture(scope="module")
def items(recorded_runs: Path) -> Sequence[Item]:
    return list(read_runs([recorded_runs]))


@pytest.fixture(scope="module")
def runs(items: Sequence[Item]) -> Sequence[Trajectory]:
    return [item for _, item in items if isinstance(item, Trajectory)]


def source_of(file: str, recorded_runs: Path) -> str:
    return Path(file).relative_to(recorded_runs).parts[0]


def test_the_counts_per_source_are_known(items: Sequence[Item], recorded_runs: Path):
    read, succeeded, rejected = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for _, item in items:
        if isinstance(item, Rejection):
            rejected[source_of(item.file, recorded_runs), re.split("[:;]", item.reason)[0]] += 1
        else:
            source = source_of(item.source, recorded_runs)
            read[source] += 1
            succeeded[source] += item.outcome.success is True
    assert (read, succeeded, rejected) == (READ, SUCCEEDED, REJECTED)


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_every_run_is_written_and_read_back_the_same_without_a_password(runs: Sequence[Trajectory], every: int):
    redact = Redactor()
    passwords: list[JSON] = []
    for run in runs[::every]:
        prepared = redact(shorten(run))
        assert parse_run(write_run(prepared)) == prepared
        passwords += [call.arguments["password"] for call in prepared.calls() if "password" in call.arguments]
    assert len(passwords) > 100 / every
    assert set(passwords) == {"[redacted:password]"}
