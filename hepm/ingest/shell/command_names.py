"""Names of shell calls by the program that they run: "Bash git" says more in a graph than "Bash"."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import dropwhile
from typing import Final

from hepm.ingest.redact import default_redactor
from hepm.ingest.shell.parser import SHELL_PROGRAMS, SHELLS, command_of, script_of, simple_commands
from hepm.types import JSON, ToolName, Trajectory, Turn

_ASSIGNMENT: Final = re.compile(r"\w+\+?=|\$env:")
_PROGRAM: Final = re.compile(r"[\w.+-]{0,20}[A-Za-z][\w.+-]{0,20}")


_BUILT_IN: Final = """
cd pushd popd export source . set unset true : wait exit return ulimit umask trap shopt alias Set-Location for case
select function done fi esac }
"""
SILENT: Final = frozenset(_BUILT_IN.split())
"""Programs that say nothing of what a line is for."""
WEAK: Final = frozenset(["echo", "printf", "sleep", "test", "[", "[[", "Write-Host", "Write-Output"])
"""Programs that give the name only if there is no other."""
_PREFIXES: Final = frozenset((
    "sudo", "doas", "env", "nohup", "exec", "command", "builtin", "nice", "ionice", "timeout", "stdbuf",
    "setsid", "time", "xvfb-run",
))  # fmt: skip
_RUNNERS: Final = {
    **dict.fromkeys(("uv", "poetry", "pipenv", "pdm", "hatch", "rye", "conda", "micromamba", "pixi"), ("run",)),
    **dict.fromkeys(("npx", "bunx", "uvx", "pipx"), ("run", "")),
    **dict.fromkeys(("pnpm", "yarn", "npm", "bundle"), ("exec", "dlx")),
}
"""Programs that run another one, and the words after which it comes; "" for at once."""
_VALUED: Final = frozenset((
    "-u", "-g", "-n", "-p", "-C", "--name", "--with", "--extra", "--group", "--python", "--directory",
    "--project", "--package", "--env-file",
))  # fmt: skip
"""Options of prefixes and runners that take a value."""


def command_name(name: ToolName, arguments: Mapping[str, JSON]) -> ToolName:
    """The name of a call in the graph: "Bash git" for a shell that runs git, else the tool's own."""
    if name not in SHELLS:
        return name
    command = command_of(arguments)[:2_000]  # the rest of a longer one is a heredoc or a list of files
    if name == "PowerShell":
        command = command.replace("\\", "/")
    program = _program(command)
    # Names of tools are stored as they are, and some people type a password where a command is due.
    if not program or default_redactor().text(program) != program:
        return name
    return f"{name} {program}"


def with_command_names(run: Trajectory) -> Trajectory:
    """The run with its shell calls named by their programs."""
    turns: list[Turn] = []
    for turn in run.turns:
        calls = [replace(call, name=command_name(call.name, call.arguments)) for call in turn.calls]
        turns.append(replace(turn, calls=tuple(calls)))
    return replace(run, turns=tuple(turns))


@lru_cache(maxsize=4096)
def _program(command: str) -> str:
    weak = ""
    with contextlib.suppress(ValueError):  # a quotation that never ends: it may go on behind what is read
        for simple in simple_commands(command):
            program = _program_of(simple.words)
            if program in WEAK:
                weak = weak or program
            elif program:
                return program
    if _PROGRAM.fullmatch(weak):  # not "[": that is no name
        return weak
    return ""


def _program_of(words: list[str]) -> str:
    words = _without_prefixes(words)
    if not words or words[0] in SILENT:
        return ""
    program = words[0].rstrip("/").rpartition("/")[2].removesuffix(".exe")
    program = re.sub(r"^(python|pip)w?[\d.]*$", r"\1", program)  # "python3.11"
    rest = words[1:]
    if program in SHELL_PROGRAMS:
        return _program(script_of(words) or "") or program
    if program == "python" and "-m" in rest[:-1]:
        module = rest[rest.index("-m") + 1]
        if _PROGRAM.fullmatch(module):
            program = module
        return program
    # The program that a runner starts: "pytest" of uv and ["--quiet", "run", "pytest", "-q"].
    for word in _RUNNERS.get(program, ()):
        inner = rest
        if word:
            first, *inner = _without_options(rest) or [""]
            if first != word:
                continue
        inner_program = _program_of(_without_options(inner))
        if inner_program:
            return inner_program
    if program in WEAK or _PROGRAM.fullmatch(program):
        return program
    return ""


def _without_prefixes(words: list[str]) -> list[str]:
    words = without_assignments(words)
    while words and words[0] in _PREFIXES:
        inner = _without_options(words[1:])
        # "timeout 5m make": the time is no program.
        words = without_assignments(list(dropwhile(re.compile(r"[\d.]+[smhd]?").fullmatch, inner)))
    return words


def without_assignments(words: list[str]) -> list[str]:
    """The words of a command from its program on: "make x" of "A=1 make x"."""
    return list(dropwhile(_ASSIGNMENT.match, words))


def _without_options(words: list[str]) -> list[str]:
    while words and words[0].startswith("-") and words[0] != "-":
        words = words[2:] if words[0] in _VALUED else words[1:]
    return words
