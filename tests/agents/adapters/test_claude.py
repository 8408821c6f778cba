"""The real Claude Code with a scripted model behind it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hepm import Memory, Trajectory
from tests.agents.adapters.frameworks import ROOT, python_of_frameworks
from tests.agents.serving import serving
from tests.faults.command import HEPM
from tests.runs import stored_run

pytestmark = [pytest.mark.exhaustive, pytest.mark.xdist_group("frameworks"), pytest.mark.timeout(900)]

READ = ("Read", {"file_path": "missing.txt"})
FIRST = [READ, ("Bash", {"command": "echo hello"})]
BETTER, OTHER = [("Bash", {"command": "date"})], [READ]
NAMES = [[("Read", True), ("Bash echo", False)], [("Read", True)], [("Read", True)], [("Bash date", False)]]
ADVICE = "the same call failed 3 times in this run"


class Anthropic(ThreadingHTTPServer):
    """Plays the Messages API: a call that fails, made again until memory says so; then another one, and an answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def blocks(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        said = json.dumps(body["messages"])
        results = said.count('"tool_result"')
        calls = {0: FIRST, 2: OTHER, 3: OTHER, 4: BETTER if ADVICE in said else OTHER}.get(results, [])
        if not calls or not body.get("tools"):
            return [{"type": "text", "text": "done"}]
        return [
            {"type": "tool_use", "id": f"toolu_{results}_{n}", "name": name, "input": given}
            for n, (name, given) in enumerate(calls)
        ]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Anthropic

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._send(b"")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "count_tokens" in self.path:
            self._send(b'{"input_tokens": 10}')
            return
        self.server.requests.append(body)
        blocks = self.server.blocks(body)
        reason = "tool_use" if blocks[0]["type"] == "tool_use" else "end_turn"
        message = {"id": "msg", "type": "message", "role": "assistant", "model": body["model"], "content": []}
        message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1}}
        if not body.get("stream"):
            self._send(json.dumps(message | {"content": blocks, "stop_reason": reason}).encode())
            return
        events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
        for at, block in enumerate(blocks):
            if block["type"] == "text":
                begun, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                begun = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            events.append({"type": "content_block_start", "index": at, "content_block": begun})
            events.append({"type": "content_block_delta", "index": at, "delta": delta})
            events.append({"type": "content_block_stop", "index": at})
        ended = {"stop_reason": reason, "stop_sequence": None}
        events += [{"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}}, {"type": "message_stop"}]
        text = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
        self._send(text.encode(), "text/event-stream")

    def _send(self, payload: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


@pytest.fixture
def model() -> Iterator[Anthropic]:
    with Anthropic() as running:
        yield running
        running.shutdown()


@pytest.fixture
def environment(model: Anthropic, tmp_path: Path) -> dict[str, str]:
    return environment_of(model, tmp_path)


def environment_of(model: Anthropic, folder: Path) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.server_address[1]}",
        "ANTHROPIC_API_KEY": "k",
        "CLAUDE_CONFIG_DIR": str(folder / "config"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",  # as the tests may run as root
    }


def check(run: Trajectory, model: Anthropic) -> None:
    assert [[(call.name, call.error) for call in turn.calls] for turn in run.turns if turn.calls] == NAMES
    assert (run.turns[0].text, run.turns[-1].text) == ("Say hello.", "done")
    assert run.outcome.success is True
    assert ADVICE not in repr(run)


@pytest.mark.parametrize("how", ["init", "plugin"])
def test_claude_code_with_the_hooks_of_hepm_follows_advice_and_its_session_is_recorded(
    model: Anthropic, environment: dict[str, str], tmp_path: Path, how: str
) -> None:
    where = "import claude_agent_sdk as sdk, pathlib; print(pathlib.Path(sdk.__file__).parent / '_bundled' / 'claude')"
    python = python_of_frameworks()
    claude = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    project = tmp_path / "project"
    project.mkdir()
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as memory, serving(memory) as (_, url):
        command = [claude, "-p", "Say hello.", "--output-format", "json"]
        if how == "init":
            subprocess.run([HEPM, "init", "claude-code", "--write", "--server", url], cwd=project, check=True)
        else:
            plugin = shutil.copytree(ROOT / "clients/claude-code", tmp_path / "plugin")
            subprocess.run([claude, "plugin", "validate", plugin], env={**os.environ, **environment}, check=True)
            for file in (plugin / "hooks/hooks.json", plugin / ".mcp.json"):
                file.write_text(file.read_text("utf-8").replace("http://127.0.0.1:8765", url), "utf-8")
            command += ["--plugin-dir", str(plugin)]
        done = subprocess.run(
            command,
            cwd=project,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        session = json.loads(done.stdout)["session_id"]
        assert httpx2.post(f"{url}/outcome", json={"session": session, "success": True}).status_code == 200
        run = stored_run(memory, session)
    check(run, model)
