"""Messages made of parts, and items of OpenAI's Responses API, as OpenAI chat messages.

A part is a text, a call, a result, or a call with its result. Layouts differ in how they name a kind of part, and keep
much the same in it: `_TEXTS` to `_SILENT` say what each kind is, `_NAME` to `_STATUS` where any of them keeps what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import chain
from typing import Any, Final, Literal, TypeAlias

from hepm.ingest.fields import Objects, as_object, as_text, is_list, is_object, list_at, part_text, value_at
from hepm.ingest.formats.text_calls import MARKS, calls_in, results_in
from hepm.types import Object

_unread: ContextVar[Counter[str]] = ContextVar("unread")


@contextmanager
def counting_unread() -> Generator[Counter[str]]:
    """Count the parts of messages that are left out from here on, by their unknown kinds."""
    counter: Counter[str] = Counter()
    token = _unread.set(counter)
    try:
        yield counter
    finally:
        with suppress(ValueError):  # a generator that is never ended may be closed elsewhere
            _unread.reset(token)


def unread_parts() -> Counter[str]:
    """How many parts of each unknown kind were left out, where `counting_unread` counts them."""
    return _unread.get(Counter())


_TEXTS: Final = frozenset({"text", "input_text", "output_text", "refusal", "summary_text"})
_CALLS: Final = frozenset((
    "tool_use", "server_tool_use", "mcp_tool_use",  # Anthropic
    "toolUse",  # Bedrock's Converse
    "functionCall", "function_call",  # Gemini
    "tool-call",  # model messages of Vercel's AI SDK
    "builtin-tool-call",  # pydantic-ai
    "tool_call", "server_tool_call",  # OpenTelemetry, LangChain
))  # fmt: skip
"""Kinds of parts that are calls: some layouts hold the call under a key of that name."""
_ITEMS: Final = frozenset((
    "function_call", "custom_tool_call", "mcp_call", "local_shell_call", "shell_call", "apply_patch_call",
    "web_search_call", "file_search_call", "code_interpreter_call", "computer_call", "image_generation_call",
))  # fmt: skip
"""Items of the Responses API that are calls, of the client's tools and of those that OpenAI defines."""
_OUTPUT: Final = "_call_output"
_RESULTS: Final = frozenset((
    "tool_result", "toolResult", "tool-result", "builtin-tool-return", "functionResponse", "function_response",
    "tool_call_response", "server_tool_call_response",
))  # fmt: skip
# Parts that are neither a text nor a call: reasoning, media, and what programs note beside them.
_NOTES: Final = """
thinking redacted_thinking reasoning reasoningContent thought image image_url input_image document video file input_file
audio input_audio image-url audio-url video-url document-url binary cache-point inlineData inline_data fileData
file_data blob uri media resource resource_link guardContent cachePoint citationsContent searchResult search_result
source-url source-document container_upload step-finish snapshot patch agent retry compaction subtask
tool-approval-request tool-approval-response thoughtSignature contextManagement
"""
_SILENT: Final = frozenset(_NOTES.split())
_KEYS: Final = (_SILENT | _CALLS | _RESULTS) - {"thought", "thoughtSignature"}
"""Kinds that layouts without types show by a key; the last two stand beside others."""

