"""Kill `hepm serve` under load, start it again, go on; then look at what is stored.

Agents of each kind repeat what was not answered, as clients do, but for hooks, which are not repeated. What is
acknowledged: the turns up to the last reply once the next request is answered; every 200 of /outcome, of a hook and of
the tools of MCP. See "What is kept" in docs/use/serve.md.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx2

from hepm import Memory
from hepm.graph.trials import CONTROL, Trial
from hepm.memory.journal import Journal
from hepm.types import HINT
from tests.agents.raw import RawEndpoint, Taken
from tests.faults.command import HEPM

TURNS = 4
TOOLS = [{"type": "function", "function": {"name": f"step_{n}", "parameters": {}}} for n in range(TURNS)]


class Served:
    """`hepm serve` as a process that can be killed and started again; `url` is where it is now.

    Args:
        settings: Further lines of the table `[serve]` of its `hepm.toml`.
        under: What the command runs under (see `tests.faults.places`).
    """

    def __init__(
        self, store: Path | str, upstream: str, *more: str, settings: str = "", under: Sequence[str] = ()
    ) -> None:
        self._command = [*under, HEPM, "serve", "--store", str(store), "--port", "0", "--upstream", upstream, *more]
        self._folder = Path(tempfile.mkdtemp())
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        lines = f'[serve]\nspeak = "weighed"\nhint_timeout_s = 60\n{settings}'
        (self._folder / "hepm.toml").write_text(lines, "utf-8")
        self.said: list[str] = []
        self.start()

    def start(self) -> None:
        """Start it and wait for its address."""
        self.process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True, cwd=self._folder)
        assert self.process.stderr is not None
        self.url = self.process.stderr.readline().split()[-1]
        self._reader = threading.Thread(target=lambda: self.said.extend(self.process.stderr or ()))
        self._reader.start()

    def kill(self, number: int = signal.SIGKILL) -> int:
        """End it, and wait for that."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Its exit code, when it has ended; a second signal could hit it when it no longer handles any."""
        with self.process:  # closes the pipe
            self._reader.join(60)
        return self.process.returncode


_TAG = re.compile(r"_by_[a-z]+\d+x\d+")


class Model:
    """The played model, which notes the runs whose requests came with a hint."""

    def __init__(self) -> None:
        self.hinted: set[str] = set()

    def __call__(self, connection: socket.socket, request: Taken) -> None:
        said = request.body.decode("utf-8", "replace")
        if HINT in said and (tag := _TAG.search(said)):
            self.hinted.add(tag[0])
        answer(connection, request)


def answer(connection: socket.socket, request: Taken) -> None:
    """The played model: the next step of a conversation, streamed or not, and a last word."""
    body = json.loads(request.body)
    if "input" in body:
        tag, _, before = (body.get("previous_response_id") or "").removeprefix("resp-").rpartition("-")
        number = int(before or -1) + 1
        tag = tag or body["input"][0]["content"]
        call = {"type": "function_call", "call_id": f"c{number}", "name": f"step_{number}", "arguments": "{}"}
        said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
        reply: Any = {"id": f"resp-{tag}-{number}", "output": [call if number < TURNS else said]}
    else:
        number = sum(message["role"] == "tool" for message in body["messages"])
        function = {"name": f"step_{number}", "arguments": '{"a": 1}'}
        calls = [{"index": 0, "id": f"c{number}", "type": "function", "function": function}] if number < TURNS else []
        message = {"role": "assistant", "content": None if calls else "done"} | ({"tool_calls": calls} if calls else {})
        reply = {"choices": [{"index": 0, "delta" if body.get("stream") else "message": message}]}
    raw, kind = json.dumps(reply).encode(), b"application/json"
    if body.get("stream"):
        raw, kind = b"data: " + raw + b"\n\ndata: [DONE]\n\n", b"text/event-stream"
    head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (kind, len(raw))
    connection.sendall(head + raw)


@dataclass(slots=True)
class Expected:
    """What an agent knows to be recorded of one run.

    Attributes:
        session: Its id as the server names it.
        calls: Acknowledged ones.
        sent: All of them.
        ending: Whether its outcome is sent.
        done: Whether its outcome is acknowledged.
        hinted: Whether a tool of MCP told it anything.
    """

    tag: str
    kind: str
    session: str = ""
    calls: list[str] = field(default_factory=list[str])
    sent: list[str] = field(default_factory=list[str])
    ending: bool = False
    done: bool = False
    hinted: bool = False


class Addressed(Protocol):
    """One server or several: where the next request goes."""

    @property
    def url(self) -> str: ...


