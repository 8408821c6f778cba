"""Command lines of shells: which tools run them, and the simple commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple, cast

SHELLS: Final = frozenset((
    "Bash", "PowerShell", "bash", "execute_bash", "execute_command", "exec_command", "local_shell",
    "run_command", "run_in_terminal", "run_shell_command", "run_terminal_cmd", "shell", "shell_command",
    "terminal", "unified_exec",
))  # fmt: skip
"""Tools of coding agents whose argument is a command line."""

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_SHELL_WORDS: Final = frozenset(("bash", "sh", "zsh", "shell", "terminal", "powershell", "exec", "cmd", "command"))

SHELL_PROGRAMS: Final = frozenset(["bash", "sh", "zsh", "dash", "fish", "pwsh", "powershell"])

_KEYS: Final = ("command", "cmd", "commands")
_HEREDOC: Final = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n.*?(?:^\s*\2\s*$|\Z)", re.DOTALL | re.MULTILINE)
_COMMENT: Final = re.compile(r"^\s*#.*$", re.MULTILINE)
_KEYWORDS: Final = frozenset(["if", "then", "elif", "else", "while", "until", "do", "!", "{"])
_SEPARATORS: Final = ";|&()\n"
_WRITING: Final = frozenset([">", ">>", ">|", "&>", "&>>"])


class SimpleCommand(NamedTuple):
    """One program with its arguments.

    Attributes:
        words: Without quotation marks, redirections, and shell keywords before the program.
        written: Files that its output is redirected to.
        operator: What separates it from the next one: "&&", "|", ..., "$(" if that one is substituted, else ";".
    """

    words: list[str]
    written: list[str]
    operator: str


def is_shell(name: str) -> bool:
    """Whether a tool is called like one that runs command lines: its result is what they printed."""
    name = name.partition(" ")[0]  # "Bash git": the program is no part of it
    return name in SHELLS or not _SHELL_WORDS.isdisjoint(word.lower() for word in _WORD.findall(name))


def command_of(arguments: object) -> str:
    """The command line in the arguments of a call; "" if there is none."""
    if not isinstance(arguments, Mapping):
        return ""
    known = cast("Mapping[str, object]", arguments)
    given = next((known[key] for key in _KEYS if known.get(key)), "")
    if isinstance(given, str):
        return given
    words = [str(word) for word in cast("Sequence[object]", given)] if isinstance(given, list | tuple) else []
    # ["bash", "-lc", "git status"] is one command in words, ["git status", "make"] are two commands.
    return "\n".join(words) if "commands" in known else shlex.join(words)


def simple_commands(line: str) -> Iterator[SimpleCommand]:
    """The simple commands of a command line, in order; heredocs and whole-line comments are left out.

    Raises:
        ValueError: a quotation does not end, after all that could be read: the line was cut, or is not for a shell.
    """
    text = _COMMENT.sub("", _HEREDOC.sub(r"\3", line)).replace("\\\n", " ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_SEPARATORS + "<>")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    words, written, redirection = list[str](), list[str](), ""
    unfinished: ValueError | None = None
    while True:
        try:
            word = lexer.get_token()
        except ValueError as error:
            word, unfinished = None, error
        if word is None or (word and not word.strip(_SEPARATORS)):
            substituted = bool(word) and word[0] == "(" and bool(words) and words[-1].endswith("$")
            if words or written:
                yield SimpleCommand(words, written, "$(" if substituted else (word or "").strip("()\n") or ";")
            if unfinished is not None:
                raise unfinished
            if word is None:
                return
            words, written, redirection = [], [], ""
        elif word.startswith(("<", ">", "&>")):
            redirection = word
        elif redirection:
            if redirection in _WRITING:
                written.append(word)
            redirection = ""
        elif words or word not in _KEYWORDS:
            words.append(word)


def script_of(words: Sequence[str]) -> str | None:
    """The command line that a shell is given as an argument, as in `bash -lc 'git status'`; None without one."""
    if not words or PurePosixPath(words[0]).name.removesuffix(".exe") not in SHELL_PROGRAMS:
        return None
    options = (at for at, word in enumerate(words[1:-1], 1) if re.fullmatch(r"-\w*c|-Command", word))
    return next((words[at + 1] for at in options), None)
