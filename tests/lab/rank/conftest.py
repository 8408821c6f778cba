"""A small memory whose next tool is known from what the user wants, and a ranker trained on it once."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from hepm import Memory, Trajectory
from hepm.rank.checkpoint import Checkpoint
from tests.runs import trajectory

WAYS = {
    "refund money paid back card": ("look_up", "send_refund"),
    "exchange size colour item": ("look_up", "exchange_item"),
    "address street moved parcel": ("look_up", "change_address"),
}


def runs(tasks: int = 24) -> Iterator[Trajectory]:
    """Two runs a task, a failed one among them for each third task, and a failed one that took another way."""
    ways = list(WAYS.items())
    for task in range(tasks):
        wish, tools = ways[task % 3]
        other = ways[(task + 1) % 3][1]
        goal = " ".join([wish, *(chr(97 + task % 26) * 3 + chr(97 + task // 26) + end for end in "xyz")])
        yield trajectory(f"good {task}", *tools, task=f"t{task}", goal=goal)
        yield trajectory(f"more {task}", *tools, task=f"t{task}", goal=goal, success=bool(task % 3))
        yield trajectory(f"bad {task}", *other, task=f"t{task}", goal=goal, success=False)


@pytest.fixture(scope="session")
def of() -> ModuleType:
    """Everything that needs torch, imported by the first test that runs and not by every worker that collects."""
    from tests.lab.rank import parts

    parts.torch.set_num_threads(1)
    return parts


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with Memory.open(tmp_path_factory.mktemp("rank") / "shop.hepm") as opened:
        opened.ingest(runs())
        yield opened


@pytest.fixture(scope="module")
def checkpoint(of: ModuleType, memory: Memory) -> Checkpoint:
    return of.build(memory.mirror(), memory.embedder, of.QUICK)
