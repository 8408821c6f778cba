"""Rollouts with memory in verl, as an agent loop: for those who outgrow one GPU. Written for verl 0.9.

verl is no dependency: it holds transformers back. It makes a loop for each rollout, in several processes; its
configuration is in docs/use/training.md. A row of the dataset names its task in `extra_info`, as {"task": id, "split":
"train"}. Rows of another split are evaluated: without hints, and memory learns nothing of them.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import fcntl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any
from uuid import uuid4

from hepm.errors import InputError
from hepm.ingest.formats.hepm import parse_run, write_run
from hepm.lab.environments import Task
from hepm.lab.rl.learning import Learner
from hepm.lab.rl.rollout import Attempt, Player, Rollout, Sampled
from hepm.lab.rl.spans import Added, row_of


@dataclass(frozen=True, kw_only=True)
class VerlRollouts:
    """What the loops of a process share.

    Attributes:
        spool: A folder that all processes see. What the rollouts of a step found waits there until the next step: then
            one process learns it. None leaves memory as it is.
        added, absorb, reward: As for `hepm.lab.rl.trl.MemoryRollouts`.
    """

    player: Player
    learner: Learner | None = None
    spool: Path | None = None
    added: Added = "mask"
    absorb: bool = False
    reward: Callable[[Rollout], float] = attrgetter("reward")

    @cached_property
    def tasks(self) -> Mapping[str, Task]:
        """By id."""
        return {task.id: task for task in self.player.environment.tasks()}

    async def fields(
        self, server_manager: Any, sampling_params: Mapping[str, Any], row: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Make the rollout of a row of the dataset: the fields of verl's `AgentLoopOutput`, but `metrics`."""
        about = row.get("extra_info") or {}
        if about.get("task") not in self.tasks:
            raise InputError(f"extra_info of a row names no task of the environment: {dict(about)!r:.200}")
        training = about.get("split") == "train"
        step = int(row.get("global_steps") or 0)
        spool = None
        if training and self.spool and self.learner:
            spool = Spool(self.spool, self.learner)
            spool.learn_before(step)
        # Only the v1 trainer, verl's default, says which rollout of its group it is.
        if training and "session_id" not in row:
            raise InputError("verl says no session_id: use its v1 trainer, as hints are drawn by it")
        attempt = Attempt(self.tasks[about["task"]], int(row.get("session_id") or 0), training)
        request = uuid4().hex  # one for all turns, so that one server keeps the prefix

        async def generate(stream: list[int]) -> Sampled:
            made = await server_manager.generate(
                request_id=request, prompt_ids=stream, sampling_params=dict(sampling_params)
            )
            return Sampled(made.token_ids, made.log_probs or ())

        rollout = await self.player.play_async(attempt, generate)
        if spool is not None:
            spool.add(rollout, step)
        return self._output(rollout)

    def _output(self, rollout: Rollout) -> dict[str, Any]:
        row = row_of(rollout.spans, added=self.added, absorb=self.absorb)
        logprobs = None if row.logprobs is None else list(row.logprobs)
        return {
            "prompt_ids": list(row.prompt),
            "response_ids": list(row.completion),
            "response_mask": list(row.mask),
            "response_logprobs": logprobs,
            "reward_score": self.reward(rollout),
            "num_turns": len(rollout.turns),
            "extra_fields": {"reward_extra_info": {"guided": float(rollout.guided)}},
        }


class Spool:
    """A folder where processes leave the runs of a step, for one of them to learn when the step is over.

    Rollouts of verl are made by several processes, and no process knows when a step has ended but by the next one.
    """

    def __init__(self, folder: Path, learner: Learner) -> None:
        self.folder = folder
        self.learner = learner
        self._learned_to = -1
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, rollout: Rollout, step: int) -> None:
        """Leave a rollout that can be learned from; a repeated one replaces the first."""
        run = self.learner.run_of(rollout, step)
        if not self.learner.wants(run):
            return
        # Eight digits, so that file names sort by step.
        path = self.folder / f"{step:08d}-{run.id.replace('/', '_')}.json"
        partial = path.with_suffix(".partial")
        partial.write_text(write_run(run), "utf-8")
        partial.rename(path)  # atomic: `learn_before` of another process sees a whole file or none

    def learn_before(self, step: int) -> None:
        """Learn the steps before this one, once, in order; other processes wait, and then see the same memory."""
        if step <= self._learned_to:
            return
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            waiting: dict[str, list[Path]] = {}
            for path in sorted(self.folder.glob("*.json")):
                if int(path.name[:8]) < step:
                    waiting.setdefault(path.name[:8], []).append(path)
            for paths in waiting.values():
                self.learner.learn(parse_run(path.read_text("utf-8")) for path in paths)
                # Only now: whoever dies in between learns them again, which adds nothing.
                for path in paths:
                    path.unlink()
        self.learner.memory.refresh()
        self._learned_to = step


def agent_loop(make: Callable[[Any], VerlRollouts]) -> type[Any]:
    """The class that verl's configuration names; `make` gets verl's tokenizer, once in each process.

    Raises:
        ImportError: verl is not installed.
    """
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

    shared: list[VerlRollouts] = []

    class MemoryAgentLoop(AgentLoopBase):
        async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
            if not shared:
                shared.append(make(self.tokenizer))
            fields = await shared[0].fields(self.server_manager, sampling_params, row)
            return AgentLoopOutput(metrics=AgentLoopMetrics(), **fields)

    return MemoryAgentLoop
