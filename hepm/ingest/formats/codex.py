"""Rollouts of Codex. The format grows with the program: records of unknown types are skipped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from hepm.ingest import fields
from hepm.ingest.formats.coding_session import CodingSession, coding_run
from hepm.ingest.formats.document import Document, Reader, built
from hepm.ingest.formats.openai_items import item_messages
from hepm.ingest.formats.turns import chat_turns
from hepm.ingest.records import DECODER, Item, Object, ReadOptions, RecordError
from hepm.types import Trajectory

CODEX: Final = "codex"

# The first messages of the user hold what the program says of the machine and the repository.
_CONTEXT: Final = ("<environment_context>", "<user_instructions>", "<permissions", "# AGENTS.md instructions", "<skill")
_EXIT_CODE: Final = re.compile(r"^(?:Exit code:|Process exited with code) *(-?\d+)", re.MULTILINE)
_OUTPUT: Final = re.compile(r"^Output:\n", re.MULTILINE)
_CODE_MODE: Final = "exec"


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
    session = CodingSession()
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
        return coding_run(CODEX, session.id, chat_turns(messages), session, document, options, {})

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


READER: Final = Reader(CODEX, _is_rollout, _read_rollout, command_names=True)
