"""Names that cannot be stored, and names that look the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hepm import Memory, Tool
from hepm.errors import InputError
from tests.runs import trajectory

COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path, speak="weighed") as opened:
        yield opened


def test_a_run_whose_names_hold_half_a_surrogate_pair_is_rejected_alone_with_a_sentence(memory: Memory) -> None:
    bad = [
        trajectory("bad \ud800 id", "look"),
        trajectory("tool", "look \udc00"),
        trajectory("user", "look", user="\ud800"),
        trajectory("task", "look", task="\ud800"),
    ]
    report = memory.ingest([trajectory("first", "look"), *bad, trajectory("last", "look")])
    assert (report.stored, len(report.rejected)) == (2, 4)
    assert all("half of a surrogate pair" in rejection.reason for rejection in report.rejected)


@pytest.mark.parametrize(
    "ask",
    [
        lambda memory, name: memory.ingest([trajectory("good", "look")], namespace=name),
        lambda memory, name: memory.suggest("look", namespace=name),
        lambda memory, name: memory.forget(user=name),
        lambda memory, name: memory.ingest([], tools=[Tool("look " + name, "looks")]),
    ],
    ids=["ingest", "suggest", "forget", "describe"],
)
def test_half_a_surrogate_pair_in_a_name_is_refused_with_a_sentence(memory: Memory, ask) -> None:
    with pytest.raises(InputError, match="half of a surrogate pair"):
        ask(memory, "team \ud800")
