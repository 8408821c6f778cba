"""Small runs to remember, written as the names of the tools they called."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.embed import HashingEmbedder
from hepm.graph.delta import RunRecord
from hepm.graph.rows import Float32Array
from hepm.ingest.formats.hepm import parse_run, write_run
from hepm.ingest.prepare import run_of
from hepm.ingest.transitions import transitions
from hepm.types import DEFAULT_NAMESPACE

WISH = "Refund parcel 7, the glass is broken."

_TRIGGERS = {
    16: (
        "showing_added", "showing_settled", "showing_dropped", "state_added", "state_worded", "state_reworded",
        "state_muted", "state_dropped", "trajectory_dropped",
    ),
    17: ("passage_added", "passage_dropped"),
}  # fmt: skip
"""By the schema version that brought them."""


def to_version(version: int) -> str:
    """The statements that make an embedded store one of an older schema version, 15 or later."""
    later = [name for since, names in _TRIGGERS.items() if since > version for name in names]
    return "".join(f"DROP TRIGGER {name};" for name in later) + f"PRAGMA user_version = {version};"


def trajectory(
    name: str,
    *turns: str,
    success: bool | None = True,
    task: str = "",
    user: str = "",
    goal: str = "please help",
    ended_at: float | None = None,
    environment: str = "shop",
) -> Trajectory:
    """A run that called `turns` in order; "a+b" are two parallel calls of one turn."""
    said = [Turn("user", goal)]
    said += [
        Turn("assistant", "", tuple(ToolCall(tool, result=f"{tool} done") for tool in turn.split("+")))
        for turn in turns
    ]
    return Trajectory(
        name,
        tuple(said),
        Outcome(None if success is None else float(success), success),
        environment=environment,
        task=task,
        user=user,
        ended_at=ended_at,
    )


def called(tool: str, result: str = "done", number: str = "1", **more: Any) -> list[dict[str, Any]]:
    """A call and its result, as OpenAI chat messages."""
    issued = {"id": number, "type": "function", "function": {"name": tool, "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [issued]},
        {"role": "tool", "tool_call_id": number, "content": result, **more},
    ]


def messages_after(request: str, *calls: str | tuple[str, str]) -> list[dict[str, Any]]:
    """A request and the calls that an agent then made: each a tool, with what it returned if that is not "done"."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": request}]
    for number, call in enumerate(calls):
        messages += called(*([call] if isinstance(call, str) else call), number=f"c{number}")
    return messages


def asked(*tools: str, wish: str = WISH) -> list[dict[str, Any]]:
    """A conversation in which these tools were called."""
    return [{"role": "user", "content": wish}, *(message for tool in tools for message in called(tool))]


def exported_runs(memory: Memory, namespace: str = DEFAULT_NAMESPACE) -> list[dict[str, Any]]:
    """The lines of an export that are runs; others are tools and lessons."""
    return [record for record in map(json.loads, memory.export(namespace=namespace)) if "turns" in record]


def stored_run(memory: Memory, name: str, *, namespace: str = DEFAULT_NAMESPACE) -> Trajectory:
    """One that must be there."""
    run = memory.run(name, namespace=namespace)
    assert run is not None
    return run


class Shelf:
    """Runs by id, and the way a store reads them again."""

    def __init__(self, *trajectories: Trajectory) -> None:
        self._by_id = {t.id: t for t in trajectories}
        self._embedder = HashingEmbedder()

    def run(self, name: str) -> RunRecord:
        """One run, as a store takes it."""
        return self._run(self._by_id[name])

    def runs(self, names: Sequence[str] | None = None) -> list[RunRecord]:
        """Several, all by default."""
        return [self.run(name) for name in (self._by_id if names is None else names)]

    def vectors(self, runs: Sequence[RunRecord]) -> dict[str, Float32Array]:
        """The vectors of their summaries."""
        texts = sorted({t.summary for run in runs for t in run.transitions} | {run.said for run in runs if run.said})
        return dict(zip(texts, self._embedder.embed(texts), strict=True)) if texts else {}

    def replay(
        self, records: Sequence[str], aliases: Mapping[str, str] | None = None, /
    ) -> tuple[Sequence[RunRecord], Mapping[str, Float32Array]]:
        """See `hepm.graph.rows.RecordParser`."""
        runs = [run_of(parse_run(record), record, aliases=aliases) for record in records]
        runs = [run._replace(digest=f"digest of {run.id}") for run in runs]
        return runs, self.vectors(runs)

    def _run(self, t: Trajectory) -> RunRecord:
        return RunRecord.of(t, transitions(t), digest=f"digest of {t.id}", record=write_run(t))
