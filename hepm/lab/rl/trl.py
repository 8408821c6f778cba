"""Rollouts with memory in TRL's `GRPOTrainer`, as its `rollout_func`. Extra: hepm[rl], which fixes TRL 1.16.

TRL's own loop (`tools`, `environment_factory`) ends at the first text without a call, so that no user could go on, and
trains the summary call. With `rollout_func` the loop is ours; the trainer's model generates, with vLLM or without.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from operator import attrgetter
from typing import Any

from hepm.errors import InputError
from hepm.lab.environments import Task
from hepm.lab.rl.learning import Learner
from hepm.lab.rl.rollout import Attempt, Player, Rollout, Sampled
from hepm.lab.rl.spans import Added, row_of
from hepm.types import Object


@dataclass(eq=False)
class MemoryRollouts:
    """The `rollout_func` of a `GRPOTrainer`: each prompt of the dataset is the id of a task.

    Give `environment_reward` to `reward_funcs`. In evaluation there are no hints, and nothing is learned.

    Attributes:
        tasks: Those that the datasets name.
        learner: Learns from a batch after it; None leaves memory as it is.
        added, absorb: See `hepm.lab.rl.spans.row_of`.
        reward: What a rollout is trained with, say `hepm.lab.rl.rewards.tagged_reward`; the environment's by default.
        last: The latest batch.
    """

    player: Player
    tasks: Sequence[Task]
    _: KW_ONLY
    learner: Learner | None = None
    added: Added = "mask"
    absorb: bool = False
    reward: Callable[[Rollout], float] = attrgetter("reward")
    last: Sequence[Rollout] = ()

    def __call__(self, prompts: list[Any], trainer: Any) -> Object:
        """Rollouts as TRL takes them: a prompt comes once for each rollout of its group."""
        self._check(trainer)
        training: bool = trainer.model.training
        group: int = trainer.num_generations if training else trainer.num_generations_eval
        attempts = self._attempts(prompts, group, training=training)

        def generate(streams: list[list[int]]) -> list[Sampled]:
            # Private, but one path for plain generation and vLLM, with its weights kept up to date.
            ids, logprobs = trainer._generate_single_turn(streams, None, {}, 1)
            if not logprobs:
                return [Sampled(of_stream) for of_stream in ids]
            return [Sampled(*pair) for pair in zip(ids, logprobs, strict=True)]

        self.last = self.player.play(attempts, generate)
        if training and self.learner is not None:
            self._learn(trainer, self.learner)
        return self._fields(trainer)

    def _attempts(self, prompts: list[Any], group: int, *, training: bool) -> list[Attempt]:
        """A rollout of each prompt, numbered inside its group."""
        made: Counter[str] = Counter()
        tasks = {task.id: task for task in self.tasks}
        attempts: list[Attempt] = []
        for prompt in prompts:
            if prompt not in tasks:
                raise InputError(f"no task is called {str(prompt)[:80]!r}: the dataset's prompts are ids of tasks")
            # A batch may hold a task in several groups, one after the other: each counts from 0.
            attempts.append(Attempt(tasks[prompt], made[prompt] % group, training))
            made[prompt] += 1
        return attempts

    def _learn(self, trainer: Any, learner: Learner) -> None:
        """One process stores what all of them found; the others wait for it."""
        from accelerate.utils import gather_object

        step = trainer.state.global_step
        runs = gather_object([learner.run_of(rollout, step) for rollout in self.last])
        if trainer.accelerator.is_main_process:
            learner.learn(runs)
        # All wait, and then look: else one would give hints from the memory of the step before.
        trainer.accelerator.wait_for_everyone()
        learner.memory.refresh()

    def _fields(self, trainer: Any) -> Object:
        """One value a rollout in each field, all as long as the completion but the prompt and the reward."""
        rows = [row_of(rollout.spans, added=self.added, absorb=self.absorb) for rollout in self.last]
        filler = trainer._tokenizer.pad_token_id
        logprobs = [list(row.logprobs) or [0.0] for row in rows if row.logprobs is not None]
        return {
            "prompt_ids": [list(row.prompt) for row in rows],
            # TRL fails on an empty completion: of a rollout that only summarised, "discard" leaves nothing.
            "completion_ids": [list(row.completion) or [filler] for row in rows],
            "env_mask": [list(row.mask) or [0] for row in rows],
            "reward": [self.reward(rollout) for rollout in self.last],
            # Those of a batch are complete, or are computed by TRL.
            "logprobs": logprobs if len(logprobs) == len(rows) else None,
        }

    def _check(self, trainer: Any) -> None:
        """Refuse settings with which TRL would train other tokens than it should, or hang."""
        if getattr(trainer, "tools", None):
            raise InputError("GRPOTrainer(tools=...) makes TRL ignore the mask: leave tools out, the player has them")
        if not trainer.use_vllm:
            return
        if trainer.args.vllm_mode != "colocate":
            raise InputError("rollouts of unequal length hang a vLLM server: set vllm_mode='colocate'")
        if self.added == "discard" and trainer.args.vllm_importance_sampling_correction:
            raise InputError(
                "vLLM's log-probabilities are of rows with hints, those of 'discard' are not, and the correction would "
                "shrink guided rollouts towards nothing: set vllm_importance_sampling_correction=False"
            )


def environment_reward(completions: list[Any], *, reward: list[float], **other: Any) -> list[float | None]:
    """The reward of each rollout, the environment's or that of `MemoryRollouts`, for `reward_funcs`."""
    del completions, other
    return [*reward]
