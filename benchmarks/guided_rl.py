"""Does memory help a training with rewards? GRPO with hints and without, and training on the memory's runs alone.

usage: python benchmarks/guided_rl.py [--arms plain,discard,...] [--seeds 0,1,2] [--rollouts 2560] [--troubles 3]
           [--kept .5] [--followed .9] [--right .7] [--skill .7] [--rate 5e-4] [--check]
       python benchmarks/guided_rl.py --model MODEL --environment NAME --memory STORE [--p-skip 1] [--guided all|half]
           [--hints mask|discard] [--rate 1e-5] [--out FOLDER] [--source FILES]
           [--tags [--cold EXAMPLES] [--absorb]]

Without --model: service desks, on a CPU. A task is several troubles in a row, all to be solved. The model (2 layers)
was pretrained on logs of agents that follow hints in a share of the cases, `followed`, of which a share is `right`, and
of whose own successes a share `kept` is left. The memory has 300 logs of agents with `skill`. Success is of 96 held-out
wordings, without hints.
With --model: one GPU with 80 GB, with vLLM in the same process and LoRA (docs/use/training.md). --tags: EvolveR's agent
and reward, after supervised training on the examples of `hepm export --sft tagged`.
Prints one JSON line for each arm of each seed. --check asserts what the project's tests want of the means.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "1")  # these matrices are small: more threads would wait for each other
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
warnings.filterwarnings("ignore")

from hepm import Memory  # noqa: E402
from hepm.lab.desks.service_desk import make_desk  # noqa: E402
from hepm.lab.environments import Environment, find_environment  # noqa: E402
from hepm.lab.rl.dialect import ChatDialect  # noqa: E402
from hepm.lab.rl.formats import Tags  # noqa: E402
from hepm.lab.rl.guidance import Guidance  # noqa: E402
from hepm.lab.rl.learning import Learner, PrincipleLearner  # noqa: E402
from hepm.lab.rl.rewards import tagged_reward  # noqa: E402
from hepm.lab.rl.rollout import Player  # noqa: E402
from hepm.lab.rl.sft import COLD_START, example_spans, masked_row, sft_examples  # noqa: E402
from hepm.lab.rl.spans import row_of  # noqa: E402
from hepm.lab.rl.trl import MemoryRollouts, environment_reward  # noqa: E402
from notebooks.desk_training import (  # noqa: E402
    DeskAgents,
    DeskEnvironment,
    SummarisingPlayer,
    WordDialect,
    desk_log,
    fit,
    grpo,
    new_model,
    rows_of,
    success_of,
)


class GuidedArm(NamedTuple):
    """How rollouts are guided, and what becomes of the hints in training."""

    policy: str
    p_skip: float
    share: str = "all"
    hints: str = "mask"


GUIDED = {
    "discard": GuidedArm("hybrid", 0.5, hints="discard"),
    "mask": GuidedArm("hybrid", 0.5),
    "half": GuidedArm("hybrid", 0.5, "half"),
    "always": GuidedArm("hybrid", 0.0),
    "always-discard": GuidedArm("hybrid", 0.0, hints="discard"),
    "paper-1": GuidedArm("adaptive", 1.0),
    "paper-.8": GuidedArm("adaptive", 0.8),
    "paper-.8-discard": GuidedArm("adaptive", 0.8, hints="discard"),
}
ARMS = ("sft", "plain", *GUIDED)
ROLLOUTS_A_STEP = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", default="sft,plain,discard")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--rollouts", type=int, default=2_560)
    parser.add_argument("--troubles", type=int, default=3)
    parser.add_argument("--kept", type=float, default=0.5)
    parser.add_argument("--followed", type=float, default=0.9)
    parser.add_argument("--right", type=float, default=0.7)
    parser.add_argument("--skill", type=float, default=0.7)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--model")
    parser.add_argument("--environment")
    parser.add_argument("--memory")
    parser.add_argument("--p-skip", type=float, default=1.0)
    parser.add_argument("--guided", choices=("all", "half"), default="all")
    parser.add_argument("--hints", choices=("mask", "discard"), default="mask")
    parser.add_argument("--out", default="guided-rl")
    parser.add_argument("--source", default="")
    parser.add_argument("--tags", action="store_true")
    parser.add_argument("--cold")
    parser.add_argument("--absorb", action="store_true")
    options = parser.parse_args()
    if options.model:
        train_on_gpu(options)
        return
    found: dict[str, list[float]] = {}
    for seed in map(int, options.seeds.split(",")):
        for arm, after in measure_desk(seed, options):
            found.setdefault(arm, []).append(after)
    means = {arm: round(fmean(values), 3) for arm, values in found.items()}
    print(json.dumps({"mean": means}), flush=True)
    if options.check:
        assert means["sft"] >= 0.45, means
        assert means["plain"] <= 0.15, means


def measure_desk(seed: int, options: argparse.Namespace) -> Any:
    """Each arm, and its success after training."""
    import torch

    torch.set_num_threads(1)
    environment = DeskEnvironment(make_desk(seed), troubles=options.troubles)
    with tempfile.TemporaryDirectory(prefix="hepm-guided-") as folder:
        base = Path(folder) / "base"
        agents = DeskAgents(kept=options.kept, hinted=0.5, right=options.right, followed=options.followed)
        pretrain(environment, base, agents, seed=seed)
        for arm in options.arms.split(","):
            started, place = time.perf_counter(), Path(folder) / f"{arm}.hepm"
            with Memory.open(place, counting="shortest") as memory:
                logs = list(desk_log(environment, DeskAgents(skill=options.skill), runs=300, seed=9))
                memory.ingest(logs)
                memory.refresh()
                trained = train_arm(arm, base, environment, memory, seed, options)
            line: dict[str, Any] = {"seed": seed, "arm": arm} | trained
            line["logs"] = round(fmean(bool(run.outcome.success) for run in logs), 3)
            line["seconds"] = round(time.perf_counter() - started)
            print(json.dumps(line), flush=True)
            yield arm, line["after"]


def pretrain(environment: DeskEnvironment, folder: Path, habits: DeskAgents, *, seed: int, epochs: int = 8) -> None:
    """The model before training: short logs for its habits, long ones for its patience."""
    obeying = DeskAgents(hinted=1.0, right=0.9, followed=habits.followed)
    import torch

    short = DeskEnvironment(environment.desk)
    rows = rows_of(desk_log(short, habits, runs=2_500, seed=1))
    rows += rows_of(desk_log(environment, habits, runs=500, seed=2))
    rows += rows_of(desk_log(environment, obeying, runs=300, seed=3))
    model = new_model(seed=seed).to("cuda" if torch.cuda.is_available() else "cpu")
    fit(model, rows, epochs=epochs, seed=seed)
    model.save_pretrained(folder)


def train_arm(
    arm: str, base: Path, environment: DeskEnvironment, memory: Memory, seed: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Success before and after an arm's training, and the rewards of its steps."""
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(base)
    before = success_of(model, environment, seed=seed)
    if arm == "sft":
        rows = [row_of(example_spans(example, WordDialect())) for example in sft_examples(memory)]
        fit(model, rows, epochs=20, seed=seed, rate=1e-3)
        return {"rollouts": 0, "before": round(before, 3), "after": round(success_of(model, environment, seed=seed), 3)}
    rollouts = desk_rollouts(arm, environment, memory, seed)
    steps = options.rollouts // ROLLOUTS_A_STEP
    tasks = [task.id for task in environment.tasks() if task.split == "train"]
    trainer = grpo(base, rollouts, tasks, steps=steps, seed=seed, learning_rate=options.rate or 5e-4)
    rewards = [round(line["reward"], 2) for line in trainer.state.log_history if "reward" in line]
    after = round(success_of(trainer.model, environment, seed=seed), 3)
    stored = sum(1 for _ in memory.runs())
    return {
        "rollouts": options.rollouts, "before": round(before, 3), "after": after, "rewards": rewards, "runs": stored
    }  # fmt: skip


