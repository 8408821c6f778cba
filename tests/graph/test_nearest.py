import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.embed import HashingEmbedder
from hepm.errors import ImplausibleVectorError
from hepm.graph.mirror import nearest
from hepm.graph.mirror.nearest import Nearest, StateBlock

Targets = list[list[int]]


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def dense(count: int, dimensions: int = 24, seed: int = 0) -> np.ndarray:
    return unit(np.random.default_rng(seed).normal(size=(count, dimensions)))


def sparse(count: int, dimensions: int = 24, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count, dimensions)) * (rng.random((count, dimensions)) < 0.15)
    vectors[:, 0] += vectors.any(axis=1) == 0
    return unit(vectors)


def block_of(vectors: np.ndarray, targets: Targets) -> StateBlock:
    block = StateBlock()
    block.extend(vectors, targets)
    return block


def by_hand(vectors: np.ndarray, targets: Targets, query: np.ndarray) -> dict[int, float]:
    best: dict[int, float] = {}
    for vector, several in zip(vectors, targets, strict=True):
        cosine = float(vector.astype(np.float64) @ query.astype(np.float64))
        for target in several:
            best[target] = max(cosine, best.get(target, cosine))
    return best


several_targets = st.lists(st.lists(st.integers(0, 6), max_size=3), min_size=1, max_size=40)


@pytest.mark.parametrize("made", [dense, sparse])
@given(targets=several_targets, seed=st.integers(0, 1000))
def test_the_best_state_of_each_tool_is_the_one_found_by_hand(made, targets: Targets, seed: int):
    vectors = made(len(targets), seed=seed)
    query = made(1, seed=seed + 1)[0]
    found = block_of(vectors, targets).best(query)
    assert [one.target for one in found] == sorted({target for several in targets for target in several})
    assert dict(found) == pytest.approx(by_hand(vectors, targets, query), abs=1e-6)


@pytest.fixture
def shared_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many states that several threads share them."""
    monkeypatch.setattr(nearest, "_CHUNK_ROWS", 100)


def test_vectors_of_another_size_are_refused_and_change_nothing():
    block = block_of(dense(3), [[0], [1], [2]])
    with pytest.raises(ImplausibleVectorError, match="7 dimensions came to states of 24"):
        block.extend(dense(1, 7), [[0]])
    with pytest.raises(ImplausibleVectorError, match="7 dimensions came to states of 24"):
        block.best(dense(1, 7)[0])
    assert len(block) == 3


@pytest.mark.parametrize("piece", [1, 70])
def test_memory_stays_within_a_third_more_than_the_vectors(piece: int):
    vectors = HashingEmbedder().embed([f"order {i}" for i in range(1000)])
    block = StateBlock()
    for start in range(0, 1000, piece):
        ids = list(range(start, min(start + piece, 1000)))
        block.extend(vectors[ids], [[i % 9] for i in ids])
        assert block.nbytes <= 1.3 * len(block) * 512 * 4


def test_readers_beside_a_writer_see_whole_moments_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nearest, "_CHUNK_ROWS", 500)
    vectors = sparse(3000)
    targets = [[i % 5] for i in range(3000)]
    query = sparse(1, seed=9)[0]
    cosines = vectors @ query
    block = StateBlock()
    torn: list[int] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            for target, cosine in block.best(query):
                nearest_of_target = np.abs(cosines[target::5] - cosine).min()
                torn.extend([target] * bool(nearest_of_target > 1e-5))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for start in range(0, 3000, 25):
        part = slice(start, start + 25)
        block.extend(vectors[part], targets[part])
    done.set()
    for reader in readers:
        reader.join()
    assert torn == []


@pytest.mark.usefixtures("shared_chunks")
@pytest.mark.parametrize("piece", [1000, 70])
@pytest.mark.parametrize("made", [dense, sparse])
def test_states_stay_exact_however_many(piece: int, made: Callable[..., np.ndarray]):
    vectors = made(1000, 64)
    targets = [[i % 9, i % 4] for i in range(1000)]
    block = StateBlock()
    for start in range(0, 1000, piece):
        block.extend(vectors[start : start + piece], targets[start : start + piece])
    for query in (*sparse(30, 64, seed=4), dense(1, 64, seed=4)[0], vectors[500]):
        assert dict(block.best(query)) == pytest.approx(by_hand(vectors, targets, query), abs=1e-6)


def best_by_hand(found: list[Nearest], most: int, among: set[int] | None) -> list[Nearest]:
    allowed = [one for one in found if among is None or one.target in among]
    last = sorted((one.cosine for one in allowed), reverse=True)[:most][-1:]
    return [one for one in allowed if one.cosine >= last[0] - 1e-6]


@pytest.mark.usefixtures("shared_chunks")
@pytest.mark.parametrize("count", [60, 900])
@given(most=st.integers(1, 12), among=st.none() | st.sets(st.integers(0, 12), max_size=6), seed=st.integers(0, 30))
def test_the_best_few_tools_are_those_that_all_answers_hold(count: int, most: int, among: set[int] | None, seed: int):
    block = block_of(sparse(count, 64, seed), [[(i * 7) % 10, i % 4] if i % 3 else [] for i in range(count)])
    query = sparse(1, 64, seed=seed + 1)[0]
    found, expected = block.best(query, most=most, among=among), best_by_hand(block.best(query), most, among)
    assert [one.target for one in found] == [one.target for one in expected]
    assert [one.cosine for one in found] == pytest.approx([one.cosine for one in expected], abs=1e-6)
