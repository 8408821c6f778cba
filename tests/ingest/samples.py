"""Single records of the golden files, for tests that change them, and what reads the result."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hepm.ingest.reading import read_runs
from hepm.ingest.records import ReadOptions, Rejection, Remark
from hepm.types import Trajectory
from tests.ingest.golden import values

Record = dict[str, Any]

CHAT: Record = values("chat", "object.json")
TAU: Record = values("tau", "gpt-4o-retail.json")[0]
TAU2: Record = values("tau2", "results.json")
SIMULATION: Record = TAU2["simulations"][0]
TAU2["simulations"] = [SIMULATION]
TAU2_SFT: Record = values("tau2", "sft-small.json")
TAU2_SFT["splits"]["test"] = []
AGENTDOJO: Record = values("agentdojo", "attacked.json")
ATIF: Record = values("atif", "trajectory.json")
STATE_BENCH: Record = values(
    "state-bench", "datasets", "train_task_trajectories", "customer_support", "7-broken_lamp.json"
)
BFCL_QUESTION: Record = values("bfcl", "BFCL_v4_multi_turn_base.json")[0]

ONE_DOCUMENT: dict[str, Any] = {
    "chat": CHAT,
    "tau": [TAU],
    "tau2": TAU2,
    "tau2-sft": TAU2_SFT,
    "agentdojo": AGENTDOJO,
    "state-bench": {**STATE_BENCH, "task_id": "7-broken_lamp"},
    "atif": ATIF,
}
"""One run of each format that fits in one JSON document."""


def changed(record: Record, **values: Any) -> Record:
    """A copy of a record with other values at its top level."""
    return {**copy.deepcopy(record), **values}


def write(path: Path, *values: Any) -> Path:
    """A file with one JSON value, or with several as lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(value) for value in values) + ("\n" if len(values) > 1 else ""), "utf-8")
    return path


def read(*sources: Path | str, options: ReadOptions | None = None) -> tuple[list[Trajectory], list[Rejection]]:
    """Everything that is read, the runs and the rejections apart."""
    items = [item for _, item in read_runs(sources, options or ReadOptions())]
    runs = [item for item in items if isinstance(item, Trajectory)]
    return runs, [item for item in items if isinstance(item, Rejection) and not isinstance(item, Remark)]


def read_one(source: Path | str, options: ReadOptions | None = None) -> Trajectory:
    """The one run in a source."""
    runs, rejected = read(source, options=options)
    assert (len(runs), rejected) == (1, [])
    return runs[0]


def read_reason(source: Path | str, options: ReadOptions | None = None) -> str:
    """Why the one record in a source is rejected."""
    runs, rejected = read(source, options=options)
    assert (runs, len(rejected)) == ([], 1)
    return rejected[0].reason
