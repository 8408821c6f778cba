from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.errors import FormatError
from hepm.ingest.formats.hepm import parse_run, write_run
from hepm.ingest.records import content_digest
from hepm.types import START, Outcome, Tool, ToolCall, Trajectory, Turn
from tests.ingest.samples import read, read_one, read_reason

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = texts.filter(lambda name: name.strip() and name != START)
numbers = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, values, max_size=3)
calls = st.builds(
    ToolCall, names, objects, st.none() | texts, st.none() | st.booleans(), st.none() | numbers, st.booleans()
)
turns = st.builds(
    Turn,
    st.sampled_from(["system", "user", "assistant"]),
    texts,
    st.lists(calls, max_size=3).map(tuple),
    st.none() | numbers,
    st.lists(texts, max_size=2).map(tuple),
)
trajectories = st.builds(
    Trajectory,
    id=texts.filter(bool),
    turns=st.lists(turns, max_size=4).map(tuple),
    outcome=st.builds(Outcome, st.none() | numbers, st.none() | st.booleans()),
    environment=texts,
    task=texts,
    model=texts,
    user=texts,
    ended_at=st.none() | numbers,
    tags=st.dictionaries(texts, texts, max_size=3),
    source=texts,
    tools=st.lists(st.builds(Tool, names, texts, objects), max_size=2).map(tuple),
)


@given(trajectories)
def test_what_is_written_is_read_back_the_same(trajectory: Trajectory):
    line = write_run(trajectory)
    assert "\n" not in line
    assert parse_run(line) == trajectory
    assert write_run(parse_run(line)) == line


@pytest.mark.parametrize("number", ["-1e999", "1" * 400])
@pytest.mark.parametrize("key", ["reward", "ended_at", "latency_s"])
def test_a_number_beyond_all_floats_is_refused(tmp_path: Path, key: str, number: str):
    call = {"name": "look", **({key: "@"} if key == "latency_s" else {})}
    record = {"hepm": 1, "id": "odd", "turns": [{"role": "assistant", "calls": [call]}]}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(record if key == "latency_s" else {**record, key: "@"}).replace('"@"', number))
    reason = "is too large a number" if number.isdecimal() else f'is "{number}", not a number'
    assert read_reason(path) == f"{key!r} {reason}"


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_no_number_of_a_run_is_infinite(number: float):
    with pytest.raises(ValueError, match="not a finite number"):
        ToolCall("look", latency_s=number)
    with pytest.raises(ValueError, match="not a finite number"):
        Trajectory("odd", (), ended_at=number)


@given(st.lists(trajectories, max_size=5))
def test_an_export_is_imported_the_same(tmp_path_factory: pytest.TempPathFactory, trajectories: list[Trajectory]):
    path = tmp_path_factory.mktemp("export") / "runs.jsonl"
    path.write_text("".join(write_run(trajectory) + "\n" for trajectory in trajectories), "utf-8", newline="\n")
    runs, rejected = read(path)
    if trajectories:
        assert (runs, rejected) == (trajectories, [])
    else:
        assert (runs, [r.reason for r in rejected]) == ([], ["it is empty"])


def test_the_mark_comes_first_and_defaults_are_left_out():
    line = write_run(Trajectory("x", (Turn("user", "hi"),)))
    assert line == '{"hepm":2,"id":"x","turns":[{"role":"user","text":"hi"}]}'


@pytest.mark.parametrize(
    ("about", "outcome"),
    [
        ('"hepm":1,"reward":0.76,"success":false', Outcome(0.76)),  # a label, or what a reward below 1 meant
        ('"hepm":2,"reward":0.76,"success":false', Outcome(0.76, False)),
        ('"hepm":1,"reward":1.0,"success":false', Outcome(1.0, False)),
        ('"hepm":1,"reward":0.76,"success":true', Outcome(0.76, True)),
    ],
)
def test_records_of_before_do_not_say_whether_a_failure_was_given(about: str, outcome: Outcome):
    assert parse_run(f'{{{about},"id":"x","turns":[]}}').outcome == outcome


def test_a_refused_call_has_neither_error_nor_latency_and_differs_from_one_that_ran():
    ran, refused = (ToolCall("make", {}, "no", True, 0.5, refused) for refused in (False, True))
    assert (refused.error, refused.latency_s) == (None, None)
    before, after = (
        Trajectory("x", (Turn("assistant", calls=(call,)),)) for call in (replace(ran, error=None), refused)
    )
    assert content_digest(before) != content_digest(after)
    assert list(before.calls())
    assert not list(after.calls())
    assert parse_run('{"hepm":2,"id":"x","turns":[{"role":"assistant","calls":[{"name":"make"}]}]}').turns[0].ran


def test_numbers_that_json_lacks_become_text():
    call = ToolCall("f", {"x": float("nan"), "y": [float("inf")]})
    trajectory = parse_run(write_run(Trajectory("x", (Turn("assistant", "", (call,)),))))
    assert [call.arguments for call in trajectory.calls()] == [{"x": "nan", "y": ["inf"]}]


def test_a_newer_version_is_refused_with_what_to_do(tmp_path: Path):
    path = tmp_path / "runs.jsonl"
    path.write_text('{"hepm": 3, "id": "x", "turns": []}\n')
    assert "written by a newer hepm" in read_reason(path)
    with pytest.raises(FormatError, match="upgrade hepm"):
        parse_run('{"hepm": 3, "id": "x", "turns": []}')


def test_what_is_no_run_is_refused():
    for line in (
        "{}",
        '{"hepm":1,"id":"x","turns":[{"role":"robot"}]}',
        '{"hepm":1,"id":"x","turns":[],"success":1}',
        '{"hepm":1,"id":"","turns":[]}',
    ):
        with pytest.raises(FormatError):
            parse_run(line)


def test_keys_of_a_later_minor_change_are_ignored(tmp_path: Path):
    path = tmp_path / "runs.json"
    path.write_text(json.dumps({"hepm": 1, "id": "x", "turns": [], "mood": "good"}))
    assert read_one(path).id == "x"
