"""What coding agents keep of their sessions: transcripts of Claude Code, and rollouts of Codex.

Both formats are internal to their programs and grow with them, so that records of unknown types are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from hepm.ingest import fields
from hepm.ingest.chat import OpenCall, TurnBuilder, chat_turns
from hepm.ingest.document import Document, Reader, built
from hepm.ingest.openai_items import item_messages
from hepm.ingest.records import DECODER, Item, Object, ReadOptions, RecordError, identified
from hepm.types import Outcome, Trajectory, Turn

CLAUDE_CODE: Final = "claude-code"
CODEX: Final = "codex"

# Claude Code: what the program writes in the user's name, and what its hooks and reminders add to a message.
_COMMANDS: Final = ("<command-name>", "<command-message>", "<local-command", "<bash-", "Caveat: The messages below")
_REMINDER: Final = re.compile(r"<(system-reminder|ide_\w+)>.*?</\1>\s*", re.DOTALL)
_SYNTHETIC: Final = "<synthetic>"
_ABOUT_AGENT: Final = ".meta.json"
_OTHER_RECORDS: Final = ("summary", "system", "progress", "attachment", "queue-operation", "file-history-snapshot")

# Codex: the first messages of the user hold what the program says of the machine and the repository.
_CONTEXT: Final = ("<environment_context>", "<user_instructions>", "<permissions", "# AGENTS.md instructions", "<skill")
_EXIT_CODE: Final = re.compile(r"^(?:Exit code:|Process exited with code) *(-?\d+)", re.MULTILINE)
_OUTPUT: Final = re.compile(r"^Output:\n", re.MULTILINE)
_CODE_MODE: Final = "exec"


@dataclass(slots=True)
class _Session:
    """One session as it is read: a transcript may hold its sub-agents, too."""

    id: str = ""
    said: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    calls: dict[str, list[OpenCall]] = field(default_factory=dict[str, list[OpenCall]])
    results: list[tuple[str, str, bool]] = field(default_factory=list[tuple[str, str, bool]])
    seen: set[str] = field(default_factory=set[str])
    model: str = ""
    folder: str = ""
    ended_at: float | None = None


def _is_transcript(document: Document) -> bool:
    keys = document.keys
    return {"sessionId", "uuid", "message"} <= keys and "type" in keys


def _is_other_record(document: Document) -> bool:
    """A transcript may hold nothing but records that are no messages, and other files lie beside the transcripts."""
    first, name = document.first, document.file_name
    if name == "sessions-index.json" or (name.endswith(_ABOUT_AGENT) and "agentType" in document.keys):
        return True
    known = fields.is_object(first) and first.get("type") in _OTHER_RECORDS
    return known and not document.is_list and bool(document.keys & {"sessionId", "leafUuid", "messageId"})


def _read_transcript(document: Document, options: ReadOptions) -> Iterator[Item]:
    sessions: dict[str, _Session] = {}
    for number, value in document.records():
        try:
            if isinstance(value, RecordError):
                raise value
            record = fields.as_object(value, "the record")
            # Others hold a copy of a message, too ("api-request-blob").
            if record.get("type") in ("user", "assistant") and record.get("uuid") and not record.get("isMeta"):
                agent = fields.text(record, "agentId") or ("side" if record.get("isSidechain") else "")
                _take(record, sessions.setdefault(agent, _Session()))
        except RecordError as error:
            yield document.rejected(number, str(error))
    for agent, session in sessions.items():
        if any(text or key for _, key, text in session.said):
            yield built(document.name, agent or 1, {}, lambda _, a=agent, s=session: _run(a, s, document, options))


def _take(record: Object, session: _Session) -> None:
    uuid, message = fields.text(record, "uuid"), fields.object_at(record, "message")
    if uuid in session.seen:
        return
    session.seen.add(uuid)
    # A session that goes on in another file begins with a copy of the first one's records.
    session.id = fields.text(record, "sessionId") or session.id
    session.folder = session.folder or fields.text(record, "cwd")
    session.ended_at = fields.unix_time(record.get("timestamp")) or session.ended_at
    content = message.get("content")
    blocks = [part for part in content if fields.is_object(part)] if fields.is_list(content) else []
    if record["type"] == "user":
        for block in blocks:
            if block.get("type") == "tool_result":
                result = fields.plain_text(block.get("content"))
                session.results.append((fields.text(block, "tool_use_id"), result, bool(block.get("is_error"))))
        said = [part for part in blocks if part.get("type") != "tool_result"] if blocks else content
        text = _REMINDER.sub("", fields.plain_text(said)).strip()
        if text and not text.startswith(_COMMANDS) and not record.get("isCompactSummary"):
            session.said.append(("user", "", text))
        return
    if message.get("model") == _SYNTHETIC:  # "API Error: …", which no model said
        return
    session.model = session.model or fields.text(message, "model")
    # A response comes in several records, one for each block. Its calls are parallel.
    key = fields.text(message, "id") or uuid
    text = fields.plain_text([part for part in blocks if part.get("type") == "text"] if blocks else content)
    calls = [OpenCall(b.get("id"), b.get("name"), b.get("input")) for b in blocks if b.get("type") == "tool_use"]
    if text or calls:
        session.said.append(("assistant", key, text))
    session.calls.setdefault(key, []).extend(calls)


def _run(agent: str, session: _Session, document: Document, options: ReadOptions) -> Trajectory:
    texts: dict[str, list[str]] = {}
    for _, key, text in session.said:
        if key and text:
            texts.setdefault(key, []).append(text)
    builder, added = TurnBuilder(), set[str]()
    for _, key, text in session.said:
        if not key:
            builder.add("user", text, [])
        elif key not in added:
            added.add(key)
            builder.add("assistant", "\n".join(texts.get(key, ())), session.calls.get(key, []))
    known = {call.id for calls in session.calls.values() for call in calls}
    for id, text, failed in session.results:
        if id in known:
            builder.add_result(id, text, failed)
    more = {"subagent": _kind_of_agent(document) or agent} if agent else {}
    own_id = "/".join(filter(None, (session.id, agent)))
    return _coding_run(CLAUDE_CODE, own_id, builder.build(), session, document, options, more)


def _kind_of_agent(document: Document) -> str:
    """The kind of a sub-agent, which a file beside its transcript names; "" if there is none."""
    try:
        about = DECODER.decode((document.source.sibling(document.source.path.stem + _ABOUT_AGENT) or b"{}").decode())
        return fields.text(about, "agentType") if fields.is_object(about) else ""
    except (RecordError, ValueError, RecursionError):
        return ""


def _coding_run(
    agent: str,
    id: str,
    turns: tuple[Turn, ...],
    session: _Session,
    document: Document,
    options: ReadOptions,
    more: dict[str, str],
) -> Trajectory:
    project = re.split(r"[/\\]", session.folder.rstrip("/\\"))[-1]
    return identified(
        id if options.ids == "own" else "",
        turns,
        Outcome(),
        environment=agent,  # as the hooks of running agents call it: what one learns, the other may use
        model=session.model,
        ended_at=session.ended_at,
        tags={**({"project": project} if project else {}), **more},
        source=document.name,
    )


def _is_rollout(document: Document) -> bool:
    first = document.first
    return (
        {"type", "payload", "timestamp"} <= document.keys
        and fields.is_object(first)
        and (first["type"] in ("session_meta", "response_item", "event_msg", "turn_context", "compacted"))
    )


@dataclass(slots=True)
class _Rollout:
    """A rollout as it is read: items of the Responses API, and what events say of the commands in them."""

    items: list[Object] = field(default_factory=list[Object])
    failed: dict[str, bool] = field(default_factory=dict[str, bool])
    script: str = ""
    commands: dict[str, list[Object]] = field(default_factory=dict[str, list[Object]])

    def add(self, payload: Object) -> None:
        """Take an item."""
        item = _codex_item(payload)
        self.items.append(item)
        id = item.get("call_id")
        if item.get("name") == _CODE_MODE and type(id) is str:
            self.script = id
        elif "output" in item and id == self.script:
            self.script = ""

    def note(self, event: Object) -> None:
        """Take an exit code, and a command that a script runs: "code mode" hides many in one call of `exec`."""
        item = event.get("item")
        if event.get("type") == "item_completed" and fields.is_object(item) and item.get("type") == "CommandExecution":
            if self.script:
                self.commands.setdefault(self.script, []).append(item)
            event = {**item, "call_id": fields.text(item, "call_id", "id")}
        elif event.get("type") != "exec_command_end":
            return
        if type(event.get("exit_code")) is int:
            self.failed[fields.text(event, "call_id")] = event["exit_code"] != 0

    def conversation(self) -> Iterator[Object]:
        """The items, with the commands of a script in its place."""
        for item in self.items:
            id = item.get("call_id") if type(item.get("call_id")) is str else ""
            if item.get("type") == "message" and is_context(item):
                continue
            if id not in self.commands:
                yield item | ({"is_error": self.failed[id]} if id in self.failed and "output" in item else {})
            elif "output" not in item:
                for number, command in enumerate(self.commands[id]):
                    call: Object = {
                        "call_id": f"{id}/{number}",
                        "is_error": self.failed.get(fields.text(command, "call_id", "id")),
                    }
                    yield {
                        **call,
                        "type": "function_call",
                        "name": "exec_command",
                        "arguments": {"command": command.get("command")},
                    }
                    yield {
                        **call,
                        "type": "function_call_output",
                        "output": fields.plain_text(command.get("aggregated_output")),
                    }


def _read_rollout(document: Document, options: ReadOptions) -> Iterator[Item]:
    session, rollout = _Session(), _Rollout()
    for number, value in document.records():
        try:
            if isinstance(value, RecordError):
                raise value
            record = fields.as_object(value, "the record")
            session.ended_at = fields.unix_time(record.get("timestamp")) or session.ended_at
            kind, payload = record.get("type"), fields.object_at(record, "payload")
            if kind == "session_meta":
                session.id = session.id or fields.text(payload, "id")
                session.folder = session.folder or fields.text(payload, "cwd")
            elif kind == "turn_context":
                session.model = session.model or fields.text(payload, "model")
            elif kind == "response_item":
                rollout.add(payload)
            elif kind == "event_msg":
                rollout.note(payload)
        except RecordError as error:
            yield document.rejected(number, str(error))
    try:
        messages = item_messages(list(rollout.conversation()))
    except RecordError as error:
        yield document.rejected(None, str(error))
        return
    if messages:
        yield built(
            document.name,
            1,
            {},
            lambda _: _coding_run(CODEX, session.id, chat_turns(messages), session, document, options, {}),
        )


def is_context(item: Object) -> bool:
    """Whether a message of the user holds what Codex says of the machine and the repository."""
    return item.get("role") == "user" and fields.plain_text(item.get("content")).lstrip().startswith(_CONTEXT)


def _codex_item(payload: Object) -> Object:
    """An item of a rollout, with its output as text, and whether its command failed."""
    output = payload.get("output")
    if type(output) is not str:
        return payload
    code: Any = None
    if output.startswith("{"):
        try:
            parsed = DECODER.decode(output)
        except (ValueError, RecursionError):
            parsed = None
        if fields.is_object(parsed) and "output" in parsed:
            metadata = parsed.get("metadata")
            code = metadata.get("exit_code") if fields.is_object(metadata) else None
            output = fields.plain_text(parsed["output"])
    elif match := _EXIT_CODE.search(output[:200]):
        code = int(match[1])
        output = _OUTPUT.split(output, maxsplit=1)[-1]
    return {**payload, "output": output} | ({"is_error": code != 0} if type(code) is int else {})


CLAUDE_CODE_READER: Final = Reader(
    CLAUDE_CODE, lambda it: _is_transcript(it) or _is_other_record(it), _read_transcript, command_names=True
)
CODEX_READER: Final = Reader(CODEX, _is_rollout, _read_rollout, command_names=True)
