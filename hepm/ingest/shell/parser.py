"""Command lines of shells: which tools run them, and the simple commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from hepm.types import JSON

SHELLS: Final = frozenset((
    "Bash", "PowerShell", "bash", "execute_bash", "execute_command", "exec_command", "local_shell",
    "run_command", "run_commands", "run_in_terminal", "run_shell_command", "run_terminal_cmd", "shell", "shell_command",
    "terminal", "unified_exec",
))  # fmt: skip
"""Tools of coding agents whose argument is a command line."""

_SHELL_WORDS: Final = re.compile("bash|sh|zsh|shell|terminal|powershell|exec|cmd|command", re.IGNORECASE)

SHELL_PROGRAMS: Final = frozenset(["bash", "sh", "zsh", "dash", "fish", "pwsh", "powershell"])


_HEREDOC: Final = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n.*?(?:^\s*\2\s*$|\Z)", re.DOTALL | re.MULTILINE)
# A substitution, with one more inside: "$(date)", "<(ls)", "`date`".
_SUBSTITUTION: Final = re.compile(r"[$<>]\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|`[^`]*`")
_PART: Final = re.compile(
    r"""(?P<end>&&|\|\||(?<![<>])&(?!>)|[;\n()])|(?P<pipe>\|&?)|\\.|'[^']*'|"(?:\\.|[^"\\])*"|"""
    + _SUBSTITUTION.pattern,
    re.DOTALL,
)
_KEYWORD: Final = r"(?:if|then|elif|else|while|until|do|!|\{)"
_COMMENT: Final = re.compile(r"^\s*#.*$", re.MULTILINE)
_SEPARATORS: Final = ";|&()\n"


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
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)  # "runShellCommand", "mcp__term__exec"
    return name in SHELLS or any(map(_SHELL_WORDS.fullmatch, words))


def command_of(arguments: Mapping[str, JSON]) -> str:
    """The command line in the arguments of a call; "" if there is none."""
    command = arguments.get("command") or arguments.get("cmd") or arguments.get("commands")
    if isinstance(command, list | tuple):
        words = map(str, command)
        # ["bash", "-lc", "git status"] is one command in words, ["git status", "make"] are two commands.
        return "\n".join(words) if "commands" in arguments else shlex.join(words)
    return command if isinstance(command, str) else ""


def simple_commands(line: str) -> Iterator[SimpleCommand]:
    """The simple commands of a command line, in order; heredocs and whole-line comments are left out.

    Raises:
        ValueError: a quotation does not end, after all that could be read: the line was cut, or is not for a shell.
    """
    text = _COMMENT.sub("", _HEREDOC.sub(r"\3", line)).replace("\\\n", " ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_SEPARATORS + "<>")
    lexer.whitespace = " \t\r"  # without "\n", which ends a command
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    written: list[str] = []
    redirection = ""
    unfinished: ValueError | None = None
    while True:
        try:
            word = lexer.get_token()
        except ValueError as error:
            word = None
            unfinished = error
        if word is None or (word and not word.strip(_SEPARATORS)):
            if words or written:
                yield SimpleCommand(words, written, _operator(word or "", words))
            if unfinished is not None:
                raise unfinished
            if word is None:
                return
            words, written, redirection = [], [], ""
        elif word.startswith(("<", ">", "&>")):
            redirection = word
        elif redirection:
            if redirection in (">", ">>", ">|", "&>", "&>>"):
                written.append(word)
            redirection = ""
        elif words or not re.fullmatch(_KEYWORD, word):
            words.append(word)


def pipelines(line: str) -> Iterator[list[str]]:
    """The pipelines of a command line as they stand there, each as its beginnings: "a", "a | b", "a | b | c".

    Without the texts of heredocs, and comments that are whole lines.
    """
    text = _COMMENT.sub("", _HEREDOC.sub(r"<<'\2 …'\3", line)).replace("\\\n", " ") + "\n"
    start = 0
    beginnings: list[str] = []
    for part in _PART.finditer(text):
        if part["end"] or part["pipe"]:
            beginnings.append(re.sub(rf"^\s*(?:{_KEYWORD}\s+)*", "", text[start : part.start()]).strip())
        if part["end"]:
            if beginnings[-1]:
                yield beginnings
            start = part.end()
            beginnings = []


def program_words(pipeline: str) -> list[SimpleCommand]:
    """The commands of one pipeline, with "$_" for each substitution.

    Raises:
        ValueError: a quotation does not end.
    """
    return list(simple_commands(_SUBSTITUTION.sub("$_", pipeline)))


def _operator(separator: str, words: list[str]) -> str:
    """What separates a command from the next one: "&&" of ")&&\\n"; "$(" after the words of "echo $(date)"."""
    if separator.startswith("(") and words and words[-1].endswith("$"):
        return "$("
    return separator.strip("()\n") or ";"


def script_of(words: Sequence[str]) -> str | None:
    """The command line that a shell is given as an argument, as in `bash -lc 'git status'`; None without one."""
    if not words or PurePosixPath(words[0]).name.removesuffix(".exe") not in SHELL_PROGRAMS:
        return None
    for option, script in pairwise(words[1:]):
        if re.fullmatch(r"-\w*c|-Command", option):
            return script
    return None