_NAME: Final = "name|toolName|tool_name|tool"
_ARGUMENTS: Final = "input|args|arguments|state.input|action|operation"
_ID: Final = "toolCallId|toolUseId|tool_use_id|tool_call_id|callID|call_id|id"
_RESULT: Final = "result.content|output|result|response|content|errorText|state.output|state.error|error.message|error"
_FLAGS: Final = "is_error|isError"
_STATUS: Final = "error.code|status|state|state.status|output.type|outcome"
_EXIT: Final = "state.metadata.exit|metadata.exit_code"
_FAILED: Final = frozenset((
    "error", "failed", "failure", "incomplete", "output-error", "error-text", "error-json", "OUTCOME_FAILED",
    "OUTCOME_DEADLINE_EXCEEDED", "timeout", "timed_out",
))  # fmt: skip
_WORKED: Final = frozenset((
    "success", "completed", "ok", "done", "output-available", "text", "json", "content", "OUTCOME_OK",
))  # fmt: skip
REFUSED: Final = frozenset((
    "cancelled", "canceled", "rejected", "denied", "refused", "declined", "aborted", "interrupted", "output-denied",
    "execution-denied",
))  # fmt: skip
_OPEN: Final = frozenset((
    "pending", "running", "executing", "scheduled", "validating", "awaiting_approval", "in_progress", "partial-call",
    "call", "input-streaming", "input-available", "approval-requested", "approval-responded",
))  # fmt: skip
_WRAPPERS: Final = ("output", "result", "error", "content", "value", "response", "llmContent")
"""Keys under which a result holds its text alone."""


def spread(message: Object) -> Objects:
    """The messages in one message: its texts, calls and results apart, in their order.

    A message without parts comes back as it is. Messages of the role "tool" say `is_error` and `refused` where their
    part does.
    """
    role = message.get("role", "user")  # Gemini's users need none
    if role == "model":
        role = "assistant"
    message = {**message, "role": role}
    text = message.get("content")
    parts = text if text and is_list(text) else list_at(message, "parts")
    if not parts:
        return _from_text(message) if isinstance(text, str) and has_marks(text) else [message]
    rest = {key: value for key, value in message.items() if key not in ("content", "parts")}
    messages = list(_grouped(rest, chain.from_iterable(map(_pieces_of, parts))))
    if messages or role not in ("assistant", "tool"):
        return messages
    return [{**rest, "content": ""}]  # an agent or a tool that says nothing


def has_marks(text: str) -> bool:
    """Whether a text may hold calls, or results of them."""
    # Most texts hold none of the signs that they begin with.
    return ("<" in text or "[" in text) and any(mark in text for mark in MARKS)


def _from_text(message: Object) -> Objects:
    """The messages in a message whose text holds calls, or results of them."""
    text = message["content"]
    if message["role"] == "assistant" and not message.get("tool_calls"):
        rest, calls = calls_in(text)
        if calls:
            return [{**message, "content": rest, "tool_calls": calls}]
        if "<tool_call>" in text:
            unread_parts()["<tool_call>"] += 1
    elif message["role"] in ("user", "tool"):
        rest, results = results_in(text)
        messages: Objects = [{**message, "role": "tool", "content": result} for result in results]
        if messages:
            return messages + [{**message, "content": rest}] * bool(rest)
    return [message]


def is_item(value: Any) -> bool:
    """Whether it is a call of a tool or its result, as the Responses API writes them."""
    kind = value.get("type") if is_object(value) else None
    return isinstance(kind, str) and (kind in _ITEMS or kind.endswith(_OUTPUT))


def item_messages(items: Sequence[Object]) -> Objects:
    """Items as chat messages. Calls that follow one another are parallel, and belong to the text before them."""
    messages: Objects = []
    rest: Object = {"role": ""}
    pieces: list[_Piece] = []
    for item in items:
        kind = str(item.get("type", "message"))
        is_call = kind in _ITEMS
        begins = kind == "message" and "role" in item
        # After results, or what another wrote, a call begins a message.
        if is_call and (rest["role"] != "assistant" or any(kind == "result" for kind, _ in pieces)):
            begins = True
        if begins:
            messages += _grouped(rest, pieces)
            pieces = []
            rest = {"role": item.get("role", "assistant")}
            if "at" in item:
                rest["at"] = item["at"]
        pieces += _pieces_of_item(item, kind)
    return [*messages, *_grouped(rest, pieces)]


_Piece: TypeAlias = tuple[Literal["text", "call", "result", "own result", "step"], Any]
"""What a part amounts to: a text, a call, a result, alone or of the call before it, or that a new message begins."""


