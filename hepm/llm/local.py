"""A model in this process, and a server that lets it answer like an OpenAI-compatible endpoint. Extra: hepm[local].

Weak models name tools that do not exist and write broken JSON. Calls are therefore forced into the given tools: the
probability of each whole name is computed, and arguments are written by the model within their JSON schema.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self, TypeAlias, cast
from uuid import uuid4

from hepm.errors import InputError, MissingExtraError

Object: TypeAlias = dict[str, Any]
Oracle: TypeAlias = Callable[[str, Sequence[Object]], Mapping[str, Any] | None]
"""The arguments of a call of a tool, given its name and the messages; None lets the model write them."""

_CALL: Final = "<tool_call>"
_TOOLS: Final = (
    f'You can call these tools. To call one, answer with {_CALL}\n{{"name": NAME, "arguments": {{...}}}}\n</tool_call>'
)
# For models without a chat template of their own.
_CHATML: Final = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_NAMES_AT_ONCE: Final = 32
_STRING_TOKENS, _NUMBER_CHARS, _ITEMS, _DEPTH = 48, 12, 8, 6
_AROUND: Final = 8  # tokens that a chat template puts around a message


class LocalModel:
    """A causal language model on the CPU. Threads may share it; one request is answered at a time.

    Args:
        model, tokenizer: As `transformers` loads them; see `load`.
        context: Tokens of a request and its answer; a quarter is kept for the answer. Longer conversations are cut: the
            middle of the system message, then old messages.
        force: Call a tool wherever tools are given, unless the request says otherwise.
        oracle: Gives the arguments of calls in place of the model.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        context: int = 4_096,
        force: bool = False,
        oracle: Oracle | None = None,
    ) -> None:
        self.name, self.force, self.oracle = name, force, oracle
        self._model, self._tokenizer = model.eval(), tokenizer
        self.context = min(context, getattr(model.config, "max_position_embeddings", context))
        ends: Any = getattr(model.generation_config, "eos_token_id", None)
        self._ends = {tokenizer.eos_token_id, *(cast("list[int]", ends) if isinstance(ends, list) else [ends])}
        self._lock = Lock()
        self._cache: Any = None
        self._ids: list[int] = []  # tokens in the cache
        self._logits: Any = None  # of the token after them, shape (vocabulary,)
        self._pending = ""  # text to be read before the next token
        self._digits: dict[int, str] = {}

    @classmethod
    def load(cls, place: str, *, cache: Path, name: str = "", **options: Any) -> Self:
        """Load a folder, a GGUF file, or a name that `transformers` knows. A GGUF file is converted once.

        Args:
            cache: Folder for converted files.
            name: What requests call it; by default the last part of `place`.
            options: See the class.
        Raises:
            InputError: it cannot be opened.
            MissingExtraError: a package of hepm[local] is missing.
        """
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer
            from transformers.utils import logging

            logging.disable_progress_bar()  # pyright: ignore[reportUnknownMemberType]
            folder = _converted(Path(place), cache) if place.endswith(".gguf") else place
            loaded: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
            tokenizer: Any = AutoTokenizer.from_pretrained(folder)  # pyright: ignore[reportUnknownMemberType]
        except ImportError as error:
            raise MissingExtraError(
                f"a local model needs more packages: pip install 'hepm[local]' ({error})"
            ) from error
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).strip().partition("\n")[0][:300]
            raise InputError(f"no model can be opened at {place}: {reason}") from error
        return cls(loaded, tokenizer, name=name or Path(place).stem, **options)

    def tool_probabilities(self, messages: Sequence[Object], tools: Sequence[Object]) -> dict[str, float]:
        """The probability of each given tool as the next call, by name; they sum to 1.

        P(name) is proportional to the product of the probabilities of its tokens up to the closing quote, which makes
        it the probability of the whole name: names of any length are compared as they are.

        Raises:
            InputError: the messages or tools are not as Chat Completions wants them.
        """
        import torch

        body = {"messages": messages, "tools": tools, "tool_choice": "required"}
        with self._lock, torch.inference_mode():
            self._start(self._prompt(_messages(body), names := _tools(body))[0])
            return dict(zip(names, self._chances([_quoted(one) for one in names]), strict=True))

    def complete(self, body: Object) -> Object:
        """The chat completion for the body of a request.

        A request without `tool_choice` gets a call where the model's own text begins one, or always with `force`. The
        temperature is 0 where none is given; arguments are never sampled. `usage` says how many tokens were cut.

        Raises:
            InputError: the request is not as Chat Completions wants it.
        """
        import torch

        messages, tools, choice, schema = _messages(body), _tools(body), self._choice(body), _schema_of(body)
        temperature, seed, most = (_number(body, key) for key in ("temperature", "seed", "max_tokens"))
        most = _number(body, "max_completion_tokens") or most or 256
        drawn = torch.Generator()
        drawn.manual_seed(int(seed)) if seed is not None else drawn.seed()
        content, calls, reason = None, list[Object](), "stop"
        with self._lock, torch.inference_mode():
            ids, cut = self._prompt(messages, tools)
            cached = self._start(ids)
            if choice in ("none", "auto"):
                content, reason = self._say(int(most), temperature or 0, drawn, schema, until=_CALL if tools else "")
            if choice not in ("none", "auto") or (
                choice == "auto" and tools and content is not None and _CALL in content
            ):
                content = (content and content.partition(_CALL)[0].strip()) or None
                self._start(ids)
                names = list(tools) if choice in ("auto", "required") else [choice]
                weights = torch.tensor(self._chances([_quoted(name) for name in names]), dtype=torch.float64)
                at = (
                    weights.argmax()
                    if not temperature
                    else (weights.log() / temperature).softmax(0).multinomial(1, generator=drawn)
                )
                name = names[int(at)]
                calls, reason = [self._call(name, tools[name], messages)], "tool_calls"
            used = len(self._ids) - len(ids)
        message = {"role": "assistant", "content": content, "refusal": None} | ({"tool_calls": calls} if calls else {})
        usage = {"prompt_tokens": len(ids), "completion_tokens": used, "total_tokens": len(ids) + used}
        return {
            "id": f"chatcmpl-{uuid4().hex[:24]}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.name,
            "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
            "usage": usage | {"prompt_tokens_details": {"cached_tokens": cached}, "cut_tokens": cut},
        }

    def _choice(self, body: Object) -> str:
        """ "none", "auto", "required", or the name of a tool."""
        given, tools = body.get("tool_choice"), _tools(body)
        if isinstance(given, dict):
            given = cast("Object", given).get("function", {}).get("name")
            if given not in tools:
                raise InputError(f"tool_choice names {given!r}, which is not among the tools")
            return given
        if given not in (None, "none", "auto", "required"):
            raise InputError(f'tool_choice is {given!r}: give "none", "auto", "required" or a function')
        if given == "required" and not tools:
            raise InputError("tool_choice is required, and no tools are given")
        return (given or ("required" if self.force else "auto")) if tools else "none"

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)

    def _prompt(self, messages: Sequence[Object], tools: Mapping[str, Object]) -> tuple[list[int], int]:
        """The tokens of a request, and how many were cut."""
        turns, room = _turns(messages, tools), self.context - self.context // 4
        if (whole := len(ids := self._templated(turns))) <= room:
            return ids, 0
        head = [(role, self._cut(text, room // 2)) for role, text in turns[:1] if role == "system"]
        left = room - sum(len(self._encode(text)) + _AROUND for _, text in head)
        kept: list[tuple[str, str]] = []
        for role, text in reversed(turns[len(head) :]):
            if kept and left < 4 * _AROUND:
                break
            text = self._cut(text, max(left // 2, left - 16 * _AROUND) - _AROUND)
            kept.insert(0, (role, text))
            left -= len(self._encode(text)) + _AROUND
        ids = self._templated([*head, *kept])[-room:]
        return ids, whole - len(ids)

    def _cut(self, text: str, most: int) -> str:
        """A text of at most so many tokens, without its middle: hints stand at the end of a message."""
        ids = self._encode(text)
        half = max(most - 4, 2) // 2
        return text if len(ids) <= most else self._text(ids[:half]) + " … " + self._text(ids[-half:])

    def _text(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def _templated(self, turns: Sequence[tuple[str, str]]) -> list[int]:
        template = self._tokenizer.chat_template or _CHATML
        chat = [{"role": role, "content": text} for role, text in turns]
        return self._encode(
            self._tokenizer.apply_chat_template(
                chat, chat_template=template, add_generation_prompt=True, tokenize=False
            )
        )

    def _start(self, ids: list[int]) -> int:
        """Read a prompt. What it shares with the one before is not computed again: so many tokens."""
        same = next((at for at, (a, b) in enumerate(zip(ids[:-1], self._ids, strict=False)) if a != b), None)
        same = min(len(ids) - 1, len(self._ids)) if same is None else same
        if self._cache is not None:
            self._cache.crop(same - len(self._ids))
        self._ids, self._pending = self._ids[:same], ""
        self._read(ids[same:])
        return same

    def _read(self, ids: list[int]) -> None:
        import torch

        known, self._ids = self._ids, []
        try:
            found = self._model(torch.tensor([ids]), past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        except BaseException:
            self._cache = None  # it may be half filled
            raise
        self._cache, self._logits, self._ids = found.past_key_values, found.logits[0, -1], known + ids

    def _flush(self) -> None:
        if self._pending:
            self._read(self._encode(self._pending))
            self._pending = ""

    def _chances(self, texts: Sequence[str]) -> list[float]:
        """The probabilities of JSON values as what comes next, normalised over them.

        A comma ends each, as 1 begins 10. All are computed in one pass, as a tree of their tokens: each token attends to
        the prompt and to the tokens before it on its own path. The cache is as before afterwards.
        """
        import torch

        paths = [self._encode(f"{self._pending}{text},") for text in texts]
        scores: list[float] = []
        for start in range(0, len(paths), _NAMES_AT_ONCE):
            part, past = paths[start : start + _NAMES_AT_ONCE], len(self._ids)
            nodes: dict[tuple[int, ...], int] = {}
            for path in part:
                for end in range(1, len(path)):
                    nodes.setdefault(tuple(path[:end]), len(nodes))
            mask = torch.full((1, 1, len(nodes), past + len(nodes)), torch.finfo(torch.float32).min)
            mask[..., :past] = 0
            for node, at in nodes.items():
                mask[0, 0, at, [past + nodes[node[:end]] for end in range(1, len(node) + 1)]] = 0
            ids = torch.tensor([[node[-1] for node in nodes]])
            places = torch.tensor([[past + len(node) - 1 for node in nodes]])
            found = self._model(
                ids, attention_mask=mask, position_ids=places, past_key_values=self._cache, use_cache=True
            )
            self._cache.crop(-len(nodes))
            after: Any = torch.cat([self._logits[None], found.logits[0]]).log_softmax(-1)
            for path in part:
                rows = [0, *(nodes[tuple(path[:end])] + 1 for end in range(1, len(path)))]
                scores.append(float(after[rows, path].sum()))
        return torch.tensor(scores, dtype=torch.float64).softmax(0).tolist()

    def _say(
        self, most: int, temperature: float, drawn: Any, schema: Object | None, *, until: str = ""
    ) -> tuple[str, str]:
        """A text, and why it ended; JSON if a schema is given."""
        if schema is not None:
            return json.dumps(self._value(schema, schema), ensure_ascii=False), "stop"
        said: list[int] = []
        for _ in range(min(most, self.context // 4)):
            scores = self._logits
            token = int(
                (scores / temperature).softmax(-1).multinomial(1, generator=drawn) if temperature else scores.argmax()
            )
            if token in self._ends:
                return self._text(said).strip(), "stop"
            said.append(token)
            self._read([token])
            if until and until in self._text(said):
                return self._text(said), "stop"
        return self._text(said).strip(), "length"

    def _call(self, name: str, tool: Object, messages: Sequence[Object]) -> Object:
        self._pending += f"{_quoted(name)}, "
        arguments = self.oracle(name, messages) if self.oracle else None
        if arguments is None:
            self._pending += '"arguments": '
            arguments = self._value(schema := tool.get("parameters") or {"type": "object"}, schema)
        function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
        return {"id": f"call_{uuid4().hex[:24]}", "type": "function", "function": function}

    def _value(self, schema: Object, root: Object, depth: int = 0) -> Any:
        """Write a value of a JSON schema: of objects the required properties, of texts and lists few parts."""
        schema = _resolved(schema, root)
        kind: Any = schema.get("type", "object" if "properties" in schema else "string")
        kind = next((one for one in kind if one != "null"), "null") if isinstance(kind, list) else kind  # pyright: ignore
        known = {"boolean": [True, False], "null": [None]}.get(kind)
        options = schema.get("enum") or ([schema["const"]] if "const" in schema else known)
        if options or depth > _DEPTH:
            texts = [json.dumps(option, ensure_ascii=False) for option in options or [None]]
            chances = self._chances(texts)
            at = chances.index(max(chances))
            self._pending += texts[at]
            return (options or [None])[at]
        if kind == "object":
            return self._object(schema, root, depth)
        if kind == "array":
            return self._list(schema, root, depth)
        return self._numeral(whole=kind == "integer") if kind in ("integer", "number") else self._string()

    def _object(self, schema: Object, root: Object, depth: int) -> Object:
        known, found = schema.get("properties") or {}, Object()
        self._pending += "{"
        for name in schema.get("required") or ():
            self._pending += f"{', ' if found else ''}{json.dumps(name, ensure_ascii=False)}: "
            found[name] = self._value(known.get(name) or {}, root, depth + 1)
        self._pending += "}"
        return found

    def _list(self, schema: Object, root: Object, depth: int) -> list[Any]:
        found = list[Any]()
        self._pending += "["
        while len(found) < max(_ITEMS, least := schema.get("minItems", 0)):
            if len(found) >= least:
                end, more = self._chances(["]", ", " if found else " "])
                if end >= more or len(found) >= schema.get("maxItems", _ITEMS):
                    break
            self._pending += ", " * bool(found)
            found.append(self._value(schema.get("items") or {}, root, depth + 1))
        self._pending += "]"
        return found

    def _string(self) -> str:
        """A text up to its closing quote, or to a number of tokens."""
        self._pending += '"'
        self._flush()
        said, text = list[int](), ""
        while len(said) < _STRING_TOKENS and (token := int(self._logits.argmax())) not in self._ends:
            text = self._text([*said, token])
            if end := re.search(r'(?<!\\)(?:\\\\)*"|\n', text):
                self._pending = text[len(self._text(said)) : end.end() - 1]
                text = text[: end.end() - 1]
                break
            said.append(token)
            self._read([token])
        self._pending += '"'
        try:
            return json.loads(f'"{text}"', strict=False)
        except ValueError:  # half of an escape
            return text

    def _numeral(self, *, whole: bool) -> float:
        """A number, of tokens that are digits alone, as long as the model itself goes on with one."""
        self._flush()
        if not self._digits:
            texts = ((token, self._text([token])) for token in range(len(self._tokenizer)))
            self._digits = {token: text for token, text in texts if re.fullmatch(r"[-\d.]+", text)}
        form = re.compile(r"-?\d*" if whole else r"-?\d*(\d\.\d*)?")
        text, ids = "", list(self._digits)
        while len(text) < _NUMBER_CHARS:
            ranked = (ids[at] for at in self._logits[ids].argsort(descending=True).tolist())
            token = next((one for one in ranked if form.fullmatch(text + self._digits[one])), None)
            if token is None or (text.strip("-") and int(self._logits.argmax()) != token):
                break
            text += self._digits[token]
            self._read([token])
        value = float(text if re.search(r"\d", text) else 0)
        return int(value) if whole or value.is_integer() else value


def _quoted(name: str) -> str:
    return f'{_CALL}\n{{"name": {json.dumps(name, ensure_ascii=False)}'


def _messages(body: Object) -> list[Object]:
    given: Any = body.get("messages")
    if not isinstance(given, list) or not given or not all(isinstance(one, dict) for one in cast("list[Any]", given)):
        raise InputError('"messages" holds no messages')
    return cast("list[Object]", given)


def _tools(body: Object) -> dict[str, Object]:
    """The functions of the tools, by name."""
    try:
        return {tool["function"]["name"]: tool["function"] for tool in body.get("tools") or ()}
    except (TypeError, KeyError):
        raise InputError('"tools" must hold {"type": "function", "function": {"name": …}}') from None


def _schema_of(body: Object) -> Object | None:
    """The JSON schema that the answer must have; None for a text."""
    form = body.get("response_format") or {}
    found: Any = form.get("json_schema", {}).get("schema") if isinstance(form, dict) else None  # pyright: ignore
    return found if isinstance(found, dict) else None


def _number(body: Object, key: str) -> float | None:
    given = body.get(key)
    if given is None or (isinstance(given, int | float) and given >= 0):
        return given
    raise InputError(f"{key} is {given!r}: give a number, 0 or more")


def _content(message: Object) -> str:
    given: Any = message.get("content")
    parts: list[Any] = given if isinstance(given, list) else [{"type": "text", "text": given or ""}]
    if not all(isinstance(one, dict) and isinstance(one.get("text"), str) for one in parts):  # pyright: ignore
        raise InputError("a message holds something else than text, which this model cannot read")
    return "\n".join(one["text"] for one in parts)


def _turns(messages: Sequence[Object], tools: Mapping[str, Object]) -> list[tuple[str, str]]:
    """Role and text of each turn: the system's first, then user and assistant in turn, as most templates want it.

    Tools are described by name, arguments and the first sentence of what they do.
    """
    system, turns = list[str](), list[tuple[str, str]]()
    for message in messages:
        role, text = message.get("role"), _content(message)
        if role in ("system", "developer") and not turns:
            system.append(text)
            continue
        if role == "tool":
            text = f"<tool_response>\n{text}\n</tool_response>"
        for call in message.get("tool_calls") or ():
            made = call.get("function") or {}
            text += f'\n{_quoted(str(made.get("name")))}, "arguments": {made.get("arguments") or "{}"}}}\n</tool_call>'
        role = "assistant" if role == "assistant" else "user"
        if turns and turns[-1][0] == role:
            text = f"{turns.pop()[1]}\n{text}"
        turns.append((role, text.strip()))
    if tools:
        system += [_TOOLS, *(_described(name, tool) for name, tool in tools.items())]
    return [*([("system", "\n".join(system))] if system else []), *turns]


def _described(name: str, tool: Object) -> str:
    sentence = re.split(r"(?<=[.!?])\s", " ".join(str(tool.get("description") or "").split()), maxsplit=1)[0]
    return f"- {name}({', '.join((tool.get('parameters') or {}).get('required') or ())}): {sentence[:200]}"


def _resolved(schema: Object, root: Object) -> Object:
    """The part of a schema that is written: what a reference names, the first of alternatives that is not null."""
    for _ in range(_DEPTH):
        if "$ref" in schema:
            found: Any = root
            for part in str(schema["$ref"]).lstrip("#/").split("/"):
                found = found.get(part, {})
            schema = found
        elif one := next((schema[key] for key in ("anyOf", "oneOf", "allOf") if schema.get(key)), None):
            schema = next((part for part in one if part.get("type") != "null"), one[0])
        else:
            break
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
            config = type(model.config)(
                **{key: value for key, value in model.config.to_dict().items() if key != "quantization_config"}
            )
            fresh = type(model)(config)
            fresh.load_state_dict(model.state_dict())
            fresh.half().save_pretrained(f"{made}/model")
            AutoTokenizer.from_pretrained(file.parent, **options).save_pretrained(f"{made}/model")  # pyright: ignore
            with suppress(OSError):  # another process was faster
                Path(made, "model").rename(folder)
    return folder


def serve(model: LocalModel, *, port: int, on_start: Callable[[str], object]) -> None:
    """Serve a model on 127.0.0.1 alone until the process gets a signal to stop.

    `/v1/chat/completions`, whose streams begin when the answer is complete, and `/v1/models`.

    Args:
        port: 0 for any free one.
        on_start: Called with the base URL once the port is open.
    Raises:
        InputError: the port is in use.
    """
    try:
        import uvicorn
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.requests import Request
        from starlette.responses import JSONResponse, Response, StreamingResponse
        from starlette.routing import Route
    except ImportError as error:
        raise MissingExtraError(f"a local model needs more packages: pip install 'hepm[local]' ({error})") from error

    async def chat(request: Request) -> Response:
        try:
            body: Any = await request.json()
            if not isinstance(body, dict):
                raise InputError("the body is no JSON object")
            body = cast("Object", body)
            if body.get("model") != model.name:
                problem = f"the model {body.get('model')!r} does not exist: this server has {model.name!r}"
                return JSONResponse({"error": {"message": problem, "code": "model_not_found"}}, 404)
            found = await run_in_threadpool(model.complete, body)
        except ValueError as error:  # an InputError is one
            return JSONResponse({"error": {"message": str(error), "type": "invalid_request_error"}}, 400)
        if not body.get("stream"):
            return JSONResponse(found)
        asked = (body.get("stream_options") or {}).get("include_usage")
        return StreamingResponse(_events(found, usage=bool(asked)), media_type="text/event-stream")

    async def models(request: Request) -> Response:
        listed = {"id": model.name, "object": "model", "created": 0, "owned_by": "local"}
        return JSONResponse({"object": "list", "data": [listed]})

    app = Starlette(
        routes=[Route("/v1/chat/completions", chat, methods=["POST"]), Route("/v1/models", models)],
    )
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
        except OSError as error:
            raise InputError(f"port {port} cannot be used ({error.strerror}): give another --port") from error
        listening.listen()
        on_start(f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])


def _events(completion: Object, *, usage: bool) -> Iterator[str]:
    """A completion as server-sent events."""
    choice = completion["choices"][0]
    calls = [{"index": at, **call} for at, call in enumerate(choice["message"].get("tool_calls") or ())]
    delta = {**choice["message"], **({"tool_calls": calls} if calls else {})}
    base = {key: completion[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    for part, reason in ((delta, None), ({}, choice["finish_reason"])):
        yield f"data: {json.dumps(base | {'choices': [{'index': 0, 'delta': part, 'finish_reason': reason}]})}\n\n"
    if usage:
        yield f"data: {json.dumps(base | {'choices': [], 'usage': completion['usage']})}\n\n"
    yield "data: [DONE]\n\n"
