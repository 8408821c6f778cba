"""A redactor that several threads share, and what is left of its texts afterwards."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest

from hepm import Memory, Trajectory, Turn
from hepm.ingest import redact
from hepm.ingest.prepare import IngestOptions
from hepm.ingest.redact import Redactor
from tests.runs import trajectory

SECRET = "sk-proj-abcdefghijklmnopqrstuvwx0123456789"
REMEMBERED = 100_000


def test_a_secret_is_taken_out_though_another_thread_fills_the_memory_between_look_and_rewrite(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redact, "_REMEMBERED", REMEMBERED)

    def while_it_is_looked_at(text: str) -> str:
        if text == "meanwhile":
            crowd = threading.Thread(target=lambda: [redactor(run) for run in others])
            crowd.start()
            crowd.join()
        return text

    others = [trajectory("long", goal="x" * (REMEMBERED + 1)), trajectory("next", goal="y")]
    redactor = Redactor(hook=while_it_is_looked_at)
    run = Trajectory("r", (Turn("user", f"my key is {SECRET}"), Turn("user", "meanwhile")))
    assert SECRET not in redactor(run).turns[0].text


def test_no_text_of_a_user_is_kept_in_memory_once_its_run_is_stored(tmp_path: Path) -> None:
    said = "what one user said " + "and said " * 5
    with Memory.open(tmp_path) as memory:
        memory.ingest([trajectory("r", "look", goal=said)], options=IngestOptions(vectors=False))
        gc.collect()
        holders = [one for one in gc.get_objects() if type(one) in (set, dict) and said in one]
    assert holders == []
