"""Test commands in shell commands, what else a command changes, and what test runners print about the result."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from hepm.ingest.shell.parser import SimpleCommand, command_of, is_shell, script_of, simple_commands
from hepm.text import CUT
from hepm.types import ToolCall

_READ_CHARS: Final = 20_000
"""How much of a command is read, and of the end of its result."""

_WRAPPERS: Final = re.compile(
    r"sudo|env|time|nohup|exec|nice|timeout|xvfb-run|uvx?|poetry|pipenv|pdm|hatch|rye|conda|mamba|micromamba|npx|bunx|"
    r"pnpm|yarn|bundle|coverage|python[\d.]*|docker|docker-compose|podman"
)
_NO_RUN: Final = re.compile(
    r"--(?:collect-only|co|version|help|fixtures|markers|no-run|listTests|list)|-V|-h|-DskipTests"
)
# Words that mean all tests, and options but for those that select some.
_SELECTS_NOTHING: Final = re.compile(
    r"\d+|run|test|check|verify|package|install|\./\.\.\.|\."
    r"|-(?!(?:-lf|-last-failed|-sw|-stepwise|-onlyChanged|o)$|-deselect|-ignore|Dtest=|run=).*"
)


# The name of a runner, and the words that run it, with wrappers before them removed and paths cut to their last part;
# END is the end of a word.
_RUNNERS: Final = r"""
pytest (?:python[\d.]* (?:-\w+ )*-m )?(?:pytest|py\.test)END
unittest python[\d.]* (?:-\w+ )*(?:-m unittest|manage\.py test)END
go go testEND
cargo cargo (?:\+\S+ )?(?:test|t|nextest run)END
node (?:(?:npm|pnpm|yarn|bun) (?:(?:--prefix|-C|-w|--workspace|workspace) \S+ |-\S+ )*(?:run )?(?:test|t)(?:[:-]\S+)?|jest|vitest|mocha|node (?:-\S+ )*--test)END
maven mvnw?(?= )(?=.* (?:test|verify|package|install)\b)
gradle gradlew?(?= )(?=.*[ :](?:test|check|build)\b)
ctest ctestEND
rspec rspecEND
script (?:make(?: -\S+)* (?:test|check)|tox|nox)END
"""  # noqa: E501
_COMMANDS: Final = {
    name: re.compile(words.replace("END", "(?= |$)"))
    for name, _, words in (line.partition(" ") for line in _RUNNERS.strip().splitlines())
}


class FileChange(NamedTuple):
    """A file that a run changed; the path is "" if it is unknown."""

    path: str = ""

    @property
    def of_tests(self) -> bool:
        """Whether the file holds tests."""
        return _TEST_FILE.search(self.path) is not None


class TestRun(NamedTuple):
    """A test command in a run.

    Attributes:
        where: The folder it changed into; "" if it did not.
        selected: What it ran of the tests; empty for all.
        passed: The verdict; None if it is unknown.
        tests: How many ran, by the runner's summary; 0 without one.
    """

    runner: str
    where: str = ""
    selected: tuple[str, ...] = ()
    passed: bool | None = None
    tests: int = 0

    def covers(self, other: TestRun) -> bool:
        """Whether it ran all that another one ran."""
        is_elsewhere = self.where and other.where and self.where != other.where
        if self.runner != other.runner or is_elsewhere or (self.selected and not other.selected):
            return False
        # "tests/test_a.py" covers "tests/test_a.py::test_one".
        return not self.selected or all(part.startswith(self.selected) for part in other.selected)


_TEST_FILE: Final = re.compile(
    r"(?:^|/)(?:tests?|__tests__|specs?)/|(?:^|/)(?:test_[^/]*|conftest\.py)$|_test\.\w+$|\.(?:test|spec)\.\w+$|"
    r"_spec\.rb$|Tests?\.\w+$"
)
_DOCS: Final = re.compile(r"\.(?:md|rst|adoc)$")
_GIT: Final = r"apply|am|checkout|switch|restore|stash|revert|reset|merge|rebase|pull|cherry-pick"


def events_of(call: ToolCall) -> Iterator[FileChange | TestRun]:
    """What a call changed, and the tests it ran with their results, in order.

    Only the results of shells are evidence of a test, and of these not what the command itself printed in its place.
    """
    command = command_of(call.arguments)
    if not call.error:
        yield from map(FileChange, _edited(call))
    if not command or (" " not in command and call.arguments.get("path")):  # an editor's own commands: "create"
        return
    # A command may hold what a test runner or a shell would print at the end.
    shows_summary = summary(re.sub("[\"'`;]", "\n", command.replace("\\n", "\n"))) is not None
    for event in _parts(command):
        if isinstance(event, FileChange):
            yield event
        elif is_shell(call.name):
            if not shows_summary:
                event = _with_verdict(event, call)  # noqa: PLW2901
            yield event


def _edited(call: ToolCall) -> list[str]:
    """The files that an editor's call changed, without documents."""
    edits = re.search(r"(?i)edit|write|patch|create|replace|insert", call.name)
    if not edits or call.arguments.get("command") in ("view", "read", "open"):
        return []
    keys = ("file_path", "path", "filename", "file", "target_file", "notebook_path")
    paths = [str(call.arguments[key]) for key in keys if call.arguments.get(key)]
    for key in ("patch", "input"):
        # Codex' "*** Update File: a.py", or "+++ b/a.py" of a unified diff.
        patched = r"(?m)^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ b/)(.+)$"
        paths += re.findall(patched, str(call.arguments.get(key)))
    return [path for path in dict.fromkeys(paths) if not _DOCS.search(path)]


