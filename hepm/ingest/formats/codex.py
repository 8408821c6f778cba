"""Rollouts of Codex: a line for each item of the Responses API, and for each event.

The format grows with the program: records of unknown types are skipped.
"""

from __future__ import annotations

import math
import re
from collections import Counter
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


def _is_rollout(document: Document) -> bool:
    kinds = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
    return {"type", "payload", "timestamp"} <= document.keys and value_at(document.first, "type") in kinds


class _Rollout:
    """A rollout as it is read: items of the Responses API, and what events say of the calls in them.

    Attributes:
        open_calls: Ids of calls without an output, with the types of their items.
        declined: Ids of calls that events say were refused.
    """

    def __init__(self) -> None:
        self.session = CodingSession()
        self.begun_at = 0.0
        self.items: Objects = []
        self.open_calls: dict[str, str] = {}
        self.declined: set[str] = set()

    def begin(self, meta: Object) -> bool:
        """Take the description of a session; False if it is another session's.

        A fork holds a copy of its origin: both are one run, under the id of the origin.
        """
        session = self.session
        id = text_at(meta, "id")
        at = unix_time(meta.get("timestamp"))
        if session.id and id not in ("", session.id) and (at or self.begun_at) >= self.begun_at:
            return False
        self.begun_at = self.begun_at or at or 0.0
        if meta.get("forked_from_id"):
            self.begun_at = math.inf
        session.id = text_at(meta, "forked_from_id|id")
        session.folder = session.folder or text_at(meta, "cwd")
        return True

    def add(self, payload: Object, at: Any) -> None:
        """Take an item of some time."""
        item = _item(payload)
        if item.get("type") == "message" and is_context(item):
            return
        self.items.append({**item, "at": at})
        id = text_at(item, "call_id")
        if "output" in item:
            self.open_calls.pop(id, None)
        elif id:
            self.open_calls[id] = text_at(item, "type")

    def note(self, event: Object) -> None:
        """Take an event: calls that were aborted or refused never ran."""
        item = event.get("item")
        if not is_object(item):
            item = event
        if text_at(event, "type") == "turn_aborted":
            for id, call in self.open_calls.items():
                self.items.append({"type": f"{call}_output", "call_id": id, "output": "", "status": "aborted"})
            self.open_calls.clear()
        elif str(item.get("status")).lower() in REFUSED:
            self.declined.add(text_at(item, "call_id|id"))

    def messages(self) -> Objects:
        """The conversation as chat messages with their marks."""
        for item in self.items:
            if "output" in item and str(item.get("call_id")) in self.declined:
                item["status"] = "declined"
        messages = item_messages(self.items)
        times: Counter[str] = Counter()
        for message in messages:
            said = f"{message.get('role')} {message.get('content')}"
            times[said] += 1
            message["mark"] = self.session.mark(message.get("at"), f"{times[said]} {said}")
        return messages


def _read_rollout(document: Document) -> Items:
    rollouts = [_Rollout()]
    yield from document.take(lambda record: _take(record, rollouts))
    for rollout in rollouts:
        try:
            rollout.session.messages = rollout.messages()
        except RecordError as error:
            yield document.rejected(None, str(error))
            continue
        if rollout.session.messages:
            yield document.built(1, {}, partial(rollout.session.run, CODEX, document, {}))


def _take(record: Object, rollouts: list[_Rollout]) -> None:
    kind, time = record.get("type"), record.get("timestamp")
    payload = object_at(record, "payload")
    if kind == "session_meta" and not rollouts[-1].begin(payload):
        rollouts.append(_Rollout())
        rollouts[-1].begin(payload)
    rollout = rollouts[-1]
    session = rollout.session
    session.ended_at = unix_time(time) or session.ended_at
    if kind == "turn_context":
        session.model = session.model or text_at(payload, "model")
    elif kind == "response_item":
        rollout.add(payload, time)
    elif kind == "event_msg":
        rollout.note(payload)


def is_context(item: Object) -> bool:
    """Whether a message of the user holds what Codex says of the machine and the repository."""
    return item.get("role") == "user" and plain_text(item.get("content")).lstrip().startswith(_CONTEXT)


def _item(payload: Object) -> Object:
    """An item of a rollout, with its output as text, and whether its command failed."""
    output = payload.get("output")
    if not isinstance(output, str):
        return payload
    code: Any = None
    parsed = parsed_json(output)
    if is_object(parsed) and "output" in parsed:
        code = value_at(parsed, "metadata.exit_code")
        output = plain_text(parsed["output"])
    else:
        # "Exit code: 1\nWall time: 0.2 seconds\nOutput:\n…"
        match = re.search(r"(?m)^(?:Exit code:|Process exited with code) *(-?\d+)", output[:200])
        if match:
            code = int(match[1])
            output = re.split(r"(?m)^Output:\n", output, maxsplit=1)[-1]
    item = {**payload, "output": output}
    if type(code) is int:
        item["is_error"] = code != 0
    return item


READER: Final = Reader(CODEX, _is_rollout, _read_rollout, command_names=True)
