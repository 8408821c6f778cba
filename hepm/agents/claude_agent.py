"""Memory for the Claude Agent SDK: `ClaudeAgentOptions(hooks=HepmHooks(memory).hooks)`."""

# pyright: basic, reportMissingImports=false
# The environment of the type check lacks this framework.
from __future__ import annotations

import asyncio
from typing import Any, Final

from claude_agent_sdk import HookMatcher

from hepm.agents.adapter import fail_open
from hepm.agents.claude_code import ClaudeCode
from hepm.agents.runs import LiveRuns
from hepm.memory import Memory
from hepm.types import DEFAULT_NAMESPACE

_EVENTS: Final = ("UserPromptSubmit", "PreToolUse", "PostToolBatch", "PostToolUseFailure", "Stop", "SessionEnd")


class HepmHooks:
    """Gives agents hints after each prompt and each turn of tool calls, and records their sessions.

    One object serves any number of sessions. `finish` gives a session its outcome; one that ends or rests before is
    stored, and may get it later.

    Args:
        idle_s: A session that rests for so long is stored when another one ends.
    """

    def __init__(self, memory: Memory, *, namespace: str = DEFAULT_NAMESPACE, idle_s: float = 1_800.0) -> None:
        self.runs = LiveRuns(memory, idle_s=idle_s)
        self.hooks: dict[Any, list[HookMatcher]] = {
            event: [HookMatcher(hooks=[self._answer], timeout=5.0)] for event in _EVENTS
        }
        self._claude = ClaudeCode(self.runs)
        self._namespace = namespace

    def finish(self, session_id: str, *, success: bool | None = None, reward: float | None = None) -> None:
        """Store a session with its outcome. `ResultMessage.session_id` names it.

        Raises:
            InputError: no such session is known, or it has another outcome.
            StoreError: the store cannot be written.
        """
        self.runs.finish(session_id, namespace=self._namespace, success=success, reward=reward)
        self.runs.store_idle()

    async def _answer(self, event: Any, tool_use_id: str | None, context: Any) -> Any:
        with fail_open("goes on without a hook"):
            return await asyncio.to_thread(self._claude.answer, dict(event), self._namespace)
        return {}
