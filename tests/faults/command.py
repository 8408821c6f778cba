"""The real command line: `hepm` starts the installed script in a process, as a shell does, `quick` calls its `main()`.

`quick` takes a hundredth of the time. A process is for what only a process shows: signals, pipes, encodings of the
terminal, memory, exit codes.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from hepm.cli import main

HEPM: Final = str(Path(sysconfig.get_path("scripts"), "hepm"))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said.

    Attributes:
        peak_mb: The most memory it held, in MiB; 0 in this process.
    """

    code: int
    out: str
    err: str
    peak_mb: float = 0.0

    @property
    def json(self) -> Any:
        """Its output, read as JSON."""
        return json.loads(self.out)

    def reasons(self) -> dict[str, str]:
        """Why each rejected file of an `ingest --json` could not be read, by the last part of its name."""
        return {Path(one["file"]).name: one["reason"] for one in self.json["rejected"]}


def hepm(
    *arguments: str | os.PathLike[str],
    under: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
) -> Answer:
    """Run the installed `hepm` with these arguments and wait for it.

    Args:
        under: A command that runs it, such as `nsenter`.
        env: Variables beside the present ones.
    """
    command = [*under, HEPM, *map(os.fspath, arguments)]
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=out, stderr=err, env={**os.environ, **(env or {})}
        ) as process,
    ):
        try:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(stdin)
                process.stdin.close()
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        return Answer(process.returncode, _text_of(out), _text_of(err), usage.ru_maxrss / 1024)


def quick(
    *arguments: str | os.PathLike[str],
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Answer:
    """What `hepm` answers to these arguments, from its `main()` in this process.

    Args:
        env: Variables beside the present ones.
        cwd: The folder to run it in.
    """
    streams, argv, folder, variables = (sys.stdin, sys.stdout, sys.stderr), sys.argv, os.getcwd(), os.environ.copy()
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in streams]
        files[0].write(stdin)
        files[0].seek(0)
        try:
            os.environ.update(env or {})
            os.chdir(cwd or folder)
            sys.argv = ["hepm", *map(os.fspath, arguments)]
            sys.stdin, sys.stdout, sys.stderr = ours = [io.TextIOWrapper(file, encoding="utf-8") for file in files]
            code = _code_of_main()
            for stream in ours[1:]:
                stream.flush()
        finally:
            sys.stdin, sys.stdout, sys.stderr = streams
            sys.argv = argv
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(variables)
        return Answer(code, *map(_text_of, files[1:]))


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _code_of_main() -> int:
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:
        traceback.print_exc()
    return 1


def one_sentence(answer: Answer) -> str:
    """The complaint of a command that failed as it should: a sentence, no traceback."""
    assert "Traceback" not in answer.err, answer.err[-2000:]
    assert answer.code in (1, 2), (answer.code, answer.out, answer.err)
    assert answer.err.strip(), "it failed without a word"
    # A misuse is told in a box of the terminal's width: the words, as they would stand on one line.
    return " ".join(answer.err.replace("│", " ").split())