class Agents:
    """One agent of each kind, until `stop`."""

    def __init__(self, served: Addressed, folder: Path) -> None:
        self._served = served
        self._folder = folder
        self.runs: list[Expected] = []
        self.faults: list[str] = []
        self.arms: dict[str, set[str]] = {}
        self.by_arm: Counter[str] = Counter()
        self.hinted = 0
        self.answered = 0
        self._stop = threading.Event()
        self._client = httpx2.Client(timeout=60)
        kinds = (self._by_header, self._by_messages, self._by_response, self._hooks, self._mcp)
        self._threads = [threading.Thread(target=self._work, args=(kind,)) for kind in kinds]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let all runs under way come to their end."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._client.close()

    def _work(self, kind: Callable[[Expected], None]) -> None:
        while not self._stop.is_set():
            expected = Expected(f"{kind.__name__}{len(self.runs)}x{random.randrange(10**9)}", kind.__name__)
            self.runs.append(expected)
            try:
                kind(expected)
                expected.done = True
            except Exception as error:
                self.faults.append(f"{expected.tag}: {error!r}")
                return

    def _post(self, path: str, body: Any, *, again: bool = True, **headers: str) -> httpx2.Response | None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named["accept"] = "application/json, text/event-stream"
        for _ in range(400):
            try:
                answer = self._client.post(self._served.url + path, json=body, headers=named)
            except httpx2.TransportError:
                if not again:
                    return None
                time.sleep(0.2)
                continue
            if answer.status_code != 200:
                raise AssertionError(f"{path}: {answer.status_code} {answer.text}")
            self.answered += 1
            return answer
        raise AssertionError("the server is not back")

    def _outcome(self, expected: Expected) -> None:
        expected.ending = True
        self._post("/outcome", {"session": expected.session, "success": True})

    def _by_header(self, expected: Expected) -> None:
        self._chat(expected, x_hepm_session=expected.tag)

    def _by_messages(self, expected: Expected) -> None:
        self._chat(expected)

    def _chat(self, expected: Expected, **headers: str) -> None:
        messages: list[Any] = [{"role": "system", "content": "work"}, {"role": "user", "content": expected.tag}]
        for number in range(TURNS + 1):
            stream = random.random() < 0.5
            body = {"model": "m", "messages": messages, "tools": TOOLS, "stream": stream}
            answer = self._post("/v1/chat/completions", body, **headers)
            assert answer is not None
            expected.session = answer.headers["x-hepm-session"]
            expected.calls = [f"step_{n}" for n in range(number)]
            said = answer.text.removeprefix("data: ").partition("\n")[0]
            (choice,) = json.loads(said)["choices"]
            message = choice.get("message") or choice["delta"]
            messages.append(message)
            for call in message.get("tool_calls", ()):
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": "ok"})
        self._outcome(expected)

    def _by_response(self, expected: Expected) -> None:
        given: list[Any] = [{"role": "user", "content": expected.tag}]
        before = None
        for number in range(TURNS + 1):
            body = {"model": "m", "input": given, "tools": TOOLS, "previous_response_id": before}
            answer = self._post("/v1/responses", body)
            assert answer is not None
            expected.session = answer.headers["x-hepm-session"]
            expected.calls = [f"step_{n}" for n in range(number)]
            before = answer.json()["id"]
            given = [{"type": "function_call_output", "call_id": f"c{number}", "output": "ok"}]
        self._outcome(expected)

    def _hooks(self, expected: Expected) -> None:
        expected.session = expected.tag
        event = {"session_id": expected.tag, "hook_event_name": "UserPromptSubmit", "prompt": expected.tag}
        while self._post("/hooks/claude-code", event, again=False) is None:
            time.sleep(0.1)
        for number in range(TURNS):
            call = {"tool_name": f"step_{number}", "tool_input": {}, "tool_use_id": f"c{number}", "tool_response": "ok"}
            event = {"session_id": expected.tag, "hook_event_name": "PostToolBatch", "tool_calls": [call]}
            expected.sent.append(f"step_{number}")
            if self._post("/hooks/claude-code", event, again=False) is not None:
                expected.calls.append(f"step_{number}")
            else:
                time.sleep(0.1)
        self._outcome(expected)

    def _mcp(self, expected: Expected) -> None:
        expected.session = expected.tag
        calls = [f"step_{n}" for n in range(TURNS)]
        for name, arguments in (
            ("summarize_the_task", {"summary": expected.tag}),
            ("record_outcome", {"success": True, "calls": calls}),
        ):
            params = {"name": name, "arguments": {"session_id": expected.tag, **arguments}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            answer = self._post("/mcp", body, mcp_protocol_version="2025-06-18")
            assert answer is not None
            result = answer.json()["result"]
            expected.hinted |= HINT in answer.text
            if result.get("isError"):
                raise AssertionError(f"{name}: {result}")
        expected.calls = calls

    def check_now(self) -> None:
        """After a kill: all acknowledged calls of a run under way are on disk."""
        for expected in list(self.runs):
            acknowledged, session = list(expected.calls), expected.session
            if expected.ending or not session or expected.kind == "_mcp":
                continue
            kept = Journal(self._folder).find("default", session)
            if kept is not None and (trial := Trial.of(kept.run)) is not None:
                self.arms.setdefault(session, set()).add(trial.arm)
            calls = [] if kept is None else [call.name for turn in kept.run.turns for call in turn.calls]
            if kept is not None and not _holds(calls, acknowledged):
                self.faults.append(f"{expected.tag}: {acknowledged} were acknowledged, and {calls} are kept")
            if kept is None and acknowledged:
                self.faults.append(f"{expected.tag}: {acknowledged} were acknowledged, and nothing is kept")

    def check_stored(self, store: Path | str) -> None:
        """At the end: each finished run is stored once, with the right calls and its outcome."""
        with Memory.open(store, speak="weighed") as memory:
            records = [one for one in map(json.loads, memory.export()) if "turns" in one]
            self.faults += [str(finding) for finding in memory.examine()]
        for expected in self.runs:
            found = [one for one in records if expected.tag in json.dumps(one)]
            if len(found) != 1:
                self.faults.append(f"{expected.tag} is stored {len(found)} times: {[one['id'] for one in found]}")
                continue
            run = found[0]
            calls = [call["name"] for turn in run["turns"] for call in turn.get("calls", ())]
            calls = [name for name in calls if name != "summarize_the_task"]
            wanted = expected.sent or expected.calls
            if not (_holds(calls, expected.calls) and _holds(wanted, calls)):
                self.faults.append(f"{expected.tag} has the calls {calls}, not {expected.calls}")
            if run["success"] is not True:
                self.faults.append(f"{expected.tag} lacks its outcome")

    def check_arms(self, store: Path | str, holdout: float, hinted: Collection[str]) -> None:
        """At the end: each run has the arm that it had at every kill, counts once, and no control was hinted."""
        arms: Counter[str] = Counter()
        with Memory.open(store) as memory:
            for expected in self.runs:
                stored = memory.run(expected.session)
                trial = None if stored is None else Trial.of(stored)
                if trial is None:
                    self.faults.append(f"{expected.tag} has no arm")
                    continue
                arms[trial.arm] += 1
                drawn = memory.sessions.draw_arm(expected.session, holdout)
                if {trial.arm} != {drawn, *self.arms.get(expected.session, ())}:
                    self.faults.append(f"{expected.tag} was drawn {drawn}, and is {trial.arm}")
                if trial.arm == CONTROL and (expected.tag in hinted or expected.hinted or trial.tokens):
                    self.faults.append(f"{expected.tag} is a control, and was told something")
            report = memory.sessions.uplift()
            if (report.sessions, report.controls) != (arms.total(), arms[CONTROL]):
                self.faults.append(f"{arms} are counted as {report.sessions} with {report.controls} controls")
        self.by_arm = arms
        self.hinted = len(hinted)


def _holds(whole: list[str], part: list[str]) -> bool:
    """Whether the calls of `part` are in `whole`, in order, none twice."""
    rest = iter(whole)
    return all(name in rest for name in part) and len(set(whole)) == len(whole)


def killed_under_load(
    folder: Path, endpoint: RawEndpoint, kills: int, *, seed: int = 0, holdout: float = 0.0
) -> Agents:
    """Kill it so many times, at random moments, and once let it end by SIGTERM."""
    draw = random.Random(seed)
    store = folder / "m.hepm"
    endpoint.answer = model = Model()
    served = Served(store, endpoint.url, *(["--holdout", str(holdout)] if holdout else []))
    agents = Agents(served, store.with_name(f"{store.name}-sessions"))
    try:
        for _ in range(kills):
            wanted, until = agents.answered + draw.randrange(1, 40), time.monotonic() + 30
            while agents.answered < wanted and time.monotonic() < until:
                time.sleep(draw.uniform(0, 0.02))
            served.kill()
            agents.check_now()
            served.start()
        agents.stop()
    finally:
        agents._stop.set()
        code = served.kill(signal.SIGTERM)
    if code:
        agents.faults.append(f"it ended with {code}: {served.said[-3:]}")
    agents.faults += [line for line in served.said if "Traceback" in line]
    agents.check_stored(store)
    if holdout:
        agents.check_arms(store, holdout, model.hinted)
    return agents
