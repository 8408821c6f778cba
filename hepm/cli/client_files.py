"""Edits of the files of agents that `hepm init` connects, whose other lines stay as they are."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote

from hepm.atomic_file import atomic_file
from hepm.errors import InputError
from hepm.types import DEFAULT_NAMESPACE, Object

T = TypeVar("T")

TOKEN_HEADER: Final = "X-Hepm-Token"
_BEGIN, _END = "# >>> hepm init >>>", "# <<< hepm init <<<"
_BLOCK: Final = re.compile(rf"^{_BEGIN}\n.*?^{_END}\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """How an agent reaches `hepm serve`; `token_env` is the environment variable with its token."""

    address: str
    namespace: str = DEFAULT_NAMESPACE
    token_env: str | None = None

    def url(self, path: str) -> str:
        """The address of a path in the namespace."""
        address = self.address.rstrip("/")
        if self.namespace != DEFAULT_NAMESPACE:
            address += f"/{quote(self.namespace, safe='')}"
        return address + path


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file of a client and hepm's lines in it.

    Attributes:
        add: The text with the lines. A text that has some gets these instead.
        remove: The text without them.
        is_program: Whether the agent runs the file.
    """

    path: Path
    add: Callable[[str], str]
    remove: Callable[[str], str]
    is_program: bool = False

    def edit(self, *, remove: bool) -> str:
        """Add the lines, or remove them; returns what was done, for a sentence.

        Raises:
            InputError: the file cannot be read or written, or is no such file. It is unchanged.
        """
        before = ""
        try:
            if self.path.exists():
                before = self.path.read_bytes().decode()
            after = (self.remove if remove else self.add)(before.replace("\r\n", "\n"))
        # Nothing is written yet: the file is unchanged whatever went wrong.
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.path} is left as it is: {error}. Correct it, or edit it yourself.") from error
        # A file with line ends of Windows keeps them.
        if "\r\n" in before:
            after = after.replace("\n", "\r\n")
        if after == before:
            if remove:
                return f"{self.path} has no lines of hepm"
            return f"{self.path} has these lines already"
        if not after.strip():
            self.path.unlink()
            return f"removed {self.path}, which had no other lines"
        self._write(after)
        if remove:
            return f"removed hepm's lines from {self.path}"
        return f"wrote {self.path}"

    def _write(self, text: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(self.path, "the settings") as place:
            place.write_bytes(text.encode())
            # The new file takes the place of the old one, and gets its permissions.
            if self.path.exists():
                place.chmod(self.path.stat().st_mode & 0o777)
            elif self.is_program:
                place.chmod(0o755)


def hooks_file(path: Path, hooks: Mapping[str, Object], others: Object, is_ours: Callable[[str], bool]) -> ClientFile:
    """A file of JSON that has under "hooks" a list for each event, with a hook of hepm's in some.

    Args:
        others: Further members that the file needs.
        is_ours: Whether a hook in JSON is one of hepm's, perhaps of another server.
    """

    def strip(settings: Object) -> None:
        """Take the hooks of hepm out."""
        events = _member(settings, "hooks", dict[str, Any]())
        for event in list(events):
            rest: list[Any] = []
            for hook in _member(events, event, list[Any]()):
                # Some agents have groups of hooks.
                parts: list[Any] = [hook]
                if isinstance(hook, dict):
                    parts = cast(Object, hook).get("hooks") or parts
                if not all(is_ours(json.dumps(part)) for part in parts):
                    rest.append(hook)
            events[event] = rest
            if not rest:
                del events[event]
        if not events:
            del settings["hooks"]

    def put(settings: Object) -> None:
        settings.update(others)
        events = _member(settings, "hooks", dict[str, Any]())
        for event, hook in hooks.items():
            _member(events, event, list[Any]()).append(hook)

    return _json_file(path, strip, put)


def servers_file(path: Path, key: str, entry: Object) -> ClientFile:
    """A file of JSON that has MCP servers by name under a key, with hepm among them."""

    def strip(settings: Object) -> None:
        """Take the hooks of hepm out."""
        servers = _member(settings, key, dict[str, Any]())
        servers.pop("hepm", None)
        if not servers:
            del settings[key]

    return _json_file(path, strip, lambda settings: _member(settings, key, dict[str, Any]()).update(hepm=entry))


def _member(settings: Object, key: str, empty: T) -> T:
    """A member, made if it is missing; ValueError if it is of another kind."""
    value = settings.setdefault(key, empty)
    if not isinstance(value, type(empty)):
        raise ValueError(f"its {key!r} is neither missing nor {json.dumps(empty)}")
    return value


def _json_file(path: Path, strip: Callable[[Object], None], put: Callable[[Object], None]) -> ClientFile:
    """A file of JSON with hepm's part, whose other members, their order and indentation stay."""

    def remove(text: str) -> str:
        settings, write = _read_json(text)
        before = json.dumps(settings)
        strip(settings)
        # Unchanged text keeps its layout, which writing would not.
        if json.dumps(settings) == before:
            return text
        # A version is what some agents want in each file of hooks.
        if settings.keys() <= {"version"}:
            return ""
        return write(settings)

    def add(text: str) -> str:
        settings, write = _read_json(text)
        strip(settings)
        put(settings)
        return write(settings)

    return ClientFile(path, add, remove)


def _read_json(text: str) -> tuple[Object, Callable[[Object], str]]:
    """The object, and what writes it with the text's indentation."""
    settings: Any = {}
    if text.strip():
        try:
            settings = json.loads(text)
        except json.JSONDecodeError as error:
            if text.startswith(("//", "/*"), error.pos):
                raise ValueError("it has comments, which would be lost") from error
            raise
    if not isinstance(settings, dict):
        raise ValueError("it is no JSON object")
    spaces = re.search(r"^\{\n([ \t]+)", text)
    indent = "  "
    if spaces:
        indent = spaces[1]
    end = ""
    if text.endswith("\n") or not text:
        end = "\n"
    return cast(Object, settings), lambda value: json.dumps(value, indent=indent, ensure_ascii=False) + end


def codex_config(path: Path, server: ServerEntry, *, mcp: bool) -> ClientFile:
    """A model provider, and perhaps an MCP server, in the `config.toml` of Codex, between two comments each."""
    # A string of JSON is one of TOML.
    name = json.dumps(server.token_env)
    tables = [
        "[model_providers.hepm]",
        'name = "OpenAI with memory"',
        f"base_url = {json.dumps(server.url('/v1'))}",
        'wire_api = "responses"',
        'env_key = "OPENAI_API_KEY"',
    ]
    if server.token_env:
        tables.append(f"env_http_headers = {{ {TOKEN_HEADER} = {name} }}")
    if mcp:
        tables += ["", "[mcp_servers.hepm]", f"url = {json.dumps(server.url('/mcp'))}"]
    if mcp and server.token_env:
        tables.append(f"bearer_token_env_var = {name}")

    def remove(text: str) -> str:
        tomllib.loads(text)
        return _BLOCK.sub("", text)

    def add(text: str) -> str:
        """The file's text with hepm's tables in place of former ones; ValueError if it is no TOML."""
        text = remove(text)
        if "model_provider" in tomllib.loads(text):
            raise ValueError("it chooses a model_provider: take that line out first")
        if text and not text.endswith("\n"):
            text += "\n"
        # A key of the file itself stands before the first table.
        head, tail = [_BEGIN, 'model_provider = "hepm"', _END, text], [_BEGIN, *tables, _END, ""]
        text = "\n".join(head) + "\n".join(tail)
        # Fails if the file has a table of our name that is not ours.
        tomllib.loads(text)
        return text

    return ClientFile(path, add, remove)


def whole_file(path: Path, content: str, mark: str, *, is_program: bool = False) -> ClientFile:
    """A file that holds this content alone, or other content with hepm's mark. Any other one is left as it is."""

    def check(text: str) -> None:
        if text and mark not in text:
            raise ValueError("it has other lines")

    def add(text: str) -> str:
        check(text)
        return content

    def remove(text: str) -> str:
        check(text)
        return ""

    return ClientFile(path, add, remove, is_program)
