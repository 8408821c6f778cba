"""Transcripts of Claude Code. The format grows with the program: records of unknown types are skipped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from hepm.ingest import fields
from hepm.ingest.formats.coding_session import CodingSession, SessionMessage, coding_run
from hepm.ingest.formats.document import Document, Reader, built
from hepm.ingest.formats.turns import OpenCall, TurnBuilder
from hepm.ingest.records import DECODER, Item, Object, ReadOptions, RecordError
from hepm.types import Trajectory

CLAUDE_CODE: Final = "claude-code"

# What the program writes in the user's name, and what its hooks and reminders add to a message.
_COMMANDS: Final = ("<command-name>", "<command-message>", "<local-command", "<bash-", "Caveat: The messages below")
_REMINDER: Final = re.compile(r"<(system-reminder|ide_\w+)>.*?</\1>\s*", re.DOTALL)
_SYNTHETIC: Final = "<synthetic>"
_ABOUT_AGENT: Final = ".meta.json"
_OTHER_RECORDS: Final = ("summary", "system", "progress", "attachment", "queue-operation", "file-history-snapshot")


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
    sessions: dict[str, CodingSession] = {}
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
                _take(record, sessions.setdefault(agent, CodingSession()))
        except RecordError as error:
            yield document.rejected(number, str(error))
    for agent, session in sessions.items():
        if any(message.text or message.response for message in session.messages):
            build = partial(_run, agent=agent, session=session, document=document, options=options)
            yield built(document.name, agent or 1, {}, build)


def _take(record: Object, session: CodingSession) -> None:
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
            session.messages.append(SessionMessage("", text))
        return
    if message.get("model") == _SYNTHETIC:  # "API Error: …", which no model said
        return
    session.model = session.model or fields.text(message, "model")
    _take_response(message, fields.text(message, "id") or uuid, session)


def _take_results(content: Any, session: CodingSession) -> str:
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


def _take_response(message: Object, response: str, session: CodingSession) -> None:
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
        session.messages.append(SessionMessage(response, text))
    session.calls.setdefault(response, []).extend(calls)


def _run(_: Object, *, agent: str, session: CodingSession, document: Document, options: ReadOptions) -> Trajectory:
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
    return coding_run(CLAUDE_CODE, own_id, builder.build(), session, document, options, tags)


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


READER: Final = Reader(
    CLAUDE_CODE, lambda it: _is_transcript(it) or _is_other_record(it), _read_transcript, command_names=True
)
