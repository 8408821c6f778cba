"""What coding agents keep of their sessions: transcripts of Claude Code, and rollouts of Codex.

Both formats are internal to their programs and grow with them, so that records of unknown types are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from hepm.ingest import fields
from hepm.ingest.formats.chat import OpenCall, TurnBuilder, chat_turns
from hepm.ingest.formats.document import Document, Reader, built
from hepm.ingest.formats.openai_items import item_messages
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


class _Message(NamedTuple):
    """What the user wrote, or a part of a model's response."""

    response: str
    """The response that it is a part of; "" for a user's message."""
    text: str


@dataclass(slots=True)
class _Session:
    """One session as it is read: a transcript may hold its sub-agents, too."""

    id: str = ""
    messages: list[_Message] = field(default_factory=list[_Message])
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
    first = document.first
    file_name = document.file_name
    if file_name == "sessions-index.json" or (file_name.endswith(_ABOUT_AGENT) and "agentType" in document.keys):
        return True
    has_type = fields.is_object(first) and first.get("type") in _OTHER_RECORDS
    return has_type and not document.is_list and bool(document.keys & {"sessionId", "leafUuid", "messageId"})


def _read_transcript(document: Document, options: ReadOptions) -> Iterator[Item]:
    sessions: dict[str, _Session] = {}
    for number, value in document.records():
        try:
            if isinstance(value, RecordError):
                raise value
            record = fields.as_object(value, "the record")
            # Others hold a copy of a message, too ("api-request-blob").
            if record.get("type") in ("user", "assistant") and record.get("uuid") and not record.get("isMeta"):
                agent = fields.text(record, "agentId")
                if not agent and record.get("isSidechain"):  # versions before agents had ids
                    agent = "side"
                _take(record, sessions.setdefault(agent, _Session()))
        except RecordError as error:
            yield document.rejected(number, str(error))
    for agent, session in sessions.items():
        if any(message.text or message.response for message in session.messages):
            build = partial(_run, agent=agent, session=session, document=document, options=options)
            yield built(document.name, agent or 1, {}, build)


def _take(record: Object, session: _Session) -> None:
    uuid = fields.text(record, "uuid")
    message = fields.object_at(record, "message")
    if uuid in session.seen:
        return
    session.seen.add(uuid)
    # A session that goes on in another file begins with a copy of the first one's records.
    session.id = fields.text(record, "sessionId") or session.id
    session.folder = session.folder or fields.text(record, "cwd")
    session.ended_at = fields.unix_time(record.get("timestamp")) or session.ended_at
    if record["type"] == "user":
        text = _take_results(message.get("content"), session)
        text = _REMINDER.sub("", text).strip()
        if text and not text.startswith(_COMMANDS) and not record.get("isCompactSummary"):
            session.messages.append(_Message("", text))
        return
    if message.get("model") == _SYNTHETIC:  # "API Error: …", which no model said
        return
    session.model = session.model or fields.text(message, "model")
    _take_response(message, fields.text(message, "id") or uuid, session)


def _take_results(content: Any, session: _Session) -> str:
    """Take the results in a message of the user; the text beside them."""
    blocks = _blocks(content)
    if not blocks:
        return fields.plain_text(content)
    text_parts: list[Object] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            result = fields.plain_text(block.get("content"))
            session.results.append((fields.text(block, "tool_use_id"), result, bool(block.get("is_error"))))
        else:
            text_parts.append(block)
    return fields.plain_text(text_parts)


def _blocks(content: Any) -> list[Object]:
    """The typed parts of a message; none of a plain text."""
    if not fields.is_list(content):
        return []
    return [part for part in content if fields.is_object(part)]


def _take_response(message: Object, response: str, session: _Session) -> None:
    """Take a part of a response: it comes in several records, one for each block, and its calls are parallel."""
    content = message.get("content")
    blocks = _blocks(content)
    if blocks:
        content = [block for block in blocks if block.get("type") == "text"]
    text = fields.plain_text(content)
    calls: list[OpenCall] = []
    for block in blocks:
        if block.get("type") == "tool_use":
            calls.append(OpenCall(block.get("id"), block.get("name"), block.get("input")))
    if text or calls:
        session.messages.append(_Message(response, text))
    session.calls.setdefault(response, []).extend(calls)


