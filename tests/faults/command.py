"""The real command line: `hepm` starts the installed script in a process, as a shell does, `quick` calls its `main()`.

`quick` takes a hundredth of the time. A process is for what only a process shows: signals, pipes, encodings of the
terminal, memory, exit codes.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import sysconfig
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from hepm.cli import main

HEPM: Final = str(Path(sysconfig.get_path("scripts"), "hepm"))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said.

    Attributes:
        peak_mb: The most memory it held, in MiB, where it was `measured`.
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
    done = subprocess.run(
        [*under, HEPM, *map(os.fspath, arguments)],
        input=stdin,
        capture_output=True,
        env={**os.environ, **(env or {})},
        timeout=240,
        check=False,
    )
    return Answer(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def interruptible() -> None:
    """Let Ctrl-C reach a child (as its `preexec_fn`): a script's background jobs, and so these tests, may ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


_MEASURE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def measured(*arguments: str | os.PathLike[str]) -> Answer:
    """`hepm` with the most memory it held; a small process starts it, whose own memory would count otherwise."""
    answer = hepm(*arguments, under=[sys.executable, "-S", "-c", _MEASURE])
    err, _, peak_kb = answer.err.rstrip("\n").rpartition("\n")
    return replace(answer, err=err, peak_mb=int(peak_kb) / 1024)


def quick(
    *arguments: str | os.PathLike[str],
    stdin: bytes | None = b"",
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
) -> Answer:
    """What `hepm` answers to these arguments, from its `main()` in this process.

    Args:
        stdin: None is a closed one.
        env: Variables beside the present ones.
        cwd: The folder to run it in.
    """
    streams, argv, folder, variables = (sys.stdin, sys.stdout, sys.stderr), sys.argv, os.getcwd(), os.environ.copy()
    ours = [io.TextIOWrapper(io.BytesIO(given), encoding="utf-8") for given in (stdin or b"", b"", b"")]
    try:
        os.environ.update(env or {})
        os.chdir(cwd or folder)
        sys.argv = ["hepm", *map(os.fspath, arguments)]
        sys.stdin, sys.stdout, sys.stderr = ours
        if stdin is None:
            sys.stdin = None
        code = _code_of_main()
        out, err = (stream.detach().getvalue().decode("utf-8", "replace") for stream in ours[1:])
        return Answer(code, out, err)
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        sys.argv = argv
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)


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
