"""What `hepm serve` does when the endpoint, the client, the disk or its own process fails."""

# ruff: noqa: F811, as fixtures are arguments
from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hepm import Memory
from hepm.agents.daemons import Daemons
from hepm.agents.live_run import LiveRun
from hepm.agents.replies import Reply
from hepm.agents.runs import LiveRuns
from tests.agents.raw import RawEndpoint, Taken, answer_to, connected, request_bytes, status_of
from tests.agents.serving import serving, until
from tests.agents.test_proxy import TOOLS, WISH, memory  # noqa: F401
from tests.faults.killing_servers import Served
from tests.faults.places import files_limited_to
from tests.runs import stored_run

CHAT: dict[str, Any] = {"model": "small", "messages": [WISH], "tools": TOOLS}
RAW = json.dumps(CHAT).encode()
SAID = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "I go on."}}]}).encode()
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(SAID), SAID)
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nx-request-id: r\r\n\r\n"
DELTA = b'data: {"choices": [{"index": 0, "delta": {"content": "I go on."}}]}\n\n'
CHUNK = b"%x\r\n%b\r\n" % (len(DELTA), DELTA)


def post(url: str, path: str = "/v1/chat/completions", body: Any = CHAT, **headers: str) -> httpx2.Response:
    return httpx2.post(url + path, json=body, headers=headers, timeout=60)


# The endpoint


def sends(*parts: bytes, reset: bool = False) -> Callable[[socket.socket, Taken], None]:
    """An endpoint that sends these bytes and closes the connection, or resets it."""

    def answer(connection: socket.socket, request: Taken) -> None:
        for part in parts:
            connection.sendall(part)
            time.sleep(0.02)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return answer


ZIPPED = gzip.compress(SAID)
FAULTS = {
    "a whole reply": sends(WHOLE),
    "a whole stream": sends(STREAM, CHUNK, CHUNK, b"0\r\n\r\n"),
    "a stream that breaks off": sends(STREAM, CHUNK, CHUNK),
    "a stream that breaks off in a part": sends(STREAM, CHUNK, CHUNK[:20]),
    "a reply shorter than its length": sends(WHOLE[:-5]),
    "an early hint": sends(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + WHOLE),
    "gzip, though it was not asked for": sends(
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(ZIPPED), ZIPPED)
    ),
    "a redirect": sends(b"HTTP/1.1 307 Moved\r\nlocation: /v1/chat\r\ncontent-length: 0\r\n\r\n"),
    "a header that is no ASCII": sends(b"HTTP/1.1 200 OK\r\nx-who: J\xf6rg\r\ncontent-length: 0\r\n\r\n"),
}


def received(answer: bytes) -> tuple[int, dict[str, str], bytes, bool]:
    """Status, the endpoint's headers, the body without its framing, and whether the body came to its end."""
    while answer.startswith(b"HTTP/1.1 1"):
        answer = answer.partition(b"\r\n\r\n")[2]
    head, _, rest = answer.partition(b"\r\n\r\n")
    lines = [line.split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:]]
    headers = {name.lower(): value for name, value in lines}
    if headers.get("transfer-encoding") == "chunked":
        body, whole = b"", False
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size or b"0", 16)
            whole = length == 0
            body += rest[:length]
            rest = b"" if whole else rest[length + 2 :]
    else:
        body, whole = rest, len(rest) == int(headers.get("content-length", len(rest)))
    own = {"transfer-encoding", "connection", "x-hepm-session", "x-accel-buffering", "cache-control"}
    own |= {"content-security-policy", "x-content-type-options"}
    return status_of(answer), {k: v for k, v in headers.items() if k not in own}, body, whole


