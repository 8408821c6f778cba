"""Each reader gives the runs and rejections that stand beside its golden files, and survives wrong values in them."""

from __future__ import annotations

import json
import random
import shutil
import tarfile
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.ingest.formats.bfcl import parse_call
from hepm.ingest.formats.tau import model_in_name
from hepm.ingest.formats.text_calls import calls_in, results_in
from hepm.ingest.records import ReadOptions, RecordError
from hepm.types import JSON, Outcome, Tool
from tests.faults.command import quick
from tests.ingest.golden import CASES, expected, lines_of, reading, source
from tests.ingest.samples import BFCL_QUESTION, CHAT, TAU, TAU2, read, read_one, read_reason, write
from tests.ingest.test_faults import check, mutate, scratch


@pytest.mark.parametrize("case", CASES)
def test_golden_files_give_the_runs_and_rejections_that_are_expected(case: str):
    assert reading(case) == expected(case)


@cache
def _copied(case: str, scratch_folder: Path) -> Path:
    return shutil.copytree(source(case), scratch_folder / "golden" / case)


@pytest.mark.parametrize("case", CASES)
@given(seed=st.integers(0, 2**32))
def test_golden_files_with_wrong_values_are_read_or_rejected(
    tmp_path_factory: pytest.TempPathFactory, case: str, seed: int
):
    chance = random.Random(seed)
    folder = _copied(case, scratch(tmp_path_factory))
    file = chance.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    text = file.read_text("utf-8")
    spoilt = [mutate(value, chance) if chance.random() < 0.5 else value for value in lines_of(file)]
    file.write_text("\n".join(map(json.dumps, spoilt)), "utf-8")
    try:
        check(folder)
        for reader in {item["reader"] for item in expected(case) if "reader" in item}:
            check(file, ReadOptions(format=reader))
    finally:
        file.write_text(text, "utf-8")


# bfcl


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


# tau


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt-4o-airline.json", "gpt-4o"),
        ("tool-calling-grok-3-0.0_range_0--1_user-grok-3-llm_0921131646.json", "grok-3"),
        ("tool-calling-none-0.1_range_0-100_user-none-llm_06232025.json", ""),
        ("results.json", ""),
    ],
)
def test_the_file_name_tells_the_model(name: str, model: str):
    assert model_in_name(name) == model


def test_a_renamed_file_holds_the_same_runs(tmp_path: Path):
    runs, _ = read(write(tmp_path / "gpt-4o-airline.json", [TAU]), write(tmp_path / "copy.json", [TAU]))
    assert runs[0].id == runs[1].id
    assert [run.model for run in runs] == ["gpt-4o", ""]


# tau2


def test_ids_by_content_ignore_the_records_own(tmp_path: Path):
    path = write(tmp_path / "results.json", TAU2)
    assert read_one(path, ReadOptions(ids="content")).id.startswith("sha-")


def test_nan_as_a_reward_is_rejected_with_what_it_is(tmp_path: Path):
    path = tmp_path / "results.json"
    text = write(path, TAU2).read_text().replace('"reward": 1.0', '"reward": NaN')
    path.write_text(text)
    assert read_reason(path) == "'reward' is \"NaN\", not a number"


# atif


def test_a_trial_in_an_archive_gives_its_reward(tmp_path: Path):
    archive = tmp_path / "trials.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(source("atif", "trial"), "job/trial")
    run = read_one(archive)
    assert run.outcome == Outcome(1.0, True)
    assert run.source == f"{archive}!job/trial/agent/trajectory.json"


# Texts that a model or a stranger wrote never take long to be searched for calls


def test_beginnings_without_ends_are_searched_in_linear_time():
    for beginning in ("<tool_call>", "<function=a>", "<function=a><parameter=b>", "<tool_response>"):
        started = time.perf_counter()
        calls_in(beginning * 20_000)
        results_in(beginning * 20_000)
        assert time.perf_counter() - started < 5  # a quadratic search took two minutes


# What is left out of files, or hidden in their layout, is read or named: nothing goes without a word


def test_a_list_of_runs_in_a_wrapper_is_read(tmp_path: Path):
    for key in ("data", "items", "results", "logs"):
        assert read_one(write(tmp_path / "a.json", {"object": "list", key: [CHAT], "has_more": False})).id == CHAT["id"]


def test_half_a_character_in_an_argument_is_replaced_and_rejects_no_run(tmp_path: Path):
    for half in (r"\ud83d", r"\udc00"):
        call = {"function": {"name": "weigh", "arguments": f'{{"crate": "a{half}b"}}'}}
        [read] = read_one(
            write(tmp_path / "a.json", {"messages": [{"role": "assistant", "tool_calls": [call]}]})
        ).calls()
        assert read.arguments == {"crate": "a?b"}


def test_a_result_of_the_ai_sdk_without_a_value_stops_no_ingest(tmp_path: Path):
    # A tool that returns undefined: JSON.stringify drops the key.
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "weigh", "input": {"crate": 7}}
    result = {"type": "tool-result", "toolCallId": "c1", "toolName": "weigh", "output": {"type": "json"}}
    messages = [
        {"role": "user", "content": "Weigh crate 7."},
        {"role": "assistant", "content": [call]},
        {"role": "tool", "content": [result]},
    ]
    [read] = read_one(write(tmp_path / "a.json", {"messages": messages})).calls()
    assert (read.name, read.error) == ("weigh", False)


def test_a_file_from_which_nothing_is_stored_is_given_a_reason(tmp_path: Path):
    span = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "GET /crates", "attributes": []}
    write(tmp_path / "a.json", {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    answer = quick("ingest", tmp_path / "a.json", "--store", tmp_path / "m.hepm")
    assert "GET /crates" in answer.err
