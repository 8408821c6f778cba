from __future__ import annotations

from pathlib import Path

import pytest

from hepm.ingest.formats.bfcl import parse_call
from hepm.ingest.records import RecordError
from hepm.types import JSON, Tool
from tests.ingest.samples import BFCL_QUESTION, read_reason, write


def test_questions_without_their_answers_are_rejected_as_a_file(tmp_path: Path):
    path = write(tmp_path / "BFCL_v4_multi_turn_base.json", BFCL_QUESTION)
    assert "should lie beside it in possible_answer/" in read_reason(path)


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("ls(a=True)", "ls", {"a": True}),
        ("Files.tail(file_name='a\\'b', lines=-3)", "tail", {"file_name": "a'b", "lines": -3}),
        ("post(tags=['#a', '#b'], at=(1, 2.5))", "post", {"tags": ["#a", "#b"], "at": [1, 2.5]}),
        ("add(1, b=x + 1)", "add", {"0": 1, "b": "x + 1"}),
    ],
)
def test_calls_are_parsed_and_never_run(text: str, name: str, arguments: dict[str, JSON]):
    call = parse_call(text, {})
    assert (call.name, call.arguments) == (name, arguments)


@pytest.mark.parametrize("text", ["", "ls", "ls(", "import os", 5, None])
def test_what_is_no_call_is_refused(text: object):
    with pytest.raises(RecordError):
        parse_call(text, {"ls": Tool("ls")})
