"""Request logs of LiteLLM: a request to a model and its response a record, also as the proxy's spend logs have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

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
    for number, value in document.records:
        record = document.built(number, value, _chat_record)
        if isinstance(record, Rejection):
            yield record
            continue
        *earlier, last = _marks(record["messages"])
        begun = next((mark for mark in reversed(earlier) if mark in runs), None)
        if begun is not None:
            record["id"] = runs.pop(begun)[1]["id"]
        if last not in passed:
            runs.setdefault(last, (number, record))
        passed.update(earlier)

    for number, record in runs.values():
        yield document.built(number, record, lambda record: read_record(record, document))


def _marks(messages: Objects) -> Iterator[int]:
    """A hash of the conversation up to each of its messages."""
    mark = 0
    for message in messages:
        calls = message.get("tool_calls")
        ids = [value_at(call, "id|function.name") for call in calls] if is_list(calls) else []
        mark = hash(f"{mark} {message.get('role')} {message.get('content') or ''} {ids}")
        yield mark


READER: Final = Reader(
    "litellm",
    lambda document: "response" in document.keys and bool(document.keys & {"messages", "proxy_server_request"}),
    _read,
)
