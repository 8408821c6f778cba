"""Files of tools that are damaged, on the command line."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from tests.cli.chats import chats, write
from tests.faults.command import one_sentence, quick

TOOLS = b'[{"name": "get_order", "description": "Tells it.' + b" " * 5000 + b'"}]'


@pytest.mark.parametrize(
    ("name", "content"),
    [("tools.json.xz", lzma.compress(TOOLS)[:-30]), ("tools.json.gz", gzip.compress(TOOLS)[:-20])],
    ids=lambda value: value if isinstance(value, str) else "",  # gzip writes the time into its head
)
def test_damaged_tools_stop_an_ingest_with_a_sentence_that_names_them(
    tmp_path: Path, name: str, content: bytes
) -> None:
    log = write(tmp_path / "runs.jsonl", chats(1))
    (tmp_path / name).write_bytes(content)
    sentence = one_sentence(quick("ingest", log, "--tools", tmp_path / name, "--store", tmp_path / "s.hepm"))
    assert f"{name} cannot be read" in sentence
    assert not (tmp_path / "s.hepm").exists()


def test_half_a_surrogate_pair_in_a_description_is_replaced(tmp_path: Path) -> None:
    log = write(tmp_path / "runs.jsonl", chats(1))
    (tmp_path / "tools.json").write_text(
        '[{"name": "get_order", "description": "Tells \\ud83d it.", "parameters": {"a\\ud83d": "b\\ud83d"}}]'
    )
    answer = quick("ingest", log, "--tools", tmp_path / "tools.json", "--store", tmp_path / "s.hepm", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["stored"] == 2