def _parts(command: str) -> Iterator[FileChange | TestRun]:
    """The changes and tests of a shell command, without results."""
    try:
        commands = list(simple_commands(command[:_READ_CHARS]))
    except ValueError:
        return
    where = ""
    for position, simple in enumerate(commands):
        if simple.words[:1] == ["cd"]:
            where = simple.words[-1]
            continue
        script = script_of(simple.words)
        if script is not None:
            yield from _parts(script)
            continue
        yield from _changed(simple)
        if position > 0 and commands[position - 1].operator == "$(":  # its output goes into another command
            continue
        test_run = _test_run(simple.words, where)
        if test_run is not None:
            yield test_run


def _changed(command: SimpleCommand) -> Iterator[FileChange]:
    words = command.words
    program, first = [*words, "", ""][:2]
    targets = list(command.written)
    if program in ("sed", "perl") and any(re.match(r"-\w*i|--in-place", word) for word in words[1:]):
        targets += words[-1:]
    if program == "patch" or (program == "git" and re.fullmatch(_GIT, first)):
        targets.append("")  # something changed, and nobody knows which file
    for path in targets:
        if not path.startswith(("/dev/", "/tmp/")) and not _DOCS.search(path):
            yield FileChange(path)


def _test_run(words: Sequence[str], where: str) -> TestRun | None:
    """The tests that a command runs, also behind wrappers: "CI=1 poetry run .venv/bin/pytest -q"."""
    plain = [word for word in words if not re.match(r"\w+=", word)]
    if any(map(_NO_RUN.fullmatch, plain)):
        return None
    installing = ("pip", "install", "add", "remove", "uninstall", "show", "update", "sync", "build")
    for position, word in enumerate(plain):
        program = PurePosixPath(word).name
        line = " ".join([program, *plain[position + 1 :]])
        for name, command in _COMMANDS.items():
            match = command.match(line)
            if match:
                words = [word for word in line[match.end() :].split() if not _SELECTS_NOTHING.fullmatch(word)]
                return TestRun(name, where, tuple(sorted([word.removeprefix("./") for word in words])))
        # Of a script nothing is known.
        if not _WRAPPERS.fullmatch(PurePosixPath(plain[0]).name) or word in installing or program.startswith("python"):
            return None
    return None


_NOT_RUN: Final = re.compile(
    r"errors? during collection|ERROR collecting|No module named|command not found|Failed to import test module|"
    r"Test suite failed to run|\[setup failed\]|[Nn]o tests (?:found|ran|were found)|NO TESTS RAN|no test specified|"
    r"No such file or directory|Could not resolve|failed to (?:download|get)|errors? occurred outside of examples|"
    r"^ *(?:Test Suites:|Test Files) +\d+ failed(?![\s\S]*^ *Tests:? .*\d+ failed)",
    re.MULTILINE,
)


