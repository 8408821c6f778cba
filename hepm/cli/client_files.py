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
_BEGIN = "# >>> hepm init >>>"
_END = "# <<< hepm init <<<"


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """How an agent reaches `hepm serve`; `token_env` is the environment variable with its token."""

    address: str
    namespace: str
    token_env: str | None

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
        change: The text with the lines, in place of former ones, if the second argument is true; else without them.
        is_program: Whether the agent runs the file.
    """

    path: Path
    change: Callable[[str, bool], str]
    is_program: bool = False

    def edit(self, *, remove: bool) -> str:
        """Add the lines, or remove them; returns what was done, for a sentence.

        Raises:
            InputError: the file cannot be read or written, or is no such file. It is unchanged.
        """
        path = self.path
        before = ""
        try:
            if path.exists():
                before = path.read_bytes().decode()
            after = self.change(before.replace("\r\n", "\n"), not remove)
        # Nothing is written yet: the file is unchanged whatever went wrong.
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is left as it is: {error}. Correct it, or edit it yourself.") from error
        # A file with line ends of Windows keeps them.
        if "\r\n" in before:
            after = after.replace("\n", "\r\n")
        if after == before:
            if remove:
                return f"{path} has no lines of hepm"
            return f"{path} has these lines already"
        if not after.strip():
            path.unlink()
            return f"removed {path}, which had no other lines"
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path, "the settings") as place:
            place.write_bytes(after.encode())
            # The new file takes the place of the old one, and gets its permissions.
            if path.exists():
                place.chmod(path.stat().st_mode & 0o777)
            elif self.is_program:
                place.chmod(0o755)
        if remove:
            return f"removed hepm's lines from {path}"
        return f"wrote {path}"


def hooks_file(path: Path, hooks: Mapping[str, Object], others: Object, is_ours: Callable[[str], bool]) -> ClientFile:
    """A file of JSON that has under "hooks" a list for each event, with a hook of hepm's in some.

    Args:
        others: Further members that the file needs.
        is_ours: Whether a hook in JSON is one of hepm's, perhaps of another server.
    """

    def all_ours(hook: Any) -> bool:
        # Some agents have groups of hooks.
        parts: list[Any] = [hook]
        if isinstance(hook, dict):
            parts = cast(Object, hook).get("hooks") or parts
        return all(is_ours(json.dumps(part)) for part in parts)

    def change(settings: Object, adding: bool) -> None:
        """Add hepm's hooks to settings, or take them out."""
        if adding:
            settings.update(others)
        events = _member(settings, "hooks", Object())
        for event in list(events):
            events[event] = [hook for hook in _member(events, event, list[Any]()) if not all_ours(hook)]
            if not events[event]:
                del events[event]
        if adding:
            for event, hook in hooks.items():
                events.setdefault(event, []).append(hook)
        if not events:
            del settings["hooks"]

    return _json_file(path, change)


def servers_file(path: Path, key: str, entry: Object) -> ClientFile:
    """A file of JSON that has MCP servers by name under a key, with hepm among them."""

    def change(settings: Object, adding: bool) -> None:
        servers = _member(settings, key, Object())
        servers.pop("hepm", None)
        if adding:
            servers["hepm"] = entry
        if not servers:
            del settings[key]

    return _json_file(path, change)


def _member(settings: Object, key: str, empty: T) -> T:
    """A member, made if it is missing; ValueError if it is of another kind."""
    value = settings.setdefault(key, empty)
    if not isinstance(value, type(empty)):
        raise ValueError(f"its {key!r} is neither missing nor {json.dumps(empty)}")
    return value


def _json_file(path: Path, change: Callable[[Object, bool], None]) -> ClientFile:
    """A file of JSON with hepm's part, whose other members, their order and indentation stay."""

    def edit(text: str, adding: bool) -> str:
        """The text with hepm's part, or without it."""
        settings = _read_json(text)
        before = json.dumps(settings)
        change(settings, adding)
        # Unchanged text keeps its layout, which writing would not.
        if json.dumps(settings) == before:
            return text
        # A version is what some agents want in each file of hooks.
        if settings.keys() <= {"version"}:
            return ""
        indent = re.search(r"^\{\n([ \t]+)", text) or ("", "  ")
        written = json.dumps(settings, indent=indent[1], ensure_ascii=False)
        if text.endswith("\n") or not text:
            written += "\n"
        return written

    return ClientFile(path, edit)


def _read_json(text: str) -> Object:
    """The object in a text; an empty one in an empty text."""
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
    return cast(Object, settings)


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

    def change(text: str, adding: bool) -> str:
        """The text with hepm's tables, or without them."""
        # Fails if the text is no TOML, and below if it has a table of our name that is not ours.
        tomllib.loads(text)
        text = re.sub(rf"(?ms)^{_BEGIN}\n.*?^{_END}\n", "", text)
        if not adding:
            return text
        if "model_provider" in tomllib.loads(text):
            raise ValueError("it chooses a model_provider: take that line out first")
        if text and not text.endswith("\n"):
            text += "\n"
        # A key of the file itself stands before the first table.
        head = [_BEGIN, 'model_provider = "hepm"', _END, text]
        tail = [_BEGIN, *tables, _END, ""]
        text = "\n".join(head) + "\n".join(tail)
        tomllib.loads(text)
        return text

    return ClientFile(path, change)


def whole_file(path: Path, content: str, mark: str, *, is_program: bool = False) -> ClientFile:
    """A file that holds this content alone, or other content with hepm's mark. Any other one is left as it is."""

    def change(text: str, adding: bool) -> str:
        if text and mark not in text:
            raise ValueError("it has other lines")
        if adding:
            return content
        return ""

    return ClientFile(path, change, is_program)
