"""Claude Code's HTTP hooks: what an agent does is recorded, and what memory says comes as additional context.

Events: UserPromptSubmit, PostToolBatch, PostToolUseFailure, Stop and SessionEnd. PostToolBatch comes once after all
parallel calls of a turn. What a hook adds stays in the agent's context, so no lesson is given twice, and no hint twice
in a row. SessionEnd stores the run.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, Final

from hepm.agents.live_run import LiveRun
from hepm.agents.runs import LiveRuns
from hepm.agents.wire import Object, objects
from hepm.errors import StoreError
from hepm.experience.prompt import unsaid
from hepm.ingest.chat import OpenCall
from hepm.ingest.shells import command_name
from hepm.types import ToolName

_OWN: Final = re.compile(r"[A-Z]|mcp__")
"""How the names of Claude Code's tools begin: others are of other agents, and it cannot call them."""

_HINTED: Final = ("UserPromptSubmit", "PostToolBatch")
"""Events whose answer may hold a context. One in the answer to Stop would make the agent go on."""


class ClaudeCode:
    """Answers hooks."""

    def __init__(self, runs: LiveRuns) -> None:
        self._runs = runs

    def answer(self, event: Object, namespace: str) -> Object:
        """The body of the answer to one event; {} if there is nothing to say."""
        session, kind = event.get("session_id"), event.get("hook_event_name")
        if not isinstance(session, str) or not session:
            return {}
        if kind == "SessionEnd" and self._runs.is_over(session, namespace=namespace):
            return {}
        run = self._runs.named(session, namespace=namespace, door="claude-code", environment="claude-code")
        with run.lock:
            if kind == "UserPromptSubmit":
                run.session.say("user", str(event.get("prompt") or ""))
            elif kind == "PostToolUseFailure":
                run.failed[str(event.get("tool_use_id"))] = str(event.get("error") or "error")
            elif kind == "PostToolBatch":
                self._record(run, event)
            elif kind == "Stop" and event.get("last_assistant_message"):
                run.session.say("assistant", str(event["last_assistant_message"]))
        if kind == "SessionEnd":
            with suppress(StoreError):  # it rests then, and is stored later
                self._runs.rest(run)
        if kind not in _HINTED:
            return {}
        try:
            known = self._runs.memory.mirror(namespace).called()
        except StoreError:
            return {}
        tools = [tool for tool in sorted(known) if _OWN.match(tool)]
        text = unsaid(self._runs.hint(run, tools=tools).text, run.said)
        if not text:
            return {}
        return {"hookSpecificOutput": {"hookEventName": kind, "additionalContext": text}}

    def _record(self, run: LiveRun, event: Object) -> None:
        names: list[ToolName] = []
        for call in objects(event.get("tool_calls")):
            read = OpenCall(call.get("tool_use_id"), call.get("tool_name"), call.get("tool_input"))
            name = command_name(read.name, read.arguments)
            response: Any = call.get("tool_response")
            error = run.failed.pop(str(read.id), None)
            result = error if error is not None else response if isinstance(response, str) else json.dumps(response)
            run.session.record(name, read.arguments, result, error=error is not None, together=bool(names))
            names.append(name)
        self._runs.called(run, names)
