"""A training of the tiny model with TRL at a service desk, from the logs to the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from hepm import Memory
from hepm.lab.desks.service_desk import make_desk
from hepm.lab.environments import find_environment
from hepm.lab.rl.dialect import ModelReply
from hepm.lab.rl.formats import Sampled, Tags
from hepm.lab.rl.guidance import Guidance
from hepm.lab.rl.learning import Learner, PrincipleLearner
from hepm.lab.rl.rewards import tagged_reward
from hepm.lab.rl.rollout import Attempt, Player
from hepm.lab.rl.sft import COLD_START, cold_start, masked_row
from hepm.lab.rl.trl import MemoryRollouts
from notebooks.desk_training import (
    DeskAgents,
    DeskEnvironment,
    SummarisingPlayer,
    TagDialect,
    WordDialect,
    desk_log,
    fit,
    good_messages,
    grpo,
    new_model,
    rows_of,
    success_of,
)

HABITS = DeskAgents(kept=0.1, hinted=0.3)
"""What the base model learns from: logs in which hardly any trouble is solved without a hint."""


pytestmark = pytest.mark.xdist_group("torch")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    import torch  # by the process that runs the test, not by each that collects it

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.soak  # a minute of CPU time; what a step does is tested in test_trl.py
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::ResourceWarning")
def test_in_25_guided_steps_the_reward_rises_by_more_than_half_and_memory_learns_the_successes(tmp_path: Path):
    desk = DeskEnvironment(make_desk(0))
    model = new_model()
    fit(model, rows_of(desk_log(desk, HABITS, runs=2_000, seed=1)), epochs=9)
    model.save_pretrained(tmp_path / "model")
    before = success_of(model, desk)
    assert before <= 0.25
    tasks = [task for task in desk.tasks() if task.split == "train"]
    with Memory.open(tmp_path / "m.hepm", counting="shortest") as memory:
        memory.ingest(desk_log(desk, DeskAgents(skill=0.7), runs=400, seed=2))
        memory.refresh()
        guidance = Guidance(memory=memory, policy="hybrid", p_skip=0.0)
        player = SummarisingPlayer(environment=desk, dialect=WordDialect(), guidance=guidance)
        learner = Learner(memory=memory, name="training", environment=desk.name)
        rollouts = MemoryRollouts(player, tasks, learner=learner)
        trainer = grpo(tmp_path / "model", rollouts, [task.id for task in tasks], steps=25)
        learned = [run for run in memory.runs() if run.tags.get("training")]
    rewards = [line["reward"] for line in trainer.state.log_history if "reward" in line]
    # Of one step it is noise. Machines differ in their floats: .5 and more is reached on one, .42 on another.
    assert fmean(rewards[-10:]) >= 1.5 * before
    assert learned
    assert all(run.outcome.success for run in learned)
    assert {run.tags["guided"] for run in learned} == {"yes"}


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::ResourceWarning")
def test_evolvers_agent_learns_its_form_from_a_cold_start_and_then_by_its_reward_while_memory_learns(tmp_path: Path):
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer  # pyright: ignore

    environment, words = find_environment("questions"), TagDialect()
    tasks = [task for task in environment.tasks() if task.split == "train"][:4]
    with Memory.open(tmp_path / "m.hepm", approve="auto") as memory:
        tags = Tags(memory=memory, environment=environment.name)
        player = Player(environment=environment, dialect=words, format=tags, max_turns=6)
        cold = PrincipleLearner(memory=memory, name="cold", environment=environment.name)
        for task in tasks:
            said = iter([Sampled(words.write(ModelReply(text))) for text in good_messages(task)])
            cold.learn(cold.run_of(one, 0) for one in player.play([Attempt(task)], lambda _, said=said: [next(said)]))
        rows = [masked_row(example, words) for example in cold_start(memory)]
        new_model(words).save_pretrained(tmp_path / "base")
        settings: Any = {**COLD_START, "assistant_only_loss": False, "num_train_epochs": 100, "learning_rate": 1e-2}
        quiet = {"use_cpu": True, "bf16": False, "report_to": "none", "save_strategy": "no", "disable_tqdm": True}
        tuning = SFTTrainer(
            model=str(tmp_path / "base"),
            args=SFTConfig(output_dir=str(tmp_path / "cold"), gradient_checkpointing=False, **(settings | quiet)),
            train_dataset=Dataset.from_list(rows),
            processing_class=words.tokenizer(),
        )
        batch = next(iter(tuning.get_train_dataloader()))
        assert int((batch["labels"] != -100).sum()) == sum(sum(row["assistant_masks"]) for row in rows)
        tuning.train()
        tuned: Any = tuning.model
        tuned.save_pretrained(tmp_path / "cold")
        learner = PrincipleLearner(memory=memory, name="rl", environment=environment.name)
        rollouts = MemoryRollouts(player, tasks, learner=learner, reward=tagged_reward)
        settings = {"per_device_train_batch_size": 16, "max_completion_length": 40, "beta": 0.0}
        trainer = grpo(tmp_path / "cold", rollouts, [task.id for task in tasks], steps=2, **settings)
        learned = [run for run in memory.runs() if run.tags["training"] == "rl"]
    rewards = [line["reward"] for line in trainer.state.log_history if "reward" in line]
    # An untrained model writes no tag; whole runs of a wrong answer get some .07.
    assert min(rewards) > 0.04
    assert len(learned) == 2 * 16
    assert {run.outcome.success for run in learned} <= {True, False}
    parts = {span.part for rollout in rollouts.last for span in rollout.spans}
    assert {"think", "search_experience", "search_knowledge", "answer"} <= parts
