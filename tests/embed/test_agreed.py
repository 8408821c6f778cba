"""The embedder that a memory and its store agree on, whoever changes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hepm import Memory
from hepm.embed import HashingEmbedder
from hepm.errors import EmbedderMismatchError, InputError
from hepm.ingest.prepare import IngestOptions
from tests.loopback import Loopback
from tests.runs import trajectory

RUNS = [trajectory(f"r{i}", "look", "buy", goal=goal) for i, goal in enumerate(["shoes", "a lamp", "a chair"])]
LATER = trajectory("later", "look", "leave", goal="a table")


def test_a_memory_is_opened_with_an_endpoints_embedder_by_the_address_and_key_that_are_given(
    tmp_path: Path, loopback: Loopback
) -> None:
    for _ in range(2):
        with Memory.open(
            tmp_path, embedder="openai/small", endpoint=(loopback.url, "sk-mine"), speak="weighed"
        ) as memory:
            memory.ingest(RUNS)
            assert (memory.header.embedder, memory.header.dimensions) == ("openai/small", 8)
    assert loopback.keys == {"sk-mine"}


def test_an_embedder_that_cannot_be_opened_leaves_the_memory_as_it_was(memory: Memory) -> None:
    memory.ingest(RUNS)
    for name in ("no-such-model", "folder/of-another-0123456789ab"):
        with pytest.raises(InputError):
            memory.reembed(name)
    assert memory.header.embedder == "hepm/hash-512"
    assert memory.suggest("look", state="shoes", policy="episodic")[0].tool == "buy"
    assert memory.ingest([LATER]).stored == 1
    assert memory.examine() == []


def test_what_lacks_a_vector_gets_one_and_the_vectors_of_another_process_stay(tmp_path: Path) -> None:
    with Memory.open(tmp_path, speak="weighed") as memory, Memory.open(tmp_path, speak="weighed") as other:
        memory.ingest(RUNS)
        other.reembed(HashingEmbedder(64))
        memory.refresh()
        memory.suggest("look", state="shoes", policy="adaptive")
        memory.ingest([LATER], options=IngestOptions(vectors=False))
        assert memory.reembed() > 0
        assert memory.header.dimensions == 64
        assert memory.examine() == []


def test_a_memory_whose_embedder_was_not_named_writes_with_the_one_that_another_process_has_chosen(
    tmp_path: Path,
) -> None:
    with Memory.open(tmp_path, speak="weighed") as memory, Memory.open(tmp_path, speak="weighed") as other:
        memory.ingest(RUNS)
        other.reembed("hash-64")
        assert memory.ingest([LATER]).stored == 1
        memory.label("r1", success=False)
        assert memory.forget(trajectory="r2") == ["r2"]
        assert (memory.header.embedder, memory.why_not_stored()) == ("hepm/hash-64", "")
        assert memory.examine() == []


def test_forgetting_writes_no_vectors_of_the_embedder_that_another_process_has_replaced(tmp_path: Path) -> None:
    with (
        Memory.open(tmp_path, embedder="hash-512", speak="weighed") as memory,
        Memory.open(tmp_path, speak="weighed") as other,
    ):
        memory.ingest([*RUNS, trajectory("like r1", "look", "buy", goal="a lamp")])
        assert memory.why_not_stored() == ""
        other.reembed("hash-64")
        with pytest.raises(EmbedderMismatchError, match="'hepm/hash-64'"):
            memory.forget(trajectory="r1")
        memory.refresh()
        assert "'hepm/hash-64', and 'hepm/hash-512' was asked for" in memory.why_not_stored()
        memory.suggest("look", state="shoes", policy="adaptive")
        assert memory.forget(trajectory="r1") == ["r1"]
        assert memory.examine() == []


def test_examining_a_memory_asks_an_endpoint_for_the_vectors_of_a_few_texts(tmp_path: Path, loopback: Loopback) -> None:
    with Memory.open(tmp_path, embedder="openai/small", endpoint=(loopback.url, None), speak="weighed") as memory:
        memory.ingest(RUNS)
    asked = len(loopback.requests)
    with Memory.open(tmp_path, endpoint=(loopback.url, None), speak="weighed") as memory:
        assert memory.examine() == []
    assert len(loopback.requests) <= asked + 2
