from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from hepm import Memory
from hepm.lab.bench.planned import smoothed
from hepm.policy import Query
from hepm.rank.calls import read_calls
from hepm.rank.checkpoint import Checkpoint
from hepm.rank.ranker import Ranker
from hepm.rank.scoring import AttendedCalls
from hepm.rank.situations import Situations, situations_now, situations_of
from hepm.types import StateSummary

pytestmark = pytest.mark.xdist_group("torch")


def tensors(of: ModuleType, found: Situations) -> Situations:
    return Situations(*map(of.torch.from_numpy, found))


@pytest.mark.parametrize("model", ["sage", "gatv2", "hetero"])
def test_the_ranker_in_numpy_scores_as_the_trained_network(of: ModuleType, model: str, memory: Memory) -> None:
    mirror = memory.mirror()
    data = of.graph_data(mirror, memory.embedder)
    network = of.train(data, replace(of.QUICK, model=model, epochs=2))
    ranker = Ranker(of.export(network, data), data["tool"].name)
    here = ranker.on(read_calls(mirror.store, mirror.name))
    calls = here.calls
    call = {name: values.numpy() for name, values in data["call"].items() if name != "num_nodes"}
    about = call, data["state"].x.numpy(), len(data["tool"].name)
    read = tensors(of, situations_of(here.read, *about))
    remembered = AttendedCalls(
        read.state_QD, read.before_Q2, read.flags_Q, of.torch.from_numpy(call["next"][here.read])
    )
    rows = np.flatnonzero(calls.position_N > 0)[::7]
    graph = of.without(data, of.torch.zeros(len(data["run"].id), dtype=of.torch.bool))
    with of.torch.no_grad():
        expected = network(graph, tensors(of, situations_of(rows, *about)), remembered).numpy()
    now = situations_of(rows, *about)
    assert ranker.scores(here, now, list(calls.number)) == pytest.approx(expected, abs=1e-4)


def test_gradients_are_numbers_where_no_state_is_known_and_where_all_calls_are_hidden(of: ModuleType) -> None:
    torch = of.torch
    torch.manual_seed(0)
    states = torch.nn.functional.normalize(torch.randn(5, 16))
    states[2] = 0
    before, flags = torch.randint(0, 4, (7, 2)), torch.randint(0, 8, (7,))
    now = Situations(states, before[:5], torch.zeros(5, 4), torch.zeros(5, 4), flags[:5])
    calls = AttendedCalls(torch.nn.functional.normalize(torch.randn(7, 16)), before, flags, before[:, 0])
    hidden = torch.zeros(5, 7, dtype=torch.bool)
    hidden[3] = True
    attention = of.StateAttention(16)
    scores = attention(now, calls, hidden)
    torch.nn.functional.cross_entropy(scores, before[:5, 1]).backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in attention.parameters())


def test_the_same_seed_gives_the_same_bytes(
    of: ModuleType, memory: Memory, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    checkpoint.save(tmp_path / "one")
    of.build(memory.mirror(), memory.embedder, of.QUICK).save(tmp_path / "two")
    of.build(memory.mirror(), memory.embedder, replace(of.QUICK, seed=1, epochs=1)).save(tmp_path / "other")
    one, two, other = ((tmp_path / name).read_bytes() for name in ("one", "two", "other"))
    assert one == two != other


def test_a_ranker_learns_what_follows_from_the_request(of: ModuleType, memory: Memory) -> None:
    epochs: list[Any] = []
    of.train(of.graph_data(memory.mirror(), memory.embedder), of.QUICK, on_epoch=epochs.append)
    assert min(epoch.held_out_loss for epoch in epochs) < 0.5 < np.log(3)


def test_smoothing_takes_the_mean_of_neighbours_in_either_direction() -> None:
    vectors = np.eye(3, dtype=np.float32)
    found = smoothed(vectors, np.array([[0, 0], [1, 2]]), alpha=0.5)
    raw = np.array([[0.5, 0.25, 0.25], [0.5, 0.5, 0], [0.5, 0, 0.5]])
    assert found == pytest.approx(raw / np.linalg.norm(raw, axis=1, keepdims=True))


def test_a_tool_that_was_not_trained_on_is_among_the_unlikeliest(memory: Memory, checkpoint: Checkpoint) -> None:
    ranker = Ranker(checkpoint.weights, checkpoint.tools)
    here = ranker.here(memory.mirror())
    state = memory.embedder.embed(["U: refund money paid back card"])[0]
    now = situations_now(Query(("look_up",), ("look_up",), StateSummary(), state), here.calls)
    names = list(here.calls.number)
    assert ranker.scores(here, now, ["pay_back"]).item() == ranker.scores(here, now, names).min()


def test_an_unknown_model_is_refused(of: ModuleType, memory: Memory) -> None:
    with pytest.raises(ValueError, match="no ranker is called 'gcn'; there are gatv2, hetero, sage"):
        of.train(of.graph_data(memory.mirror(), memory.embedder), of.TrainOptions("gcn"))
