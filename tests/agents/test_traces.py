"""Spans over OTLP/HTTP, sent by the real SDK and exporter, become runs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from google.protobuf.message import DecodeError
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import StatusCode

from hepm import Memory
from tests.agents.serving import end, serving
from tests.ingest.traces import GEN_AI, export, span, text, tool
from tests.runs import exported_runs, stored_run

TRACES = "/otlp/v1/traces"


def send(url: str, body: Any, **headers: str) -> httpx2.Response:
    """Post a request in JSON."""
    return httpx2.post(f"{url}{TRACES}", json=body, headers=headers)


def finish(url: str, session: str, **outcome: Any) -> int:
    """Tell an outcome."""
    return httpx2.post(f"{url}/outcome", json={"session": session, **outcome}).status_code


def names(memory: Memory, id: str) -> list[list[str]]:
    """The tools of a stored run by turn."""
    run = stored_run(memory, id)
    return [[call.name for call in turn.calls] for turn in run.turns if turn.calls]


@pytest.mark.parametrize("compression", [Compression.Gzip, Compression.Deflate])
def test_an_instrumented_agent_is_recorded_by_the_real_exporter(memory: Memory, compression: Compression) -> None:
    with serving(memory) as (_, url):
        provider = TracerProvider()
        exporter = OTLPSpanExporter(endpoint=f"{url}/desk{TRACES}", compression=compression)
        provider.add_span_processor(SimpleSpanProcessor(exporter))  # a request a span, the inner ones first
        tracer = provider.get_tracer("an-agent")
        with tracer.start_as_current_span("invoke_agent desk", attributes={"gen_ai.conversation.id": "c-1"}):
            with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}) as chat:
                chat.set_attribute("gen_ai.input.messages", json.dumps([text("user", "Refund it.")]))
            for name in ("find_user", "find_order"):
                about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
                with tracer.start_as_current_span(f"execute_tool {name}", attributes=about) as call:
                    if name == "find_order":
                        call.set_status(StatusCode.ERROR)
        provider.shutdown()
        end(f"{url}/desk", "c-1")
    run = stored_run(memory, "c-1", namespace="desk")
    assert [(turn.role, turn.text, [(call.name, call.error) for call in turn.calls]) for turn in run.turns] == [
        ("user", "Refund it.", []),
        ("assistant", "", [("find_user", False), ("find_order", True)]),
    ]
    assert run.outcome.success is True


def test_what_was_acknowledged_is_on_disk(memory: Memory, tmp_path: Path) -> None:
    with serving(memory) as (_, url):
        for one in GEN_AI[:-1]:
            assert send(url, export(one)).json() == {}
        with Memory.open(tmp_path / "m.hepm", speak="weighed") as other:  # as after a crash
            assert other.sessions.store_abandoned(idle_s=0) == 1
            assert names(other, "0af7651916cd43dd8448eb211c80319c") == [["find_user", "find_order"]]


def test_spans_move_to_their_conversation_when_its_name_comes_last(memory: Memory) -> None:
    with serving(memory) as (server, url):
        for one in GEN_AI:
            assert send(url, export(one)).status_code == 200
        assert len(server.runs) == 1
        assert finish(url, "c-1", success=False) == 200
    assert names(memory, "c-1") == [["find_user", "find_order"]]
    assert [run.id for run in memory.runs()] == ["c-1"]


def test_spans_that_come_after_the_outcome_are_added_to_the_run(memory: Memory) -> None:
    with serving(memory) as (server, url):
        about = {"gen_ai.conversation.id": "c-1"}
        send(url, export(tool(1, 2, "a", "x", about=about)))
        assert finish(url, "c-1", success=True) == 200
        send(url, export(tool(3, 3, "b", "y", about=about)))
        assert len(server.runs) == 0
    assert names(memory, "c-1") == [["a"], ["b"]]
    stored = stored_run(memory, "c-1")
    assert stored.outcome.success is True


def test_a_trace_that_is_over_is_stored_soon_with_its_evaluation(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hepm.agents.traces.REST_S", 0.0)
    score = ("gen_ai.evaluation.result", {"gen_ai.evaluation.name": "ok", "gen_ai.evaluation.score.label": "pass"})
    with serving(memory) as (server, url):
        send(url, export(tool(2, 3, "a", "x"), span(1, 1, "agent", events=[score])))
        server.runs.store_idle()
        assert len(server.runs) == 0
    stored = stored_run(memory, "0af7651916cd43dd8448eb211c80319c")
    assert stored.outcome.success is True


def test_traces_of_other_programs_leave_nothing(memory: Memory) -> None:
    with serving(memory) as (server, url):
        for number in range(1, 50):
            one = {**span(1, 1, "GET /"), "traceId": f"{number:032x}"}
            assert send(url, export(one)).json() == {}
        assert len(server.runs) == 0
    assert list(memory.export()) == []


def test_spans_that_cannot_be_read_are_counted_and_the_others_taken(memory: Memory) -> None:
    broken = {**span(1, 1), "traceId": 7}
    with serving(memory) as (server, url):
        answer = send(url, export(broken, tool(2, 3, "a", "x")))
        assert answer.json()["partialSuccess"]["rejectedSpans"] == "1"
        assert len(server.runs) == 1


JSON, PROTOBUF = {"content-type": "application/json"}, {"content-type": "application/x-protobuf"}
GZIP = {"content-encoding": "gzip"}
BAD: list[tuple[bytes, dict[str, str], int]] = [
    (b'{"resourceSpans": 7}', JSON, 400),
    (b'{"resourceSpans": [{"scopeSpans": [7]}]}', JSON, 400),
    (b"\xff\xff", PROTOBUF, 400),
    (b"{}", {"content-type": "application/xml"}, 415),
    (b"{}", JSON | {"content-encoding": "br"}, 415),
    (b"{}", JSON | GZIP, 400),
    (gzip.compress(b"{}")[:-4], JSON | GZIP, 400),
    (2 * gzip.compress(b"{}"), JSON | GZIP, 400),
    (gzip.compress(b" " * 2_000_000), JSON | GZIP, 413),
]


def test_a_bad_body_is_refused_in_a_sentence(memory: Memory) -> None:
    with serving(memory, max_body_bytes=1_000_000) as (_, url):
        for body, headers, status in BAD:
            answer = httpx2.post(f"{url}{TRACES}", content=body, headers=headers)
            assert answer.status_code == status, (body[:40], headers)
            assert answer.json()["error"]["message"]


def test_the_answer_in_protobuf_is_a_response_of_otlp(memory: Memory) -> None:
    with serving(memory) as (_, url):
        answer = httpx2.post(f"{url}{TRACES}", content=b"", headers={"content-type": "application/x-protobuf"})
    assert answer.headers["content-type"] == "application/x-protobuf"
    try:
        assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse()
    except DecodeError:
        pytest.fail("it is no message")


@pytest.mark.parametrize(
    ("rests", "again"), [("under way", "all"), ("under way", "the last with a new one"), ("stored", "all")]
)
def test_spans_that_are_sent_again_after_a_restart_count_once(tmp_path: Path, again: str, rests: str) -> None:
    about = {"gen_ai.conversation.id": "c-1"}
    known = about if rests == "stored" else {}  # of a stored run, no ids of spans are kept
    first, second, new = tool(1, 2, "a", "x", about=about), tool(3, 3, "b", "y", about=known), tool(5, 4, "c", "z")
    sent = {"all": [first, second], "the last with a new one": [second, new]}[again]
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as memory, serving(memory) as (_, url):
        assert send(url, export(first)).status_code == 200
        assert send(url, export(second)).status_code == 200
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as memory:
        if rests == "stored":
            assert memory.sessions.store_abandoned(idle_s=0) == 1
        with serving(memory) as (server, url):
            assert send(url, export(*sent)).json() == {}
            assert send(url, export(*sent)).json() == {}
            assert len(server.runs) == (rests == "under way" and new in sent)
            assert finish(url, "c-1", success=True) == 200
        assert names(memory, "c-1") == [["a"], ["b"], ["c"]][: 2 + (new in sent)]
        assert len(exported_runs(memory)) == 1
