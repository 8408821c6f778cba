"""Arguments that no command can use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.chats import chats, write
from tests.faults.command import one_sentence, quick

NO_TEXT = os.fsdecode(b"caf\xe9")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    store = tmp_path / "store.hepm"
    assert quick("ingest", write(tmp_path / "runs.jsonl", chats()), "--store", store).code == 0
    return store


@pytest.mark.parametrize(
    "command",
    [
        ["forget", "--user", NO_TEXT],
        ["label", NO_TEXT, "success"],
        ["ingest", "runs.jsonl", f"--namespace={NO_TEXT}"],
    ],
    ids=lambda command: " ".join(command).encode("ascii", "replace").decode(),
)
def test_a_name_of_bytes_that_are_no_utf8_is_refused_in_a_sentence(store: Path, command: list[str]) -> None:
    before = quick("export", "--store", store).out
    command = [str(store.with_name(part)) if part == "runs.jsonl" else part for part in command]
    assert "is no character: it cannot be stored" in one_sentence(quick(*command, "--store", store))
    assert quick("export", "--store", store).out == before


def test_a_path_may_hold_any_bytes(store: Path) -> None:
    folder = os.fsdecode(os.fsencode(store.parent) + b"/caf\xe9")
    os.mkdir(folder)
    os.rename(store.with_name("runs.jsonl"), os.path.join(folder, "runs.jsonl"))
    answer = quick("ingest", os.path.join(folder, "runs.jsonl"), "--store", os.path.join(folder, "s.hepm"), "--json")
    assert answer.json["stored"] == 24
    assert quick("export", NO_TEXT, "--store", store, cwd=folder).code == 0
    assert quick("import", NO_TEXT, "--store", "o.hepm", cwd=folder).code == 0
