"""Claude Code's HTTP hooks: what an agent does is recorded, and what memory says comes as additional context.

Events: UserPromptSubmit, PreToolUse, PostToolBatch, PostToolUseFailure, PermissionDenied, Stop and SessionEnd.
PostToolBatch comes once after all parallel calls of a turn. Memory speaks before a call that is known to fail or that
users refused, after an error that runs got over, and at the start, if runs began alike (`hepm.agents.coding_advice`).
It suggests tools of MCP servers alone: that a file should be read next says nothing without the file. What a hook adds
stays in the agent's context, so no lesson is given twice, and no hint twice in a row. SessionEnd stores the run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from hepm.agents.coding_advice import CodingAdvice
from hepm.agents.live_run import LiveRun
from hepm.agents.runs import LiveRuns
from hepm.agents.wire import Object, objects
from hepm.errors import StoreError
from hepm.experience.prompt import without_repeats
from hepm.ingest.formats.coding_session import project_of
from hepm.ingest.formats.refusals import is_refusal
from hepm.ingest.formats.turns import OpenCall
from hepm.ingest.shell.command_names import command_name
from hepm.types import ToolCall, ToolName

_SERVED: Final = "mcp__"
"""How the names of MCP servers' tools begin."""

_HINTED: Final = ("UserPromptSubmit", "PreToolUse", "PostToolBatch")
"""Events whose answer may hold a context. One in the answer to Stop would make the agent go on."""


class ClaudeCode:
    """Answers hooks."""

    def __init__(self, runs: LiveRuns) -> None:
        self._runs = runs
        self._advice = CodingAdvice(runs.memory)

    def answer(self, event: Object, namespace: str) -> Object:
        """The body of the answer to one event; {} if there is nothing to say."""
        session = event.get("session_id")
        kind = event.get("hook_event_name")
        if not isinstance(session, str) or not session:
            return {}
        if kind == "SessionEnd" and self._runs.is_over(session, namespace=namespace):
            return {}
        project = project_of(str(event.get("cwd") or ""))
        tags: dict[str, str] = {}
        if project:
            tags["project"] = project
        about = {"environment": "claude-code", "tags": tags}
        run = self._runs.named(session, namespace=namespace, door="claude-code", **about)
        with run.lock:
            begins = not run.session.request
            calls = self._take(run, event)
        if kind == "SessionEnd":
            with suppress(StoreError):  # it rests then, and is stored later
                self._runs.rest(run)
        if kind not in _HINTED:
            return {}
        try:
            with run.lock:
                text = self._said(run, event, calls, begins=begins)
        except StoreError:
            return {}
        if not text:
            return {}
        return {"hookSpecificOutput": {"hookEventName": kind, "additionalContext": text}}

    def _take(self, run: LiveRun, event: Object) -> list[ToolCall]:
        """Record what an event tells; the calls of a turn that it ends."""
        kind = event.get("hook_event_name")
        if kind == "UserPromptSubmit":
            run.session.say("user", str(event.get("prompt") or ""))
        elif kind == "PostToolUseFailure":
            run.failed[str(event.get("tool_use_id"))] = str(event.get("error") or "error")
            if event.get("is_interrupt") is True:
                run.refused.add(str(event.get("tool_use_id")))
        elif kind == "PermissionDenied":
            self._deny(run, event)
        elif kind == "PostToolBatch":
            return self._record(run, event)
        elif kind == "Stop" and event.get("last_assistant_message"):
            run.session.say("assistant", str(event["last_assistant_message"]))
        return []

    def _said(self, run: LiveRun, event: Object, calls: Sequence[ToolCall], *, begins: bool) -> str:
        """What memory says at an event; a control is told nothing, and waits for nothing."""
        if run.session.is_control:
            return ""
        kind = event.get("hook_event_name")
        if kind == "PreToolUse":
            name, given = str(event.get("tool_name") or ""), event.get("tool_input")
            return "\n".join(
                filter(None, (self._advice.before(run, name, given), self._advice.refused(run, name, given)))
            )
        own = ""
        if calls:
            own = self._advice.after(run, calls)
        elif begins:
            own = self._advice.at_start(run, str(event.get("prompt") or ""))
        return "\n".join(filter(None, (own, self._hint(run))))

    def _deny(self, run: LiveRun, event: Object) -> None:
        """Record a call that was not allowed to run. The batch may hold it, too."""
        id = str(event.get("tool_use_id"))
        if id in run.refused:
            return
        run.refused.add(id)
        read = OpenCall(id, event.get("tool_name"), event.get("tool_input"))
        reason = str(event.get("reason") or "denied")
        run.session.record(command_name(read.name, read.arguments), read.arguments, reason, refused=True)

    def _hint(self, run: LiveRun) -> str:
        """What memory says about tools of MCP servers, if runs called any."""
        known = self._runs.memory.mirror(run.namespace).called()
        served = [tool for tool in sorted(known) if tool.startswith(_SERVED)]
        if not served:
            return ""
        return without_repeats(self._runs.prompt(run, tools=served).text, run.said)

    def _record(self, run: LiveRun, event: Object) -> list[ToolCall]:
        """Record the calls of a turn; returns them."""
        names: list[ToolName] = []
        calls: list[ToolCall] = []
        for call in objects(event.get("tool_calls")):
            read = OpenCall(call.get("tool_use_id"), call.get("tool_name"), call.get("tool_input"))
            name = command_name(read.name, read.arguments)
            # Another hook reported the error before this one, which has an empty response then.
            error = run.failed.pop(str(read.id), None)
            refused = str(read.id) in run.refused
            if refused and error is None:
                continue  # it was recorded when it was denied
            response: Any = call.get("tool_response")
            if error is not None:
                result = error
            elif isinstance(response, str):
                result = response
            else:
                result = json.dumps(response)
            refused = refused or (error is not None and is_refusal(error))
            refused = refused or (isinstance(response, dict) and response.get("interrupted") is True)  # pyright: ignore[reportUnknownMemberType]
            about: dict[str, Any] = {"error": error is not None, "refused": refused}
            run.session.record(name, read.arguments, result, **about, together=bool(names))
            names.append(name)
            calls.append(ToolCall(name, read.arguments, result, **about))
        self._runs.called(run, names)
        return calls
