from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hepm.errors import InputError
from hepm.ingest.formats.turns import GrowingConversation, read_messages
from hepm.ingest.records import ReadOptions
from hepm.types import Outcome
from tests.ingest.samples import CHAT, changed, read, read_one, write


def test_keys_may_lead_inward(tmp_path: Path):
    path = write(tmp_path / "log.jsonl", {"messages": CHAT["messages"], "metadata": {"score": 1.0, "ok": False}})
    assert read_one(path, ReadOptions(reward_key="metadata.score")).outcome == Outcome(1.0, True)
    assert read_one(path, ReadOptions(success_key="metadata.ok")).outcome == Outcome(None, False)


def ended_at(folder: Path, time: object) -> float | None:
    return read_one(write(folder / "log.jsonl", changed(CHAT, timestamp=time))).ended_at


def test_a_time_is_read_in_the_unit_that_its_size_tells_and_what_is_no_time_is_none(tmp_path: Path):
    for time in (1767225601.0, "1767225601000", 1767225601 * 10**9):
        assert ended_at(tmp_path, time) == 1767225601.0
    for time in (True, -1, 1e21, "2026", [1, 2, 3], {"at": 1}):
        assert ended_at(tmp_path, time) is None


def test_a_result_of_pydantic_ai_without_an_outcome_is_no_failure(tmp_path: Path):
    call = {"part_kind": "tool-call", "tool_name": "list", "args": "{}", "tool_call_id": "a"}
    result = {"part_kind": "tool-return", "tool_name": "list", "content": "pears", "tool_call_id": "a"}
    messages = [{"kind": "response", "parts": [call]}, {"kind": "request", "parts": [result]}]
    [call_read] = read_one(write(tmp_path / "log.jsonl", {"messages": messages})).calls()
    assert (call_read.result, call_read.error) == ("pears", None)


def test_a_bad_line_is_named_by_its_number_and_stops_nothing(tmp_path: Path):
    path = write(tmp_path / "log.jsonl", CHAT, CHAT)
    path.write_text(path.read_text() + '\n{"messages": [\n\n' + path.read_text())
    runs, rejected = read(path)
    assert (len(runs), [(r.record, r.reason) for r in rejected]) == (4, [(4, "the JSON is broken: Expecting value")])


def test_ids_depend_on_content_and_not_on_files_or_the_order_of_keys(tmp_path: Path):
    record = copy.deepcopy(CHAT)
    del record["id"]
    record["messages"][2]["tool_calls"][0]["function"]["arguments"] = {"a": 1, "b": 2}
    other = dict(reversed(copy.deepcopy(record).items()))
    other["messages"][2]["tool_calls"][0]["function"]["arguments"] = {"b": 2, "a": 1}
    runs, _ = read(write(tmp_path / "a.jsonl", record), write(tmp_path / "b" / "c.json", [other]))
    assert runs[0].id == runs[1].id
    assert runs[0].id.startswith("sha-")


@pytest.mark.parametrize(
    "change", [{"task": "other"}, {"environment": "x"}, {"model": "x"}, {"messages": CHAT["messages"][:-1]}]
)
def test_ids_differ_where_the_run_does(tmp_path: Path, change: dict[str, Any]):
    records = [CHAT, changed(CHAT, **change)]
    runs, _ = read(write(tmp_path / "log.jsonl", *records), options=ReadOptions(ids="content"))
    assert runs[0].id != runs[1].id


def test_an_outcome_that_becomes_known_later_leaves_the_id_as_it_was(tmp_path: Path):
    runs, _ = read(write(tmp_path / "log.jsonl", CHAT, changed(CHAT, reward=0.0)), options=ReadOptions(ids="content"))
    assert runs[0].id == runs[1].id


def said(text: str, *calls: str) -> dict[str, Any]:
    made = [{"id": id or None, "function": {"name": f"tool_{id}", "arguments": "{}"}} for id in calls]
    return {"role": "assistant", "content": text, "tool_calls": made}


IDS = st.sampled_from(["", "a", "b", "c"])
MESSAGES = st.one_of(
    st.just({"role": "user", "content": "buy"}),
    st.builds(said, st.sampled_from(["", "I will"]), IDS, IDS),
    st.builds(lambda id, text: {"role": "tool", "tool_call_id": id, "content": text}, IDS, st.sampled_from("123")),
)
KINDS = st.sampled_from(["add", "change", "call", "answer", "cut"])


@settings(max_examples=100)
@given(st.lists(MESSAGES, min_size=2, max_size=6), st.lists(st.tuples(KINDS, st.integers(1, 4), MESSAGES), max_size=5))
def test_a_growing_conversation_is_read_as_if_it_was_new_each_time(
    first: list[dict[str, Any]], edits: list[tuple[str, int, dict[str, Any]]]
) -> None:
    messages = copy.deepcopy(first)
    growing = GrowingConversation(lambda turn: turn if turn.text or turn.calls else None)
    for kind, back, message in [("", 1, {}), *edits]:
        place = max(len(messages) - back, 0)
        if kind == "add" or not messages:
            messages.append(copy.deepcopy(message))
        elif kind == "change":
            messages[place] = copy.deepcopy(message)
        elif kind == "cut":
            del messages[place:]
        elif kind == "answer":
            messages[place]["content"] = "other words"
        elif kind == "call" and messages[place]["role"] == "assistant":
            messages[place]["tool_calls"] += said("", "d")["tool_calls"]
        assert growing.turns(messages) == tuple(turn for turn in read_messages(messages) if turn.text or turn.calls)


def test_a_growing_conversation_recovers_from_a_message_that_cannot_be_read() -> None:
    growing = GrowingConversation(lambda turn: turn)
    messages: list[Any] = [{"role": "user", "content": "buy"}, {"role": "nurse", "content": "no"}]
    for _ in range(2):
        with pytest.raises(InputError, match='a message has the role "nurse"'):
            growing.turns(messages)
    messages[1] = {"role": "assistant", "content": "bought"}
    assert growing.turns(messages) == read_messages(messages)
    with pytest.raises(InputError, match="messages="):
        growing.turns("buy")  # type: ignore[arg-type]
    assert growing.turns(messages) == read_messages(messages)


def test_only_what_is_new_in_a_conversation_is_read() -> None:
    growing = GrowingConversation(lambda turn: turn)
    turn = [{"role": "assistant", "content": "on"}, {"role": "user", "content": "more"}]
    messages = [{"role": "user", "content": "go"}, *turn * 50]
    before = growing.turns(messages)
    messages += turn
    after = growing.turns(messages)
    assert len(after) == len(before) + 2
    assert all(one is other for one, other in zip(before[:-2], after, strict=False))
