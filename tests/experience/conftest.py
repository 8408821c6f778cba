from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hepm.experience.lesson_bank import LessonBank, StoreLedger
from hepm.llm import Client, Endpoint
from tests.experience.shelves import NS, open_bank
from tests.loopback import Loopback


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[LessonBank]:
    made = open_bank(tmp_path / "runs.hepm")
    yield made
    made.store.close()


@pytest.fixture
def open_client(loopback: Loopback, bank: LessonBank) -> Iterator[Callable[..., Client]]:
    """Clients of a model that is played by a real server, which keep their answers in the bank's store."""
    with ExitStack() as opened:

        def client(**more: Any) -> Client:
            ledger = StoreLedger(bank.store.lessons, NS, "run")
            return opened.enter_context(Client(Endpoint("small", loopback.url), ledger=ledger, **more))

        yield client
