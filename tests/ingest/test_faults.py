"""Whatever a file holds, reading gives runs and rejections, and nothing else."""

from __future__ import annotations

import copy
import json
import random
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.ingest.formats.hepm import write_run
from hepm.ingest.prepare import shorten
from hepm.ingest.reading import read_runs
from hepm.ingest.records import MAX_PARALLEL, ReadOptions, Rejection
from hepm.ingest.redact import Redactor
from hepm.types import Trajectory, Turn
from tests.ingest.samples import BFCL_QUESTION, CHAT, ONE_DOCUMENT, TAU, read, read_one, read_reason, write

OTHERS: list[Any] = [None, True, 0, -1.5, "", "text", "\ud83d", [], [1], {}, {"a": []}, [[]], float("nan"), 10**30]
HEPM = json.loads(write_run(Trajectory("x", (Turn("user", "hi"),))))
DOCUMENTS: dict[str, Any] = {**ONE_DOCUMENT, "hepm": HEPM, "bfcl": BFCL_QUESTION}


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container inside a value with each of its keys."""
    members: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        members = list(value.items())
    elif isinstance(value, list):
        members = list(enumerate(value))
    return [(value, key) for key, _ in members] + [place for _, inner in members for place in places(inner)]


def mutate(value: Any, chance: random.Random) -> Any:
    """A copy with one to three members deleted or replaced."""
    value = copy.deepcopy(value)
    for _ in range(chance.randint(1, 3)):
        found = places(value)
        if not found:
            break
        container, key = chance.choice(found)
        if chance.random() < 0.3:
            del container[key]
        else:
            container[key] = copy.deepcopy(chance.choice(OTHERS))
    return value


def check(path: Path, options: ReadOptions | None = None) -> int:
    """Read, and take every run through all that ingest does with it."""
    count = 0
    redact = Redactor()
    for _, item in read_runs([path], options or ReadOptions()):
        count += 1
        if isinstance(item, Rejection):
            assert item.reason
            assert item.file
        else:
            write_run(redact(shorten(item))).encode()
    return count


def scratch(factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples: a new one for each takes longer than the test."""
    folder = factory.getbasetemp() / "scratch"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize("name", DOCUMENTS)
@given(seed=st.integers(0, 2**32), indent=st.sampled_from([None, 1]))
def test_damaged_bytes_are_read_or_rejected(
    tmp_path_factory: pytest.TempPathFactory, name: str, seed: int, indent: int | None
):
    chance = random.Random(seed)
    content = bytearray(json.dumps(DOCUMENTS[name], indent=indent).encode())
    for _ in range(chance.randint(0, 3)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    path = scratch(tmp_path_factory) / "run.json"
    path.write_bytes(content[: chance.randrange(len(content))])
    assert check(path) >= 1


@given(st.binary(max_size=300))
def test_any_bytes_are_rejected_in_a_sentence(tmp_path_factory: pytest.TempPathFactory, content: bytes):
    path = scratch(tmp_path_factory) / "run.json"
    path.write_bytes(content)
    check(path)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("run.json", b"", "it is empty"),
        ("run.json", b"hello", "it is not JSON"),
        ("run.json", json.dumps([TAU, TAU]).encode()[:-20], "it ends in the middle: it was cut off"),
        ("run.json", b'{"data": [{"messages": {"c": [1,, 2]}}]}', "the JSON is broken"),
        ("run.json", json.dumps(CHAT).encode("utf-16"), "text in UTF-16"),
        ("run.json", '{"messages": [{"role": "user", "content": "café"}]}'.encode("latin-1"), "it is not UTF-8"),
        ("run.json", b'{"messages": ' + b"[" * 100_000, "nested too deeply"),
        ("run.json", b'{"messages": [], "x": ' + b"9" * 5000 + b"}", "integer string conversion"),
        ("run.json.gz", b"not gzip", "damaged"),
        ("runs.tar", b"x" * 5000, "no tar archive"),
        ("runs.zip", b"PK no zip", "unpack it"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, name: str, content: bytes, reason: str):
    path = tmp_path / name
    path.write_bytes(content)
    assert reason in read_reason(path)


def test_a_byte_order_mark_is_accepted(tmp_path: Path):
    path = write(tmp_path / "run.json", CHAT)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_one(path).id == "chat-1"


def test_one_line_in_another_encoding_costs_one_line(tmp_path: Path):
    path = write(tmp_path / "log.jsonl", CHAT, CHAT)
    path.write_bytes(path.read_bytes() + '{"messages": "café"}\n'.encode("latin-1") + path.read_bytes())
    runs, rejected = read(path)
    assert (len(runs), [r.record for r in rejected]) == (4, [3])


def test_half_a_surrogate_pair_is_replaced_and_whole_ones_stay(tmp_path: Path):
    path = tmp_path / "run.json"
    path.write_text(
        '{"messages": [{"role": "user", "content": "\\ud83d\\ude00 \\ud83d"}, {"role": "assistant", "content": "", '
        '"tool_calls": [{"function": {"name": "f\\udc00", "arguments": {"k\\ud800": "\\ud800"}}}]}]}'
    )
    run = read_one(path)
    assert run.turns[0].text == "\N{GRINNING FACE} ?"
    assert [(call.name, call.arguments) for call in run.calls()] == [("f?", {"k?": "?"})]


@pytest.mark.parametrize("depth", [100, 101, 5000])
def test_the_depth_of_arguments_is_the_same_limit_in_every_format(tmp_path: Path, depth: int):
    arguments = {"a": "@"}
    function = {"id": "1", "function": {"name": "f", "arguments": arguments}}
    reads: list[bool] = []
    for name, record in (
        ("chat", {"messages": [{"role": "assistant", "tool_calls": [function]}]}),
        (
            "hepm",
            {"hepm": 1, "id": "x", "turns": [{"role": "assistant", "calls": [{"name": "f", "arguments": arguments}]}]},
        ),
    ):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(record).replace('"@"', "[" * (depth - 1) + "]" * (depth - 1)))
        runs, rejected = read(path)
        assert len(runs) + len(rejected) == 1
        assert all("nested" in item.reason for item in rejected)
        reads.append(bool(runs))
    assert reads == [depth <= 100] * 2


