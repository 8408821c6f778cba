from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hepm.errors import InputError
from hepm.ingest import ReadOptions
from hepm.ingest.formats.turns import RAW, GrowingConversation, read_messages
from hepm.types import Outcome, ToolCall
from tests.ingest.samples import CHAT, changed, read, read_one, read_reason, write


def test_results_find_their_calls_in_whatever_order_they_come(tmp_path: Path):
    run = read_one(write(tmp_path / "log.jsonl", CHAT))
    assert list(run.calls()) == [
        ToolCall("find_user", {"name": "Ann"}, "user Ann", None),
        ToolCall("find_order", {"number": 7}, "order 7", None),
    ]


def test_the_record_tells_all_about_its_run(tmp_path: Path):
    run = read_one(write(tmp_path / "log.jsonl", changed(CHAT, user="ann", trial=2, timestamp="2026-01-01T00:00:00Z")))
    assert (run.id, run.environment, run.task, run.model) == ("chat-1", "shop", "refund", "small-model")
    assert (run.user, run.tags, run.ended_at) == ("ann", {"trial": "2"}, 1767225600.0)
    assert [(tool.name, tool.description) for tool in run.tools] == [("find_user", "Finds a user.")]
    assert run.turns[1].text == "Where is my order?"


def test_other_names_of_fields_are_understood(tmp_path: Path):
    record = {"messages": CHAT["messages"], "session_id": "s", "domain": "shop", "task_id": 4}
    run = read_one(write(tmp_path / "log.jsonl", record))
    assert (run.id, run.environment, run.task) == ("s", "shop", "4")


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({}, Outcome()),
        ({"reward": 1}, Outcome(1.0, True)),
        ({"reward": 0}, Outcome(0.0, False)),
        ({"reward": 0.4}, Outcome(0.4)),  # the store has the threshold
        ({"reward": 0.4, "success": True}, Outcome(0.4, True)),
        ({"success": 0}, Outcome(None, False)),
        ({"success": "true"}, Outcome(None, True)),
        ({"label": "failed"}, Outcome(None, False)),
        ({"label": "Resolved"}, Outcome(None, True)),
        ({"label": 1}, Outcome(None, True)),
        ({"success": None, "label": None, "reward": None}, Outcome()),
    ],
)
def test_success_comes_before_label_before_reward(tmp_path: Path, fields: dict[str, Any], outcome: Outcome):
    record = {"messages": CHAT["messages"], **fields}
    assert read_one(write(tmp_path / "log.jsonl", record)).outcome == outcome


def test_rewards_of_assistant_messages_are_kept_and_others_keys_of_that_name_ignored(tmp_path: Path):
    rewards = [0.5, 1, None, "good", {"score": 1}, 10**400]
    messages = [{"role": "assistant", "content": "hm", "reward": reward} for reward in rewards]
    run = read_one(write(tmp_path / "log.jsonl", {"messages": [{"role": "user", "content": "hi"}, *messages]}))
    assert [turn.reward for turn in run.turns] == [None, 0.5, 1.0, None, None, None, None]


def test_a_label_that_is_no_verdict_becomes_a_tag(tmp_path: Path):
    run = read_one(write(tmp_path / "log.jsonl", {"messages": CHAT["messages"], "label": "refund"}))
    assert (run.outcome, run.tags) == (Outcome(), {"label": "refund"})


def test_keys_may_lead_inward(tmp_path: Path):
    path = write(tmp_path / "log.jsonl", {"messages": CHAT["messages"], "metadata": {"score": 1.0, "ok": False}})
    assert read_one(path, ReadOptions(reward_key="metadata.score")).outcome == Outcome(1.0, True)
    assert read_one(path, ReadOptions(success_key="metadata.ok")).outcome == Outcome(None, False)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"reward": "0.5"}, "'reward' is \"0.5\", not a number"),
        ({"success": "perhaps"}, "'success' is 'perhaps', which says neither success nor failure"),
        ({"success": []}, "'success' is a list, not a verdict"),
        ({"reward": float("nan")}, "'reward' is \"NaN\", not a number"),
        ({"reward": 10**400}, "'reward' is too large a number"),
        ({"messages": "hello"}, "'messages' is a string, not a list"),
        ({"messages": []}, "the run holds no messages"),
        ({"messages": [5]}, "a message is a number, not an object"),
        ({"messages": [{"role": "robot"}]}, 'a message has the role "robot", not one of'),
        (
            {"messages": [{"role": "assistant", "tool_calls": {}}, {"role": "assistant", "tool_calls": "x"}]},
            "not a list",
        ),
        ({"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]}, "the name of a called tool is null"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": " "}}]}]},
            "a tool call without a name",
        ),
        ({"environment": ["shop"]}, "'environment' is a list, not a string"),
    ],
)
def test_a_bad_record_says_what_is_wrong_with_it(tmp_path: Path, fields: dict[str, Any], reason: str):
    assert reason in read_reason(write(tmp_path / "log.jsonl", {"messages": CHAT["messages"], **fields}))


