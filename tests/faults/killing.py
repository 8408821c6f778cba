"""Kill a process while it writes a store, look at what is left, go on; again and again.

Each job is a child process that changes a store in many small transactions and acknowledges each on its standard
output. It gets SIGKILL at a random moment. Then the store must open, `hepm doctor` must find nothing, what was
acknowledged must be there exactly once, and a child that goes on must end where one that was never killed ends.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hepm.memory import Memory
from tests.faults.command import quick
from tests.faults.content import Content, content_of
from tests.faults.logs import USERS, write_files

FILES: Final = 12
RUNS: Final = 15
"""Of the small files that a job stores one by one."""


# Jobs, as the child process runs them. Each prints what it has done when that is safe, and starts over from any state.


def _say(word: str) -> None:
    print(word, flush=True)


def _ingest(memory: Memory, folder: Path) -> None:
    for path in sorted((folder / "small").iterdir()):
        memory.ingest(path)
        _say(path.name)


def _forget(memory: Memory, folder: Path) -> None:
    del folder
    for user in USERS[:-1]:
        memory.forget(user=user)
        _say(user)


JOBS: Final[dict[str, Callable[[Memory, Path], None]]] = {
    "ingest": _ingest,
    "forget": _forget,
}


def child(kind: str, store: Path, folder: Path) -> None:
    """Do a job to its end; "ready" is said when all is loaded, so that a kill can be aimed at the work itself."""
    _say("ready")
    with Memory.open(store) as memory:
        JOBS[kind](memory, folder)
    _say("end")


# The parent


@dataclass(slots=True)
class Tally:
    """What a series of kills came to.

    Attributes:
        in_the_middle: Kills that hit after the first acknowledgement and before the end.
        faults: Sentences on everything that was not as it should be.
    """

    kills: int = 0
    in_the_middle: int = 0
    finished_first: int = 0
    faults: list[str] = field(default_factory=list[str])


class Killer:
    """Kills one kind of job; every series begins with a fresh store and ends when the job gets through.

    Args:
        folder: Where logs and stores lie.
    """

    def __init__(self, kind: str, folder: Path, *, seed: int = 0) -> None:
        self.kind = kind
        self._folder = folder
        self._random = random.Random(f"{kind} {seed}")
        self._store = folder / f"{kind}.hepm"
        self._before = folder / f"{kind}-before.hepm"
        self.tally = Tally()
        self._ran_s = 0.0
        if not (folder / "small").exists():
            write_files(folder / "small", files=FILES, runs=RUNS)
        if kind == "forget":
            with Memory.open(self._before) as memory:
                memory.ingest(sorted((folder / "small").iterdir()))
        self._restart()
        self._run(None)
        self._span_s = self._ran_s
        self._whole = content_of(self._store)
        self._restart()

    def kill(self, times: int, *, in_the_middle: int = 0) -> Tally:
        """So many kills, or more until so many of them hit the work; then the last series is brought to its end."""
        while self.tally.kills < times:
            self._round(self._random.uniform(0, self._span_s))
        while self.tally.in_the_middle < in_the_middle and self.tally.kills < 10 * times:
            before = self.tally.kills
            self._round(self._random.uniform(0, self._span_s))
            if self.tally.kills > before:  # it came too early: the machine is slower than it was
                self._span_s *= 1.25
        self._finish()
        return self.tally

    def _restart(self) -> None:
        for path in self._folder.glob(f"{self._store.name}*"):
            path.unlink()
        if self._before.exists():
            shutil.copy(self._before, self._store)

    def _round(self, after_s: float) -> None:
        said, killed = self._run(after_s)
        if not killed:
            self.tally.finished_first += 1
        else:
            self.tally.kills += 1
            self.tally.in_the_middle += bool(said)
        self._check(said)
        if not killed:
            self._compare()
            self._restart()

    def _finish(self) -> None:
        said, _ = self._run(None)
        self._check(said)
        self._compare()

    def _run(self, kill_after_s: float | None) -> tuple[list[str], bool]:
        """The acknowledgements of a child, and whether it was killed; None lets it come to its end."""
        command = [sys.executable, "-m", "tests.faults.killing", self.kind, str(self._store), str(self._folder)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        with process:
            assert process.stdout is not None
            assert process.stderr is not None
            ready = process.stdout.readline() == "ready\n"
            began = time.monotonic()
            if kill_after_s is not None and ready:
                try:
                    process.wait(kill_after_s)
                except subprocess.TimeoutExpired:
                    process.kill()
            out, err = process.communicate()
            self._ran_s = time.monotonic() - began
        killed = process.returncode == -9
        if not killed and process.returncode:
            self._blame(f"the child failed by itself with {process.returncode}: {err[-500:]}")
        return [word for word in out.splitlines() if word != "end"], killed

    def _check(self, said: list[str]) -> None:
        if not self._store.exists():
            if said:
                self._blame(f"{said} were acknowledged, and there is no store")
            return
        doctor = quick("doctor", "--store", self._store, "--json")
        findings = doctor.json["findings"] if doctor.out else {"": [{"what": doctor.err, "repair": ""}]}
        for finding in (one for found in findings.values() for one in found):
            self._blame(f"doctor: {finding['what']}")
        left = content_of(self._store)
        doubled = [name for name, count in left.runs.items() if count > 1]
        if doubled:
            self._blame(f"{doubled} are stored more than once")
        self._check_said(said, left)

    def _check_said(self, said: list[str], left: Content) -> None:
        if self.kind == "ingest":
            for name in said:
                wanted = self._ids_in(self._folder / "small" / name)
                if missing := wanted - left.runs.keys():
                    self._blame(f"{name} was acknowledged, and {sorted(missing)} are not there")
            stored = {path.name for path in (self._folder / "small").iterdir() if self._ids_in(path) & left.runs.keys()}
            for name in stored:
                if self._ids_in(self._folder / "small" / name) - left.runs.keys():
                    self._blame(f"a part of {name} is stored: the batch was not atomic")
        else:
            users = {json.loads(record)["user"] for record in left.records}
            if back := users & set(said):
                self._blame(f"{sorted(back)} were forgotten, and are there")

    def _compare(self) -> None:
        if content_of(self._store) != self._whole:
            self._blame("in the end it is not what one uninterrupted process stores")

    def _ids_in(self, path: Path) -> set[str]:
        return {json.loads(line)["id"] for line in path.read_bytes().splitlines()}

    def _blame(self, sentence: str) -> None:
        self.tally.faults.append(f"{self.kind}, kill {self.tally.kills}: {sentence}")


if __name__ == "__main__":
    _kind, _store, _folder = sys.argv[1:]
    child(_kind, Path(_store), Path(_folder))
