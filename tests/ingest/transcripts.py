"""Small transcripts and rollouts in the layouts of coding agents, made up for these tests."""

from __future__ import annotations

from typing import Any

from tests.ingest.golden import values

Record = dict[str, Any]

SESSION = "0b8e6c1a-0000-4000-8000-000000000001"


def claude(kind: str, uuid: str, content: Any, **more: Any) -> Record:
    """One record of a Claude Code transcript; `id` is that of the model's response."""
    message: Record = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {"id": more.pop("id"), "type": "message", "model": more.pop("model", "some-model"), "usage": {}}
    return {
        "type": kind, "uuid": uuid, "parentUuid": None, "sessionId": SESSION, "isSidechain": False, "cwd": "/w/shop",
        "timestamp": f"2026-03-04T05:06:{int(uuid, 36) % 60:02}.000Z", "message": message, **more,
    }  # fmt: skip


def use(id: str, name: str, **arguments: Any) -> list[Record]:
    """The content of a record with a call."""
    return [{"type": "tool_use", "id": id, "name": name, "input": arguments}]


def result(id: str, text: Any, **more: Any) -> list[Record]:
    """The content of a record with a result."""
    return [{"type": "tool_result", "tool_use_id": id, "content": text, **more}]


CLAUDE_CODE: list[Record] = values("claude-code", "session.jsonl")
CODEX: list[Record] = values("codex", "rollout.jsonl")


def item(kind: str, **more: Any) -> Record:
    """One record of a Codex rollout with an item of the Responses API."""
    return {"timestamp": "2026-03-04T05:06:07.123Z", "type": "response_item", "payload": {"type": kind, **more}}


def said(role: str, text: str) -> Record:
    """One record with a message."""
    return item("message", role=role, content=[{"type": "input_text", "text": text}])
