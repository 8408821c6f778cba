"""Request logs of LiteLLM: a request to a model and its response a record, also as the proxy's spend logs have them."""

from __future__ import annotations

from typing import Any, Final

from hepm.ingest.fields import Objects, first_time, is_list, parsed_json, text_at, value_at
from hepm.ingest.formats.chat import read_record
from hepm.ingest.formats.document import Document, Reader
from hepm.ingest.formats.message_layouts import chat_messages
from hepm.ingest.records import Items, RecordError, Rejection
from hepm.types import Object


def _chat_record(record: Object) -> Object:
    """A request with its response, as one conversation."""
    request = parsed_json(record.get("proxy_server_request"))
    request = value_at(request, "body") or request
    given = chat_messages(parsed_json(record.get("messages"))) or chat_messages(request)
    answer = chat_messages(parsed_json(record.get("response")), "assistant")
    if not answer:
        raise RecordError("it holds no message of the agent")
    return {
        **record,
        "id": text_at(record, "id|request_id"),
        "user": text_at(record, "end_user|user|metadata.user_id"),
        "tools": value_at(request, "tools") or value_at(record, "model_parameters.tools|tools"),
        "messages": given + answer,
        "ended_at": first_time([record], "endTime|end_time|startTime"),
    }


def _read(document: Document) -> Items:
    """A run of each conversation, as its longest record holds it, under the id of its first."""
    runs: dict[int, tuple[int, Object]] = {}  # by a hash of the conversation to its end
    passed: set[int] = set()  # hashes of conversations that go on in another record
    for number, value in document.records():
        record = document.built(number, value, _chat_record)
        if isinstance(record, Rejection):
            yield record
            continue
        marks = _marks(record["messages"])
        for mark in reversed(marks[:-1]):
            if mark in runs:
                record["id"] = runs.pop(mark)[1]["id"]
                break
        if marks[-1] not in passed:
            runs.setdefault(marks[-1], (number, record))
        passed.update(marks[:-1])

    for number, record in runs.values():
        yield document.built(number, record, lambda record: read_record(record, document))


def _marks(messages: Objects) -> list[int]:
    """A hash of the conversation up to each of its messages."""
    marks: list[int] = []
    before = 0
    for message in messages:
        ids: list[Any] = []
        if is_list(message.get("tool_calls")):
            ids = [value_at(call, "id|function.name") for call in message["tool_calls"]]
        before = hash(f"{before} {message.get('role')} {message.get('content') or ''} {ids}")
        marks.append(before)
    return marks


READER: Final = Reader(
    "litellm",
    lambda document: "response" in document.keys and bool(document.keys & {"messages", "proxy_server_request"}),
    _read,
)
