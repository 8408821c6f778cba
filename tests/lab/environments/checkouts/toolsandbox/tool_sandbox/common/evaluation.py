"""A stand-in of hepm's own, not ToolSandbox: see ../../../README.md."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tool_sandbox.common.execution_context import DatabaseNamespace, ExecutionContext


def snapshot_similarity() -> None:
    """What milestones name by default."""


@dataclass
class SnapshotConstraint:
    database_namespace: Any
    target_dataframe: Any
    snapshot_constraint: Any = snapshot_similarity


class Evaluation:
    """The share of milestones that a run has."""

    def __init__(self, *constraints: SnapshotConstraint) -> None:
        milestones = [SimpleNamespace(snapshot_constraints=[one]) for one in constraints]
        self.milestone_matcher = SimpleNamespace(milestones=milestones)

    def evaluate(self, execution_context: ExecutionContext, max_turn_count: int) -> Any:
        assert max_turn_count
        wanted = [one.snapshot_constraints[0] for one in self.milestone_matcher.milestones]
        reached = [_has(execution_context, one) for one in wanted]
        return SimpleNamespace(similarity=sum(reached) / len(reached))


def _has(context: ExecutionContext, wanted: SnapshotConstraint) -> bool:
    (row,) = wanted.target_dataframe.to_dicts()
    if wanted.database_namespace == DatabaseNamespace.SETTING:
        return row.items() <= context.setting.items()
    if "tool_trace" in row:
        return json.loads(row["tool_trace"])["tool_name"] in context.trace
    return any(row.items() <= message.items() for message in context.messages)
