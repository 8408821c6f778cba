"""Transcripts of Claude Code, and what `claude -p --output-format stream-json` prints.

The format grows with the program: records of unknown types are skipped.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Final

from hepm.ingest.fields import (
    Objects,
    is_list,
    is_object,
    object_at,
    objects_at,
    plain_text,
    text_at,
)
from hepm.ingest.formats.coding_session import CodingSession, SessionTurn, coding_run
from hepm.ingest.formats.document import Document, Reader
from hepm.ingest.formats.turns import OpenCall, TurnBuilder
from hepm.ingest.records import Items, filled
from hepm.types import Object, Trajectory, TurnMark

CLAUDE_CODE: Final = "claude-code"

# What the program writes in the user's name, and what its hooks and reminders add to a message.
_COMMANDS: Final = ("<command-name>", "<command-message>", "<local-command", "<bash-", "Caveat: The messages below")
_REMINDER: Final = re.compile(r"<(system-reminder|ide_\w+)>.*?</\1>\s*", re.DOTALL)
_SYNTHETIC: Final = "<synthetic>"
_INTERRUPTED: Final = "[Request interrupted by user"
_REJECTED: Final = "User rejected tool use"
# What the user said when refusing a call stands in its result, with a note of the program behind it.
_SAID: Final = "the user said:\n"
_NOTE: Final = "\n\nNote: "
_ABOUT_AGENT: Final = ".meta.json"
_STREAMED: Final = ("system", "user", "assistant", "result")
_OTHER_RECORDS: Final = ("summary", "system", "progress", "attachment", "queue-operation", "file-history-snapshot")


def _is_transcript(document: Document) -> bool:
    keys = document.keys
    return {"sessionId", "uuid", "message"} <= keys and "type" in keys


def _is_stream(document: Document) -> bool:
    """Whether it is the output of `claude -p --output-format stream-json`."""
    first = document.first
    return (
        is_object(first)
        and "session_id" in first
        and first.get("type") in _STREAMED
        and bool({"message", "subtype"} & first.keys())
    )


def _is_other_record(document: Document) -> bool:
    """A transcript may hold nothing but records that are no messages, and other files lie beside the transcripts."""
    first = document.first
    file_name = document.file_name
    if file_name == "sessions-index.json" or (file_name.endswith(_ABOUT_AGENT) and "agentType" in document.keys):
        return True
    has_type = is_object(first) and first.get("type") in _OTHER_RECORDS
    return has_type and not document.is_list and bool(document.keys & {"sessionId", "leafUuid", "messageId"})


class _Transcript:
    """The sessions of one file: concatenated ones, and the sub-agents among them.

    A record belongs to the session of its parent; without a known one, to that of its `sessionId`. A session that goes
    on in another file begins with a copy of the first one, and its own records have parents in it: both are one run,
    under the id of the first.
    """

    def __init__(self) -> None:
        self.sessions: list[CodingSession] = []
        self._by_key: dict[str, CodingSession] = {}  # by session id, "/" and the id of an agent
        self._of_record: dict[str, CodingSession] = {}  # by uuid

    def take(self, record: Object) -> None:
        """Take a record: a message, or what the user typed while the agent worked."""
        uuid = text_at(record, "uuid")
        # Others hold a copy of a message, too ("api-request-blob").
        is_message = record.get("type") in ("user", "assistant") and bool(uuid)
        if uuid in self._of_record or (is_message and (record.get("isMeta") or record.get("isSynthetic"))):
            return
        queued = _queued(record)
        if not is_message and not queued:
            parent = self._of_record.get(text_at(record, "parentUuid"))
            if uuid and parent is not None:
                self._of_record[uuid] = parent  # a link in the chain of messages
            if record.get("type") == "result":
                _take_denials(record, self._by_key.get(_session_id(record)))
            elif record.get("subtype") == "init":
                id = _session_id(record)
                self._known(id, id).folder = text_at(record, "cwd")
            return
        session = self._session_of(record)
        if uuid:
            self._of_record[uuid] = session
        if queued:
            _take_queued(queued, record, session)
        else:
            _take(record, session)

    def _session_of(self, record: Object) -> CodingSession:
        id, agent = _session_id(record), text_at(record, "agentId", "parent_tool_use_id")
        if record.get("isSidechain") and not agent:
            agent = "side"  # of versions before agents had ids
        if agent:
            return self._known(f"/{agent}", id, agent)
        parent = self._of_record.get(text_at(record, "parentUuid"))
        if parent is None:
            return self._known(id, id)
        return parent if parent.agent else self._by_key.setdefault(id, parent)

    def _known(self, key: str, id: str, agent: str = "") -> CodingSession:
        if key not in self._by_key:
            self._by_key[key] = CodingSession(id=id, agent=agent)
            self.sessions.append(self._by_key[key])
        return self._by_key[key]


def _read_transcript(document: Document) -> Items:
    transcript = _Transcript()
    yield from document.take(transcript.take)
    kind = ""
    if any(session.agent for session in transcript.sessions):
        # A sub-agent of unknown kind is named by its id.
        kind = str(document.beside(document.path.stem + _ABOUT_AGENT).get("agentType") or "")
    for session in transcript.sessions:
        if session.turns:
            build = partial(_run, session=session, kind=kind, document=document)
            yield document.built(session.agent or 1, {}, build)


def _session_id(record: Object) -> str:
    """The session of a record. Of a copy in a fork that it was copied from: both are one run."""
    return text_at(object_at(record, "forkedFrom"), "sessionId") or text_at(record, "sessionId", "session_id")


def _queued(record: Object) -> str:
    """What the user typed while the agent worked; "" if the record holds nothing of that."""
    if record.get("type") == "queue-operation" and record.get("operation") == "remove":
        return user_text(plain_text(record.get("content")))
    attached = record.get("attachment")
    if not is_object(attached) or attached.get("type") != "queued_command":
        return ""
    if attached.get("commandMode") != "prompt":  # such as the end of a task in the background
        return ""
    return user_text(plain_text(attached.get("prompt")))


def _take_queued(text: str, record: Object, session: CodingSession) -> None:
    """Take such a text: once, where both an attachment and an operation of the queue hold it."""
    kind = str(record.get("type"))
    session.queued[text, kind] += 1
    if session.queued[text, kind] > session.queued[text, ""]:
        session.queued[text, ""] += 1
        mark = session.mark(record.get("timestamp"), f"{session.queued[text, '']} {text}")
        session.hear(text, mark)


def _take_denials(record: Object, session: CodingSession | None) -> None:
    """Take the calls that were not allowed, which the last record of `claude -p` lists."""
    for denial in objects_at(record, "permission_denials", "a denial"):
        call = session and session.by_id.get(text_at(denial, "tool_use_id"))
        if call:
            call.refused = True


def _take(record: Object, session: CodingSession) -> None:
    message = object_at(record, "message")
    session.folder = session.folder or text_at(record, "cwd")
    if record["type"] == "user":
        _take_user(record, message.get("content"), session)
    elif message.get("model") != _SYNTHETIC:  # "API Error: …", which no model said
        session.model = session.model or text_at(message, "model")
        response = text_at(message, "id") or text_at(record, "uuid")
        _take_response(message, response, session, session.mark(record.get("timestamp"), response))


def _take_user(record: Object, content: Any, session: CodingSession) -> None:
    blocks = _blocks(content)
    others: Objects = []
    said: list[str] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            said.append(_take_result(record, block, session))
        else:
            others.append(block)
    text = plain_text(others if blocks else content)
    if text.lstrip().startswith(_INTERRUPTED):
        for call in session.waiting:
            call.refused = call.refused or call.result is None
        session.waiting.clear()
        text = ""
    if not record.get("isCompactSummary"):
        said.append(user_text(text))
    text = "\n".join(filter(None, said))
    # A copy under another uuid has the time of the first one.
    time = text_at(record, "timestamp")
    mark = session.mark(time, f"{time or text_at(record, 'uuid')} {text}")
    if text and not (time and (time, text) in session.seen):
        session.hear(text, mark)
        session.seen.add((time, text))


def user_text(text: str) -> str:
    """What the user wrote in a message; "" if the program wrote it in the user's name."""
    text = without_reminders(text).strip()
    return "" if text.startswith(_COMMANDS) else text


