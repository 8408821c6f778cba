"""Messages as a model reads and writes them in tokens: its chat template, and its form of tool calls."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

from hepm.agents.wire import object_in, parsed
from hepm.errors import InputError
from hepm.types import Object

Objects: TypeAlias = Sequence[Mapping[str, Any]]
"""Messages of a chat, or tools as endpoints take them."""
_PLACE: Final = "\u2980hint\u2980"  # marks where a message ends, in a text that is then cut there
_CALL: Final = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)


class Framed(NamedTuple):
    """Messages as tokens, up to the end of the last one's text and after it; a hint goes between."""

    before: Sequence[int]
    after: Sequence[int]


class ModelReply(NamedTuple):
    """A message of the model: its text, its calls as names and JSON, and whether it was ended and not cut."""

    text: str
    calls: Sequence[tuple[str, str]] = ()
    whole: bool = True


class Dialect(Protocol):
    """Messages to tokens and back. What was sampled is never tokenised again."""

    def opening(self, messages: Objects, tools: Objects) -> Framed:
        """The system's and the user's message, up to where the model begins to write."""
        ...

    def following(self, messages: Objects) -> Framed:
        """What comes after a message of the model: results of tools, or a message of the user."""
        ...

    def encode(self, text: str) -> Sequence[int]:
        """A text inside a message."""
        ...

    def read(self, ids: Sequence[int]) -> ModelReply:
        """A message of the model."""
        ...

    def write(self, reply: ModelReply) -> Sequence[int]:
        """A message as the model would have sampled it, with its end."""
        ...


class ChatDialect:
    """The dialect of a tokenizer of `transformers` with a chat template; calls as Hermes and Qwen write them.

    Args:
        tokenizer: With a chat template that shows tools, and whose messages end with its `eos_token`.
        template: Further arguments of the template, such as {"enable_thinking": False}.
    Raises:
        InputError: the template is missing, or is none of this kind.
    """

    def __init__(self, tokenizer: Any, **template: Any) -> None:
        self._tokenizer = tokenizer
        self._template = template
        if not getattr(tokenizer, "chat_template", None):
            raise InputError("the tokenizer has no chat template: take a model that was trained for chat")
        # What `following` cuts off: templates render whole conversations, which begin with a user.
        self._rendered_before = self._render([_user("x"), _CALLED], open=False)
        end = str(tokenizer.eos_token)
        if end not in self._rendered_before:
            raise InputError(f"the chat template does not end messages with {end!r}: set the tokenizer's eos_token")
        # The model writes the end of its message itself, but not what stands between messages.
        self._written = self._rendered_before.rindex(end) + len(end)

    def opening(self, messages: Objects, tools: Objects) -> Framed:
        """The tokens before the first text of the model; InputError if the template shows no tools."""
        text = self._render(_marked(messages), tools=[*tools] or None)
        # Some templates take tools and show none.
        if any(tool["function"]["name"] not in text for tool in tools):
            raise InputError(
                "the chat template leaves tools out: take a model that was trained to call tools, or `Tags`"
            )
        return self._framed(text)

    def following(self, messages: Objects) -> Framed:
        """The tokens of further messages; InputError if the template changes earlier ones."""
        text = self._render([_user("x"), _CALLED, *_marked(messages)])
        # Templates of reasoning models drop the thoughts of earlier messages, for one.
        if not text.startswith(self._rendered_before):
            raise InputError("the chat template changes earlier messages when new ones come: turn that off")
        return self._framed(text[self._written :])

    def encode(self, text: str) -> Sequence[int]:
        """The tokens of a text, without those that begin or end one."""
        return cast("list[int]", self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def read(self, ids: Sequence[int]) -> ModelReply:
        """A text of the model as a message with its calls."""
        text: str = self._tokenizer.decode(ids)
        # Else it was cut off at the limit of tokens.
        whole = bool(ids) and ids[-1] == self._tokenizer.eos_token_id
        if whole:
            text = text.removesuffix(str(self._tokenizer.eos_token))
        return ModelReply(_CALL.sub("", text).strip(), [_call(match[1]) for match in _CALL.finditer(text)], whole)

    def write(self, reply: ModelReply) -> Sequence[int]:
        """The tokens of a message with its calls, as `read` reads them."""
        parts = [reply.text] if reply.text else []
        for name, arguments in reply.calls:
            parts.append(f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n</tool_call>')
        return self.encode("\n".join(parts) + str(self._tokenizer.eos_token))

    def _framed(self, text: str) -> Framed:
        before, _, after = text.partition(_PLACE)
        return Framed(self.encode(before), self.encode(after))

    def _render(self, messages: Sequence[Any], *, tools: Any = None, open: bool = True) -> str:
        options = {"tokenize": False, "add_generation_prompt": open, **self._template}
        return self._tokenizer.apply_chat_template([*messages], tools=tools, **options)


def _marked(messages: Objects) -> list[Mapping[str, Any]]:
    """The messages with the mark at the end of the last one's text."""
    last = messages[-1]
    return [*messages[:-1], {**last, "content": f"{last['content']}{_PLACE}"}]


def _user(text: str) -> Object:
    return {"role": "user", "content": text}


_CALLED: Final[Object] = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "c0", "type": "function", "function": {"name": "x", "arguments": {}}}],
}


def _call(text: str) -> tuple[str, str]:
    """Name and arguments of a call; broken JSON gives the name "", which no tool has."""
    call = object_in(parsed(text))
    if "name" not in call:
        return "", text.strip()
    arguments: Any = call.get("arguments") or {}
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    return str(call["name"]), arguments
