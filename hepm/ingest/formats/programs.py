"""Sessions of coding agents: a row of `PROGRAMS` says where each keeps what, and one reader reads all.

Their messages and events become OpenAI chat messages by a table of kinds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from hepm.ingest.fields import (
    Objects,
    as_list,
    as_object,
    first_time,
    is_list,
    is_object,
    list_at,
    plain_text,
    text_at,
    value_at,
)
from hepm.ingest.formats.coding_session import project_of, with_whole_responses
from hepm.ingest.formats.document import Document, Reader
from hepm.ingest.formats.parts import spread, unread_parts
from hepm.ingest.formats.turns import chat_turns
from hepm.ingest.records import PROJECT, Items, RecordError, Rejection, filled
from hepm.types import Object, Outcome, Trajectory


class EventKind(NamedTuple):
    """Where a kind of message or event keeps what: paths as `value_at` reads them.

    Attributes:
        role: Whose it is; a path with a dot leads to it.
        text: Path to a text, or to parts.
        calls: Path to a list of calls, or of results, or to the one call or result.
        part: The kind of part that these are (see `hepm.ingest.formats.parts`).
    """

    role: str
    text: str = "-"
    calls: str = "-"
    part: str = "tool_call"


class Program(NamedTuple):
    """Where a program keeps what, by paths as in `EventKind`.

    Attributes:
        marks: Sets of paths, each of which a record of this program has all of.
        read: The chat messages in the messages or events of a session.
        id, model, folder, ended: Paths in the record, or else in its messages.
        group: Path in an event to what distinguishes a sub-agent's events.
        file: The name of its files, where that and no key distinguishes them: their folder's name is the id.
    """

    name: str
    marks: tuple[str, ...]
    read: Callable[[Objects], Objects]
    id: str = "-"
    model: str = "model"
    folder: str = "-"
    ended: str = "timestamp"
    group: str = "-"
    file: str = ""


def _reader(program: Program) -> Reader:
    def recognises(document: Document) -> bool:
        record = document.first
        if is_list(record) and record:
            record = record[0]
        if program.file:
            return document.file_name == program.file
        return any(all(value_at(record, path) is not None for path in mark.split()) for mark in program.marks)

    return Reader(program.name, recognises, partial(_read, program), command_names=True)


def _is_alone(value: Any) -> bool:
    """Whether it is a message or an event, and no record with a list of them."""
    return is_object(value) and not is_list(value.get("messages"))


def _read(program: Program, document: Document) -> Items:
    """A run of each record with messages, and one of all messages or events of a group that stand alone in the file."""
    if _is_alone(document.first) and not (document.is_list or document.is_lines):
        reason = f"it is one message or event of {program.name}: export the whole session into a file"
        yield Rejection(document.name, None, reason)
        return
    yield from document.conversations(
        _is_alone,
        lambda record: _run(program, record, document),
        lambda element: str(value_at(element, program.group) or ""),
    )


def _run(program: Program, record: Object, document: Document) -> Trajectory:
    elements = [as_object(element, "a message") for element in as_list(record["messages"], "the list of messages")]
    messages = program.read(elements)
    if not any(message.get("role") == "assistant" for message in messages):
        raise RecordError("it holds no message of the agent")

    def first(path: str) -> str:
        # The first events of a file say what all of its sessions have in common.
        for source in (record, *elements, *list_at(record, "file")[:20]):
            found = value_at(source, path)
            if isinstance(found, str | int):
                return str(found)
        return ""

    id = document.path.parent.name if program.file else first(program.id)
    subagent = record.get("group", "")
    return document.run(
        f"{id}/{subagent}" if id and subagent else id,
        chat_turns(messages),
        Outcome(),
        environment=program.name,
        model=first(program.model),
        ended_at=first_time(reversed([record, *elements]), program.ended),
        tags=filled(**{"subagent": subagent, PROJECT: project_of(first(program.folder))}),
    )


def _events(path: str, kinds: Mapping[str, EventKind], silent: str, elements: Objects) -> Objects:
    """The messages of all events by a table of their kinds, which are at a path. What `silent` matches says nothing."""
    messages: Objects = []
    for element in elements:
        name = text_at(element, path)
        kind = kinds.get(name)
        if kind is not None:
            messages += _messages_of(element, kind)
        elif not re.fullmatch(silent, name):
            unread_parts()[name] += 1
    return with_whole_responses(messages)


def _messages_of(element: Object, kind: EventKind) -> Objects:
    content = value_at(element, kind.text)
    parts = [part for part in (content if is_list(content) else [content]) if part is not None]
    calls: Any = value_at(element, kind.calls) or []
    for call in as_list([calls] if is_object(calls) else calls, "the list of calls"):
        parts.append({**as_object(call, "a call"), "type": kind.part})
    role = value_at(element, kind.role) if "." in kind.role else kind.role
    return spread({"role": role, "content": parts}) if parts else []


def _of_gemini_cli(elements: Objects) -> Objects:
    """A line may repeat a message that has grown, take back what came from one on, or replace all messages."""
    by_id: dict[str, Object] = {}
    for element in elements:
        checkpoint = value_at(element, "$set.messages")
        if "$rewindTo" in element:
            ids = list(by_id)
            target = element["$rewindTo"]
            start = ids.index(target) if target in ids else 0
            for id in ids[start:]:
                del by_id[id]
        elif is_list(checkpoint):
            numbered = enumerate(checkpoint)
            by_id = {str(message.get("id") or number): message for number, message in numbered if is_object(message)}
        elif "type" in element:
            by_id[str(element.get("id") or len(by_id))] = element
    kinds = {"user": EventKind("user", "content"), "gemini": EventKind("assistant", "content", "toolCalls", "tool")}
    return _events("type", kinds, "info|error|warning", list(by_id.values()))


def _of_cline(elements: Objects) -> Objects:
    """Messages of Cline and its forks, without what the program adds to those of the user."""
    details = r"<environment_details>(?:(?!<environment_details>).)*?</environment_details>"
    messages: Objects = []
    for element in elements:
        for message in spread({"role": element.get("role"), "content": element.get("content")}):
            text = plain_text(message.get("content"))
            if message["role"] == "user":
                text = re.sub(rf"(?s){details}|</?(?:task|feedback|user_message)>", "", text).strip()
            if message["role"] != "user" or text:
                messages.append({**message, "content": text})
    return messages


PROGRAMS: Final = (
    Program(
        "gemini-cli", ("sessionId projectHash",), _of_gemini_cli,
        id="sessionId", folder="cwd", ended="timestamp|lastUpdated",
    ),
    Program(
        "opencode", ("info.id messages", "info.sessionID parts"),
        partial(_events, "-", {"": EventKind("info.role", "parts")}, ""),
        id="info.sessionID|info.id", model="info.modelID|info.model.modelID", folder="info.directory|info.path.cwd",
        ended="info.time.completed|info.time.updated|info.time.created",
    ),
    Program(
        "copilot", ("type data id timestamp",),
        partial(
            _events, "type",
            {
                "user.message": EventKind("user", "data.content"),
                "system.message": EventKind("system", "data.content"),
                "assistant.message": EventKind("assistant", "data.content", "data.toolRequests"),
                "tool.execution_start": EventKind("assistant", calls="data"),
                "tool.execution_complete": EventKind("user", calls="data", part="tool_result"),
            },
            r"(session|hook|subagent|permission|skill|external_tool|elicitation|user_input|command|sampling|mcp)\..*|abort"
            r"|assistant\.(turn|usage|reasoning|intent|streaming|message_delta).*|system\.notification|pending_messages.*"
            r"|tool\.(execution_progress|execution_partial.*|user_requested)",
        ),
        id="data.sessionId", model="data.selectedModel|data.newModel|data.model", folder="data.context.cwd",
        group="data.parentToolCallId",
    ),
    Program("cline", (), _of_cline, file="api_conversation_history.json", ended="ts"),
)  # fmt: skip

READERS: Final = tuple(map(_reader, PROGRAMS))