def _pieces_of(part: Any) -> Iterator[_Piece]:
    if isinstance(part, str):
        yield "text", part
        return
    part = as_object(part, "a part of a message")
    kind = _kind_of(part)
    held = _inside(part, kind)
    text = ""
    if kind in _TEXTS:
        # Gemini marks thoughts, opencode what the program added itself.
        if not part.get("thought") and part.get("synthetic") is not True:
            text = part_text(part)
    elif kind in _CALLS:
        yield "call", call_in(held)
    elif kind in _RESULTS:
        yield "result", result_message(held)
    elif kind in ("tool", "dynamic-tool"):  # a call with its result: opencode's, and of Vercel's UI messages
        if kind == "dynamic-tool":
            held = {"tool": str(part["type"]).removeprefix("tool-"), **held}
        yield "call", call_in(held)
        result = result_message(held)
        is_over = _text_at(held, "state.status|state") not in _OPEN and result["content"] is not None
        if is_over or result["refused"]:
            yield "own result", result
    elif kind == "step-start":
        yield "step", None
    elif kind not in _SILENT and not kind.startswith("data-"):
        text = part_text(part)
        if not text:
            unread_parts()[kind] += 1
    if text:
        yield "text", text


def _pieces_of_item(item: Object, kind: str) -> Iterator[_Piece]:
    if kind in _ITEMS:
        # Arguments of OpenAI's own tools stand beside a call.
        own = {key: item[key] for key in ("queries", "code") if item.get(key)}
        yield "call", call_in({"name": kind.removesuffix("_call"), "operation": own, **item})
        # The API runs tools of MCP servers itself, and writes the result into the call.
        if kind == "mcp_call" and ("output" in item or "error" in item):
            yield "result", result_message({**item, "is_error": bool(item.get("error"))})
    elif kind == "message" and "role" in item:
        content = item.get("content") or ""
        for part in content if is_list(content) else [content]:
            yield from _pieces_of(part)
    elif kind.endswith(_OUTPUT) and "call_id" in item:
        result = result_message(item)
        if result["is_error"] is not True and type(item.get("is_error")) is not bool:
            result["is_error"] = _has_failed(item.get("output"))
        yield "result", result


def _grouped(rest: Object, pieces: Iterable[_Piece]) -> Iterator[Object]:
    """The messages that the pieces of one amount to; the first has what is beside its content, `rest`."""
    role = rest["role"]
    texts: list[str] = []
    calls: Objects = []
    results: Objects = []
    before = ""
    ended: list[_Piece] = [*pieces, ("step", None)]
    for kind, value in ended:
        # What comes after results was said after them.
        is_later = (kind == "text" and role == "assistant") or (kind == "call" and before == "result")
        if (texts or calls or results) and (kind == "step" or (results and is_later)):
            message = {**rest, "content": "\n".join(texts)}
            if calls:
                message["tool_calls"] = [*list_at(message, "tool_calls"), *calls]
            elif role == "assistant" and has_marks(message["content"]):
                [message] = _from_text(message)
            if role == "assistant":
                yield message
            yield from results
            # Results come back in a message of the user, who may have written nothing.
            if role != "assistant" and (texts or calls):
                yield message
            rest = {"role": role}
            texts, calls, results = [], [], []
        if kind == "text":
            texts.append(value)
        elif kind == "call":
            calls.append(value)
        elif kind.endswith("result"):
            results.append({**value, "content": value["content"] or ""})
        before = kind


def _has_failed(outputs: Any) -> bool | None:
    """Whether one of a shell's commands failed: [{"stdout": "…", "outcome": {"type": "exit", "exit_code": 0}}, …]."""
    if not is_list(outputs):
        return None
    outcomes = filter(is_object, [value_at(output, "outcome") for output in outputs])
    codes = [outcome.get("exit_code") for outcome in outcomes]
    return any(code != 0 for code in codes) if codes else None


