"""What is piped in, and files that people hand over: text in UTF-8, or a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.command import one_sentence, quick


@pytest.mark.parametrize(
    "command",
    [
        ["prompt", "--messages", "-"],
        ["lesson", "edit", "alice", "-"],
        ["cypher", "-"],
    ],
    ids=" ".join,
)
def test_what_is_piped_in_and_is_no_utf8_is_refused_in_a_sentence(store: Path, command: list[str]) -> None:
    assert "standard input is not UTF-8" in one_sentence(quick(*command, "--store", store, stdin=b"\xff\xfe["))


def test_a_file_of_messages_that_is_no_utf8_is_named_in_a_sentence(store: Path, tmp_path: Path) -> None:
    (tmp_path / "talk.json").write_bytes('[{"role": "user", "content": "Grüße"}]'.encode("latin-1"))
    sentence = one_sentence(quick("prompt", "--messages", tmp_path / "talk.json", "--store", store))
    assert "talk.json is not UTF-8" in sentence
