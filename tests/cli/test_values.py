"""Values of options that no command can work with."""

from __future__ import annotations

from pathlib import Path

import pytest

from hepm import Memory
from hepm.embed import HashingEmbedder
from tests.cli.chats import chats, write
from tests.faults.command import one_sentence, quick
from tests.runs import trajectory


def test_the_broken_address_of_a_server_is_told_in_a_sentence_without_its_password() -> None:
    for address in ("neo4j://neo4j:hunter2@[::1", "bolt://[::1:7687", "neo4j://localhost:port", "neo4j://h:99999"):
        answer = quick("stats", "--store", address)
        assert "the address of the server is broken" in one_sentence(answer)
        assert "hunter2" not in answer.err + answer.out


@pytest.mark.parametrize("name", ["hash-4097", "hash-99999", "hash-" + "9" * 5000])
def test_more_dimensions_than_make_sense_are_refused_before_a_store_is_made(tmp_path: Path, name: str) -> None:
    log = write(tmp_path / "runs.jsonl", chats(1))
    sentence = one_sentence(quick("ingest", log, "--embedder", name, "--store", tmp_path / "s.hepm"))
    assert "4,096 at most" in sentence
    assert quick("ingest", log, "--embedder", "hash-4096", "--store", tmp_path / "s.hepm").code == 0


def test_a_store_of_more_dimensions_is_embedded_anew_with_fewer(tmp_path: Path) -> None:
    """Older versions took any number up to 99,999."""
    with Memory.open(tmp_path / "s.hepm", embedder=HashingEmbedder(5000)) as memory:
        memory.ingest([trajectory("r1", "a", "b")])
    searched = quick("suggest", "--state", "help", "--policy", "adaptive", "--store", tmp_path / "s.hepm")
    assert "hepm reembed" in one_sentence(searched)
    assert quick("stats", "--store", tmp_path / "s.hepm").code == 0
    assert quick("reembed", "--embedder", "hash-512", "--store", tmp_path / "s.hepm").code == 0
    assert quick("suggest", "--state", "help", "--store", tmp_path / "s.hepm").code == 0