def desk_rollouts(arm: str, environment: DeskEnvironment, memory: Memory, seed: int) -> MemoryRollouts:
    """The rollouts of an arm at a desk."""
    how = GUIDED.get(arm)
    guidance = learner = None
    if how is not None:
        about: Any = {"policy": how.policy, "p_skip": how.p_skip, "share": how.share, "seed": seed}
        guidance = Guidance(memory=memory, **about)
        learner = Learner(memory=memory, name=f"desk-{seed}-{arm}", environment=environment.name)
    kind = Player if guidance is None else SummarisingPlayer
    player = kind(environment=environment, dialect=WordDialect(), guidance=guidance, max_turns=60)
    added: Any = "mask" if how is None else how.hints
    return MemoryRollouts(player, environment.tasks(), learner=learner, added=added)


def rollouts_of(options: argparse.Namespace, memory: Memory, environment: Environment, dialect: Any) -> MemoryRollouts:
    """H-EPM's guided rollouts (4.3, E.1), or those of EvolveR's agent in tags (3.3)."""
    about: dict[str, Any] = {"memory": memory, "name": options.out, "environment": environment.name}
    play: dict[str, Any] = {"environment": environment, "dialect": dialect, "max_tokens": 15_000}
    if options.tags:
        tags = Tags(memory=memory, environment=environment.name)
        return MemoryRollouts(
            Player(**play, format=tags),
            environment.tasks(),
            learner=PrincipleLearner(**about, model=options.model),
            absorb=options.absorb,
            reward=tagged_reward,
        )
    guidance = Guidance(memory=memory, p_skip=options.p_skip, share=options.guided)
    learner = Learner(**about, model=options.model)
    return MemoryRollouts(Player(**play, guidance=guidance), environment.tasks(), learner=learner, added=options.hints)


