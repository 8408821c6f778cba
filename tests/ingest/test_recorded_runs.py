"""The recorded runs, counted: what is read, what of it succeeded, and why the rest is not read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from hepm.ingest import Redactor, Rejection, parse_run, read_runs, shorten, write_run
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


def test_every_environment_has_its_runs(runs: Sequence[Trajectory]):
    assert Counter(run.environment for run in runs if not run.environment.startswith("agentdojo")) == {
        "airline": 679,
        "retail": 404,
        "telecom": 75,
        "telecom-solo": 60,
        "mock": 16,
        "bfcl-multi_turn_base": 200,
        "bfcl-multi_turn_long_context": 200,
        "bfcl-multi_turn_miss_func": 200,
        "bfcl-multi_turn_miss_param": 200,
        "state-bench-customer_support": 100,
        "state-bench-travel": 100,
    }
    without_attack = Counter(
        run.environment for run in runs if "attack" not in run.tags and run.task.startswith("user")
    )
    assert {name: count for name, count in without_attack.items() if name.startswith("agentdojo")} == {
        "agentdojo-banking": 320,
        "agentdojo-slack": 420,
        "agentdojo-travel": 400,
        "agentdojo-workspace": 840,
    }


def test_runs_cut_off_by_the_provider_and_training_runs_are_neither_success_nor_failure(runs: Sequence[Trajectory]):
    unknown = Counter(run.environment for run in runs if run.outcome.success is None)
    assert unknown == {
        "agentdojo-banking": 6,
        "agentdojo-slack": 8,
        "agentdojo-travel": 12,
        "agentdojo-workspace": 25,
        "state-bench-customer_support": 100,
        "state-bench-travel": 100,
    }


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
