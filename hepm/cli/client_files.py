"""Edits of the files of agents that `hepm init` connects, whose other lines stay as they are, and a new `hepm.toml`."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

from hepm.atomic_file import atomic_file
from hepm.cli.config import FILE_NAME
from hepm.errors import InputError
from hepm.types import DEFAULT_NAMESPACE, Object

TOKEN_HEADER: Final = "X-Hepm-Token"
_BEGIN, _END, _KEPT = "# >>> hepm init >>>", "# <<< hepm init <<<", "# before: "
_BLOCK: Final = re.compile(rf"^{_BEGIN}\n(.*?)^{_END}\n", re.MULTILINE | re.DOTALL)
_PROVIDER: Final = re.compile(r"^[ \t]*model_provider[ \t]*=.*\n", re.MULTILINE)
_TABLE: Final = re.compile(r"^[ \t]*\[", re.MULTILINE)
_CONFIG: Final = """\
# Settings of hepm in this folder. Options and variables win over them; docs/reference/settings.md lists all keys.
store = {store}
namespace = {namespace}

[serve]  # hepm serve, hepm mcp
# upstream = "http://localhost:11434/v1"
# holdout = 0.1

[redaction.rules]  # what to remove from runs besides secrets
# ticket = 'T-[0-9]+'
"""


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
        change = self.add
        if remove:
            change = self.remove
        before = ""
        try:
            if self.path.exists():
                before = self.path.read_bytes().decode()
            after = change(before.replace("\r\n", "\n"))
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
            self._delete()
            return f"removed {self.path}, which had no other lines"
        self._write(after)
        if remove:
            return f"removed hepm's lines from {self.path}"
        return f"wrote {self.path}"

    def _delete(self) -> None:
        self.path.unlink()
        # A folder that holds anything else, or is in use, stays.
        for folder in self.path.parents[:2]:
            if folder not in (Path(), Path.home()):
                with suppress(OSError):
                    folder.rmdir()

    def _write(self, text: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(self.path, "the settings") as place:
            place.write_bytes(text.encode())
            # The new file takes the place of the old one, and gets its permissions.
            if self.path.exists():
                place.chmod(self.path.stat().st_mode & 0o777)
            elif self.is_program:
                place.chmod(0o755)


def json_file(path: Path, ours: Object, within: str, is_ours: Callable[[object, Any], bool]) -> ClientFile:
    """A file of JSON with hepm's part, whose other members, their order and indentation stay.

    Args:
        within: The member of the file that holds what is to be removed.
        is_ours: Whether a member or element in it is hepm's, perhaps of another server, by its name or place and value.
    """

    def without(text: str) -> str:
        settings, write = _read_json(text)
        before = json.dumps(settings)
        _strip(settings, within, is_ours)
        # Unchanged text keeps its layout, which writing would not.
        if json.dumps(settings) == before:
            return text
        # What some agents want in each file of hooks.
        if settings.keys() <= {"version"}:
            return ""
        return write(settings)

    def having(text: str) -> str:
        settings, write = _read_json(text)
        _strip(settings, within, is_ours)
        _merge(settings, ours)
        return write(settings)

    return ClientFile(path, having, without)


def _merge(settings: Object, ours: Object) -> None:
    """Add hepm's part; ValueError if a member is of another kind."""
    for key, value in ours.items():
        present = settings.setdefault(key, type(value)())
        if not isinstance(present, type(value)):
            raise ValueError(f"its {key!r} is neither missing nor {json.dumps(type(value)())}")
        if isinstance(value, dict):
            _merge(cast(Object, present), cast(Object, value))
        elif isinstance(value, list):
            present += value
        else:
            settings[key] = value


def _strip(part: Any, key: Any, is_ours: Callable[[object, Any], bool]) -> None:
    """Take hepm's members out of a member of an object or list, and that itself if this leaves it empty."""
    try:
        inner: Any = part[key]
    except KeyError:
        return
    if not inner:
        return
    places: list[Any] = []
    if isinstance(inner, dict):
        places = [*cast(Object, inner)]
    elif isinstance(inner, list):
        # From the end: the places of elements before stay.
        places = [*reversed(range(len(cast("list[Any]", inner))))]
    for place in places:
        if is_ours(place, inner[place]):
            del inner[place]
        else:
            _strip(inner, place, is_ours)
    if inner in ({}, []):
        del part[key]


def _read_json(text: str) -> tuple[Object, Callable[[Object], str]]:
    """The object, and what writes it with the text's indentation."""

    def once(pairs: list[tuple[str, Any]]) -> Object:
        # Python would keep the last of them, and the other would be lost on writing.
        members = dict(pairs)
        if len(members) < len(pairs):
            raise ValueError("it has a key twice in one object")
        return members

    settings: Any = {}
    if text.strip():
        try:
            settings = json.loads(text, object_pairs_hook=once)
        except json.JSONDecodeError as error:
            if text.startswith(("//", "/*"), error.pos):
                raise ValueError("it has comments, which would be lost") from error
            raise
    if not isinstance(settings, dict):
        raise ValueError("it is no JSON object")
    indent = "  "
    spaces = re.search(r"^\{\n([ \t]+)", text)
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
        return _BLOCK.sub(lambda block: "".join(re.findall(rf"^{_KEPT}(.*\n)", block[1], re.MULTILINE)), text)

    def add(text: str) -> str:
        """The file's text with hepm's tables in place of former ones; ValueError if it is no TOML."""
        text = remove(text)
        if text and not text.endswith("\n"):
            text += "\n"
        # A key of the file itself stands before the first table.
        table = _TABLE.search(text)
        start_of_tables = table.start() if table else len(text)
        head, rest = text[:start_of_tables], text[start_of_tables:]
        chosen = 'model_provider = "hepm"\n'
        former = _PROVIDER.search(head)
        if former:
            # The former provider stays as a comment, which `remove` turns back into a line.
            head = head.replace(former[0], f"{_BEGIN}\n{_KEPT}{former[0]}{chosen}{_END}\n", 1)
        else:
            head = f"{_BEGIN}\n{chosen}{_END}\n{head}"
        text = "\n".join([head + rest + _BEGIN, *tables, _END, ""])
        # Fails if the file has a table of our name that is not ours.
        tomllib.loads(text)
        return text

    return ClientFile(path, add, remove)


def config_file(store: str, namespace: str) -> ClientFile:
    """A `hepm.toml` of this folder that names a store and a namespace. One with other lines is left as it is."""
    # A string of JSON is one of TOML.
    content = _CONFIG.format(store=json.dumps(store), namespace=json.dumps(namespace))
    return whole_file(Path(FILE_NAME), content)


def whole_file(path: Path, content: str, *, mark: str = "", is_program: bool = False) -> ClientFile:
    """A file that holds this content alone, or other content with hepm's mark. Any other one is left as it is."""

    def check(text: str) -> None:
        ours = mark and mark in text
        if text not in ("", content) and not ours:
            raise ValueError("it has other lines")

    def add(text: str) -> str:
        """hepm's content in place of the file's; ValueError if it has other lines."""
        check(text)
        return content

    def remove(text: str) -> str:
        check(text)
        return ""

    return ClientFile(path, add, remove, is_program)