def test_a_client_sees_what_it_would_have_seen_without_the_proxy(
    memory: Memory, endpoint: RawEndpoint, capfd: pytest.CaptureFixture[str]
) -> None:
    sent = request_bytes("/v1/chat/completions", RAW)
    with serving(memory, upstream=endpoint.url) as (_, url):
        for fault, endpoint.answer in FAULTS.items():
            assert received(answer_to(url, sent)) == received(answer_to(endpoint.url, sent)), fault
    assert "Traceback" not in capfd.readouterr().err


def test_an_endpoint_that_gives_no_answer_is_named_in_a_bad_gateway(memory: Memory, endpoint: RawEndpoint) -> None:
    upstream = endpoint.url.replace("127.0.0.1", "user:pass@127.0.0.1")
    with serving(memory, upstream=upstream) as (_, url):
        for answer in (sends(), sends(b"garbage\r\n\r\n"), sends(reset=True), sends(b"HTTP/1.1 200 OK\r\ncontent-le")):
            endpoint.answer = answer
            got = post(url)
            assert got.status_code == 502
            assert f"hepm cannot reach {endpoint.url.removesuffix('/v1')}: " in got.json()["error"]["message"]
            assert "pass" not in got.text


def test_a_request_repeated_after_an_error_belongs_to_its_run(memory: Memory, endpoint: RawEndpoint) -> None:
    slow_down = b"HTTP/1.1 429 Slow down\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    failing = iter([sends(slow_down), sends(STREAM, CHUNK), sends()])

    def answer(connection: socket.socket, request: Taken) -> None:
        next(failing, sends(WHOLE))(connection, request)

    endpoint.answer = answer
    with serving(memory, upstream=endpoint.url) as (server, url):
        for _ in range(3):
            answer_to(url, request_bytes("/v1/chat/completions", RAW))
        session = post(url).headers["x-hepm-session"]
        assert len(server.runs) == 1
        assert post(url, "/outcome", {"session": session, "success": True}).status_code == 200
    stored = stored_run(memory, session)
    assert [turn.text for turn in stored.turns] == [WISH["content"], "I go on."]


def test_equal_requests_at_the_same_time_are_runs_of_their_own(memory: Memory, endpoint: RawEndpoint) -> None:
    together = threading.Barrier(3)

    def answer(connection: socket.socket, request: Taken) -> None:
        together.wait(20)
        connection.sendall(WHOLE)

    endpoint.answer = answer
    with serving(memory, upstream=endpoint.url) as (server, url), ThreadPoolExecutor(3) as pool:
        sessions = {got.headers["x-hepm-session"] for got in pool.map(post, [url] * 3)}
        assert len(sessions) == len(server.runs) == 3


def test_a_run_goes_on_when_the_client_writes_the_models_reply_in_its_own_way(
    memory: Memory, endpoint: RawEndpoint
) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "get_order", "arguments": '{"a":1,"b":[2]}'}}
    said = json.dumps(
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": " x", "tool_calls": [call]}}]}
    )
    endpoint.answer = sends(WHOLE.partition(b"content-length")[0] + b"\r\n" + said.encode())
    with serving(memory, upstream=endpoint.url) as (server, url):
        first = post(url)
        call["function"] |= {"arguments": '{"b": [2], "a": 1}'}
        sent_again = [{"role": "assistant", "content": None, "tool_calls": [call]}]
        sent_again.append({"role": "tool", "tool_call_id": "c", "content": "delivered"})
        second = post(url, body=CHAT | {"messages": [WISH, *sent_again]})
        assert first.headers["x-hepm-session"] == second.headers["x-hepm-session"]
        assert len(server.runs) == 1


SAID_SO = {"role": "assistant", "content": "It is delivered."}


def turned(runs: LiveRuns, messages: list[Any]) -> LiveRun:
    """The run of a conversation, once its request has its hint and its reply."""
    run = runs.continued(messages, id="s", sequel="", group="", namespace="default", door="proxy")
    runs.prompt(run)
    runs.replied(run, Reply((SAID_SO,)))
    return run