def call_in(held: Object) -> Object:
    """A call as chat messages have it, from what holds one, of any layout."""
    function = {"name": value_at(held, _NAME), "arguments": value_at(held, _ARGUMENTS)}
    return {"id": value_at(held, _ID), "function": function}


def result_message(held: Object) -> Object:
    """A message of the role "tool" from what holds a result, of any layout."""
    value = value_at(held, _RESULT)
    error, refused = status_of(held)
    # Gemini's functions put an error in the place of the output.
    if error is None and is_object(value) and value.get("error") and "output" not in value:
        error = True
    return {
        "role": "tool",
        "tool_call_id": value_at(held, _ID),
        "content": result_text(value),
        "is_error": error,
        "refused": refused,
    }


def status_of(held: Object) -> tuple[bool | None, bool]:
    """Whether a call failed, None if unknown, and whether it was refused."""
    status = _text_at(held, _STATUS)
    denied = value_at(held, "approval.approved") is False
    if denied or status in REFUSED or status.startswith(("denied", "rejected")):
        return None, True
    code = value_at(held, _EXIT)
    error: bool | None = None
    if type(held.get("success")) is bool:
        error = not held["success"]
    if status in _WORKED:
        error = False
    if type(code) is int and code >= 0:  # -1 is a command that still runs
        error = code != 0
    flag = value_at(held, _FLAGS)
    if type(flag) is bool:
        error = flag
    if status in _FAILED:
        error = True
    return error, False


def result_text(value: Any) -> str | None:
    """The text of a result: of its parts, of the one value that it wraps, else its JSON; None if there is none."""
    if value is None or isinstance(value, str):
        return value
    text = None
    if is_list(value):
        text = _joined(value)
    elif is_object(value):
        if is_list(value.get("content")):  # of an MCP server, with its structured content beside it
            text = _joined(value["content"])
        if "value" in value and value.keys() <= {"type", "value", "providerOptions"}:
            return result_text(value["value"])
        if "reason" in value and value.get("type") == "execution-denied":
            return result_text(value["reason"])
        if len(value) == 1 and text is None:
            text = _part_of_result(value)
            [(key, inner)] = value.items()
            if key in _WRAPPERS and isinstance(inner, str):
                text = inner
    if text is not None:
        return text
    return as_text(value)


def _joined(parts: list[Any]) -> str | None:
    """The texts of the parts of a result; None if it holds anything else."""
    texts = list(map(_part_of_result, parts))
    if None in texts:
        return None
    return "\n".join(filter(None, texts))


def _part_of_result(part: Any) -> str | None:
    """The text of one part of a result; None if it is no part."""
    if not is_object(part):
        return part if isinstance(part, str) else None
    kind = _kind_of(part)
    text = None
    # A row of a table may have a column "text".
    if kind in _TEXTS and ("type" in part or len(part) == 1):
        text = part_text(part)
    elif kind in _RESULTS:
        text = result_text(value_at(_inside(part, kind), _RESULT))
    elif kind == "json" and "json" in part:
        text = as_text(part["json"])
    elif kind in _SILENT:
        text = ""
    return text


def _kind_of(part: Object) -> str:
    """What kind of part it is: its type, or of layouts without types the key that it has."""
    kind = part.get("type", part.get("kind"))  # pydantic-ai's images have a kind
    if not isinstance(kind, str):
        kind = next(filter(_KEYS.__contains__, part), "text" if "text" in part else None)
        return str(kind or next(iter(part), "(empty)"))
    if kind.startswith("tool-") and kind not in _KEYS and "toolCallId" in part:
        return "dynamic-tool"
    if kind.endswith("_tool_result"):  # of tools that Anthropic runs
        return "tool_result"
    return kind


def _inside(part: Object, kind: str) -> Object:
    held = part.get(kind)
    return held if is_object(held) else part


def _text_at(held: Object, path: str) -> str:
    """The first text under one of the keys; "" if there is none."""
    for alternative in path.split("|"):
        value = value_at(held, alternative)
        if isinstance(value, str):
            return value
    return ""