def test_a_reward_beyond_all_numbers_is_rejected(tmp_path: Path):
    path = write(tmp_path / "log.jsonl", CHAT)
    path.write_text(path.read_text().replace('"reward": 1.0', '"reward": 1e999'))
    assert read_reason(path) == "'reward' is too large a number"


def test_a_bad_line_is_named_by_its_number_and_stops_nothing(tmp_path: Path):
    path = write(tmp_path / "log.jsonl", CHAT, CHAT)
    path.write_text(path.read_text() + '\n{"messages": [\n\n' + path.read_text())
    runs, rejected = read(path)
    assert (len(runs), [(r.record, r.reason) for r in rejected]) == (4, [(4, "the JSON is broken: Expecting value")])


def test_a_line_cut_within_a_text_is_said_to_hold_an_open_text(tmp_path: Path):
    path = write(tmp_path / "log.jsonl", CHAT)
    path.write_text(path.read_text() + '\n{"messages": [{"role": "us')
    assert [r.reason for r in read(path)[1]] == ["the JSON is broken: Unterminated string"]


def test_legacy_function_calls_are_read(tmp_path: Path):
    messages = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": '{"city": "Rome"}'}},
        {"role": "function", "name": "weather", "content": "sunny"},
    ]
    run = read_one(write(tmp_path / "log.jsonl", {"messages": messages}))
    assert list(run.calls()) == [ToolCall("weather", {"city": "Rome"}, "sunny")]


def test_custom_tools_keep_their_input(tmp_path: Path):
    call = {"id": "1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    run = read_one(write(tmp_path / "log.jsonl", {"messages": [{"role": "assistant", "tool_calls": [call]}]}))
    assert list(run.calls()) == [ToolCall("patch", {"input": "*** Begin"})]


@pytest.mark.parametrize("arguments", ['{"city": ', "[1]", "7", [1]])
def test_arguments_that_are_no_object_are_kept_as_they_are(tmp_path: Path, arguments: Any):
    call = {"id": "1", "function": {"name": "weather", "arguments": arguments}}
    run = read_one(write(tmp_path / "log.jsonl", {"messages": [{"role": "assistant", "tool_calls": [call]}]}))
    assert [list(call.arguments) for call in run.calls()] == [[RAW]]


@pytest.mark.parametrize("arguments", [None, "", "{}", {}])
def test_no_arguments_are_an_empty_object(tmp_path: Path, arguments: Any):
    call = {"id": "1", "function": {"name": "weather", "arguments": arguments}}
    run = read_one(write(tmp_path / "log.jsonl", {"messages": [{"role": "assistant", "tool_calls": [call]}]}))
    assert [call.arguments for call in run.calls()] == [{}]


def test_a_single_object_a_list_of_records_and_a_bare_list_of_messages_are_read(tmp_path: Path):
    files = [
        write(tmp_path / "object.json", CHAT),
        write(tmp_path / "records.json", [CHAT]),
        write(tmp_path / "messages.json", CHAT["messages"]),
        write(tmp_path / "lines.jsonl", CHAT["messages"], CHAT["messages"]),
    ]
    runs, rejected = read(*files)
    assert (len(runs), rejected) == (5, [])
    assert all(run.turns == runs[0].turns for run in runs)


def test_sharegpt_is_turned_away_by_name(tmp_path: Path):
    record = {"conversations": [{"from": "human", "value": "hi"}]}
    path = write(tmp_path / "sharegpt.json", [record, record])
    assert "ShareGPT" in read_reason(path)


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
    "change",
    [{"task": "other"}, {"environment": "x"}, {"model": "x"}, {"messages": CHAT["messages"][:-1]}],
)
def test_ids_differ_where_the_run_does(tmp_path: Path, change: dict[str, Any]):
    records = [CHAT, changed(CHAT, **change)]
    runs, _ = read(write(tmp_path / "log.jsonl", *records), options=ReadOptions(ids="content"))
    assert runs[0].id != runs[1].id


def test_an_outcome_that_becomes_known_later_leaves_the_id_as_it_was(tmp_path: Path):
    runs, _ = read(write(tmp_path / "log.jsonl", CHAT, changed(CHAT, reward=0.0)), options=ReadOptions(ids="content"))
    assert runs[0].id == runs[1].id


@pytest.mark.parametrize("error", [True, False, None])
def test_a_tool_message_may_say_whether_its_call_failed(tmp_path: Path, error: bool | None):
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "a", "content": "1"}]
    said[1] |= {} if error is None else {"is_error": error}
    [read_call] = read_one(write(tmp_path / "a.jsonl", {"messages": said})).calls()
    assert read_call.error is error


def test_calls_in_content_blocks_are_calls_too(tmp_path: Path):
    record = {
        "success": True,
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Let me look."},
                    {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "it"}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "gone", "is_error": True}],
            },
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t2", "name": "ask", "input": {}}]},
        ],
    }
    (run,), _ = read(write(tmp_path / "blocks.jsonl", record))
    assert [(call.name, call.result, call.error) for call in run.calls()] == [
        ("look", "gone", True),
        ("ask", None, None),
    ]
    assert [turn.role for turn in run.turns] == ["user", "assistant", "assistant"]


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


@settings(max_examples=300)
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
