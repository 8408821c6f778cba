"""What a ranker reads of a memory, when it reads it again, and what it says as a witness. None of it needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hepm import Memory
from hepm.graph.rows import Float32Array
from hepm.policy import Query
from hepm.rank.calls import read_calls
from hepm.rank.ranker import Ranker
from hepm.types import StateSummary, ToolName
from tests.lab.rank.conftest import runs
from tests.runs import trajectory

HIDDEN = 4
TOOLS = ("look_up", "send_refund", "exchange_item", "change_address")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "desk.hepm", speak="all") as memory:
        memory.ingest(runs())
        yield memory


def untrained(memory: Memory) -> Ranker:
    """A ranker with attention that trained for no epoch."""
    drawn = np.random.default_rng(0)

    def some(*shape: int) -> Float32Array:
        return drawn.normal(size=shape).astype(np.float32)

    [vector] = memory.embedder.embed([""])
    size = len(vector)
    weights = {
        "tools": some(len(TOOLS), HIDDEN),
        "scorer.none": some(1, HIDDEN),
        "scorer.state.weight": some(HIDDEN, size),
        "scorer.state.bias": some(HIDDEN),
        "scorer.out.bias": some(HIDDEN),
        "scorer.bias": some(HIDDEN),
        "scorer.own": some(3),
        "scorer.flags.weight": some(HIDDEN, 3),
        "attention.log_metric": some(size) / 10,
        "attention.log_temperature": np.float32(2.3),
        "attention.matches": np.array([4.5, 0.7, 0.5], dtype=np.float32),
        "attention.smoothing": np.float32(-2.7),
        "attention.gain": np.float32(1),
    }
    for layer in ("last", "second", "called", "out"):
        weights[f"scorer.{layer}.weight"] = some(HIDDEN, HIDDEN)
    return Ranker(weights, TOOLS)


def refund(memory: Memory, *history: ToolName, after: tuple[ToolName, ...] = ()) -> Query:
    vector = memory.embedder.embed(["U: refund money paid back card"])[0]
    return Query(after or history[-1:], history, StateSummary(), vector)


def test_a_memory_without_runs_or_with_runs_without_calls_is_read_as_no_calls(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "empty.hepm", speak="all") as memory:
        ranker = untrained(memory)
        assert len(read_calls(memory.mirror().store, "default").next_N) == 0
        memory.ingest([trajectory("silent", goal="hello")])
        assert read_calls(memory.mirror().store, "default").run_ids == ["silent"]
        assert np.exp(ranker.log_chances(memory.mirror(), refund(memory, "x"), ["x", "y"])).sum() == pytest.approx(1)


def test_the_memory_is_read_again_when_a_tenth_of_its_runs_are_new(desk: Memory) -> None:
    ranker, mirror = untrained(desk), desk.mirror()
    former = ranker.here(mirror).calls
    more = [replace(run, id=f"{run.id} again") for run in runs(4)]
    for run in more[:7]:
        desk.ingest([run])
        assert ranker.here(mirror).calls is former
    desk.ingest(more[7:8])
    assert len(ranker.here(mirror).calls.run_ids) == len(former.run_ids) + 8


def test_a_run_that_is_removed_is_forgotten_at_once(desk: Memory) -> None:
    ranker, mirror = untrained(desk), desk.mirror()
    assert "good 3" in ranker.here(mirror).calls.run_ids
    desk.forget(trajectory="good 3")
    assert "good 3" not in ranker.here(mirror).calls.run_ids


def test_a_ranker_says_how_likely_each_of_some_tools_is_in_the_order_asked(desk: Memory) -> None:
    ranker, mirror, query = untrained(desk), desk.mirror(), refund(desk, "look_up")
    tools = ["send_refund", "exchange_item", "never_called", "change_address"]
    chances = np.exp(ranker.log_chances(mirror, query, tools))
    assert chances.sum() == pytest.approx(1)
    assert np.exp(ranker.log_chances(mirror, query, tools[::-1]))[::-1] == pytest.approx(chances)
    assert ranker.log_chances(mirror, query, []).shape == (0,)
    without = replace(query, vector=query.vector[:3] if query.vector is not None else None)  # of another embedder
    assert np.isfinite(ranker.log_chances(mirror, without, tools)).all()


def test_calls_of_one_turn_speak_with_the_mean_of_their_chances(desk: Memory) -> None:
    ranker, mirror = untrained(desk), desk.mirror()
    tools, history = ["send_refund", "change_address"], ("look_up", "exchange_item")
    both = ranker.log_chances(mirror, refund(desk, *history, after=history), tools)
    each = [ranker.log_chances(mirror, refund(desk, *history, after=(last,)), tools) for last in history]
    assert np.exp(both) == pytest.approx(np.mean(np.exp(each), axis=0), rel=1e-4)
