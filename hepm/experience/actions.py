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
# Programs that say nothing of what a line is for.
_SILENT: Final = frozenset(
    ("cd", "pushd", "popd", "export", "source", ".", "set", "true", ":", "echo", "sleep", "wait")
)
_READING_PROGRAMS: Final = frozenset((
    "cat", "ls", "grep", "rg", "find", "head", "tail", "less", "wc", "tree", "which", "pwd", "file", "stat", "diff",
    "awk", "jq", "env", "printenv", "ps", "df", "du", "nl", "man", "type", "sort", "uniq", "cut",
))  # fmt: skip
_READING_GIT: Final = frozenset(("status", "log", "diff", "show", "blame", "branch", "ls-files", "grep"))
# First words of the names of tools that only read: "get_order", "listFiles", "mcp__shop__search_items".
_READING_WORDS: Final = frozenset((
    "get", "list", "find", "search", "read", "view", "show", "check", "fetch", "look", "lookup", "query", "describe",
    "calculate", "think", "grep", "glob", "ls", "browse", "open", "inspect", "verify", "count", "ask", "can", "is",
    "todo", "task", "web",
))  # fmt: skip
# The words of "getOrderItems", "get_order_items" and "HTTPGet".
_NAME_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# Absolute paths inside a word: "/srv/app/x.py", "~/x.py", "C:\x.py".
_PATH: Final = re.compile(r"(?<![\w./~-])(?:/|~/|[A-Za-z]:[\\/])[^\s'\":]+")
# What two runs hardly share: numbers, paths, options with values, quotations.
_ODD: Final = re.compile(r"\d{2}|[/\\'\"=@:]|\s")
_PLAIN: Final = re.compile(r"[\w][\w .:/@-]{0,39}")
_SUBCOMMAND: Final = re.compile(r"[A-Za-z][\w:-]*")
# Programs whose next word is another program: "uv run pytest", "docker compose up".
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
        project: Its folder: paths are named from there.
    """
    if is_shell(call.name):
        return list(_commands(call, project, failed))
    texts = _texts_of_call(call, project)
    if not all(map(_may_be_told, texts)):
        return []
    return [Action(call.name, texts, not is_reading(call.name), failed)]


def _texts_of_call(call: ToolCall, project: str) -> tuple[str, ...]:
    """What a call does in words, the most exact first: "Edit src/app.py"; "refund(reason=damaged)", then "refund"."""
    # What is changed in a file differs from run to run; that it is changed does not.
    path = file_of(call.arguments)
    if path:
        return (f"{call.name} {relative(path, project)}",)
    arguments = _plain_arguments(call.arguments)
    if arguments:
        return f"{call.name}({arguments})", call.name
    return (call.name,)


def is_reading(tool: ToolName) -> bool:
    """Whether a tool is called like one that only reads."""
    # Of "mcp__server__tool" the tool.
    name = tool.rpartition("__")[2]
    words = _NAME_WORD.findall(name)
    return bool(words) and words[0].lower() in _READING_WORDS


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
    # By its name: the same files lie elsewhere on another machine, or in a work tree beside it.
    folder = re.split(r"[/\\]", project)[-1]
    if folder and folder in parts:
        within = parts[parts.index(folder) + 1 :]
        return "/".join(within) or folder
    absolute = path.startswith(("/", "~", "\\")) or path[1:2] == ":"
    return "/".join(parts[-2:] if absolute else parts)


def _commands(call: ToolCall, project: str, failed: bool) -> Iterator[Action]:
    shell = call.name.partition(" ")[0]
    actions: list[Action] = []
    try:
        for command in simple_commands(command_of(call.arguments)[:_READ]):
            words = [_PATH.sub(lambda path: relative(path[0], project), word) for word in command.words]
            # "$(" begins a command whose output is an argument of another one.
            if words and words[0] not in _SILENT and command.operator != "$(":
                tool = command_name(shell, {"command": shlex.join(command.words)})
                actions.append(Action(tool, _texts(words), _alters(words)))
            if len(actions) == _COMMANDS:
                break
    except ValueError:  # a quotation that does not end: what was read before it counts
        pass
    last = len(actions) - 1
    for number, action in enumerate(actions):
        if all(map(_may_be_told, action.texts)):
            # What failed of a line is its last command, as far as is known.
            yield action._replace(failed=failed and number == last)


def _alters(words: list[str]) -> bool:
    """Whether a command may change something."""
    program = words[0].rpartition("/")[2]
    if program == "git":
        return len(words) < 2 or words[1] not in _READING_GIT
    if program == "sed":
        return any(word.startswith("-i") for word in words)
    return program not in _READING_PROGRAMS


def _texts(words: list[str]) -> tuple[str, ...]:
    """A command whole, and its program with what it does: "docker compose up -d db" and "docker compose up"."""
    whole = " ".join(words)
    short = " ".join(_program_of(words))
    texts = tuple(text for text in dict.fromkeys((whole, short)) if len(text) <= ACTION_CHARS)
    if not texts:
        return (short[:ACTION_CHARS],)
    return texts


def _program_of(words: list[str]) -> list[str]:
    """The first words of a command that say what it does, without options, paths and numbers."""
    runs_another = words[0] in _RUNNERS
    most = 3 if runs_another else 2
    parts = [words[0]]
    for word in words[1:most]:
        if not _SUBCOMMAND.fullmatch(word):
            break
        parts.append(word)
    if len(words) > 1 and len(parts) == 1 and runs_another and not _ODD.search(words[1]):
        # "python -m pytest": an option is part of it where the next program follows.
        parts.append(words[1])
        parts += filter(_SUBCOMMAND.fullmatch, words[2:3])
    return parts


def _plain_arguments(arguments: Mapping[str, JSON]) -> str:
    """Up to three arguments: "reason=damaged, express=true"; "" if one of them is no plain word or small number."""
    shown: list[str] = []
    for name, value in list(arguments.items())[:3]:
        if not isinstance(value, str | int | float):
            return ""
        text = str(value)
        if isinstance(value, bool):
            text = text.lower()
        if not _PLAIN.fullmatch(text) or re.search(r"\d{2}", text):
            return ""
        shown.append(f"{name}={text}")
    return ", ".join(shown)


def _may_be_told(text: str) -> bool:
    # Texts in which redaction finds something go whole: what is left of them would say little.
    return text.isprintable() and len(text) <= 2 * ACTION_CHARS and _redactor().text(text) == text


@cache
def _redactor() -> Redactor:
    return Redactor()
