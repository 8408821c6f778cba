"""Rollouts with memory in the real GRPOTrainer of TRL, with a model of 0.1 million weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hepm import Memory
from hepm.errors import InputError
from hepm.lab.rl.guidance import Guidance
from hepm.lab.rl.learning import Learner
from hepm.lab.rl.rollout import Player, Rollout, Sampled
from hepm.lab.rl.spans import row_of
from hepm.lab.rl.trl import MemoryRollouts
from hepm.types import SUMMARY_TOOL
from notebooks.desk_training import grpo, new_model
from tests.lab.rl.playing import WORDS, desk, remembering, written

pytestmark = [
    pytest.mark.xdist_group("torch"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
ENVIRONMENT = desk()
TASKS = [task.id for task in ENVIRONMENT.tasks() if task.split == "train"]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    import torch  # by the process that runs the tests, not by each that collects them

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    new_model().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m.hepm") as opened:
        yield remembering(opened, ENVIRONMENT)


def rollouts(memory: Memory | None = None, *, learner: Learner | None = None, **options: Any) -> MemoryRollouts:
    guidance = None if memory is None else Guidance(memory=memory, policy="adaptive", p_skip=0, share="half")
    player = Player(environment=ENVIRONMENT, dialect=WORDS, guidance=guidance, max_turns=4)
    return MemoryRollouts(player, ENVIRONMENT.tasks(), learner=learner, **options)


def test_in_training_the_gradient_at_masked_tokens_is_exactly_zero_and_elsewhere_it_is_not(
    folder: Path, memory: Memory
):
    import torch

    trainer = grpo(folder, rollouts(memory), TASKS, steps=1, beta=0.0)
    rows = [row_of(rollout.spans) for rollout in trainer.rollout_func.last]
    length = max(len(row.completion) for row in rows)
    prompt = max(len(row.prompt) for row in rows)
    states: list[torch.Tensor] = []  # of the last layer: what follows them is a function of one place each

    def keep(module: Any, given: Any, output: torch.Tensor) -> None:
        output.retain_grad()
        states.append(output)

    hook = trainer.model.model.norm.register_forward_hook(keep)
    pad = WORDS.pad
    inputs = {
        "prompt_ids": torch.tensor([[pad] * (prompt - len(row.prompt)) + [*row.prompt] for row in rows]),
        "prompt_mask": torch.tensor([[0] * (prompt - len(row.prompt)) + [1] * len(row.prompt) for row in rows]),
        "completion_ids": torch.tensor([[*row.completion] + [pad] * (length - len(row.completion)) for row in rows]),
        "completion_mask": torch.tensor(
            [[1] * len(row.completion) + [0] * (length - len(row.completion)) for row in rows]
        ),
        "tool_mask": torch.tensor([[*row.mask] + [1] * (length - len(row.mask)) for row in rows]),
        "advantages": torch.linspace(-1, 1, len(rows)),
        "num_items_in_batch": sum(sum(row.mask) for row in rows),
    }
    trainer.model.train()
    trainer.compute_loss(trainer.model, inputs).backward()
    hook.remove()
    assert states[0].grad is not None
    gradient = states[0].grad[:, prompt - 1 : prompt - 1 + length]  # a token's loss is at the place before it
    assert any(0 in row.mask for row in rows)
    for row, at in zip(rows, gradient, strict=True):
        trained = torch.tensor([*row.mask, *[0] * (length - len(row.mask))]).bool()
        assert torch.all(at[~trained] == 0)
        assert torch.all(at[trained].abs().sum(-1) > 0)


def test_each_prompt_comes_once_for_every_rollout_and_half_of_each_group_is_guided(folder: Path, memory: Memory):
    trainer = grpo(folder, rollouts(memory), TASKS, steps=1)
    groups: dict[str, list[Rollout]] = {}
    for rollout in trainer.rollout_func.last:
        groups.setdefault(rollout.attempt.task.id, []).append(rollout)
    assert [sorted(one.attempt.index for one in group) for group in groups.values()] == [[*range(8)]] * 8
    assert [sum(one.guided for one in group) for group in groups.values()] == [4] * 8


def test_successes_of_a_step_are_in_memory_after_it(folder: Path, memory: Memory):
    learner = Learner(memory=memory, name="t", environment=ENVIRONMENT.name, success_from=0.0)
    before = len(list(memory.runs()))
    grpo(folder, rollouts(memory, learner=learner), TASKS, steps=1)
    assert len(list(memory.runs())) == before + 8  # the shortest of each of 8 tasks, as 0 counts as success here


def trainer_that(say: Sampled, **options: Any) -> Any:
    """What `MemoryRollouts` uses of a trainer, whose model writes one message."""
    about = {"vllm_mode": "colocate", "vllm_importance_sampling_correction": True}
    options = {"tools": None, "use_vllm": False, "training": True, "logprobs": None} | options
    return SimpleNamespace(
        model=SimpleNamespace(training=options["training"]),
        num_generations=8,
        num_generations_eval=8,
        tools=options["tools"],
        use_vllm=options["use_vllm"],
        args=SimpleNamespace(**{key: options.get(key, value) for key, value in about.items()}),
        _tokenizer=SimpleNamespace(pad_token_id=WORDS.pad),
        _generate_single_turn=lambda streams, *_: ([[*say.ids]] * len(streams), options["logprobs"]),
    )


DONE = written("done")


@pytest.mark.parametrize(
    ("options", "added", "complaint"),
    [
        ({"tools": [print]}, "mask", "makes TRL ignore the mask"),
        ({"use_vllm": True, "vllm_mode": "server"}, "mask", "hang a vLLM server"),
        ({"use_vllm": True}, "discard", "vllm_importance_sampling_correction=False"),
    ],
    ids=["tools", "vLLM server", "vLLM with discard"],
)
def test_settings_that_train_wrong_tokens_or_hang_are_refused(options: dict[str, Any], added: Any, complaint: str):
    with pytest.raises(InputError, match=complaint):
        rollouts(added=added)([TASKS[0]] * 8, trainer_that(DONE, **options))


def test_a_rollout_of_a_summary_alone_has_one_token_without_loss_where_summaries_are_discarded():
    player = Player(environment=ENVIRONMENT, dialect=WORDS, max_turns=1)
    made = MemoryRollouts(player, ENVIRONMENT.tasks(), added="discard")
    found = made([TASKS[0]], trainer_that(written(SUMMARY_TOOL, "lid")))
    assert found["completion_ids"] == [[WORDS.pad]]
    assert found["env_mask"] == [[0]]