def _run(_: Object, *, agent: str, session: _Session, document: Document, options: ReadOptions) -> Trajectory:
    texts: dict[str, list[str]] = {}
    for message in session.messages:
        if message.response and message.text:
            texts.setdefault(message.response, []).append(message.text)
    builder = TurnBuilder()
    added: set[str] = set()
    for message in session.messages:
        response = message.response
        if not response:
            builder.add("user", message.text, [])
        elif response not in added:
            added.add(response)
            builder.add("assistant", "\n".join(texts.get(response, ())), session.calls.get(response, []))
    call_ids: set[str | None] = set()
    for calls in session.calls.values():
        call_ids.update([call.id for call in calls])
    for id, text, failed in session.results:
        # Results of the calls of a copied or compacted part have no call here; by their order they would find another.
        if id in call_ids:
            builder.add_result(id, text, failed)
    tags: dict[str, str] = {}
    own_id = session.id
    if agent:
        tags["subagent"] = _kind_of_agent(document) or agent
        own_id = "/".join(filter(None, (session.id, agent)))
    return _coding_run(CLAUDE_CODE, own_id, builder.build(), session, document, options, tags)


def _kind_of_agent(document: Document) -> str:
    """The kind of a sub-agent, which a file beside its transcript names; "" if there is none."""
    try:
        content = document.source.sibling(document.source.path.stem + _ABOUT_AGENT) or b"{}"
        about = DECODER.decode(content.decode())
        if fields.is_object(about):
            return fields.text(about, "agentType")
    except (RecordError, ValueError, RecursionError):
        pass  # a sub-agent of unknown kind is named by its id
    return ""


def _coding_run(
    agent: str,
    id: str,
    turns: tuple[Turn, ...],
    session: _Session,
    document: Document,
    options: ReadOptions,
    tags: dict[str, str],
) -> Trajectory:
    # By either separator: the transcript may come from Windows.
    project = re.split(r"[/\\]", session.folder.rstrip("/\\"))[-1]
    if project:
        tags = {"project": project, **tags}
    return identified(
        id if options.ids == "own" else "",
        turns,
        Outcome(),
        environment=agent,  # as the hooks of running agents call it: what one learns, the other may use
        model=session.model,
        ended_at=session.ended_at,
        tags=tags,
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
            id = item.get("call_id")
            if type(id) is not str:
                id = ""
            if item.get("type") == "message" and is_context(item):
                continue
            if id in self.commands:
                if "output" not in item:  # the script's own output repeats those of its commands
                    yield from self._commands_of(id)
            elif id in self.failed and "output" in item:
                yield {**item, "is_error": self.failed[id]}
            else:
                yield item

    def _commands_of(self, script: str) -> Iterator[Object]:
        """A call and its output for each command of a script."""
        for number, command in enumerate(self.commands[script]):
            call: Object = {
                "call_id": f"{script}/{number}",
                "is_error": self.failed.get(fields.text(command, "call_id", "id")),
            }
            arguments = {"command": command.get("command")}
            yield {**call, "type": "function_call", "name": "exec_command", "arguments": arguments}
            output = fields.plain_text(command.get("aggregated_output"))
            yield {**call, "type": "function_call_output", "output": output}


def _read_rollout(document: Document, options: ReadOptions) -> Iterator[Item]:
    session = _Session()
    rollout = _Rollout()
    for number, value in document.records():
        try:
            if isinstance(value, RecordError):
                raise value
            record = fields.as_object(value, "the record")
            session.ended_at = fields.unix_time(record.get("timestamp")) or session.ended_at
            kind = record.get("type")
            payload = fields.object_at(record, "payload")
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

    def build(_: Object) -> Trajectory:
        return _coding_run(CODEX, session.id, chat_turns(messages), session, document, options, {})

    if messages:
        yield built(document.name, 1, {}, build)


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
            if fields.is_object(metadata):
                code = metadata.get("exit_code")
            output = fields.plain_text(parsed["output"])
    else:
        # "Exit code: 1\nWall time: 0.2 seconds\nOutput:\n…"
        match = _EXIT_CODE.search(output[:200])
        if match:
            code = int(match[1])
            output = _OUTPUT.split(output, maxsplit=1)[-1]
    item = {**payload, "output": output}
    if type(code) is int:
        item["is_error"] = code != 0
    return item


CLAUDE_CODE_READER: Final = Reader(
    CLAUDE_CODE, lambda it: _is_transcript(it) or _is_other_record(it), _read_transcript, command_names=True
)
CODEX_READER: Final = Reader(CODEX, _is_rollout, _read_rollout, command_names=True)
