"""Rollouts of Codex, and what `codex exec --json` prints.

The format grows with the program: records of unknown types are skipped.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from hepm.ingest.fields import Objects, is_object, object_at, parsed_json, plain_text, text_at, unix_time, value_at
from hepm.ingest.formats.coding_session import CodingSession
from hepm.ingest.formats.document import Document, Reader
from hepm.ingest.formats.parts import REFUSED, item_messages
from hepm.ingest.records import Items, RecordError
from hepm.types import Object

CODEX: Final = "codex"

# The first messages of the user hold what the program says of the machine and the repository.
_CONTEXT: Final = ("<environment_context>", "<user_instructions>", "<permissions", "# AGENTS.md instructions", "<skill")
_EXIT_CODE: Final = re.compile(r"^(?:Exit code:|Process exited with code) *(-?\d+)", re.MULTILINE)
_OUTPUT: Final = re.compile(r"^Output:\n", re.MULTILINE)
_CODE_MODE: Final = "exec"
_PRINTED: Final = ("thread.", "turn.", "item.")
_PRINTED_CALLS: Final = {
    "command_execution": ("exec_command", "command"),
    "file_change": ("apply_patch", "changes"),
    "web_search": ("web_search", "query"),
}
"""Of what `codex exec --json` prints, the tool's name in rollouts, and the keys of its arguments."""


def _is_rollout(document: Document) -> bool:
    first = document.first
    if is_object(first) and str(first.get("type")).startswith(_PRINTED):
        return bool({"thread_id", "item", "usage"} & first.keys()) or len(first) == 1
    return (
        {"type", "payload", "timestamp"} <= document.keys
        and is_object(first)
        and (first["type"] in ("session_meta", "response_item", "event_msg", "turn_context", "compacted"))
    )


@dataclass(slots=True)
class _Rollout:
    """A rollout as it is read: items of the Responses API, and what events say of the commands in them."""

    session: CodingSession = field(default_factory=CodingSession)
    begun_at: float = 0.0
    items: Objects = field(default_factory=Objects)
    declined: set[object] = field(default_factory=set[object])
    """Ids of calls that events say were refused."""
    open_calls: dict[str, str] = field(default_factory=dict[str, str])
    """Those without an output: the types of their items, by their ids."""
    script: str = ""
    commands: dict[str, Objects] = field(default_factory=dict[str, Objects])

    def add(self, payload: Object, at: Any) -> None:
        """Take an item of some time."""
        item = _codex_item(payload)
        self.items.append({**item, "at": at})
        id = item.get("call_id")
        if isinstance(id, str) and "output" in item:
            self.open_calls.pop(id, None)
        elif isinstance(id, str):
            self.open_calls[id] = text_at(item, "type")
        if item.get("name") == _CODE_MODE and isinstance(id, str):
            self.script = id
        elif "output" in item and id == self.script:
            self.script = ""

    def note(self, event: Object) -> None:
        """Take a refusal, and a command that a script runs: "code mode" hides many in one call of `exec`."""
        kind = text_at(event, "type")
        item = event.get("item")
        if not is_object(item):
            item = event
        if kind == "turn_aborted":
            for id, call in self.open_calls.items():
                self.items.append({"type": f"{call}_output", "call_id": id, "output": "", "status": "aborted"})
            self.open_calls.clear()
        elif str(item.get("status")).lower() in REFUSED:
            self.declined.add(text_at(item, "call_id|id"))
        if kind == "item_completed" and self.script and item.get("type") == "CommandExecution":
            self.commands.setdefault(self.script, []).append(item)

    def conversation(self) -> Iterator[Object]:
        """The items, with the commands of a script in its place."""
        for item in self.items:
            id = str(item.get("call_id"))
            if item.get("type") == "message" and is_context(item):
                continue
            if id in self.commands:
                if "output" not in item:  # the script's own output repeats those of its commands
                    yield from self._commands_of(id)
            elif "output" in item and id in self.declined:
                yield {**item, "status": "declined"}
            else:
                yield item

    def _commands_of(self, script: str) -> Iterator[Object]:
        """A call and its output for each command of a script."""
        for number, command in enumerate(self.commands[script]):
            call: Object = {"call_id": f"{script}/{number}", "at": command.get("at")}
            arguments = {"command": command.get("command")}
            yield {**call, "type": "function_call", "name": "exec_command", "arguments": arguments}
            answer: Object = {"type": "function_call_output", "output": plain_text(command.get("aggregated_output"))}
            if text_at(command, "call_id|id") in self.declined:
                answer["status"] = "declined"
            if type(command.get("exit_code")) is int:
                answer["is_error"] = command["exit_code"] != 0
            yield {**call, **answer}

    def begins_anew(self, meta: Object) -> bool:
        """Whether the description of a session is of another one. A fork holds a copy of its origin: both are one run,
        under the id of the origin."""
        id, at = text_at(meta, "id"), unix_time(meta.get("timestamp")) or self.begun_at
        return bool(self.session.id) and id not in ("", self.session.id) and at >= self.begun_at

    def begin(self, meta: Object) -> None:
        """Take the description of the session."""
        session = self.session
        self.begun_at = self.begun_at or unix_time(meta.get("timestamp")) or 0.0
        if meta.get("forked_from_id"):
            self.begun_at = math.inf
        session.id = text_at(meta, "forked_from_id|id")
        session.folder = session.folder or text_at(meta, "cwd")


