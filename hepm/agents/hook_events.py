"""Events of the hooks of coding agents, in the form of Claude Code's: one table says where each agent keeps what."""

from __future__ import annotations

import re
from typing import Any, Final

from hepm.agents.wire import Object
from hepm.ingest.fields import is_list, is_object, value_at
from hepm.ingest.formats.parts import result_text
from hepm.ingest.shell.parser import is_shell

CLAUDE_CODE: Final = "claude-code"

AGENTS: Final = frozenset({CLAUDE_CODE, "gemini-cli", "qwen-code", "copilot", "cline", "opencode"})
"""Agents whose hooks are answered, by the names that their transcripts have as environment."""

UNHEARD: Final = frozenset({("gemini-cli", "PreToolUse")})
"""Events at which an agent reads a denial, and no context."""

UNDENIED: Final = frozenset({"cline"})
"""Agents that end their task at a call that a hook refuses, rather than go on without it."""

_KINDS: Final = {
    # Gemini CLI
    "BeforeAgent": "UserPromptSubmit",
    "BeforeTool": "PreToolUse",
    "AfterTool": "PostToolUse",
    "AfterAgent": "Stop",
    # Cline: its command line, and its extension where that has names of its own
    "prompt_submit": "UserPromptSubmit",
    "tool_call": "PreToolUse",
    "tool_result": "PostToolUse",
    "agent_end": "Stop",
    "TaskComplete": "Stop",
    "session_shutdown": "SessionEnd",
    # No batch reports the call again.
    "PostToolUseFailure": "PostToolUse",
}
_KEYS: Final = {
    "session_id": "session_id|sessionContext.rootSessionId|taskId",
    "cwd": "cwd|workspaceInfo.rootPath",
    "prompt": "prompt|userPromptSubmit.prompt",
    "tool_name": "tool_name|tool_call.name|tool_result.name|preToolUse.toolName|postToolUse.toolName",
    "tool_input": "tool_input|tool_call.input|tool_result.input|preToolUse.parameters|postToolUse.parameters",
    "tool_use_id": "tool_use_id|tool_call.id|tool_result.id",
    "tool_response": (
        "tool_response.llmContent|tool_result.text_result_for_llm|tool_result.output|postToolUse.result|tool_response"
    ),
    "error": "error|tool_response.error.message|tool_response.error|tool_result.error",
    "is_interrupt": "is_interrupt",
    "last_assistant_message": "last_assistant_message|prompt_response|turn.outputText",
}


def kind_of_event(event: Object) -> str:
    """The name that an agent gives to an event, which its answer repeats."""
    return str(value_at(event, "hook_event_name|hookName") or "")


def as_claude_code(event: Object) -> Object:
    """An event of another agent with the names and keys of Claude Code's hooks; a call that failed has its `error`."""
    kind = kind_of_event(event)
    translated: Object = {"hook_event_name": _KINDS.get(kind, kind)}
    for key, path in _KEYS.items():
        value = value_at(event, path)
        if value is not None:
            translated[key] = value
    if translated["hook_event_name"] == "UserPromptSubmit" and not translated.get("prompt"):
        # Qwen Code sends one before each request of a turn, too.
        translated["hook_event_name"] = ""
    if translated["hook_event_name"] == "PostToolUse":
        translated["tool_response"] = result_text(translated.get("tool_response")) or ""
        error = result_text(translated.pop("error", None))
        if error or kind == "PostToolUseFailure" or _failed(event, translated):
            translated["error"] = error or translated["tool_response"] or "error"
    return translated


def _failed(event: Object, translated: Object) -> bool:
    """Whether a call failed whose agent does not say it in words: by a flag, or by what a shell printed last."""
    results: Any = value_at(event, "tool_result.output")
    if is_list(results) and results:  # of Cline, one for each command
        return all(is_object(result) and result.get("success") is False for result in results)
    if value_at(event, "postToolUse.success") is False:
        return True
    if not is_shell(str(translated.get("tool_name") or "")):
        return False
    codes = re.findall("(?:Exit Code: |exit code |exited with code )([0-9]+)", translated["tool_response"])
    return bool(codes) and codes[-1].strip("0") != ""


def for_agents(answer: Object, event: Object) -> Object:
    """An answer with the keys of all agents, each of which reads its own."""
    said: Any = answer.get("hookSpecificOutput")
    if said is None:
        return answer
    reason = said.get("permissionDecisionReason")
    own: Object = {"context": said.get("additionalContext")}
    if reason:
        own = {"decision": "deny", "reason": reason}
    return {**own, **said, "hookSpecificOutput": {**said, "hookEventName": kind_of_event(event)}}
