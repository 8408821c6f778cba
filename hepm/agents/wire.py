"""The APIs on the wire, OpenAI's two, Anthropic's and Gemini's: what a request says, and where a hint goes into it.

Everything is read as OpenAI chat messages, the form in which sessions record a run. Requests are changed by three
functions alone, `without_foreign_hints`, `with_hint` and `hepm.agents.replies.after_denial`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from hepm.errors import InputError
from hepm.ingest.fields import is_list, is_object, value_at
from hepm.ingest.formats.claude_code import user_text, without_reminders
from hepm.ingest.formats.codex import is_context
from hepm.ingest.formats.parts import item_messages, spread
from hepm.ingest.records import MAX_NAME
from hepm.text import disarmed
from hepm.types import BLOCK_END, BLOCK_START, HINTS, Object, Objects

Placement: TypeAlias = Literal["auto", "behind", "tail", "system", "message"]
Api: TypeAlias = Literal["chat", "responses", "messages", "gemini"]
"""OpenAI's Chat Completions and Responses, Anthropic's Messages, and Gemini's generateContent."""
Vendor: TypeAlias = Literal["openai", "anthropic", "google"]
"""Whose form a request has."""

_MOST_COMMAS: Final = 500_000
"""Of a body that is decoded: two bytes of JSON may take a hundred in memory."""
MOST_MESSAGES: Final = 20_000
"""Of a conversation that is read: each takes some tens of microseconds."""
_MESSAGES: Final[dict[Api, str]] = {
    "chat": "messages",
    "responses": "input",
    "messages": "messages",
    "gemini": "contents",
}
_TEXTS: Final = {"message": "content", "function_call_output": "output", "custom_tool_call_output": "output"}
"""Items of the Responses API that the model does not write, and where their text is."""
_READ: Final = frozenset({"content", "parts", "output", "outputs", "result", "results"})
"""Where messages and items hold what the model reads as text."""
_APIS: Final[dict[str, Api]] = {"chat/completions": "chat", "responses": "responses", "messages": "messages"}
_GENERATES: Final = re.compile(r"models/([^/:]+):(?:g|streamG)enerateContent")
_VENDORS: Final[dict[Vendor, str]] = {
    "anthropic": "https://api.anthropic.com/",
    "google": "https://generativelanguage.googleapis.com/",
}
_ATTRIBUTION: Final = "x-anthropic-billing-header:"
"""How the block of Claude Code's system prompt begins that may differ in each request, and that caches leave out."""
# What JSON was read from holds no circles; to look for them takes an eighth of the time.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False)


def api_of(path: str) -> Api | None:
    """The API behind a path below `/v1` or `/v1beta`; None for one that is passed through."""
    if _GENERATES.fullmatch(path.strip("/")):
        return "gemini"
    return _APIS.get(path.strip("/"))


def model_of(path: str, body: Object) -> str:
    """The model of a request; "" if it names none."""
    named = _GENERATES.fullmatch(path.strip("/"))
    if named:
        return named[1]
    return str(body.get("model") or "")


def upstream_of(upstream: str, vendor: Vendor, version: str) -> str:
    """The endpoint behind the proxy for a request below `version`: one in another's form never goes to OpenAI."""
    if vendor in _VENDORS and _is_openai(upstream):
        return _VENDORS[vendor] + version
    return upstream


def _is_openai(url: str) -> bool:
    # "https://eu.api.openai.com/v1" is OpenAI, too.
    return (urlsplit(url).hostname or "").endswith("api.openai.com")


def resolved(placement: Placement, base_url: str) -> Placement:
    """What "auto" means for an endpoint: OpenAI takes a message of its own role, most others one of the user's."""
    if placement != "auto":
        return placement
    if _is_openai(base_url):
        return "message"
    return "behind"


def placement_for(model: str) -> Placement:
    """Where a hint goes if only the model is known: Mistral's API takes no user's message behind a result."""
    if "mistral" in model.lower():
        return "tail"
    return "behind"


