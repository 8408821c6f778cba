"""What calls do, in words that runs share: a command, a change of a file, a call with plain arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from hepm.ingest.redact import Redactor
from hepm.ingest.shell.command_names import command_name
from hepm.ingest.shell.parser import command_of, is_shell, simple_commands
from hepm.types import JSON, ToolCall, ToolName

ACTION_CHARS: Final = 80
_READ: Final = 2_000  # characters of a command line
_COMMANDS: Final = 6  # of one line

_FILE_KEYS: Final = ("file_path", "notebook_path", "path", "filename", "file", "target_file")
_SILENT: Final = frozenset(
    ("cd", "pushd", "popd", "export", "source", ".", "set", "true", ":", "echo", "sleep", "wait")
)
_READING_PROGRAMS: Final = frozenset((
    "cat", "ls", "grep", "rg", "find", "head", "tail", "less", "wc", "tree", "which", "pwd", "file", "stat", "diff",
    "awk", "jq", "env", "printenv", "ps", "df", "du", "nl", "man", "type", "sort", "uniq", "cut",
))  # fmt: skip
_READING_GIT: Final = frozenset(("status", "log", "diff", "show", "blame", "branch", "ls-files", "grep"))
_READING_WORDS: Final = frozenset((
    "get", "list", "find", "search", "read", "view", "show", "check", "fetch", "look", "lookup", "query", "describe",
    "calculate", "think", "grep", "glob", "ls", "browse", "open", "inspect", "verify", "count", "ask", "can", "is",
    "todo", "task", "web",
))  # fmt: skip
_NAME_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PATH: Final = re.compile(r"(?<![\w./~-])(?:/|~/|[A-Za-z]:[\\/])[^\s'\":]+")
_ODD: Final = re.compile(r"\d{2}|[/\\'\"=@:]|\s")
_PLAIN: Final = re.compile(r"[\w][\w .:/@-]{0,39}")
_SUBCOMMAND: Final = re.compile(r"[A-Za-z][\w:-]*")
_RUNNERS: Final = frozenset(
    ("python", "python3", "uv", "npx", "npm", "yarn", "pnpm", "poetry", "docker", "bundle", "sudo")
)


class Action(NamedTuple):
    """What a call does.

    Attributes:
        tool: As the graph names it: "Bash docker", "Edit", "refund".
        texts: What it does in words, the most exact first: "docker compose up -d db", then "docker compose".
        changes: Whether it may change something. Told by its name, as records do not say it.
        failed: Whether the call went wrong.
    """

    tool: ToolName
    texts: tuple[str, ...]
    changes: bool
    failed: bool = False


def actions_of(call: ToolCall, *, project: str = "", failed: bool = False) -> list[Action]:
    """What a call does: of a shell each command of its line; none that holds a secret.

    Args:
        project: The name of its folder: paths are named from there.
    """
    if is_shell(call.name):
        return list(_commands(call, project, failed))
    path = file_of(call.arguments)
    changes = not is_reading(call.name)
    if path:
        texts = (f"{call.name} {relative(path, project)}",)
    else:
        plain = _plain_arguments(call.arguments)
        texts = (f"{call.name}({plain})", call.name) if plain else (call.name,)
    return [Action(call.name, texts, changes, failed)] if all(map(_may_be_told, texts)) else []


def is_reading(tool: ToolName) -> bool:
    """Whether a tool is called like one that only reads."""
    words = [word.lower() for word in _NAME_WORD.findall(tool.rpartition("__")[2])]
    return bool(words) and words[0] in _READING_WORDS


def file_of(arguments: Mapping[str, JSON]) -> str:
    """The file that a call is about; "" for none."""
    for key in _FILE_KEYS:
        value = arguments.get(key)
        if isinstance(value, str) and value and "\n" not in value:
            return value
    return ""


def relative(path: str, project: str) -> str:
    """A path from the folder of its project; a path outside of it by its last parts."""
    parts = [part for part in re.split(r"[/\\]", path) if part not in ("", ".")]
    if project and project in parts:
        within = parts[parts.index(project) + 1 :]
        return "/".join(within) or project
    absolute = path.startswith(("/", "~", "\\")) or path[1:2] == ":"
    return "/".join(parts[-2:] if absolute else parts)


def _commands(call: ToolCall, project: str, failed: bool) -> Iterator[Action]:
    shell = call.name.partition(" ")[0]
    found: list[Action] = []
    try:
        for one in simple_commands(command_of(call.arguments)[:_READ]):
            words = [_PATH.sub(lambda path: relative(path[0], project), word) for word in one.words]
            if words and words[0] not in _SILENT and one.operator != "$(":
                found.append(
                    Action(command_name(shell, {"command": shlex.join(one.words)}), _texts(words), _alters(words))
                )
            if len(found) == _COMMANDS:
                break
    except ValueError:  # a quotation that does not end: what was read before it counts
        pass
    for number, action in enumerate(found):
        if all(map(_may_be_told, action.texts)):
            # What failed of a line is its last command, as far as is known.
            yield action._replace(failed=failed and number == len(found) - 1)


def _alters(words: list[str]) -> bool:
    program = words[0].rpartition("/")[2]
    if program == "git":
        return len(words) < 2 or words[1] not in _READING_GIT
    if program == "sed":
        return any(word.startswith("-i") for word in words)
    return program not in _READING_PROGRAMS


def _texts(words: list[str]) -> tuple[str, ...]:
    """A command whole, with its odd words left out, and its program with what it is told to do."""
    whole = " ".join(words)
    parts = [words[0]]
    for word in words[1:]:
        if not _SUBCOMMAND.fullmatch(word):
            break
        parts.append(word)
        if len(parts) == (3 if words[0] in _RUNNERS else 2):
            break
    if len(words) > 1 and len(parts) == 1 and words[0] in _RUNNERS and not _ODD.search(words[1]):
        parts.append(words[1])
        parts += [word for word in words[2:3] if _SUBCOMMAND.fullmatch(word)]
    short = " ".join(parts)
    return tuple(text for text in dict.fromkeys((whole, short)) if len(text) <= ACTION_CHARS) or (short[:ACTION_CHARS],)


def _plain_arguments(arguments: Mapping[str, JSON]) -> str:
    shown: list[str] = []
    for name, value in list(arguments.items())[:3]:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        scalar = isinstance(value, str | int | float)
        if not scalar or not _PLAIN.fullmatch(text) or re.search(r"\d{2}", text):
            return ""
        shown.append(f"{name}={text}")
    return ", ".join(shown)


def _may_be_told(text: str) -> bool:
    return text.isprintable() and len(text) <= 2 * ACTION_CHARS and _redacted(text) == text


def _redacted(text: str) -> str:
    return _redactor().text(text)


@cache
def _redactor() -> Redactor:
    return Redactor()
