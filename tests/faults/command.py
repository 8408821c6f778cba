"""The real command line, in a process of its own.

`hepm` starts the installed script, as a shell does. `quick` forks a process that has everything loaded already and runs
the same `main()` in it: a tenth of the time, for tests that ask many times.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HEPM: Final = str(Path(sysconfig.get_path("scripts"), "hepm"))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said.

    Attributes:
        peak_mb: The most memory it held, in MiB; told by `quick` alone.
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
    timeout: float = 240,
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
        timeout=timeout,
        check=False,
    )
    return Answer(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


_LOADED = """
import io, json, os, sys, traceback
import hepm.cli.commands, hepm.evals.evaluate, hepm.graph.page, hepm.ingest.pipeline, hepm.memory
import rich.console, rich.table

def answer(arguments, folder):
    for number, (name, mode) in enumerate((("in", os.O_RDONLY), ("out", os.O_WRONLY), ("err", os.O_WRONLY))):
        os.dup2(os.open(os.path.join(folder, name), mode), number)
    sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(open(2, "wb", closefd=False), encoding="utf-8", errors="backslashreplace")
    sys.argv = ["hepm", *arguments]
    code = 0
    try:
        hepm.cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

print("loaded", flush=True)
for line in sys.stdin:
    arguments, folder = json.loads(line)
    child = os.fork()
    if not child:
        answer(arguments, folder)
    _, status, usage = os.wait4(child, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss]), flush=True)
"""


@functools.cache
def _loaded() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _LOADED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "loaded\n"
    atexit.register(_end, process)
    return process


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)  # its children too: one may hang, which is why it is ended
    process.communicate()


def quick(*arguments: str | os.PathLike[str], stdin: bytes = b"", timeout: float = 240) -> Answer:
    """What `hepm` answers to these arguments, from a fork of a process that has it loaded.

    Raises:
        TimeoutError: it did not come to an end.
    """
    process = _loaded()
    assert process.stdin is not None
    assert process.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (("in", stdin), ("out", b""), ("err", b"")):
            Path(folder, name).write_bytes(content)
        process.stdin.write(json.dumps([[*map(os.fspath, arguments)], folder]) + "\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], timeout)[0]:
            _loaded.cache_clear()
            _end(process)
            raise TimeoutError(f"no end after {timeout:g} s: hepm {' '.join(map(str, arguments))}")
        code, peak_kb = json.loads(process.stdout.readline())
        out, err = (Path(folder, name).read_bytes().decode("utf-8", "replace") for name in ("out", "err"))
    return Answer(code, out, err, peak_kb / 1024)


def one_sentence(answer: Answer) -> str:
    """The complaint of a command that failed as it should: a sentence, no traceback."""
    assert "Traceback" not in answer.err, answer.err[-2000:]
    assert answer.code in (1, 2), (answer.code, answer.out, answer.err)
    assert answer.err.strip(), "it failed without a word"
    # A misuse is told in a box of the terminal's width: the words, as they would stand on one line.
    return " ".join(answer.err.replace("│", " ").split())
