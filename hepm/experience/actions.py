"""What calls do, in words that runs share: a command, a change of a file, a call with plain arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

from hepm.ingest.redact import Redactor
from hepm.ingest.shell.command_names import command_name, without_assignments
from hepm.ingest.shell.parser import SimpleCommand, command_of, is_shell, pipelines, program_words
from hepm.ingest.shell.remote_code import runs_remote_code
from hepm.ingest.shell.without_values import is_random, without_values
from hepm.text import disarmed
from hepm.types import JSON, ToolCall, ToolName

ACTION_CHARS: Final = 80
_READ: Final = 2_000  # characters of a command line
_PIPELINES: Final = 60  # of one line that are read
_COMMANDS: Final = 6  # of one line

_FILE_KEYS: Final = ("file_path", "notebook_path", "path", "filename", "file", "target_file")
# Programs that say nothing of what a line is for.
_SILENT: Final = frozenset((
    "cd", "pushd", "popd", "export", "source", ".", "set", "true", ":", "echo", "printf", "sleep", "wait", "for",
    "case", "esac", "done", "fi", "exit", "return", "}",
))  # fmt: skip
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
# Absolute paths inside a word: "/srv/app/x.py", "~/x.py", "C:\x.py"; not those of addresses.
_PATH: Final = re.compile(r"(?<![\w./~:-])(?:/|~/|[A-Za-z]:[\\/])[^\s'\":]+")
_HOME: Final = re.compile(r"^(?:/home/[^/]+|/Users/[^/]+|/root|[A-Za-z]:[\\/]Users[\\/][^\\/]+)(?=[\\/]|$)")
# What only says where the output of a command is shown.
_OUTPUT: Final = re.compile(r"(?:\s*(?:2>&1|&?[12]?>\s*/dev/null))+$")
# The form of a message of a chat, of a tag, or of a template's mark.
_STEERING: Final = re.compile(
    r"</?(?!(?:value|key|query|user|password)>)[a-z][\w-]*>|<\||\|>|\[/?INST\]|"
    r"(?<![\w.-])(?:system|user|assistant|human|developer|instructions?)\s*:(?![/\w])",
    re.IGNORECASE,
)
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
    if any(len(text) > 2 * ACTION_CHARS or not may_be_told(text) for text in texts):
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
    line = command_of(call.arguments)[:_READ]
    if runs_remote_code(line):
        return
    actions: list[Action] = []
    for beginnings in islice(pipelines(line), _PIPELINES):
        action = _action_of(shell, beginnings, project)
        if action is not None:
            actions.append(action)
        if len(actions) == _COMMANDS:
            break
    last = len(actions) - 1
    for number, action in enumerate(actions):
        if action.texts:
            # What failed of a line is its last command, as far as is known.
            yield action._replace(failed=failed and number == last)


def _action_of(shell: ToolName, beginnings: list[str], project: str) -> Action | None:
    """What a pipeline does, without what only shows its output: "pytest -q" of "pytest -q 2>&1 | tail -5".

    None of one that says nothing of what a line is for; without texts if it may not be told.
    """
    try:
        stages = [stage for stage in program_words(beginnings[-1]) if stage.words]
    except ValueError:  # a quotation that does not end
        return None
    while len(stages) > 1 and not _alters(stages[-1]):
        del stages[-1]
    telling = [stage for stage in stages if stage.words[0] not in _SILENT]
    if not telling:
        return None
    # Of "cat dump.sql | psql app" what changes something names it.
    stage = next(filter(_alters, telling), telling[0])
    tool = command_name(shell, {"command": shlex.join(stage.words)})
    whole = _OUTPUT.sub("", beginnings[len(stages) - 1])
    whole = _PATH.sub(lambda path: _path_from(path[0], project), whole)
    short = without_values(" ".join(_program_of(without_assignments(stage.words))))
    return Action(tool, _told_texts(whole, short), any(map(_alters, stages)))


def _path_from(path: str, project: str) -> str:
    """A path in a command: from the folder of its project, else from the user's own, else as it is."""
    folder = re.split(r"[/\\]", project)[-1]
    parts = re.split(r"[/\\]", path)
    if folder and folder in parts:
        return relative(path, project) if parts[-1] != folder else "."
    return _HOME.sub("~", path)


def _told_texts(whole: str, short: str) -> tuple[str, ...]:
    """A command whole, and its program with what it does: "docker compose up -d db" and "docker compose up"."""
    if whole.isprintable() and not may_be_told(whole):
        return ()
    told = ""
    if whole.isprintable() and len(whole) <= 2 * ACTION_CHARS:
        told = without_values(whole)
    texts = [text for text in (told, short) if text and len(text) <= ACTION_CHARS]
    return tuple(dict.fromkeys(texts or [short[:ACTION_CHARS]]))


def _alters(command: SimpleCommand) -> bool:
    """Whether a command may change something."""
    if any(not file.startswith("/dev/") for file in command.written):
        return True
    words = command.words
    program = words[0].rpartition("/")[2]
    if program == "git":
        return len(words) < 2 or words[1] not in _READING_GIT
    if program == "sed":
        return any(word.startswith("-i") for word in words)
    return program not in _READING_PROGRAMS


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
        if not _PLAIN.fullmatch(text) or re.search(r"\d{2}", text) or is_random(text):
            return ""
        shown.append(f"{name}={text}")
    return ", ".join(shown)


def may_be_told(text: str) -> bool:
    """Whether a text is one line without a secret, and has nothing of the form of a message, a tag or a hint."""
    if not text.isprintable() or _STEERING.search(text) or disarmed(text) != text:
        return False
    # Texts in which redaction finds something go whole: what is left of them would say little.
    return _redactor().text(text) == text


@cache
def _redactor() -> Redactor:
    return Redactor()
