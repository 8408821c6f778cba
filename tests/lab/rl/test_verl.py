"""Rollouts in verl's agent loop, with a server manager and a base class that stand in for verl's (0.9.1)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hepm import Memory
from hepm.errors import InputError
from hepm.lab.rl.guidance import Guidance
from hepm.lab.rl.learning import Learner
from hepm.lab.rl.rollout import Player
from hepm.lab.rl.verl import Spool, VerlRollouts, agent_loop
from tests.lab.rl.playing import WORDS, desk, remembering, solving

ENVIRONMENT = desk()
TASK = ENVIRONMENT.tasks()[0].id


class ServerManager:
    """Verl's `LLMServerClient.generate`, for a model that knows what works."""

    def __init__(self, task: str = TASK) -> None:
        self.solve, self.requests = solving(ENVIRONMENT, task), list[str]()

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: Mapping[str, Any], **other: Any
    ) -> Any:
        assert sampling_params == {"temperature": 1.0}
        self.requests.append(request_id)
        await asyncio.sleep(0)
        (made,) = self.solve([prompt_ids])
        return SimpleNamespace(token_ids=[*made.ids], log_probs=[-0.5] * len(made.ids), stop_reason="completed")


def row(index: int = 0, *, step: int = 1, task: str = TASK, split: str = "train") -> dict[str, Any]:
    """A row of the dataset with what verl's v1 trainer adds."""
    return {"extra_info": {"task": task, "split": split}, "session_id": index, "global_steps": step, "uid": "u"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m.hepm", counting="shortest") as opened:
        yield opened


def loop(memory: Memory, spool: Path | None = None, **options: Any) -> VerlRollouts:
    guidance = Guidance(memory=memory, policy="adaptive", p_skip=0, share="half")
    learner = Learner(memory=memory, name="v", environment=ENVIRONMENT.name)
    player = Player(environment=ENVIRONMENT, dialect=WORDS, guidance=guidance)
    return VerlRollouts(player=player, learner=learner, spool=spool, **options)


def play(loop: VerlRollouts, rows: Sequence[Mapping[str, Any]], server: ServerManager | None = None) -> list[Any]:
    async def together() -> list[Any]:
        manager = server or ServerManager()
        return await asyncio.gather(*(loop.fields(manager, {"temperature": 1.0}, one) for one in rows))

    return asyncio.run(together())


def test_half_of_a_group_is_guided_by_the_session_id_and_the_mask_is_on_the_model(memory: Memory):
    server = ServerManager()
    found = play(loop(remembering(memory, ENVIRONMENT)), [row(index) for index in range(8)], server)
    guided = [one["extra_fields"]["reward_extra_info"]["guided"] for one in found]
    assert guided == [1.0, 0.0] * 4
    assert all(one["reward_score"] == 1 for one in found)
    assert len({sum(one["response_mask"]) for one in found}) == 1
    assert len(found[0]["response_ids"]) > len(found[1]["response_ids"])
    assert all(
        [score != 0 for score in one["response_logprobs"]] == [bool(on) for on in one["response_mask"]] for one in found
    )
    assert len(set(server.requests)) == 8  # one for the turns of a rollout


def test_rows_of_another_split_get_no_hints_and_leave_nothing(memory: Memory, tmp_path: Path):
    tested = loop(remembering(memory, ENVIRONMENT), tmp_path / "spool")
    (found,) = play(tested, [row(split="test")])
    assert found["extra_fields"]["reward_extra_info"]["guided"] == 0
    assert not (tmp_path / "spool").exists()


def test_what_a_step_found_is_learned_at_the_next_step_once_and_not_before(memory: Memory, tmp_path: Path):
    one, other = loop(memory, tmp_path / "spool"), loop(memory, tmp_path / "spool")
    play(one, [row(index) for index in range(4)])
    play(other, [row(index) for index in range(4, 8)])
    assert list(memory.runs()) == []
    play(one, [row(step=2)])
    play(other, [row(1, step=2)])
    assert [run.tags["step"] for run in memory.runs()] == ["1"]
    assert len(list((tmp_path / "spool").glob("*.json"))) == 2


def test_a_spool_that_a_kill_left_is_learned_and_a_repeated_step_counts_once(memory: Memory, tmp_path: Path):
    one = loop(memory, tmp_path / "spool")
    play(one, [row(0)])
    (left,) = (tmp_path / "spool").glob("*.json")
    text = left.read_text("utf-8")
    assert one.learner is not None
    Spool(tmp_path / "spool", one.learner).learn_before(2)
    left.write_text(text, "utf-8")  # killed after learning, before removing
    Spool(tmp_path / "spool", one.learner).learn_before(3)
    assert len(list(memory.runs())) == 1
    assert list((tmp_path / "spool").glob("*.json")) == []


def test_a_row_without_a_task_and_a_trainer_without_session_ids_are_refused(memory: Memory):
    with pytest.raises(InputError, match="names no task of the environment"):
        play(loop(memory), [{"extra_info": {}, "session_id": 0}])
    with pytest.raises(InputError, match="use its v1 trainer"):
        play(loop(memory), [{"extra_info": {"task": TASK, "split": "train"}}])


def test_the_class_for_verl_makes_its_rollouts_once_in_a_process(memory: Memory, monkeypatch: pytest.MonkeyPatch):
    class Base:
        def __init__(self, server_manager: Any, tokenizer: Any) -> None:
            self.server_manager, self.tokenizer = server_manager, tokenizer

    module: Any = ModuleType("verl.experimental.agent_loop.agent_loop")
    module.AgentLoopBase, module.AgentLoopOutput, module.AgentLoopMetrics = Base, SimpleNamespace, dict
    for name in ("verl", "verl.experimental", "verl.experimental.agent_loop"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    tokenizers: list[Any] = []

    def make(tokenizer: Any) -> VerlRollouts:
        tokenizers.append(tokenizer)
        return loop(memory)

    made = agent_loop(make)
    loops = [made(ServerManager(), "the tokenizer") for _ in range(2)]
    outputs = [asyncio.run(one.run({"temperature": 1.0}, **row(index))) for index, one in enumerate(loops)]
    assert tokenizers == ["the tokenizer"]
    assert [output.reward_score for output in outputs] == [1, 1]
    assert outputs[0].prompt_ids == outputs[1].prompt_ids
