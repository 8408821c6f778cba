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
from tests.ingest.traces import export, span, tool


def test_objects_over_several_lines_each_are_read_as_the_console_exporter_writes_them(tmp_path: Path):
    path = tmp_path / "spans.json"
    path.write_text("".join(json.dumps(one, indent=4) + "\n" for one in values("otlp", "console.jsonl")), "utf-8")
    assert [call.name for call in read_one(path).calls()] == ["find_user", "find_order"]


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
