"""What spans of tracing systems give; a run in each system's layout is a golden file."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory
from hepm.ingest.records import ReadOptions
from tests.ingest import traces
from tests.ingest.golden import values
from tests.ingest.samples import read, read_one, write
from tests.ingest.traces import GEN_AI, export, span, tool


def test_objects_over_several_lines_each_are_read_as_the_console_exporter_writes_them(tmp_path: Path):
    path = tmp_path / "spans.json"
    path.write_text("".join(json.dumps(one, indent=4) + "\n" for one in values("otlp", "console.jsonl")), "utf-8")
    assert [call.name for call in read_one(path).calls()] == ["find_user", "find_order"]


def test_spans_without_messages_give_the_order_of_calls(tmp_path: Path):
    def model(start: int, id: int) -> Any:
        return span(id, start, "chat", parent=1, attributes={"gen_ai.operation.name": "chat"})

    spans = [model(1, 2), tool(2, 3, "a", "x"), tool(3, 4, "b", "y"), model(4, 5), tool(5, 6, "c", "")]
    path = write(tmp_path / "a.json", export(*spans))
    assert [[call.name for call in turn.calls] for turn in read_one(path).turns] == [["a", "b"], ["c"]]


def test_without_spans_of_a_model_only_calls_that_overlap_are_parallel(tmp_path: Path):
    spans = [tool(1, 2, "a", ""), tool(1, 3, "b", ""), tool(2, 4, "c", ""), tool(9, 5, "d", "")]
    run = read_one(write(tmp_path / "a.json", export(*spans)))
    assert [[call.name for call in turn.calls] for turn in run.turns] == [["a", "b"], ["c"], ["d"]]


def test_an_agent_that_is_called_as_a_tool_is_a_run_of_its_own(tmp_path: Path):
    inner = [
        span(20, 4, "chat", parent=3, attributes={"gen_ai.operation.name": "chat"}),
        {**tool(5, 21, "search", "z"), "parentSpanId": f"{3:016x}"},
        {**tool(5, 22, "mcp find_user", "z"), "parentSpanId": f"{4:016x}"},  # inside a tool, without a model
    ]
    runs, rejected = read(write(tmp_path / "a.json", export(*GEN_AI, *inner)))
    assert [(run.id, [call.name for call in run.calls()]) for run in runs] == [
        ("c-1", ["find_user", "find_order"]),
        (f"c-1/{3:016x}", ["search"]),
    ]
    assert not rejected


@pytest.mark.parametrize(
    ("about", "options", "outcome"),
    [
        ({"success": True}, {}, (None, True)),
        ({"quality": 0.5}, {"reward_key": "quality"}, (0.5, None)),
        ({"annotation.name": "relevance", "annotation.score": 0.8}, {}, (None, None)),
        ({"annotation.name": "solved", "annotation.label": "fail"}, {}, (None, False)),
    ],
)
def test_evaluations_are_outcomes_only_where_they_say_so(tmp_path: Path, about: Any, options: Any, outcome: Any):
    path = write(tmp_path / "a.json", export(span(9, 1, attributes=about), tool(2, 3, "a", "")))
    found = read_one(path, ReadOptions(**options)).outcome
    assert (found.reward, found.success) == outcome


def test_a_message_said_twice_is_kept_twice_and_repeated_history_once(tmp_path: Path):
    yes = traces.text("user", "yes")
    first = traces.model(1, 2, [yes], {"type": "text", "content": "Again?"})
    second = traces.model(3, 3, [yes, traces.text("assistant", "Again?"), yes], {"type": "text", "content": "Good."})
    run = read_one(write(tmp_path / "a.json", export(first, second, tool(9, 4, "a", ""))))
    assert [turn.text for turn in run.turns if turn.text] == ["yes", "Again?", "yes", "Good."]


def test_results_in_events_are_kept_as_they_are_written(tmp_path: Path):
    asked = ("gen_ai.user.message", {"content": '[{"text": "List pears"}]'})
    called = ("gen_ai.choice", {"message": json.dumps({"tool_calls": [{"id": "a", "function": {"name": "list"}}]})})
    result = ("gen_ai.tool.message", {"id": "a", "content": '[1, {"type": "pear"}]'})
    said = ("gen_ai.choice", {"message": "Done."})
    about = {"gen_ai.operation.name": "chat"}
    spans = [span(2, 1, attributes=about, events=[asked, called]), span(3, 3, attributes=about, events=[result, said])]
    run = read_one(write(tmp_path / "a.json", export(*spans)))
    assert [turn.text for turn in run.turns] == ["List pears", "", "Done."]
    assert [call.result for call in run.calls()] == ['[1, {"type": "pear"}]']


def test_a_failed_result_in_items_of_the_responses_api_belongs_to_its_call_and_is_no_text_of_the_user(tmp_path: Path):
    items = [
        {"role": "user", "content": "List pears"},
        {"type": "function_call", "call_id": "a", "name": "list", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "no shop", "status": "incomplete"},
    ]
    about = {"gen_ai.operation.name": "chat", "input.value": json.dumps(items), "output.value": "Closed."}
    run = read_one(write(tmp_path / "a.json", export(span(2, 1, attributes=about))))
    assert [(turn.role, turn.text) for turn in run.turns] == [
        ("user", "List pears"),
        ("assistant", ""),
        ("assistant", "Closed."),
    ]
    assert [(call.result, call.error) for call in run.calls()] == [("no shop", True)]


def test_nested_attributes_of_long_names_take_no_more_memory_than_their_text(tmp_path: Path):
    nested: Any = {"gen_ai": {"operation": {"name": "chat"}}}
    for _ in range(100):
        nested = {"k" * 50_000: nested}
    record = {"trace_id": "t", "span_id": "s", "name": "chat", "attributes": nested}
    tracemalloc.start()
    try:
        read(write(tmp_path / "a.json", record))
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


def test_a_file_without_spans_of_an_agent_says_which_spans_it_holds(tmp_path: Path):
    runs, [rejection] = read(write(tmp_path / "a.json", export(span(1, 1, "GET /orders"))))
    assert not runs
    assert "'GET /orders'" in rejection.reason


def test_parts_of_messages_in_spans_that_are_not_known_are_counted_once_though_spans_repeat_them(tmp_path: Path):
    odd = {"role": "user", "parts": [{"type": "hologram", "size": 7}, {"type": "text", "content": "Look."}]}
    first = traces.model(1, 2, [odd], traces.call("a", "look", {}))
    second = traces.model(3, 3, [odd, traces.text("assistant", "Yes?")], {"type": "text", "content": "Done."})
    with Memory.open(tmp_path / "m.hepm") as memory:
        report = memory.ingest(write(tmp_path / "a.json", export(first, second)))
    assert (report.stored, report.unread) == (1, {"hologram": 1})