def cold_started(options: argparse.Namespace, tokenizer: Any) -> str:
    """The folder of the model after supervised training on the examples of a file, with EvolveR's settings (A.2)."""
    from datasets import Dataset
    from peft import LoraConfig
    from trl import SFTConfig, SFTTrainer

    # As tokens with their mask: templates need not mark what the assistant wrote.
    dialect = ChatDialect(tokenizer)
    rows = [masked_row(json.loads(line), dialect) for line in Path(options.cold).read_text("utf-8").splitlines()]
    place = f"{options.out}/cold"
    trainer = SFTTrainer(
        model=options.model,
        args=SFTConfig(output_dir=place, **{**COLD_START, "assistant_only_loss": False}),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        peft_config=LoraConfig(r=64, target_modules="all-linear"),
    )
    trainer.train()
    trainer.model.merge_and_unload().save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def train_on_gpu(options: argparse.Namespace) -> None:
    """GRPO of a chat model, on the train split of an environment."""
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    environment = find_environment(options.environment, options.source)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    tasks = environment.tasks()
    splits = {split: [task.id for task in tasks if task.split == split] for split in ("train", "test")}
    model = cold_started(options, tokenizer) if options.cold else options.model
    counting: Any = "all" if options.tags else "shortest"
    with Memory.open(options.memory, counting=counting, approve="auto", speak="weighed") as memory:
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=environment_reward,
            args=GRPOConfig(
                output_dir=options.out,
                use_vllm=True,
                vllm_mode="colocate",
                vllm_gpu_memory_utilization=0.35,
                vllm_max_model_length=16_384,
                vllm_importance_sampling_correction=options.hints == "mask",
                per_device_train_batch_size=1,
                gradient_accumulation_steps=64,
                num_generations=8,
                max_completion_length=1_024,
                beta=0.001,
                loss_type="grpo",
                learning_rate=options.rate or 1e-5,
                num_train_epochs=1,
            ),
            peft_config=LoraConfig(r=64, target_modules="all-linear"),
            train_dataset=Dataset.from_dict({"prompt": splits["train"]}),
            eval_dataset=Dataset.from_dict({"prompt": splits["test"]}) if splits["test"] else None,
            processing_class=tokenizer,
            rollout_func=rollouts_of(options, memory, environment, ChatDialect(tokenizer)),
        )
        trainer.train()
        trainer.save_model(options.out)
    environment.close()


if __name__ == "__main__":
    main()