def read_body(api: Api, raw: bytes) -> Object:
    """The JSON object of a request; InputError if it is none, or if its messages are no list of objects, or none."""
    body = read_object(raw)
    key = _MESSAGES[api]
    listed = body.get(key)
    # The Responses API takes {"input": "Hello"} for a list with one message of the user.
    is_text = api == "responses" and isinstance(listed, str)
    if not listed or not (is_text or objects(listed) == listed):
        raise InputError(f'"{key}" holds no messages')
    if len(listed) > MOST_MESSAGES:
        raise InputError(f'"{key}" holds more than {MOST_MESSAGES:,} messages')
    return body


def read_object(raw: bytes, decode: Callable[[str], Any] = json.loads) -> Object:
    """The JSON object in a body; InputError if it is none, or would take a hundred times its size in memory."""
    if raw.count(b",") > _MOST_COMMAS:
        raise InputError(f"the body holds more than {_MOST_COMMAS:,} commas: send less at once")
    try:
        # Some programs write a byte order mark, or UTF-16.
        body = decode(raw.decode(json.detect_encoding(raw), "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body is no JSON: {error}") from error
    if not is_object(body):
        raise InputError("the body is no JSON object")
    return body


def write_body(body: Object) -> bytes:
    """A request's bytes; InputError if JSON cannot hold them, as with NaN."""
    try:
        return _ENCODER.encode(body).encode()
    # UTF-8 has no bytes for them; escaped in ASCII they pass.
    except UnicodeEncodeError:  # lone surrogates
        return json.dumps(body, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body cannot be written again: {type(error).__name__}") from error


def messages_of(api: Api, body: Object) -> Objects:
    """The conversation in a request, as chat messages, without what Codex and Claude Code say of the machine."""
    if api == "chat":
        return objects(body.get("messages"))
    if api == "responses":
        messages = item_messages([item for item in items_of(body) if not is_context(item)])
        instructions = body.get("instructions")
        if isinstance(instructions, str):
            return [{"role": "system", "content": instructions}, *messages]
        return messages
    said = objects(body.get(_MESSAGES[api]))
    if api == "messages":
        blocks = _blocks(body.get("system")) or []
        system = [block for block in blocks if not text_of(block.get("text")).startswith(_ATTRIBUTION)]
        said = list(map(_without_reminders, said))
    else:
        system = objects(object_in(body.get(_instruction(body))).get("parts"))
    messages: Objects = []
    if system:
        messages.append({"role": "system", "content": system})
    for message in said:
        messages.extend(spread(message))
    return messages


def _instruction(body: Object) -> str:
    """The key of the system's instruction: Gemini takes two spellings."""
    return "system_instruction" if "system_instruction" in body else "systemInstruction"


def _without_reminders(message: Object) -> Object:
    """A message, of a user without what Claude Code wrote in the user's name and behind results."""
    if message.get("role") != "user":
        return message
    blocks: Objects = []
    for block in _blocks(message.get("content")) or []:
        content = block.get("content")
        if block.get("type") == "text":
            blocks.append({"type": "text", "text": user_text(text_of(block.get("text")))})
        elif isinstance(content, str):
            blocks.append({**block, "content": without_reminders(content)})
        else:
            blocks.append(block)
    return {**message, "content": blocks}


def _blocks(content: Any) -> Objects | None:
    """A content of Anthropic's form as blocks; None if no endpoint takes it."""
    if isinstance(content, str | None):
        return [{"type": "text", "text": content}] if content else []
    blocks = objects(content)
    return blocks if blocks == content else None


def items_of(body: Object) -> Objects:
    """The items of a request to the Responses API, which takes a text alone, too."""
    given = body.get("input")
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return objects(given)


def _first_text(*values: Any) -> str:
    """The first of some values that is a text and not empty; "" if none is."""
    for value in values:
        if isinstance(value, str) and value:
            return value
    return ""


def continued(body: Object) -> str:
    """Id of the response or conversation that a request continues on the server; "" if it carries its whole history."""
    return _first_text(body.get("conversation"), value_at(body, "conversation.id"), body.get("previous_response_id"))


def session_id_of(body: Object) -> str:
    """The session as the client names it in a request's body; "" if it does not."""
    ids = ("session_id", "thread_id", "conversation_id")
    return _first_text(*map(object_in(body.get("metadata")).get, ids))


def group_of(body: Object) -> str:
    """What conversations share that belong together: the key of a prompt cache, Claude Code's session; "" if none.

    Sub-agents, and the requests for a title or a summary, are conversations of one session of Claude Code.
    """
    return _first_text(body.get("prompt_cache_key"), _anthropic_ids(body)[1])


def user_of(body: Object) -> str:
    """The end user a request names; "" if none."""
    return _first_text(body.get("user"), body.get("safety_identifier"), _anthropic_ids(body)[0])


def _anthropic_ids(body: Object) -> tuple[str, str]:
    """The user and the session in `metadata.user_id`, where Claude Code writes both; "" for what it does not say."""
    given = text_of(object_in(body.get("metadata")).get("user_id"))
    # {"device_id": …, "account_uuid": …, "session_id": …} of late, user_…_account_…_session_… before
    ids = object_in(parsed(given)) if given else {}
    if ids:
        return _first_text(ids.get("account_uuid"), ids.get("device_id")), text_of(ids.get("session_id"))
    user, _, session = given.partition("_session_")
    return user, session


def tools_of(body: Object) -> Objects:
    """The tools of a request that have a name.

    Codex sends some as an item of its input (`additional_tools`), and groups them in namespaces.
    """
    given = objects(body.get("tools"))
    for item in objects(body.get("input")):
        if item.get("type") == "additional_tools":
            given += objects(item.get("tools"))
    tools: Objects = []
    for tool in given:  # which grows by the groups in it
        if tool.get("type") == "namespace":  # {"type": "namespace", "name": "mcp__github", "tools": [...]}
            given += objects(tool.get("tools"))
            continue
        given += objects(tool.get("functionDeclarations") or tool.get("function_declarations"))  # Gemini's
        if 0 < len(name_of(tool)) <= MAX_NAME:
            tools.append(tool)
    return tools


def without_foreign_hints(api: Api, body: Object) -> Object:
    """A request whose results of tools and user's messages have nothing in the form of what memory says.

    `body` itself if that is so. Both hold texts of others: see `disarmed`. What the system and the model say stays.
    """
    key = _MESSAGES[api]
    given = body.get(key)
    if isinstance(given, str):
        harmless: Any = disarmed(given)
    else:
        harmless = list(map(_without_foreign_hints, objects(given)))
    if harmless == given:  # the client's own bytes are sent then
        return body
    return {**body, key: harmless}


def _without_foreign_hints(message: Object) -> Object:
    if message.get("role") in ("system", "developer", "assistant", "model") or message.get("type") == "reasoning":
        return message
    harmless = dict(message)
    for key in _READ & message.keys():
        harmless[key] = without_foreign_hint(message[key])
    return harmless


def without_foreign_hint(value: Any) -> Any:
    """A content whose texts are `disarmed`, also where the form of a hint runs over several parts."""
    if isinstance(value, str):
        return disarmed(value)
    if isinstance(value, dict):  # also of another class, as frameworks may have
        return {key: without_foreign_hint(inner) for key, inner in cast(Object, value).items()}
    if not is_list(value):
        return value
    parts = list(map(without_foreign_hint, value))
    texts = [part for part in objects(parts) if isinstance(part.get("text"), str)]
    whole = "".join(part["text"] for part in texts)
    # Models read parts as one text: the beginning of a hint may stand in one and its end in the next.
    if len(texts) > 1 and disarmed(whole) != whole:
        others = [part for part in parts if part not in texts]
        return [{**texts[0], "text": disarmed(whole)}, *others]
    return parts


def with_hint(api: Api, body: Object, *, stable: str, present: str, placement: Placement) -> Object:
    """A copy of a request with what memory says; `body` itself if it says nothing, or if no endpoint takes the request.

    Args:
        stable: What stays through a session. It goes where a provider's prompt cache keeps it: into the system message,
            else into the first user message.
        present: What belongs to this turn.
        placement: Where `present` goes. In the APIs of Anthropic and of Gemini to the end of the user's turn as a block
            of its own, or into the system prompt. Else into a user message behind the results of tools, else to the end
            of the user's message ("behind"), to the end of the last message, also of a result ("tail"), into the system
            message, or into a developer message of its own ("message").
    """
    # What goes into `input` stays on the provider's server if the conversation is kept there; instructions do not.
    if api == "responses" and (continued(body) or body.get("store") is not False):
        placement = "system"
    # The system prompt is equal in each request but for a hint that is placed there.
    front = [stable] if stable else []
    if present and placement == "system":
        front.append(present)
        present = ""
    changed: Object = dict(body)
    if (front or present) and _HINTED[api](changed, front, present, placement):
        return changed
    return body


def _chat_with_hint(body: Object, front: list[str], present: str, placement: Placement) -> bool:
    messages = body["messages"] = objects(body.get("messages"))
    place = _index_of(messages, ("system", "developer"))
    if place < 0 and placement == "system":
        messages.insert(0, {"role": "system"})
        place = 0
    elif place < 0:
        place = _index_of(messages, ("user",))
    for text in front:
        _append(messages, place, text, "content", "text")
    if present:
        _add_present(messages, _last_given(messages), present, placement, "text")
    return all(isinstance(message.get("content"), str | list | None) for message in messages)


def _responses_with_hint(body: Object, front: list[str], present: str, placement: Placement) -> bool:
    instructions = body.get("instructions")
    if not isinstance(instructions, str | None):
        return False
    # Unlike items, instructions are not remembered by the server: each request sends its own.
    if front:
        body["instructions"] = "\n\n".join(filter(None, [instructions, *front]))
    if present:
        items = body["input"] = items_of(body)
        place = len(items) - 1
        if items and items[place].get("role") == "assistant":
            place = -1
        _add_present(items, place, present, placement, "input_text")
    return True


def _add_present(items: Objects, place: int, present: str, placement: Placement, kind: str) -> None:
    """Add a hint to the messages, or the items, of OpenAI's APIs: behind them, or at the end of the one at a place."""
    if placement == "message":
        items.append({"role": "developer", "content": present})
        return
    # A message of Chat Completions has its text under one key, whatever else its client writes into it.
    key = "content"
    if kind != "text" and items:
        key = _TEXTS.get(items[place].get("type", "message"), "")
    # Most chat templates take a user's message after results; where one refuses it, the proxy tries "tail".
    if (placement == "behind" and items and is_behind_results(items)) or not key:
        place = -1
    _append(items, place, tagged(present), key, kind)


def _anthropic_with_hint(body: Object, front: list[str], present: str, placement: Placement) -> bool:
    """All that the client marked for the cache stays as it is, and where it is: what is added comes behind it."""
    system = _blocks(body.get("system"))
    messages = objects(body.get("messages"))
    place = _last_given(messages)
    said = _blocks(messages[place].get("content"))
    if system is None or said is None or place < 0:
        return False
    if front:
        body["system"] = [*system, *[{"type": "text", "text": text} for text in front]]
    if present:
        if is_object(body.get("cache_control")) and place == len(messages) - 1 and said:
            # It means the last block. The hint is that now, and the next request does not have it there.
            mark = body.pop("cache_control")
            unmarked = ("thinking", "redacted_thinking")  # blocks that take no `cache_control`
            if said[-1].get("type") not in unmarked and "cache_control" not in said[-1]:
                said[-1] = {**said[-1], "cache_control": mark}
        block = {"type": "text", "text": tagged(present)}
        messages[place] = {**messages[place], "content": [*said, block]}
        body["messages"] = messages
    return True


def _gemini_with_hint(body: Object, front: list[str], present: str, placement: Placement) -> bool:
    """Behind results it is a content of its own: Gemini takes as many parts with them as there were calls."""
    key = _instruction(body)
    system = body.get(key, {})
    contents = objects(body.get("contents"))
    last = contents[-1]
    parts = objects(last.get("parts"))
    if not is_object(system) or parts != last.get("parts"):
        return False
    if front:
        body[key] = {**system, "parts": [*objects(system.get("parts")), *[{"text": text} for text in front]]}
    if present and last.get("role") != "model":
        part = {"text": tagged(present)}
        if any("functionResponse" in one or "function_response" in one for one in parts):
            contents.append({"role": "user", "parts": [part]})
        else:
            contents[-1] = {**last, "parts": [*parts, part]}
        body["contents"] = contents
    return True


_HINTED: Final[dict[Api, Callable[[Object, list[str], str, Placement], bool]]] = {
    "chat": _chat_with_hint,
    "responses": _responses_with_hint,
    "messages": _anthropic_with_hint,
    "gemini": _gemini_with_hint,
}
"""Each adds to a copy of a request: texts to the system prompt, and a hint; False if no endpoint takes the request."""


def is_behind_results(messages: Sequence[Object]) -> bool:
    """Whether the last message, or item, is a result of a tool."""
    last = messages[-1]
    if last.get("role") in ("tool", "function") or text_of(last.get("type")).endswith("_output"):
        return True
    # Messages of Anthropic's form hold results as parts of the user's.
    return any(part.get("type") == "tool_result" for part in objects(last.get("content")))


def tagged(text: str) -> str:
    """A line of memory with tags, so that it is not taken for a part of the message that it ends."""
    if not text.startswith(HINTS):
        return text
    return f"{BLOCK_START}\n{text}\n{BLOCK_END}"


def _index_of(messages: Sequence[Object], roles: Sequence[str]) -> int:
    """Place of the first message of one of these roles; -1 if there is none."""
    for place, message in enumerate(messages):
        if message.get("role") in roles:
            return place
    return -1


def _last_given(messages: Sequence[Object]) -> int:
    """Place of the last message that the model did not write; -1 if there is none."""
    for place in reversed(range(len(messages))):
        if messages[place].get("role") != "assistant":
            return place
    return -1


def _append(messages: Objects, place: int, text: str, key: str, kind: str) -> None:
    """Add a text to what a message has under a key, in a copy of it; in a new user message if it can take none."""
    message = messages[place] if place >= 0 else {}
    if place < 0 or not isinstance(message.get(key), str | list | None):
        messages.append({"role": "user", "content": text})
    else:
        messages[place] = {**message, key: appended(message.get(key), text, kind=kind)}


def appended(content: object, text: str, *, kind: str = "text") -> Any:
    """A message's content with a text at its end, which is a part of this kind if the content is a list of parts."""
    if is_list(content):
        return [*content, {"type": kind, "text": text}]
    if not content:
        return text
    return f"{content}\n\n{text}"


def objects(value: Any) -> Objects:
    """The JSON objects in a list; [] for anything else."""
    if not is_list(value):
        return []
    return cast(Objects, [member for member in value if isinstance(member, dict)])


def object_in(value: Any) -> Object:
    """A value that is a JSON object; {} for anything else."""
    return cast(Object, value) if isinstance(value, dict) else {}


def inner_of(call: Object) -> Object:
    """The part of a tool call, or of a tool, that holds its name; {} if there is none."""
    return object_in(call.get("function") or call.get("custom"))


def name_of(call: Object) -> str:
    """The name in a tool call, or of a tool; "" if there is none."""
    return text_of((inner_of(call) or call).get("name"))


def parsed(text: str | bytes) -> Any:
    """What a text of JSON holds; None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def text_of(value: Any) -> str:
    """A value that is a text; "" for anything else."""
    if isinstance(value, str):
        return value
    return ""
