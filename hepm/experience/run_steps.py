"""The commands of a run, with the errors that they met; and the errors of any call, in words that runs share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from hepm.experience.actions import Action, actions_of
from hepm.experience.transcript import went_wrong
from hepm.ingest.redact import Redactor
from hepm.ingest.shell.parser import command_of, is_shell
from hepm.ingest.shell.remote_code import fetched_files, runs_file
from hepm.types import ToolCall, ToolName, Trajectory

ERROR_CHARS: Final = 90
_LINES_READ: Final = 400  # of one result: the first and the last half
_MOST_ERRORS: Final = 6  # of one call

# A line that says what went wrong; the others of a failed call are progress and stack frames.
_TELLING: Final = re.compile(
    r"error|exception|fail|refused|not found|denied|cannot|can't|could not|no such|unable|missing|invalid|required"
    r"|conflict|not (?:installed|allowed|defined|permitted|supported)|unknown|undefined|expired|locked|timed? ?out",
    re.IGNORECASE,
)
# "Found 0 errors" says that nothing went wrong.
_EMPTY: Final = re.compile(r"\b(?:0 errors?|no errors?|errors?: 0)\b", re.IGNORECASE)
# Escape sequences of terminals: "\x1b[31m".
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
# "2025-03-01T12:00:00Z ", "src/app.py:17:3: ", "E       ", "sqlite3.": what comes before the message itself.
_STAMP: Final = re.compile(r"^\W*\d{4}-\d\d-\d\d[T ][\d:.,]+Z?\W*")
_LOCATION: Final = re.compile(r"^(?:[\w./\\~-]+[/\\])?[\w.-]+\.\w{1,4}:\d+(?::\d+)?:?\s*")
_PREFIX: Final = re.compile(r"^(?:E\s{2,}|(?:error|fatal|err)\b\W*:\s*)+", re.IGNORECASE)
_MODULES: Final = re.compile(r"^(?:\w+\.)+(?=\w*(?:Error|Exception)\b)")
# Hashes and UUIDs, paths, and numbers such as #12, A320 or the 7 of page_7: they differ between runs.
_LONG_ID: Final = re.compile(r"\b(?=[0-9a-f-]*\d)[0-9a-fA-F]{6,}(?:-[0-9a-fA-F]{2,})*\b")
_ANY_PATH: Final = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@+-]+)+[/\\]?")
_NUMBER: Final = re.compile(r"#?\b[A-Z]{0,3}\d[\w.]*|(?<=_)\d+")


def errors_of(call: ToolCall) -> list[str]:
    """The telling lines of a failed call's result, normalised: without numbers, ids, paths and secrets."""
    text = _COLOUR.sub("", call.result or "")
    lines = text.splitlines()
    if len(lines) > _LINES_READ:
        lines = [*lines[: _LINES_READ // 2], *lines[-_LINES_READ // 2 :]]
    telling = [line for line in lines if _TELLING.search(line) and not _EMPTY.search(line)]
    if not telling:
        telling = [line for line in lines if line.strip()][-1:]
    # The last one first: programs end with what made them fail.
    errors = dict.fromkeys(map(normal_error, reversed(telling)))
    errors.pop("", None)
    return [*errors][:_MOST_ERRORS]


def normal_error(line: str) -> str:
    """An error as runs share it: "/srv/a.py:3: no table 17" gives "no table …"."""
    text = Redactor().text(line[:400]).strip()
    for beginning in (_STAMP, _LOCATION, _PREFIX, _MODULES):
        text = beginning.sub("", text)
    # Paths before ids and numbers: these are parts of paths.
    for pattern in (_ANY_PATH, _LONG_ID, _NUMBER):
        text = pattern.sub("…", text)
    text = re.sub(r"[\s<>\[\]`|{}]+", " ", text).strip(" -*=:>\t")
    text = re.sub(r"(?:… ?){2,}", "… ", text).strip()
    if len(text) > ERROR_CHARS:
        text = text[:ERROR_CHARS].rpartition(" ")[0] or text[:ERROR_CHARS]
    if not text.isprintable() or not _says_something(text):
        return ""
    return text


def _says_something(text: str) -> bool:
    """Whether a normalised error still has two words, and most of its words are whole."""
    words = text.split()
    cut = sum("…" in word for word in words)
    return len(re.findall(r"[^\W\d_]{2,}", text)) > 1 and 2 * cut < len(words)


class Step(NamedTuple):
    """One call of a run: what it does, and the errors that it met."""

    call: ToolCall
    actions: tuple[Action, ...]
    errors: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether the call went wrong."""
        return bool(self.errors) or any(action.failed for action in self.actions)


@dataclass(frozen=True, slots=True)
class RunSteps:
    """A labelled run.

    Attributes:
        well: Whether it succeeded.
        when: The day it ended, or the file it was read from; "" if neither is known.
    """

    id: str
    well: bool
    when: str
    steps: tuple[Step, ...]


def steps_of_run(run: Trajectory) -> RunSteps | None:
    """The commands of a labelled run; None without a label."""
    success = run.outcome.graded().success
    if success is None:
        return None
    project = run.tags.get("project", "")
    turns = [turn for turn in run.turns if turn.role != "user"]
    steps = [step_of(call, project) for turn in turns for call in turn.ran if is_shell(call.name)]
    day = ""
    if run.ended_at is not None:
        day = f"day {int(run.ended_at // 86_400)}"  # since 1970
    when = f"{day} {run.source}".strip()
    steps = _without_remote_code(steps)
    return RunSteps(run.id, success, when, tuple(steps))


def _without_remote_code(steps: Sequence[Step]) -> list[Step]:
    """The steps, without the actions of those that fetch a file which is run later, and of those that run it."""
    fetched: dict[int, set[str]] = {}
    unsafe: set[int] = set()
    for number, step in enumerate(steps):
        command = command_of(step.call.arguments)
        for earlier, names in fetched.items():
            if runs_file(command, names):
                unsafe.update((earlier, number))
        names = fetched_files(command)
        if names:
            fetched[number] = names
    safe = [*steps]
    for number in unsafe:
        safe[number] = steps[number]._replace(actions=())
    return safe


def step_of(call: ToolCall, project: str = "") -> Step:
    """A call with what it does, and the errors in its result."""
    failed = went_wrong(call)
    actions = tuple(actions_of(call, project=project, failed=failed))
    errors: tuple[str, ...] = ()
    if failed:
        errors = tuple(errors_of(call))
    return Step(call, actions, errors)


def tools_of(step: Step) -> list[ToolName]:
    """What failed: of a command line the program of its last command, then the shell, which runs others like it."""
    if not step.actions:
        return [step.call.name]
    return list(dict.fromkeys((step.actions[-1].tool, step.call.name.partition(" ")[0])))
