"""Session records of programs and libraries: a row of `PROGRAMS` says where each keeps what, and one reader reads all.

Their messages and events become OpenAI chat messages by a table of kinds, and a session a chat record.
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
    parsed_json,
    plain_text,
    text_at,
    value_at,
)
from hepm.ingest.formats.chat import read_record
from hepm.ingest.formats.coding_session import project_of, with_whole_responses
from hepm.ingest.formats.document import Document, Reader
from hepm.ingest.formats.message_layouts import chat_messages
from hepm.ingest.formats.parts import counting_unread, spread, status_of, unread_parts
from hepm.ingest.records import PROJECT, Items, RecordError, UnknownFile, filled
from hepm.types import Object, Trajectory

_FIRST: Final = 20
# Keys that no record has: a sub-agent, the first events of the file, the name of its folder.
_GROUP, _FILE, _FOLDER = "hepm:group", "hepm:file", "hepm:folder"


class EventKind(NamedTuple):
    """Where a kind of message or event keeps what. A path is "a.b" for b inside a, "a|b" for the first that is there.

    Attributes:
        role: Whose it is; a path with a dot leads to it.
        text: Path to a text, or to parts.
        calls: Path to a list of calls, or of results, or to the one call or result; "." for the event itself.
        part: The kind of part that these are (see `hepm.ingest.formats.parts`).
        status: How the call ended, where the kind says so.
    """

    role: str
    text: str = ""
    calls: str = ""
    part: str = "tool_call"
    status: str = ""


class Program(NamedTuple):
    """Where a program keeps what, by paths as in `EventKind`.

    Attributes:
        marks: Sets of paths, each of which a record of this program has all of.
        read: The chat messages in the messages or events of a session.
        messages: Path to them; where a record has none, each line or element of the file is one.
        id, task, model, folder, user, ended, success: Paths in the record, or else in its messages.
        agent: Whether it is a coding agent, whose shell calls are named by their programs.
        group: Path in an event to what distinguishes a sub-agent's events.
        grows: Whether later records of a file repeat the conversation of earlier ones.
        whole: The record with its messages, where it keeps them elsewhere.
        file: The name of its files, where that and no key distinguishes them.
    """

    name: str
    marks: tuple[str, ...]
    read: Callable[[Objects], Objects]
    messages: str = "messages"
    id: str = "-"
    task: str = "-"
    model: str = "model"
    folder: str = "-"
    user: str = "-"
    ended: str = "timestamp"
    success: str = "-"
    agent: bool = True
    group: str = "-"
    grows: bool = False
    whole: Callable[[Object], Object] = lambda record: record
    file: str = ""


def _reader(program: Program) -> Reader:
    def recognises(document: Document) -> bool:
        record = document.first
        if is_list(record) and record:
            record = record[0]
        if program.file and document.file_name == program.file:
            return True
        return any(all(value_at(record, path) is not None for path in mark.split()) for mark in program.marks)

    return Reader(program.name, recognises, partial(_read, program), command_names=program.agent)


def _read(program: Program, document: Document) -> Items:
    alone: Objects = []
    records: list[tuple[int, Object]] = []

    def build(record: Object) -> Trajectory:
        return _run(program, record, document)

    for number, value in document.records():
        record = {"messages": value} if is_list(value) else value
        if not is_object(record):
            yield document.built(number, record, build)  # which says why it is none
        elif program.grows or is_list(value_at(record, program.messages)):
            records.append((number, record))
        else:
            alone.append(record)
    if alone and not (document.is_list or document.is_lines):
        reason = f"it is one message or event of {program.name}: export the whole session into a file"
        yield UnknownFile(document.name, None, reason)
        return
    if program.grows:
        records = _last_of_each(program, records)
    groups: dict[str, Objects] = {}
    for element in alone:
        groups.setdefault(str(value_at(element, program.group) or ""), []).append(element)
    for number, record in records:
        yield document.built(number, record, build)
    for group, elements in groups.items():
        # The first events, of no group, say what all have in common.
        record = {"messages": elements, _GROUP: group, _FILE: alone[:_FIRST], _FOLDER: document.path.parent.name}
        yield document.built(group or 1, record, build)


def _elements(program: Program, record: Object) -> Objects:
    found = value_at(record, f"{program.messages}|messages")
    return [as_object(element, "a message") for element in as_list(found, "the list of messages")]


def _run(program: Program, record: Object, document: Document) -> Trajectory:
    record = program.whole(record)
    elements = _elements(program, record)
    messages = program.read(elements)
    if not any(message.get("role") == "assistant" for message in messages):
        raise RecordError("it holds no message of the agent")
    sources = (record, *elements, *record.get(_FILE, ()))

    def first(path: str) -> Any:
        found = (value_at(source, path) for source in sources)
        return next((value for value in found if isinstance(value, str | int)), "")

    environment = value_at(record, "environment|appName|app_name")
    if program.agent:
        environment = program.name
    subagent = "" if program.group == program.id else record.get(_GROUP, "")
    run_id = str(first(program.id))
    if run_id and subagent:
        run_id = f"{run_id}/{subagent}"
    chat: Object = {
        document.options.success_key: value_at(record, program.success),
        **record,
        "id": run_id,
        "task": "",
        "task_id": first(program.task),
        "model": first(program.model),
        "user": first(program.user),
        "messages": messages,
        "environment": environment,
        "tags": filled(**{"subagent": subagent, PROJECT: project_of(str(first(program.folder)))}),
        "ended_at": first_time(reversed([record, *elements]), program.ended),
        "tools": value_at(record, "tools"),
    }
    return read_record(chat, document)


def _last_of_each(program: Program, records: list[tuple[int, Object]]) -> list[tuple[int, Object]]:
    """Each conversation once, as its longest record holds it, under the id of its first."""
    whole: dict[int, tuple[int, Object]] = {}  # by a hash of the conversation to its end
    passed: set[int] = set()  # hashes of conversations that go on in another record
    for number, record in records:
        marks = _marks(program, record) or [hash((number, id(record)))]
        before = next((whole.pop(mark) for mark in reversed(marks[:-1]) if mark in whole), None)
        if before is not None:
            record = {**record, "id": value_at(before[1], f"id|{program.id}")}  # noqa: PLW2901
        if marks[-1] not in passed:
            whole.setdefault(marks[-1], (number, record))
        passed.update(marks[:-1])
    return list(whole.values())


def _marks(program: Program, record: Object) -> list[int]:
    """A hash of the conversation up to each of its messages; none if it cannot be read, which is said later."""
    marks: list[int] = []
    before = 0
    try:
        with counting_unread():  # which is not said here
            messages = program.read(_elements(program, program.whole(record)))
        for message in messages:
            calls = [value_at(call, "id|function.name") for call in list_at(message, "tool_calls")]
            before = hash(f"{before} {message.get('role')} {message.get('content') or ''} {calls}")
            marks.append(before)
    except RecordError:
        return []
    return marks


def _events(
    kind_of: Callable[[Object], str], kinds: Mapping[str, EventKind], silent: str, elements: Objects
) -> Objects:
    """The messages of all events by a table of their kinds. Those that `silent` matches say nothing."""
    messages: Objects = []
    for element in elements:
        name = kind_of(element)
        kind = kinds.get(name)
        if kind is not None:
            messages += _messages_of(element, kind)
        elif not re.fullmatch(silent, name):
            unread_parts()[name] += 1
    return with_whole_responses(messages)


def _messages_of(element: Object, kind: EventKind) -> Objects:
    content = value_at(element, kind.text or "-")
    if not is_list(content):
        content = [content]
    parts = [part for part in content if part is not None]
    calls: Any = element
    if kind.calls != ".":
        calls = value_at(element, kind.calls or "-") or []
    if is_object(calls):
        calls = [calls]
    status: Object = {"status": kind.status} if kind.status else {}
    for call in as_list(calls, "the list of calls"):
        parts.append({**as_object(call, "a call"), **status, "type": kind.part})
    if not parts:
        return []
    role = kind.role
    if "." in role:
        role = value_at(element, role)
    response = element.get("llm_response_id")
    return [{**message, "response": response} for message in spread({"role": role, "content": parts})]


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
    return _events(_type_of, kinds, "info|error|warning", list(by_id.values()))


def _of_qwen_code(elements: Objects) -> Objects:
    """The branch that leads to the last message: a rewound session keeps what was taken back."""
    uuids = {str(element.get("uuid")) for element in elements}
    branch: Objects = []
    wanted: Any = ""
    for element in reversed(elements):
        if wanted == "" or element.get("uuid") == wanted:
            branch.append(element)
            wanted = element.get("parentUuid", "")
            if wanted is not None and str(wanted) not in uuids:  # its line is damaged: the one before it, then
                wanted = ""
    messages: Objects = []
    kind = EventKind("message.role", "message.parts")
    for element in reversed(branch):
        if element.get("type") == "system":
            continue
        read = _messages_of(element, kind)
        about_call = element.get("toolCallResult")
        for message in read:
            if message["role"] == "tool" and is_object(about_call):
                message["is_error"], message["refused"] = status_of(about_call)
        messages += read
    return with_whole_responses(messages)


def _type_of(element: Object) -> str:
    return text_at(element, "type")


_OPENHANDS: Final = {
    "MessageEvent": EventKind("llm_message.role", "llm_message.content"),
    "SystemPromptEvent": EventKind("system", "system_prompt.text|system_prompt"),
    "ActionEvent": EventKind("assistant", "thought", "."),
    "ObservationEvent": EventKind("user", "", ".", "tool_result"),
    "AgentErrorEvent": EventKind("user", "", ".", "tool_result", "error"),
    "UserRejectObservation": EventKind("user", "", ".", "tool_result", "rejected"),
}


_CLINE_NOTES: Final = re.compile(
    r"<environment_details>(?:(?!<environment_details>).)*?</environment_details>|</?(?:task|feedback|user_message)>",
    re.DOTALL,
)


def _of_cline(elements: Objects) -> Objects:
    """Messages of Cline and its forks, without what the program adds to those of the user."""
    messages: Objects = []
    for element in elements:
        for message in spread({"role": element.get("role"), "content": element.get("content")}):
            text = plain_text(message.get("content"))
            if message["role"] == "user":
                text = _CLINE_NOTES.sub("", text).strip()
            if message["role"] != "user" or text:
                messages.append({**message, "content": text})
    return messages


def _adk_kind(event: Object) -> str:
    if event.get("partial") or not is_object(event.get("content")):
        return "nothing"
    if event["content"].get("role") is not None:
        return "said"
    return "user" if event.get("author") == "user" else "model"


def _litellm_record(record: Object) -> Object:
    """A request to a model with its response, as one conversation."""
    request = parsed_json(record.get("proxy_server_request"))
    request = value_at(request, "body") or request
    given = chat_messages(parsed_json(record.get("messages"))) or chat_messages(request)
    answer = chat_messages(parsed_json(record.get("response")), "assistant")
    tools = value_at(request, "tools") or value_at(record, "model_parameters.tools|tools")
    return {**record, "tools": tools, "messages": given + answer}


def _of_messages(elements: Objects) -> Objects:
    messages: Objects = []
    for message in chat_messages(elements):
        messages += spread(message)
    return messages


PROGRAMS: Final = (
    Program(
        "gemini-cli", ("sessionId projectHash",), _of_gemini_cli,
        id="sessionId", folder="cwd", ended="timestamp|lastUpdated",
    ),
    Program(
        "qwen-code", ("sessionId message.parts", "sessionId systemPayload", "sessionId toolCallResult"), _of_qwen_code,
        id="sessionId", folder="cwd", group="sessionId",
    ),
    Program(
        "opencode", ("info.id messages", "info.sessionID parts"),
        partial(_events, lambda message: "message", {"message": EventKind("info.role", "parts")}, ""),
        id="info.sessionID|info.id", model="info.modelID|info.model.modelID", folder="info.directory|info.path.cwd",
        ended="info.time.completed|info.time.updated|info.time.created",
    ),
    Program(
        "copilot", ("type data id timestamp",),
        partial(
            _events, _type_of,
            {
                "user.message": EventKind("user", "data.content"),
                "system.message": EventKind("system", "data.content"),
                "assistant.message": EventKind("assistant", "data.content", "data.toolRequests"),
                "tool.execution_start": EventKind("assistant", "", "data"),
                "tool.execution_complete": EventKind("user", "", "data", "tool_result"),
            },
            r"(session|hook|subagent|permission|skill|external_tool|elicitation|user_input|command|sampling|mcp)\..*|abort"
            r"|assistant\.(turn|usage|reasoning|intent|streaming|message_delta).*|system\.notification|pending_messages.*"
            r"|tool\.(execution_progress|execution_partial.*|user_requested)",
        ),
        id="data.sessionId", model="data.selectedModel|data.newModel|data.model", folder="data.context.cwd",
        group="data.parentToolCallId",
    ),
    Program(
        "openhands", ("source kind id timestamp", "history instance_id"),
        partial(
            _events, lambda event: text_at(event, "kind"), _OPENHANDS,
            r"ConversationStateUpdateEvent|ConversationErrorEvent|Condensation\w*|\w*LogEvent|TokenEvent|PauseEvent"
            r"|InterruptEvent|\w*DeltaEvent|HookExecutionEvent",
        ),
        messages="history|events", id="instance_id", task="instance_id", model="metadata.llm_config.model",
        success="report.resolved|test_result.report.resolved",
    ),
    Program("cline", (), _of_cline, id=_FOLDER, file="api_conversation_history.json", ended="ts"),
    Program(
        "adk", ("appName events", "app_name events"),
        partial(
            _events, _adk_kind,
            {
                "said": EventKind("content.role", "content.parts"),
                "user": EventKind("user", "content.parts"),
                "model": EventKind("assistant", "content.parts"),
            },
            "nothing",
        ),
        messages="events", id="id", user="userId|user_id", model="modelVersion|model_version", agent=False,
        ended="timestamp|lastUpdateTime|last_update_time",
    ),
    Program(
        "langgraph", ("values.messages", "channel_values.messages", "checkpoint.channel_values.messages"),
        _of_messages, messages="values.messages|channel_values.messages|checkpoint.channel_values.messages",
        id="thread_id|config.configurable.thread_id|metadata.thread_id", agent=False, grows=True,
        ended="created_at|updated_at|ts|checkpoint.ts",
    ),
    Program(
        "litellm", ("messages response", "proxy_server_request response"), _of_messages,
        id="id|request_id", user="end_user|user|metadata.user_id|metadata.user_api_key_end_user_id",
        agent=False, grows=True, whole=_litellm_record, ended="endTime|end_time|startTime",
    ),
)  # fmt: skip
"""The narrower ones first; the last one after all other formats."""

READERS: Final = tuple(map(_reader, PROGRAMS))
