"""What the commands of a shell do, in words that runs share: "docker compose up -d db"."""

from __future__ import annotations

import re
import shlex
from itertools import islice, takewhile
from typing import Final, NamedTuple

from hepm.ingest.redact import default_redactor
from hepm.ingest.shell.command_names import SILENT, WEAK, command_name, without_assignments
from hepm.ingest.shell.parser import SimpleCommand, command_of, is_shell, pipelines, program_words
from hepm.ingest.shell.remote_code import runs_remote_code
from hepm.ingest.shell.without_values import without_values
from hepm.text import disarmed
from hepm.types import ToolCall, ToolName

ACTION_CHARS: Final = 80
# Programs that change nothing.
_READING: Final = """
cat ls grep rg find head tail less wc tree which pwd file stat diff awk jq env printenv ps df du nl man type sort uniq
cut
"""
_READING_PROGRAMS: Final = frozenset(_READING.split())

# The form of a message of a chat, of a tag, or of a template's mark.
_STEERING: Final = re.compile(
    r"</?(?!(?:value|key|query|user|password)>)[a-z][\w-]*>|<\||\|>|\[/?INST\]|"
    r"(?<![\w.-])(?:system|user|assistant|human|developer|instructions?)\s*:(?![/\w])",
    re.IGNORECASE,
)
_SUBCOMMAND: Final = re.compile(r"[A-Za-z][\w:-]*")
# Programs whose next word is another program: "uv run pytest", "docker compose up".
_RUNNERS: Final = frozenset(
    ("python", "python3", "uv", "npx", "npm", "yarn", "pnpm", "poetry", "docker", "bundle", "sudo")
)


class Action(NamedTuple):
    """What a call does.

    Attributes:
        tool: As the graph names it: "Bash docker".
        text: What it does in words, such as "docker compose up -d db"; "" if it may not be told.
        program: What says which command it is, whatever its arguments: "docker compose".
        changes: Whether it may change something.
        failed: Whether the call went wrong.
    """

    tool: ToolName
    text: str
    program: str
    changes: bool
    failed: bool = False


def actions_of(call: ToolCall, *, project: str = "", failed: bool = False) -> list[Action]:
    """What each command of a shell's line does, none that holds a secret; nothing of another tool's call.

    Args:
        project: Its folder: paths are named from there.
    """
    line = command_of(call.arguments)[:2_000]
    if not is_shell(call.name) or runs_remote_code(line):
        return []
    shell = call.name.partition(" ")[0]
    found = (_action_of(shell, beginnings, project) for beginnings in islice(pipelines(line), 60))
    actions = list(islice(filter(None, found), 6))
    if actions:
        # What failed of a line is its last command, as far as is known.
        actions[-1] = actions[-1]._replace(failed=failed)
    return [action for action in actions if action.text]


def _action_of(shell: ToolName, beginnings: list[str], project: str) -> Action | None:
    """What a pipeline does, without what only shows its output: "pytest -q" of "pytest -q 2>&1 | tail -5".

    None of one that says nothing of what a line is for.
    """
    try:
        stages = [stage for stage in program_words(beginnings[-1]) if stage.words]
    except ValueError:  # a quotation that does not end
        return None
    while len(stages) > 1 and not _alters(stages[-1]):
        del stages[-1]
    telling = [stage for stage in stages if stage.words[0] not in SILENT | WEAK]
    if not telling:
        return None
    # Of "cat dump.sql | psql app" what changes something names it.
    stage = next(filter(_alters, telling), telling[0])
    tool = command_name(shell, {"command": shlex.join(stage.words)})
    # Without what only says where the output is shown.
    whole = re.sub(r"(?:\s*(?:2>&1|&?[12]?>\s*/dev/null))+$", "", beginnings[len(stages) - 1])
    # Absolute paths inside a word: "/srv/app/x.py", "~/x.py", "C:\x.py"; not those of addresses.
    absolute = r"(?<![\w./~:-])(?:/|~/|[A-Za-z]:[\\/])[^\s'\":]+"
    whole = re.sub(absolute, lambda path: _path_from(path[0], project), whole)
    short = without_values(" ".join(_program_of(without_assignments(stage.words))))
    text = ""
    if not whole.isprintable():
        text = short[:ACTION_CHARS]
    elif may_be_told(whole):
        text = without_values(whole)
        if not text or len(whole) > 2 * ACTION_CHARS or len(text) > ACTION_CHARS:
            text = short[:ACTION_CHARS]
    return Action(tool, text, short, any(map(_alters, stages)))


def _path_from(path: str, project: str) -> str:
    """A path in a command: from the folder of its project, else from the user's own, else as it is."""
    folder = re.split(r"[/\\]", project)[-1]
    parts = [part for part in re.split(r"[/\\]", path) if part not in ("", ".")]
    if folder and folder in parts:
        return "/".join(parts[parts.index(folder) + 1 :]) or "."
    return re.sub(r"^(?:/home/[^/]+|/Users/[^/]+|/root|[A-Za-z]:[\\/]Users[\\/][^\\/]+)(?=[\\/]|$)", "~", path)


def _alters(command: SimpleCommand) -> bool:
    """Whether a command may change something."""
    if any(not file.startswith("/dev/") for file in command.written):
        return True
    words = command.words
    program = words[0].rpartition("/")[2]
    if program == "git":
        reading = ("status", "log", "diff", "show", "blame", "branch", "ls-files", "grep")
        return len(words) < 2 or words[1] not in reading
    if program == "sed":
        return any(word.startswith("-i") for word in words)
    return program not in _READING_PROGRAMS


def _program_of(words: list[str]) -> list[str]:
    """The first words of a command that say what it does, without options, paths and numbers."""
    runs_another = words[0] in _RUNNERS
    parts = [words[0], *takewhile(_SUBCOMMAND.fullmatch, words[1 : 2 + runs_another])]
    # Two runs hardly share numbers, paths, options with values, and quotations.
    if len(words) > 1 and len(parts) == 1 and runs_another and not re.search(r"\d{2}|[/\\'\"=@:]|\s", words[1]):
        # "python -m pytest": an option is part of it where the next program follows.
        parts.append(words[1])
        parts += filter(_SUBCOMMAND.fullmatch, words[2:3])
    return parts


def may_be_told(text: str) -> bool:
    """Whether a text is one line without a secret, and has nothing of the form of a message, a tag or a hint."""
    if not text.isprintable() or _STEERING.search(text) or disarmed(text) != text:
        return False
    # Texts in which redaction finds something go whole: what is left of them would say little.
    return default_redactor().text(text) == text