def without_reminders(text: str) -> str:
    """A text without what Claude Code reminds the model of."""
    return _REMINDER.sub("", text)


def _take_result(record: Object, block: Object, session: CodingSession) -> str:
    """Give a result to its call; what the user said when refusing the call."""
    call = session.by_id.get(text_at(block, "tool_use_id"))
    # Results of the calls of a copied or compacted part have no call here, or it has its own.
    if call is None or call.result is not None:
        return ""
    call.result = plain_text(block.get("content"))
    call.error = bool(block.get("is_error"))
    outcome = record.get("toolUseResult")
    interrupted = is_object(outcome) and outcome.get("interrupted") is True
    call.refused = interrupted or bool(record.get("toolDenialKind")) or outcome == _REJECTED
    refused = call.made()
    if refused is None or not refused.refused:
        return ""
    return call.result.partition(_SAID)[2].partition(_NOTE)[0].strip()


def _blocks(content: Any) -> Objects:
    """The typed parts of a message; none of a plain text."""
    if not is_list(content):
        return []
    return [part for part in content if is_object(part)]


def _take_response(message: Object, response: str, session: CodingSession, mark: TurnMark | None) -> None:
    """Take a part of a response: it comes in several records, one for each block, and its calls are parallel."""
    content = message.get("content")
    blocks = _blocks(content)
    text = plain_text([block for block in blocks if block.get("type") == "text"] if blocks else content)
    calls: list[OpenCall] = []
    for block in blocks:
        if block.get("type") != "tool_use":
            continue
        call = OpenCall(block.get("id"), block.get("name"), block.get("input"))
        if call.id in session.by_id:
            continue
        calls.append(call)
        session.waiting.append(call)
        if call.id:
            session.by_id[call.id] = call
    if text and (response, text) not in session.seen:
        session.seen.add((response, text))
        session.turns.setdefault(response, SessionTurn("assistant", mark)).texts.append(text)
    if calls:
        session.turns.setdefault(response, SessionTurn("assistant", mark)).calls.extend(calls)


def _run(_: Object, *, session: CodingSession, kind: str, document: Document) -> Trajectory:
    builder = TurnBuilder()
    for turn in session.turns.values():
        builder.add(turn.role, "\n".join(turn.texts), turn.calls, mark=turn.mark)
    own_id = "/".join(filter(None, (session.id, session.agent)))
    tags = filled(subagent=session.agent and (kind or session.agent))
    return coding_run(CLAUDE_CODE, own_id, builder.build(), session, document, tags)


READER: Final = Reader(
    CLAUDE_CODE,
    lambda it: _is_transcript(it) or _is_stream(it) or _is_other_record(it),
    _read_transcript,
    command_names=True,
)