def texts(memory: Memory) -> list[list[str]]:
    found = [memory.run(id) for id in ("s", "s-2")]
    return [[turn.text for turn in run.turns] for run in found if run is not None]


@pytest.mark.parametrize("how", ["rest", "outcome"])
def test_a_request_that_waits_for_a_run_that_ends_is_recorded_once(memory: Memory, how: str) -> None:
    runs = LiveRuns(memory)
    run = turned(runs, [WISH])
    with ThreadPoolExecutor(1) as pool:
        with run.lock:
            waiting = pool.submit(turned, runs, [WISH, SAID_SO, WISH])
            time.sleep(0.2)
            if how == "rest":
                runs.rest(run)
            else:
                runs._finish("s", "default", success=True, reward=None)
        runs.finish(waiting.result().id, namespace="default", success=True, reward=None)
    assert list(itertools.chain(*texts(memory))) == [WISH["content"], SAID_SO["content"]] * 2


# The client


@pytest.mark.parametrize("begun", [False, True])
def test_the_endpoint_is_free_again_when_the_client_goes(memory: Memory, endpoint: RawEndpoint, begun: bool) -> None:
    left = threading.Event()

    def answer(connection: socket.socket, request: Taken) -> None:
        if begun:
            connection.sendall(STREAM + CHUNK)
        connection.settimeout(20)
        if not connection.recv(1):  # the proxy closes its side
            left.set()

    endpoint.answer = answer
    with serving(memory, upstream=endpoint.url) as (_, url):
        with connected(url) as connection:
            connection.sendall(request_bytes("/v1/chat/completions", RAW))
            if begun:
                assert connection.recv(65_536)
            while not endpoint.taken:
                time.sleep(0.01)
        assert left.wait(10)


def test_a_head_without_an_end_fills_no_memory_and_a_long_one_passes(memory: Memory, endpoint: RawEndpoint) -> None:
    with serving(memory, upstream=endpoint.url) as (_, url):
        for part in (b"x-a: b\r\n", b"x-a: " + b"b" * 60_000 + b"\r\n", b"b" * 60_000):
            sent = 0
            with connected(url) as connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(b"GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n")
                while sent < 16 << 20:
                    connection.sendall(part)
                    sent += len(part)
            assert sent < 16 << 20
        assert endpoint.taken == []
        for length, status in ((60_000, 200), (100_000, 400)):
            whole = request_bytes("/v1/models", b"", "x-a: " + "b" * length, method="GET")
            with connected(url) as connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for at in range(0, len(whole), 9_000):
                    connection.sendall(whole[at : at + 9_000])
                    time.sleep(0.002)
                assert status_of(connection.recv(65_536)) == status
    assert [one.head.count(b"b" * 60_000) for one in endpoint.taken] == [1]


# The memory


def test_requests_pass_while_the_store_is_locked(memory: Memory, endpoint: RawEndpoint, tmp_path: Path) -> None:
    endpoint.answer = WHOLE
    with serving(memory, upstream=endpoint.url, hint_timeout_s=0.5) as (_, url):
        assert post(url).status_code == 200
        with sqlite3.connect(tmp_path / "m.hepm") as other:
            other.execute("BEGIN EXCLUSIVE")
            for number in range(3):
                started = time.monotonic()
                named = {"x-hepm-session": f"locked-{number}"}
                assert post(url, body=CHAT, **named).status_code == 200
                assert time.monotonic() - started < 5
            other.rollback()
        other.close()


def test_a_request_whose_hint_comes_late_leaves_its_run_waiting_for_no_reply(
    memory: Memory, endpoint: RawEndpoint
) -> None:
    endpoint.answer = WHOLE
    named = {"x-hepm-session": "late"}
    with serving(memory, upstream=endpoint.url, hint_timeout_s=0.2) as (server, url):
        post(url, body=CHAT, **named)
        run = server.runs.named("late", namespace="default", door="proxy")
        with run.lock:
            assert post(url, body=CHAT, **named).status_code == 200
        assert server.runs.counts["late_hints", "default"] == 1
        assert until(lambda: run.waiting == 0)


