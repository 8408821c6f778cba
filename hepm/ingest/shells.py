"""Names of shell calls by the program that they run: "Bash git" says more in a graph than "Bash"."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, Final, cast

from hepm.ingest.redact import Redactor
from hepm.types import ToolName, Trajectory

SHELLS: Final = frozenset((
    "Bash", "PowerShell", "bash", "execute_bash", "execute_command", "exec_command", "local_shell",
    "run_command", "run_in_terminal", "run_shell_command", "run_terminal_cmd", "shell", "shell_command",
    "terminal", "unified_exec",
))  # fmt: skip
"""Tools of coding agents whose argument is a command line."""

_KEYS: Final = ("command", "cmd", "commands")
_READ: Final = 2_000  # characters: the rest of a longer command is a heredoc or a list of files
_ASSIGNMENT: Final = re.compile(r"\w+\+?=|\$env:")
_COMMENT: Final = re.compile(r"^\s*#.*$", re.MULTILINE)
_PROGRAM: Final = re.compile(r"[\w.+-]{0,20}[A-Za-z][\w.+-]{0,20}")
_NUMBER: Final = re.compile(r"[\d.]+[smhd]?")
_VERSION: Final = re.compile(r"(python|pip)w?[\d.]*")

_SILENT: Final = frozenset((
    "cd", "pushd", "popd", "export", "source", ".", "set", "unset", "true", ":", "wait", "exit", "return",
    "ulimit", "umask", "trap", "shopt", "alias", "Set-Location", "for", "case", "select", "function", "done",
    "fi", "esac", "}",
))  # fmt: skip
_WEAK: Final = frozenset(["echo", "printf", "sleep", "test", "[", "[[", "Write-Host", "Write-Output"])
"""Programs that give the name only if there is no other."""
_KEYWORDS: Final = frozenset(["if", "then", "elif", "else", "while", "until", "do", "!", "{", "(", "time"])
_PREFIXES: Final = frozenset((
    "sudo", "doas", "env", "nohup", "exec", "command", "builtin", "nice", "ionice", "timeout", "stdbuf",
    "setsid", "xvfb-run",
))  # fmt: skip
_RUNNERS: Final = {
    **dict.fromkeys(("uv", "poetry", "pipenv", "pdm", "hatch", "rye", "conda", "micromamba", "pixi"), ("run",)),
    **dict.fromkeys(("npx", "bunx", "uvx", "pipx"), ("run", "")),
    **dict.fromkeys(("pnpm", "yarn", "npm", "bundle"), ("exec", "dlx")),
}
"""Programs that run another one, and the words after which it comes; "" for at once."""
_SHELL_PROGRAMS: Final = frozenset(["bash", "sh", "zsh", "dash", "fish", "pwsh", "powershell"])
_VALUED: Final = frozenset((
    "-u", "-g", "-n", "-p", "-C", "--name", "--with", "--extra", "--group", "--python", "--directory",
    "--project", "--package", "--env-file",
))  # fmt: skip
"""Options of prefixes and runners that take a value."""


def command_name(name: ToolName, arguments: object) -> ToolName:
    """The name of a call in the graph: "Bash git" for a shell that runs git, else the tool's own."""
    if name not in SHELLS or not isinstance(arguments, dict):
        return name
    given = cast("dict[str, Any]", arguments)
    command = next((given[key] for key in _KEYS if given.get(key)), None)
    if isinstance(command, list):
        words = [str(word) for word in cast("list[Any]", command)]
        # ["bash", "-lc", "git status"] is one command in words, ["git status", "make"] are two commands.
        command = "\n".join(words) if "commands" in given else shlex.join(words)
    if not isinstance(command, str):
        return name
    program = _program(command[:_READ].replace("\\", "/") if name == "PowerShell" else command[:_READ])
    # Names of tools are stored as they are, and some people type a password where a command is due.
    return f"{name} {program}" if program and _redactor().text(program) == program else name


def with_command_names(run: Trajectory) -> Trajectory:
    """The run with its shell calls named by their programs."""
    turns = [
        replace(turn, calls=tuple(replace(call, name=command_name(call.name, call.arguments)) for call in turn.calls))
        if any(call.name in SHELLS for call in turn.calls)
        else turn
        for turn in run.turns
    ]
    return replace(run, turns=tuple(turns))


@cache
def _redactor() -> Redactor:
    return Redactor()


@lru_cache(maxsize=4096)
def _program(command: str) -> str:
    weak = ""
    for words in _simple_commands(command):
        found = _program_of(words)
        if found in _WEAK:
            weak = weak or found
        elif found:
            return found
    return weak if _PROGRAM.fullmatch(weak) else ""


def _simple_commands(command: str) -> Iterator[list[str]]:
    """The words of each command in a line, without operators and redirections."""
    line = _COMMENT.sub("", command.replace("\\\n", " ")).replace("\n", " ; ")
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    redirected = False
    try:
        for word in lexer:
            if word[0] in "<>" or word in ("&>", "&>>"):
                redirected = True
            elif not word.strip("();|&"):
                yield words
                words = []
                redirected = False
            elif redirected:
                redirected = False
            else:
                words.append(word)
    except ValueError:  # a quotation that never ends: it may go on behind what is read
        pass
    yield words


def _program_of(words: list[str]) -> str:
    words = _without_prefixes(words)
    if not words or words[0] in _SILENT:
        return ""
    program, rest = words[0].rstrip("/").rpartition("/")[2].removesuffix(".exe"), words[1:]
    if match := _VERSION.fullmatch(program):
        program = match[1]
    if program in _SHELL_PROGRAMS:
        script = next((rest[at + 1] for at, word in enumerate(rest[:-1]) if re.fullmatch(r"-\w*c|-Command", word)), "")
        return (_program(script) if script else "") or program
    if program == "python" and "-m" in rest[:-1]:
        module = rest[rest.index("-m") + 1]
        return module if _PROGRAM.fullmatch(module) else program
    for word in _RUNNERS.get(program, ()):
        inner = rest if not word else _after(word, rest)
        if found := _program_of(_without_options(inner)):
            return found
    return program if program in _WEAK or _PROGRAM.fullmatch(program) else ""


def _without_prefixes(words: list[str]) -> list[str]:
    while words:
        if words[0] in _PREFIXES:
            words = _without_options(words[1:])
            while words and _NUMBER.fullmatch(words[0]):
                words = words[1:]
        elif words[0] in _KEYWORDS or _ASSIGNMENT.match(words[0]):
            words = words[1:]
        else:
            return words
    return words


def _after(word: str, words: list[str]) -> list[str]:
    """What follows a runner's own word: `run` in `uv --quiet run pytest`."""
    words = _without_options(words)
    return words[1:] if words[:1] == [word] else []


def _without_options(words: list[str]) -> list[str]:
    while words and words[0].startswith("-") and words[0] != "-":
        words = words[2:] if words[0] in _VALUED else words[1:]
    return words
