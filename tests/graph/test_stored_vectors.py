"""Vectors as the embedded store holds them: without their zeros, bit for bit the same."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hepm import Memory
from hepm.graph.stored_vectors import dimensions_of, of_size, packed, to_bytes, vectors_of
from tests.runs import to_version, trajectory

NOT_ZERO = st.one_of(st.floats(width=16), st.sampled_from([-0.0, float("nan"), float("inf"), 6e-8]))


@st.composite
def sparse_vectors(draw: st.DrawFn) -> bytes:
    """Of 1 to 4,096 coordinates, any of them not zero."""
    vector = np.zeros(draw(st.one_of(st.integers(1, 70), st.sampled_from([384, 512, 4096]))), dtype="<f2")
    for at, value in draw(st.dictionaries(st.integers(0, len(vector) - 1), NOT_ZERO, max_size=40)).items():
        vector[at] = value
    return vector.tobytes()


@given(st.lists(sparse_vectors(), min_size=1, max_size=5))
def test_a_packed_vector_is_read_as_it_was(plain: list[bytes]) -> None:
    for one in plain:
        size = len(one) // 2
        expected = np.frombuffer(one, dtype="<f2").astype(np.float32)
        both = vectors_of([packed(one), one], size)
        assert both.tobytes() == 2 * expected.tobytes()
        assert dimensions_of(packed(one)) == size
        assert len(packed(one)) <= len(one)


def test_a_lexical_vector_takes_a_quarter_of_the_bytes() -> None:
    vector = np.zeros(512, dtype=np.float32)
    vector[::8] = 0.125
    assert len(packed(to_bytes(vector))) < 0.25 * len(to_bytes(vector))


def test_a_store_of_unpacked_vectors_answers_as_before_and_new_vectors_are_packed_beside_them(tmp_path: Path) -> None:
    first = [trajectory("a", "find", "buy", goal="buy a lamp"), trajectory("b", "find", "ask", goal="return a lamp")]
    with Memory.open(tmp_path) as memory:
        memory.ingest(first)
        expected = memory.suggest("find", state="buy a lamp")
    with sqlite3.connect(tmp_path / "memory.hepm") as db:
        for table, key in (("vector", "state"), ("run_vector", "trajectory")):
            for number, stored in db.execute(f"SELECT {key}, embedding FROM {table}").fetchall():
                assert len(stored) % 2
                vector = of_size(stored, 512)
                assert vector is not None
                db.execute(f"UPDATE {table} SET embedding = ? WHERE {key} = ?", (to_bytes(vector), number))
        db.executescript(to_version(15))
    db.close()
    with Memory.open(tmp_path) as memory:
        assert memory.suggest("find", state="buy a lamp") == expected
        memory.ingest(trajectory("c", "look", "buy", goal="please buy a chair"))
        assert memory.examine() == []
    with sqlite3.connect(tmp_path / "memory.hepm") as db:
        sizes = [size for (size,) in db.execute("SELECT length(embedding) FROM vector")]
    db.close()
    assert 1024 in sizes
    assert min(sizes) < 256
