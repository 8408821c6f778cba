"""What memory learns from rollouts (H-EPM 4.3, appendix D)."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hepm import Memory
from hepm.lab.rl.guidance import Guidance
from hepm.lab.rl.learning import Learner
from hepm.lab.rl.rollout import Attempt, Player, Rollout
from tests.lab.rl.playing import WORDS, desk, guessing, remembering, solving

ENVIRONMENT = desk()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m.hepm", counting="shortest") as opened:
        yield opened


def learner(memory: Memory) -> Learner:
    return Learner(memory=memory, name="training", environment=ENVIRONMENT.name, model="tiny")


def solved(task: int, index: int = 0, *, summarise: bool = False) -> Rollout:
    """A success; with a summary it takes one more turn."""
    chosen = ENVIRONMENT.tasks()[task]
    player = Player(environment=ENVIRONMENT, dialect=WORDS)
    return player.play([Attempt(chosen, index)], solving(ENVIRONMENT, chosen.id, summarise=summarise))[0]


def learn(memory: Memory, *rollouts: Rollout, step: int = 0) -> int:
    one = learner(memory)
    return one.learn(one.run_of(rollout, step) for rollout in rollouts)


def test_of_a_group_the_shortest_success_of_each_task_is_stored_and_no_failure(memory: Memory):
    player = Player(environment=ENVIRONMENT, dialect=WORDS)
    failed = replace(player.play([Attempt(ENVIRONMENT.tasks()[2], 5)], guessing())[0], reward=0.0)
    group = [solved(0, 1, summarise=True), solved(0, 2), solved(0, 3), solved(1, 4), failed]
    assert learn(memory, *group) == 2
    assert [run.id for run in memory.runs()] == ["training/step-0/train-0/2", "training/step-0/train-1/4"]


def test_of_all_groups_the_shortest_success_of_a_task_counts(memory: Memory):
    learn(memory, solved(0, summarise=True), step=0)
    learn(memory, solved(0), step=1)
    tool = next(iter(next(iter(memory.runs())).calls())).name
    (suggestion,) = memory.suggest(tool, policy="procedural")
    assert suggestion.support == 1
    assert len(list(memory.runs())) == 2


def test_a_repeated_step_adds_nothing(memory: Memory):
    assert learn(memory, solved(0)) == 1
    assert learn(memory, solved(0)) == 0


def test_a_stored_run_says_whether_it_was_guided_and_which_tools_hints_named(tmp_path: Path):
    task = ENVIRONMENT.tasks()[0]
    with Memory.open(tmp_path / "g.hepm") as memory:
        guidance = Guidance(memory=remembering(memory, ENVIRONMENT), policy="adaptive", p_skip=0, share="half")
        player = Player(environment=ENVIRONMENT, dialect=WORDS, guidance=guidance)
        pair = player.play([Attempt(task, 0), Attempt(task, 1)], solving(ENVIRONMENT, task.id))
        one = learner(memory)
        for rollout in pair:
            memory.ingest(one.run_of(rollout, 3))
        stored = [memory.run(f"training/step-3/{task.id}/{index}") for index in range(2)]
    guided, plain = (run for run in stored if run is not None)
    assert (guided.tags["guided"], plain.tags["guided"]) == ("yes", "no")
    assert [turn.hinted for turn in guided.turns] == [turn.hinted for turn in pair[0].turns]
    assert any(turn.hinted for turn in guided.turns)
    assert not any(turn.hinted for turn in plain.turns)
    assert guided.outcome.success
    assert not any("hepm-memory" in turn.text for turn in guided.turns)


TRAINING = """
import sys
from hepm import Memory
from tests.lab.rl.test_learning import learner, solved
with Memory.open(sys.argv[1]) as memory:
    groups = [solved(task) for task in range(3)]
    for step in range(10_000):
        one = learner(memory)
        one.learn(one.run_of(rollout, step) for rollout in groups)
        print(step, flush=True)
"""


@pytest.mark.parametrize("after", [1, 4, pytest.param(9, marks=pytest.mark.soak)])
def test_a_kill_leaves_the_memory_of_the_last_whole_group(tmp_path: Path, after: int):
    place = tmp_path / "killed.hepm"
    command = [sys.executable, "-c", TRAINING, str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as process:
        assert process.stdout is not None
        steps = -1
        while steps < after:
            steps = int(process.stdout.readline())
        time.sleep(0.004 * after)
        process.send_signal(signal.SIGKILL)
    with Memory.open(place) as memory:
        by_step: dict[str, int] = {}
        for run in memory.runs():
            by_step[run.tags["step"]] = by_step.get(run.tags["step"], 0) + 1
        assert set(by_step.values()) == {3}
        assert len(by_step) >= after + 1
        assert memory.examine() == []