def _read_rollout(document: Document) -> Items:
    rollouts = [_Rollout()]
    yield from document.take(lambda record: _take(record, rollouts))
    for rollout in rollouts:
        try:
            messages = item_messages(list(rollout.conversation()))
        except RecordError as error:
            yield document.rejected(None, str(error))
            continue
        times: Counter[str] = Counter()
        for message in messages:
            said = f"{message.get('role')} {message.get('content')}"
            times[said] += 1
            message["mark"] = rollout.session.mark(message.get("at"), f"{times[said]} {said}")
        if messages:
            rollout.session.messages = messages
            yield document.built(1, {}, partial(rollout.session.run, CODEX, document, {}))


def _take(record: Object, rollouts: list[_Rollout]) -> None:
    """Take a record of a rollout, or an event that `codex exec --json` prints."""
    kind = record.get("type")
    meta: Object = {}
    if kind == "session_meta":
        meta = object_at(record, "payload")
    elif kind == "thread.started":
        meta = {"id": record.get("thread_id")}
    if rollouts[-1].begins_anew(meta):
        rollouts.append(_Rollout())
    rollout = rollouts[-1]
    session = rollout.session
    session.ended_at = unix_time(record.get("timestamp")) or session.ended_at
    if meta:
        rollout.begin(meta)
    elif kind == "item.completed":
        rollout.items.extend(_printed(object_at(record, "item")))
    elif kind == "turn_context":
        session.model = session.model or text_at(record, "payload.model")
    elif kind == "response_item":
        rollout.add(object_at(record, "payload"), record.get("timestamp"))
    elif kind == "event_msg":
        rollout.note(object_at(record, "payload"))


def _printed(item: Object) -> Objects:
    """The items of the Responses API for one that `codex exec --json` prints: a message, or a call and its output."""
    kind, id, status = text_at(item, "type"), text_at(item, "id"), item.get("status")
    if kind == "agent_message":
        return [{"type": "message", "role": "assistant", "content": text_at(item, "text")}]
    name, key = _PRINTED_CALLS.get(kind, ("", ""))
    arguments: Any = {key: item.get(key)}
    if kind == "mcp_tool_call":
        name, arguments = f"mcp__{text_at(item, 'server')}__{text_at(item, 'tool')}", item.get("arguments")
    if not name:
        return []
    output = value_at(item, "result|aggregated_output|error")
    if is_object(output):
        output = plain_text(output.get("content") or output.get("message"))
    answer: Object = {"type": "function_call_output", "call_id": id, "output": output or "", "status": status}
    if status in ("completed", "failed"):
        answer["is_error"] = status == "failed" or bool(item.get("error")) or item.get("exit_code") not in (0, None)
    return [{"type": "function_call", "call_id": id, "name": name, "arguments": arguments}, answer]


def is_context(item: Object) -> bool:
    """Whether a message of the user holds what Codex says of the machine and the repository."""
    return item.get("role") == "user" and plain_text(item.get("content")).lstrip().startswith(_CONTEXT)


def _codex_item(payload: Object) -> Object:
    """An item of a rollout, with its output as text, and whether its command failed."""
    output = payload.get("output")
    if not isinstance(output, str):
        return payload
    code: Any = None
    if output.startswith("{"):
        parsed = parsed_json(output)
        if is_object(parsed) and "output" in parsed:
            code = value_at(parsed, "metadata.exit_code")
            output = plain_text(parsed["output"])
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


READER: Final = Reader(CODEX, _is_rollout, _read_rollout, command_names=True)
