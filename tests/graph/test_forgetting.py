"""What is asked to be forgotten, and what is not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hepm import Memory, Trajectory
from hepm.errors import InputError
from tests.runs import trajectory


@pytest.mark.parametrize("part", ["trajectory", "task", "user", "environment"])
def test_an_empty_name_forgets_no_run_that_lacks_one(tmp_path: Path, part: str) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest([trajectory("named", "look", task="t", user="ann"), trajectory("r", "look", environment="")])
        with pytest.raises(InputError, match=f"the {part} whose runs are to be forgotten is empty"):
            memory.forget(**{part: ""})
        with pytest.raises(InputError, match="is empty"):
            memory.forget(**{"task": "t"} | {part: ""})
        assert memory.totals().trajectories == 2


def _run(name: str) -> Trajectory:
    chosen = random.Random(name)
    return trajectory(
        name,
        *chosen.choices(["look", "ask", "buy", "pay", "ship"], k=chosen.randint(2, 6)),
        goal=" ".join(chosen.choices(["red", "blue", "shoe", "lamp", "money", "refund"], k=5)),
        success=chosen.random() < 0.7,
        ended_at=float(chosen.randint(1, 1_000)),
        user=chosen.choice(["ann", "bob"]),
    )


def test_scores_after_forgetting_equal_to_the_last_bit_those_of_a_memory_that_never_held_the_runs(
    tmp_path: Path,
) -> None:
    runs = [_run(f"r{number}") for number in range(40)]

    def told(memory: Memory) -> list[list[tuple[str, float]]]:
        asked = [
            memory.suggest(after, state=state, policy=policy, k=5)
            for after in (None, "look", "ask", "buy", "pay", "ship")
            for policy in ("procedural", "episodic", "hybrid")
            for state in ("red shoe refund", "blue lamp money")
        ]
        return [[(one.tool, one.score) for one in found] for found in asked]

    with Memory.open(tmp_path / "one") as memory, Memory.open(tmp_path / "other") as never:
        memory.ingest(runs)
        told(memory)
        memory.forget(user="bob")
        never.ingest([run for run in runs if run.user != "bob"])
        assert told(memory) == told(never)
