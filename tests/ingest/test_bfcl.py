from __future__ import annotations

import lzma
import zipfile
from pathlib import Path

import pytest

from hepm.ingest.formats.bfcl import parse_call
from hepm.ingest.records import RecordError
from hepm.types import JSON, Outcome, Tool
from tests.ingest.samples import BFCL_ANSWER, BFCL_QUESTION, changed, read, read_one, read_reason, write, write_bfcl


def test_every_right_call_is_a_turn_of_its_own(tmp_path: Path):
    run = read_one(write_bfcl(tmp_path))
    assert [(turn.role, [call.name for call in turn.calls]) for turn in run.turns] == [
        ("user", []), ("assistant", ["sort"]), ("assistant", ["mv"]), ("user", []), ("assistant", ["cd"]),
    ]  # fmt: skip
    assert (run.environment, run.task, run.model, run.outcome) == (
        "bfcl-multi_turn_base",
        "5",
        "gold",
        Outcome(None, True),
    )


def test_arguments_without_a_name_get_it_from_the_manual(tmp_path: Path):
    run = read_one(write_bfcl(tmp_path))
    assert [call.arguments for call in run.calls()] == [
        {"file_name": "report.pdf"},
        {"source": "report.pdf", "destination": "done"},
        {"folder": ".."},
    ]


def test_tools_come_as_json_schema_without_the_excluded_ones(tmp_path: Path):
    run = read_one(write_bfcl(tmp_path))
    assert [(tool.name, tool.parameters["type"]) for tool in run.tools] == [
        ("sort", "object"), ("mv", "object"), ("cd", "object"),
    ]  # fmt: skip


def test_a_folder_is_read_without_rejecting_answers_and_manuals(tmp_path: Path):
    write_bfcl(tmp_path)
    runs, rejected = read(tmp_path)
    assert (len(runs), rejected) == (1, [])


def test_a_wheel_is_read_as_it_is(tmp_path: Path):
    write_bfcl(tmp_path / "files" / "bfcl_eval" / "data")
    wheel = tmp_path / "bfcl_eval-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in (tmp_path / "files").rglob("*.json"):
            archive.write(file, file.relative_to(tmp_path / "files"))
    run = read_one(wheel)
    assert [call.name for call in run.calls()] == ["sort", "mv", "cd"]
    assert run.source == f"{wheel}!bfcl_eval/data/BFCL_v4_multi_turn_base.json"


def test_questions_without_their_answers_are_rejected_as_a_file(tmp_path: Path):
    path = write(tmp_path / "BFCL_v4_multi_turn_base.json", BFCL_QUESTION)
    assert "should lie beside it in possible_answer/" in read_reason(path)


def test_a_question_without_an_answer_is_rejected_as_a_record(tmp_path: Path):
    path = write_bfcl(tmp_path)
    write(path, BFCL_QUESTION, changed(BFCL_QUESTION, id="multi_turn_base_6"))
    runs, rejected = read(path)
    assert (len(runs), [r.record for r in rejected]) == (1, [2])


def test_other_questions_of_bfcl_are_rejected_in_one_sentence(tmp_path: Path):
    path = write(tmp_path / "BFCL_v4_simple_python.json", *[{"id": f"simple_{n}", "question": [[]]} for n in range(3)])
    assert "only the multi_turn files" in read_reason(path)


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


def test_the_answers_are_found_when_compressed(tmp_path: Path):
    path = write_bfcl(tmp_path)
    answer = tmp_path / "possible_answer" / path.name
    (answer.parent / (answer.name + ".xz")).write_bytes(lzma.compress(answer.read_bytes()))
    answer.unlink()
    assert read_one(path).task == BFCL_ANSWER["id"].rsplit("_", 1)[1]