def _with_verdict(run: TestRun, call: ToolCall) -> TestRun:
    """A test run with its result, by the summary that its runner prints."""
    result = call.result or ""
    text = result
    if result.lstrip().startswith("{"):  # an object with the output: its texts are read as they stand
        text = result.replace("\\n", "\n").replace('"', "\n")
    text = re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", text[-_READ_CHARS:])  # without the colours of terminals
    counts = summary(text)
    if counts is None:
        return run
    passed_count, failed_count = counts
    passed = None
    is_failed = call.error or re.search(r"(?m)^(?:Exit code:? |Process exited with code )(?!0)", text)
    if failed_count and not _NOT_RUN.search(text):
        passed = False
    elif passed_count and not failed_count and not is_failed and not result.endswith(CUT):
        passed = True
    return run._replace(passed=passed, tests=passed_count + failed_count)


# What each runner prints at its end. Groups: the "words" that count tests that passed, failed or were skipped; "all",
# how many tests ran; a "passed_line" or "failed_line" is one for itself.
# pytest; unittest; go; cargo; nextest; jest, vitest; mocha, node; maven, of a module; gradle; ctest; rspec.
_SUMMARIES: Final = r"""
^=* ?(?P<words>\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)\b.*) in [\d.]+s
^Ran (?P<all>\d+) tests? in [\d.]+s\s+(?:OK|FAILED)(?: \((?P<words>[^)\n]*)\))?
^(?P<passed_line>ok) +\t?\S+\s+(?:[\d.]+s|\(cached\))(?![^\n]*no tests to run)
^(?P<failed_line>FAIL)[ \t]+\S+[ \t]+(?:[\d.]+s|\[build failed\])
^test result: \w+\. (?P<words>\d+ passed; \d+ failed)
^ *Summary \[[^\]]*\] +\d+ tests? run: (?P<words>.*)$
^error: (?P<failed_line>could not compile)
^ *Tests:? +(?P<words>\d+ (?:passed|failed|skipped|todo).*)$
^ *(?P<words>\d+ passing) \(
^ *(?P<words>\d+ failing)$
^(?:#|ℹ) (?P<words>pass \d+)$
^(?:#|ℹ) (?P<words>fail \d+)$
Tests run: (?P<all>\d+), (?P<words>Failures: \d+, Errors: \d+, Skipped: \d+)\s*$
^\[ERROR\] (?P<failed_line>COMPILATION ERROR)
^(?P<all>\d+) tests completed, (?P<words>\d+ failed)
^> Task :\S*[tT]est(?: UP-TO-DATE| FROM-CACHE)?$[\s\S]*^(?P<passed_line>BUILD SUCCESSFUL)
^\d+% tests passed, (?P<words>\d+ tests? failed) out of (?P<all>\d+)
^(?P<all>\d+) examples?, (?P<words>\d+ failures?(?:, \d+ pending)?)
""".strip().splitlines()
_FAILED_WORD: Final = (
    r"(\d+) (?:(?:tests? )?failed|failing|errors?|failures?)\b|(?:[Ff]ailures|[Ee]rrors)[=:] ?(\d+)|fail (\d+)"
)


def summary(text: str) -> tuple[int, int] | None:
    """How many tests passed and failed by the summaries that runners print; None without one."""
    counts: tuple[int, int] | None = None
    for pattern in _SUMMARIES:
        for match in re.finditer(pattern, text, re.MULTILINE):
            groups = match.groupdict()  # only those of this pattern
            words = groups.get("words") or ""
            failed = _total(_FAILED_WORD, words) + ("failed_line" in groups)
            if "all" in groups:
                skipped = _total(r"(\d+) (?:skipped|pending)\b|[Ss]kipped[=:] ?(\d+)", words)
                passed = int(groups["all"]) - failed - skipped
            else:
                passed = _total(r"(\d+) (?:x?passed|passing)\b|pass (\d+)", words) + ("passed_line" in groups)
            passed_count, failed_count = counts or (0, 0)
            counts = passed_count + max(passed, 0), failed_count + failed
    return counts


def _total(pattern: str, words: str) -> int:
    # "2 failed" and "failures=2" are in different groups.
    return sum(int("".join(numbers)) for numbers in re.findall(pattern, words))
