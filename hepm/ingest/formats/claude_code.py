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
    plain_text,
    text_at,
    value_at,
)
from hepm.ingest.formats.coding_session import CodingSession, with_whole_responses
from hepm.ingest.formats.document import Document, Reader
from hepm.ingest.formats.parts import call_in
from hepm.ingest.formats.refusals import is_refusal
from hepm.ingest.formats.turns import chat_calls
from hepm.ingest.records import Items, filled
from hepm.types import Object

CLAUDE_CODE: Final = "claude-code"

# What the program writes in the user's name.
_COMMANDS: Final = ("<command-name>", "<command-message>", "<local-command", "<bash-", "Caveat: The messages below")
_ABOUT_AGENT: Final = ".meta.json"


def _recognises(document: Document) -> bool:
    """A transcript, the output of `claude -p --output-format stream-json`, or a file that lies beside transcripts."""
    keys, name, kind = document.keys, document.file_name, value_at(document.first, "type")
    if name == "sessions-index.json" or (name.endswith(_ABOUT_AGENT) and "agentType" in keys):
        return True
    if {"sessionId", "uuid", "message", "type"} <= keys:
        return True
    if "session_id" in keys and kind in ("system", "user", "assistant", "result"):
        return bool({"message", "subtype"} & keys)
    # A transcript may hold nothing but records that are no messages.
    others = ("summary", "system", "progress", "attachment", "queue-operation", "file-history-snapshot")
    return kind in others and not document.is_list and bool(keys & {"sessionId", "leafUuid", "messageId"})


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
            if record.get("subtype") == "init":
                id = _session_id(record)
                self._known(id, id).folder = text_at(record, "cwd")
            return
        session = self._session_of(record)
        if uuid:
            self._of_record[uuid] = session
        if queued:
            session.say("user", queued, session.mark(record.get("timestamp"), f"{uuid} {queued}"))
            return
        message = object_at(record, "message")
        session.folder = session.folder or text_at(record, "cwd")
        if record["type"] == "user":
            _take_user(record, message.get("content"), session)
        elif message.get("model") != "<synthetic>":  # "API Error: …", which no model said
            session.model = session.model or text_at(message, "model")
            _take_response(message, text_at(message, "id") or uuid, record, session)

    def _session_of(self, record: Object) -> CodingSession:
        id, agent = _session_id(record), text_at(record, "agentId|parent_tool_use_id")
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
            self._by_key[key] = CodingSession(id, agent)
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
        session.messages = with_whole_responses(session.messages)
        if session.messages:
            tags = filled(subagent=session.agent and (kind or session.agent))
            yield document.built(session.agent or 1, {}, partial(session.run, CLAUDE_CODE, document, tags))


def _session_id(record: Object) -> str:
    """The session of a record. Of a copy in a fork that it was copied from: both are one run."""
    return text_at(record, "forkedFrom.sessionId|sessionId|session_id")


def _queued(record: Object) -> str:
    """What the user typed while the agent worked; "" if the record holds nothing of that."""
    attached = record.get("attachment")
    # Others are such as the end of a task in the background.
    if not is_object(attached) or attached.get("type") != "queued_command" or attached.get("commandMode") != "prompt":
        return ""
    return user_text(plain_text(attached.get("prompt")))


def _take_user(record: Object, content: Any, session: CodingSession) -> None:
    said: list[str] = []
    others: list[Any] = []
    for block in _blocks(content):
        if block.get("type") == "tool_result":
            said.append(_take_result(record, block, session))
        else:
            others.append(block)
    text = plain_text(others if is_list(content) else content)
    if text.lstrip().startswith("[Request interrupted by user"):
        for id, result in list(session.results.items()):
            if result is None:
                session.answer(id, None, refused=True)
        text = ""
    if not record.get("isCompactSummary"):
        said.append(user_text(text))
    text = "\n".join(filter(None, said))
    # A copy under another uuid has the time of the first one.
    time = text_at(record, "timestamp")
    mark = session.mark(time, f"{time or text_at(record, 'uuid')} {text}")
    if text and not (time and (time, text) in session.seen):
        session.say("user", text, mark)
        session.seen.add((time, text))


def user_text(text: str) -> str:
    """What the user wrote in a message; "" if the program wrote it in the user's name."""
    text = without_reminders(text).strip()
    return "" if text.startswith(_COMMANDS) else text


def without_reminders(text: str) -> str:
    """A text without what Claude Code reminds the model of."""
    return re.sub(r"(?s)<(system-reminder|ide_\w+)>.*?</\1>\s*", "", text)


def _take_result(record: Object, block: Object, session: CodingSession) -> str:
    """Give a result to its call; what the user said when refusing the call."""
    id = text_at(block, "tool_use_id")
    # Results of the calls of a copied or compacted part have no call here, or it has its own.
    if session.results.get(id, block) is not None:
        return ""
    text = plain_text(block.get("content"))
    error = bool(block.get("is_error"))
    outcome = record.get("toolUseResult")
    interrupted = is_object(outcome) and outcome.get("interrupted") is True
    refused = interrupted or bool(record.get("toolDenialKind")) or outcome == "User rejected tool use"
    session.answer(id, text, error=error, refused=refused)
    if refused or (error and is_refusal(text)):
        # What the user said then stands in the result, with a note of the program behind it.
        return text.partition("the user said:\n")[2].partition("\n\nNote: ")[0].strip()
    return ""


def _blocks(content: Any) -> Objects:
    """The typed parts of a message; none of a plain text."""
    return list(filter(is_object, content)) if is_list(content) else []


def _take_response(message: Object, response: str, record: Object, session: CodingSession) -> None:
    """Take a part of a response: it comes in several records, one for each block, and its calls are parallel."""
    content = message.get("content")
    calls = [call_in(block) for block in _blocks(content) if block.get("type") == "tool_use"]
    if is_list(content):
        content = [block for block in _blocks(content) if block.get("type") == "text"]
    text = plain_text(content)
    chat_calls({"tool_calls": calls})  # which refuses one without a name
    for call in calls:
        session.results.setdefault(str(call["id"]), None)
    if (response, text) in session.seen:
        text = ""
    session.seen.add((response, text))
    mark = session.mark(record.get("timestamp"), response)
    session.say("assistant", text, mark, tool_calls=calls, response=response)


READER: Final = Reader(CLAUDE_CODE, _recognises, _read_transcript, command_names=True)