def test_an_infinite_number_in_arguments_becomes_text(tmp_path: Path):
    call = {"id": "1", "function": {"name": "f", "arguments": {"a": ["@", 1.5]}}}
    for record in (
        {"messages": [{"role": "assistant", "tool_calls": [call]}]},
        {"hepm": 1, "id": "x", "turns": [{"role": "assistant", "calls": [call["function"]]}]},
    ):
        path = tmp_path / "run.json"
        path.write_text(json.dumps(record).replace('"@"', "-1e999"))
        (found,) = read_one(path).calls()
        assert found.arguments == {"a": ["-1e999", 1.5]}


def test_a_turn_of_more_different_tools_than_an_agent_calls_is_rejected(tmp_path: Path):
    for count in (MAX_PARALLEL, MAX_PARALLEL + 1):
        calls = [{"function": {"name": f"f{n}", "arguments": {}}} for n in range(count)]
        chat = {"messages": [{"role": "assistant", "tool_calls": calls}]}
        own = {"hepm": 1, "id": "x", "turns": [{"role": "assistant", "calls": [c["function"] for c in calls]}]}
        runs, rejected = read(write(tmp_path / "a.json", chat), write(tmp_path / "b.json", own))
        assert len(runs) == 2 * (count == MAX_PARALLEL)
        assert {r.reason for r in rejected} <= {"a turn calls 257 different tools; 256 are the limit"}


def test_ten_thousand_calls_are_read_in_a_moment(tmp_path: Path):
    calls = [{"id": str(n), "function": {"name": "f", "arguments": "{}"}} for n in range(10_000)]
    results = [{"role": "tool", "tool_call_id": str(n), "content": str(n)} for n in range(10_000)]
    path = write(tmp_path / "run.json", {"messages": [{"role": "assistant", "tool_calls": calls}, *reversed(results)]})
    started = time.thread_time()  # other threads and processes cost it nothing
    assert [call.result for call in read_one(path).calls()] == [str(n) for n in range(10_000)]
    assert time.thread_time() - started < 5


@pytest.mark.parametrize("name", ["line.jsonl", "document.json"])
def test_a_record_over_the_limit_is_rejected_within_bounded_memory(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("hepm.ingest.formats.document.RECORD_LIMIT", 8 << 20)
    path = tmp_path / name
    with path.open("wb") as file:
        if name.endswith("l"):
            file.write(json.dumps(CHAT).encode() + b"\n")
        file.write(b'{"messages": [{"role": "user", "content": "')
        for _ in range(120):
            file.write(b"x" * (1 << 20))
        file.write(b'"}]}\n')
    tracemalloc.start()
    items = [item for _, item in read_runs([path])]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [item.reason for item in items if isinstance(item, Rejection)] == [
        "it is longer than 8,388,608 bytes, the limit for one record"
        if name.endswith("l")
        else "it is one JSON value of more than 33,554,432 bytes: write a record a line"
    ]
    assert sum(isinstance(item, Trajectory) for item in items) == name.endswith("l")
    assert peak < 110 << 20


def test_too_little_memory_for_a_record_rejects_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    path = write(tmp_path / "log.jsonl", CHAT, CHAT)
    monkeypatch.setattr("hepm.ingest.formats.chat.chat_turns", fail)
    _, rejected = read(path)
    assert [r.reason for r in rejected] == ["it takes more memory than there is"] * 2
