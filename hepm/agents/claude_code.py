"""Hooks of coding agents: what an agent does is recorded, and what memory says comes as additional context.

Claude Code's hooks are read as they are, those of other agents as `hepm.agents.hook_events` translates them.

Events: UserPromptSubmit, PreToolUse, PostToolBatch, PostToolUseFailure, PermissionDenied, Stop and SessionEnd. A call
that is known to fail may be denied at PreToolUse (`Session.denial`).
PostToolBatch comes once after all parallel calls of a turn; PostToolUse, after each, does as well where a client sends
no batches, and a call that both report counts once, by its id. Memory speaks before a call that users refused, and
after an error that runs got over (`hepm.agents.coding_advice`). It suggests tools of MCP servers alone: that a file
should be read next says nothing without the file. What a hook adds stays in the agent's context, so no lesson is given
twice, and no hint twice in a row. SessionEnd stores the run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from hepm.agents.coding_advice import after_calls, of_refused
from hepm.agents.hook_events import CLAUDE_CODE, UNDENIED, UNHEARD, as_claude_code, for_agents
from hepm.agents.live_run import OTLP_DOOR, LiveRun
from hepm.agents.runs import LiveRuns
from hepm.agents.wire import Object
from hepm.errors import ConflictError, InputError, StoreError
from hepm.experience.prompt import without_repeats
from hepm.ingest.fields import is_list, is_object, kind_of
from hepm.ingest.formats.coding_session import project_of
from hepm.ingest.formats.refusals import is_refusal
from hepm.ingest.formats.turns import OpenCall
from hepm.ingest.inner_tools import called_name
from hepm.ingest.records import MAX_NAME, RecordError, check_calls, filled
from hepm.ingest.shell.command_names import command_name
from hepm.types import Objects, ToolCall, Turn

_HINTED: Final = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch")
"""Events whose answer may hold a context. One in the answer to Stop would make the agent go on."""


@dataclass(frozen=True)
class ClaudeCode:
    """Answers hooks."""

    _runs: LiveRuns

    def answer(self, event: Object, namespace: str, agent: str = CLAUDE_CODE) -> Object:
        """The body of the answer to one event of an agent's hooks; {} if there is nothing to say.

        Raises:
            InputError: a part of the event cannot be recorded, and nothing of it is.
            ConflictError: another token or door records the session.
            StoreError: there is no room on the disk for what the event reports.
        """
        if agent == CLAUDE_CODE:
            return self._answer(event, namespace, agent)
        return for_agents(self._answer(as_claude_code(event), namespace, agent), event)

    def _answer(self, event: Object, namespace: str, agent: str) -> Object:
        session = _text(event, "session_id")
        kind = event.get("hook_event_name")
        if not session:
            raise InputError('"session_id" is missing: it names the session of an event')
        if kind == "SessionEnd" and self._runs.is_over(session, namespace=namespace):
            return {}
        tags = filled(project=project_of(str(event.get("cwd") or "")))
        run = self._runs.named(session, namespace=namespace, door=agent, environment=agent, tags=tags)
        if run.door == OTLP_DOOR:
            raise ConflictError(f"the session {session!r} is recorded by its spans: hooks would count its calls twice")
        with run.lock:
            if run.over:  # it ended while this event waited for it
                return self._answer(event, namespace, agent)
            calls = self._take(run, event)
            run.check_kept()
        if kind == "SessionEnd":
            with suppress(StoreError):  # it rests then, and is stored later
                self._runs.rest(run)
        if kind not in _HINTED:
            return {}
        denied = text = ""
        with suppress(StoreError), run.lock:
            if kind == "PreToolUse" and agent not in UNDENIED:
                denied = self._denied(run, event)
            text = denied
            if not denied and (agent, kind) not in UNHEARD:
                text = self._said(run, event, calls)
        if not text:
            return {}
        said: Object = {"hookEventName": kind, "additionalContext": text}
        if denied:
            said = {"hookEventName": kind, "permissionDecision": "deny", "permissionDecisionReason": text}
        return {"hookSpecificOutput": said}

    def _take(self, run: LiveRun, event: Object) -> list[ToolCall]:
        """Record what an event reports; the calls of a turn that it ends."""
        kind = event.get("hook_event_name")
        if kind == "PostToolUseFailure":
            run.failed += self._record(run, [event])
            return []
        if kind in ("PostToolUse", "PostToolBatch"):
            calls = run.failed + self._record(run, [event] if kind == "PostToolUse" else _calls_in(event))
            run.failed = []
            self._runs.called(run, [call.name for call in calls])
            return calls
        if kind in ("UserPromptSubmit", "Stop", "SessionEnd"):
            run.failed = []  # errors that no batch will report
        if kind == "PermissionDenied":
            read = _read(event)
            if read.id is None or read.id not in run.reported:
                self._keep(run, read, _text(event, "reason") or "denied", refused=True)
        elif kind == "UserPromptSubmit":
            run.session.say("user", _text(event, "prompt"))
        elif kind == "Stop" and event.get("last_assistant_message"):
            run.session.say("assistant", _text(event, "last_assistant_message"))
        return []

    def _said(self, run: LiveRun, event: Object, calls: Sequence[ToolCall]) -> str:
        """What memory says at an event; a control gets nothing, and waits for nothing."""
        if run.session.is_control:
            return ""
        if event.get("hook_event_name") == "PreToolUse":
            return of_refused(self._runs.memory, run, _read(event))
        memory = self._runs.memory
        own = after_calls(memory, run, calls) if calls else ""
        # Of hints those about tools of MCP servers, if runs called any.
        served = [tool for tool in sorted(memory.mirror(run.namespace).called()) if tool.startswith("mcp__")]
        hint = ""
        if served:
            hint = without_repeats(self._runs.prompt(run, tools=served), run.shown_texts)
        return "\n".join(filter(None, (own, hint)))

    def _denied(self, run: LiveRun, event: Object) -> str:
        """Why memory denies the call that is about to be made, which is recorded as refused; "" if it may run."""
        read = _read(event)
        denial = run.session.denial(command_name(read.name, read.arguments), read.arguments)
        if denial is None:
            return ""
        self._keep(run, read, denial.text, refused=True)
        return denial.text

    def _record(self, run: LiveRun, events: Sequence[Object]) -> list[ToolCall]:
        """Record the calls of a turn that no event reported before; these."""
        calls: list[ToolCall] = []
        # All are read first: nothing is recorded of an event with a part that cannot be.
        for event, read in [(event, _read(event)) for event in events]:
            if read.id is not None and read.id in run.reported:
                continue
            response: Any = event.get("tool_response")
            result = response if isinstance(response, str) else json.dumps(response)
            interrupted = event.get("is_interrupt") is True
            if is_object(response):
                interrupted = response.get("interrupted") is True
            error = _text(event, "error")
            is_error = bool(error) or event.get("hook_event_name") == "PostToolUseFailure"
            together = bool(calls or run.failed)
            call = self._keep(run, read, error or result, error=is_error, refused=interrupted, together=together)
            calls.append(call)
        return calls

    def _keep(
        self,
        run: LiveRun,
        read: OpenCall,
        result: str,
        *,
        error: bool | None = None,
        refused: bool = False,
        together: bool = False,
    ) -> ToolCall:
        """Record a call that an event reported."""
        id = str(read.id or "")
        refused = refused or (error is True and is_refusal(result))
        name = called_name(command_name(read.name, read.arguments), read.arguments)
        call = ToolCall(name, read.arguments, result, error, refused=refused)
        run.session.record(call.name, call.arguments, result, error=error, refused=refused, together=together, id=id)
        run.reported.add(id)
        return call


def _calls_in(event: Object) -> Objects:
    listed = event.get("tool_calls")
    if not is_list(listed):
        raise InputError(f'"tool_calls" is {kind_of(listed)}, not a list')
    for at, call in enumerate(listed):
        if not is_object(call):
            raise InputError(f'"tool_calls"[{at}] is {kind_of(call)}, not an object')
    return listed


def _read(event: Object) -> OpenCall:
    """The call that an event reports; InputError says what of it cannot be recorded."""
    name = _text(event, "tool_name")
    if not 0 < len(name.strip()) <= MAX_NAME:
        raise InputError(f'a "tool_name" has {len(name):,} characters: a call has a name of 1 to {MAX_NAME}')
    read = OpenCall(event.get("tool_use_id"), name, event.get("tool_input"))
    try:
        check_calls([Turn("assistant", calls=(ToolCall(name, read.arguments),))])
    except (RecordError, ValueError, RecursionError) as error:
        raise InputError(f"the call of {name!r} cannot be recorded: {error}") from error
    return read


def _text(event: Object, name: str) -> str:
    """A text of an event; "" if it is missing, and InputError if it is no text."""
    value = event.get(name)
    if not isinstance(value, str | None):
        raise InputError(f'"{name}" is {kind_of(value)}, not a string')
    return value or ""