def test_runs_on_a_full_disk_are_stored_whole_once_there_is_room_and_the_log_says_it_once(
    memory: Memory, endpoint: RawEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.answer = WHOLE
    long = {"role": "user", "content": "Refund parcel 9. " * 400}
    with serving(memory, upstream=endpoint.url) as (server, url):
        with files_limited_to(4):
            sessions = [post(url, body=CHAT | {"messages": [long]}).headers["x-hepm-session"] for _ in range(3)]
            refused = post(url, "/outcome", {"session": sessions[0], "success": True})
            assert refused.status_code == 503
            assert "no room" in refused.text
            server.runs.idle_s = 0
            for _ in range(3):
                server.runs.store_idle()
        assert post(url, "/outcome", {"session": sessions[0], "success": True}).status_code == 200
        server.runs.store_idle()
    stored = list(map(memory.run, sessions))
    assert [run and len(run.turns) for run in stored] == [2, 2, 2]
    assert memory.examine() == []
    assert len([one for one in caplog.messages if "runs that rest" in one]) == 1
    assert len([one for one in caplog.messages if "sessions cannot be kept" in one]) == 1


def test_a_conversation_that_rested_so_long_that_it_was_stored_goes_on_as_the_same_run(
    memory: Memory, endpoint: RawEndpoint
) -> None:
    endpoint.answer = WHOLE
    with serving(memory, upstream=endpoint.url) as (server, url):
        first = post(url).headers["x-hepm-session"]
        server.runs.wait_recorded()
        server.runs.idle_s = 0
        server.runs.store_idle()
        assert len(server.runs) == 0
        said = [{"role": "assistant", "content": "I go on."}, {"role": "user", "content": "Thank you."}]
        assert post(url, body=CHAT | {"messages": [WISH, *said]}).headers["x-hepm-session"] == first
        assert post(url, "/outcome", {"session": first, "success": True}).status_code == 200
    stored = stored_run(memory, first)
    assert [turn.text for turn in stored.turns] == [WISH["content"], "I go on.", "Thank you.", "I go on."]
    assert memory.totals().trajectories == 6


# Logs


def test_logs_hold_no_prompt_no_result_no_key_and_no_token(
    memory: Memory, endpoint: RawEndpoint, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    canary = "zq7canary"
    call = {"id": "c", "type": "function", "function": {"name": "get_order", "arguments": f'{{"x": "{canary}'}}
    odd: list[Any] = [
        [{"role": "user", "content": canary}, {"role": "assistant", "tool_calls": [call]}],
        [{"role": "narrator", "content": {"x": canary}}],
        [{"role": f"key {canary}", "content": "x"}],
        [{"role": "tool", "tool_call_id": canary, "content": [canary]}, {"role": "assistant", "tool_calls": [{}]}],
        [{"role": "user", "content": canary + "\ud800"}, {"role": "assistant", "tool_calls": [call | {"function": 1}]}],
        canary,
        [canary],
    ]
    answers = [sends(WHOLE), sends(STREAM, CHUNK), sends(canary.encode())]
    answers.append(sends(WHOLE.replace(b"I go", canary.encode())))
    turn = itertools.cycle(answers)

    def answer(connection: socket.socket, request: Taken) -> None:
        next(turn)(connection, request)

    endpoint.answer = answer
    headers = {"authorization": f"Bearer {canary}", "x-hepm-user": canary, "cookie": canary}
    headers |= {"content-type": "application/json"}
    with serving(memory, upstream=endpoint.url) as (_, url), httpx2.Client(headers=headers, timeout=30) as client:
        for path in ("/v1/chat/completions", "/v1/responses", "/hooks/claude-code", "/outcome", "/mcp"):
            for messages in odd:
                body = {"messages": messages, "input": messages, "prompt": canary, "session_id": "s", "session": "s"}
                body |= {"tool_calls": messages, "hook_event_name": "PostToolBatch", "reward": canary}
                raw = json.dumps(body).encode()
                for sent in (raw, raw[:-1], raw.replace(b"canary", b"canary\xff"), raw.replace(b'"s"', b"NaN")):
                    try:
                        assert client.post(url + path, content=sent).status_code in (200, 400, 404, 406, 409, 422, 502)
                    except httpx2.RemoteProtocolError:
                        continue  # the endpoint broke off, and so does the proxy
    said = capfd.readouterr()
    assert canary not in said.out + said.err + caplog.text
    assert "Traceback" not in said.err + caplog.text


# Its own process


def test_a_stream_under_way_comes_to_its_end_when_the_server_is_stopped(tmp_path: Path, endpoint: RawEndpoint) -> None:
    endpoint.answer = sends(STREAM, *[CHUNK] * 40, b"0\r\n\r\n")
    served = Served(tmp_path / "m.hepm", endpoint.url)
    with connected(served.url) as connection:
        connection.sendall(request_bytes("/v1/chat/completions", RAW, "x-hepm-session: s"))
        answer = connection.recv(65_536)
        served.process.send_signal(signal.SIGTERM)
        while part := connection.recv(65_536):
            answer += part
    assert served.ended() == 0, served.said
    assert received(answer)[2:] == (DELTA * 40, True)
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as memory:
        session = memory.sessions.resume("s")
        assert session is not None
        session.finish(success=True)
        stored = stored_run(memory, "s")
    assert stored.turns[-1].text == "I go on." * 40


def test_an_outcome_told_again_after_a_crash_between_store_and_journal_is_stored_once(
    memory: Memory, tmp_path: Path
) -> None:
    session = memory.session(id="s")
    session.say("user", "Where is parcel 8?")
    session.record("get_order", {"parcel": 8}, "lost")
    (file,) = (tmp_path / "m.hepm-sessions").iterdir()
    left = file.read_bytes()
    session.finish(success=True)
    file.write_bytes(left)  # as if the process had been killed before it was removed
    with serving(memory) as (_, url):
        assert post(url, "/outcome", {"session": "s", "success": True}).status_code == 200
    file.write_bytes(left)
    memory.sessions.store_abandoned(idle_s=0)
    run = stored_run(memory, "s")
    assert run.outcome.success is True
    assert memory.totals().trajectories == 6


# Calls that may hang

HANGS = """
import time
from hepm.agents.daemons import Daemons

daemons = Daemons(2, "hint")
hanging = [daemons.submit(time.sleep, 600) for _ in range(5)]
daemons.shutdown()
"""


def test_calls_that_hang_keep_no_process_from_ending() -> None:
    began = time.monotonic()
    assert subprocess.run([sys.executable, "-c", HANGS], timeout=60, check=False).returncode == 0
    assert time.monotonic() - began < 30


def test_a_call_gives_its_answer_or_its_error_and_one_cancelled_in_time_is_never_made() -> None:
    daemons, may_go_on, made = Daemons(1, "hint"), threading.Event(), list[int]()
    held = daemons.submit(may_go_on.wait)
    waiting = daemons.submit(made.append, 1)
    failing = daemons.submit(int, "x")
    assert waiting.cancel()
    may_go_on.set()
    daemons.shutdown()
    wait([held, failing])
    assert held.result() is True
    with pytest.raises(ValueError, match="invalid literal"):
        failing.result()
    assert made == []


def test_calls_one_after_another_are_made_by_one_thread() -> None:
    daemons = Daemons(3, "one")
    for _ in range(5):
        daemons.submit(int).result()
        time.sleep(0.05)  # the thread is free a moment after its answer
    assert len([thread for thread in threading.enumerate() if thread.name.startswith("one_")]) == 1
    daemons.shutdown()
