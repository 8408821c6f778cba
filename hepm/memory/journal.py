"""Sessions under way on disk: a file each, so that a crash loses at most the turn under way."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import Final, TypeAlias

from hepm.errors import FormatError, InputError
from hepm.types import Trajectory, Turn

_log = logging.getLogger("hepm")

# The rest of the name is a hash (see `_name`).
_SUFFIX: Final = ".session"
_PROBE: Final = 64 << 10
"""Bytes for which there should be room: a turn with a long result takes as many."""

Stamp: TypeAlias = tuple[int, int, int]
"""What changes with every write of a file: its inode, the time in nanoseconds, its size."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a file holds.

    Attributes:
        run: The run so far, without secrets and without an outcome.
        shown: Ids of the lessons in its hints.
        stamp: Of the file as it was read.
        aliases: Other names by which a server recognises it, and how many turns there were when each was new.
        parts: Ids of what its turns were made of, such as the spans of a trace.
    """

    file: Path
    stamp: Stamp
    namespace: str
    run: Trajectory
    shown: tuple[str, ...]
    aliases: Mapping[str, int]
    parts: frozenset[str] = frozenset()


# A file has a JSON object a line: {"namespace": …, "aliases": […], "at": 3, "shown": […], "run": {…}}; `at` is how many
# turns come before those of the line.
class Journal:
    """A folder of sessions under way. Several processes may share it; a session may move from one to another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._warned = False

    def file(self, namespace: str, id: str) -> Path:
        """The file of a session."""
        return self.folder / _name(namespace, id)

    def write(
        self,
        run: Trajectory,
        at: int,
        shown: Sequence[str],
        *,
        namespace: str,
        aliases: Sequence[str] = (),
        parts: Sequence[str] = (),
    ) -> Stamp | None:
        """Append the turns of a run from number `at` on; they replace later ones. None if that fails."""
        from hepm.ingest.formats.hepm import write_run

        # Only what is new is written: a long session costs each turn no more than a short one.
        content: dict[str, object] = {"namespace": namespace, "aliases": list(aliases)}
        if parts:
            content["parts"] = list(parts)
        content |= {"at": at, "shown": list(shown), "run": write_run(run)}
        line = json.dumps(content)
        place = self.file(namespace, run.id)
        try:
            try:
                file = place.open("a", encoding="utf-8")
            except FileNotFoundError:
                self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                file = place.open("a", encoding="utf-8")
            with file:
                file.write(f"\n{line}\n")  # at once; after the end of a line that a crash tore
                file.flush()
                return _stamp(os.fstat(file.fileno()))
        except OSError as error:
            if not self._warned:
                self._warned = True
                _log.warning("sessions cannot be kept in %s, and a crash would lose them: %s", self.folder, error)
            with contextlib.suppress(OSError):
                if not place.stat().st_size:
                    place.unlink()
            return None

    def why_not_kept(self) -> str:
        """Why no session can be kept now, as on a full disk; "" if one can. It writes a file without a name."""
        # The folder is made with the first session.
        folder = self.folder
        if not folder.exists():
            folder = folder.parent
        try:
            with TemporaryFile(dir=folder) as probe:
                probe.write(bytes(_PROBE))
                probe.flush()
        except OSError as error:
            return f"runs under way cannot be kept in {self.folder.name}: {error.strerror}"
        return ""

    def read(self, file: Path) -> Kept | None:
        """What a file holds; None if it is gone or no line of it is whole."""
        from hepm.ingest.formats.hepm import parse_run

        try:
            with file.open(encoding="utf-8", errors="replace") as opened:
                stamp = _stamp(os.fstat(opened.fileno()))
                lines = opened.read().splitlines()
        except OSError:
            return None
        kept: Kept | None = None
        for line in lines:
            try:
                content = json.loads(line)
                part = parse_run(content["run"])
                nothing = Kept(file, stamp, content["namespace"], replace(part, turns=()), (), {})
                # Lines build on each other: the file is the run's history.
                before = kept or nothing
                if content["at"] > len(before.run.turns):
                    continue  # the lines before it are gone
                turns = before.run.turns[: content["at"]] + part.turns
                new_aliases = dict.fromkeys(content.get("aliases", []), len(turns))
                kept = Kept(
                    file,
                    stamp,
                    content["namespace"],
                    replace(part, turns=turns),
                    tuple(dict.fromkeys((*before.shown, *content["shown"]))),
                    {**new_aliases, **before.aliases},  # an alias keeps the place where it was first seen
                    before.parts.union(content.get("parts", ())),
                )
            except (ValueError, KeyError, TypeError, FormatError, InputError):
                continue  # a torn line: the last one before a crash
        return kept

    def find(self, namespace: str, id: str) -> Kept | None:
        """A session under way; None if there is none."""
        return self.read(self.file(namespace, id))

    def stamp(self, namespace: str, id: str) -> Stamp | None:
        """Of a session's file as it is now; None if there is none: another process may have stored it, as it rested."""
        try:
            return _stamp(self.file(namespace, id).stat())
        except OSError:
            return None

    def changed(self, known: set[Stamp]) -> Iterator[Kept]:
        """The sessions that are not as known by their stamps. Those of all files are known then."""
        files: dict[Stamp, Path] = {}
        for file in self.folder.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(OSError):  # stored meanwhile
                files[_stamp(file.stat())] = file
        # All files are listed, and only those that changed are read.
        new = [file for stamp, file in files.items() if stamp not in known]
        known.clear()
        known.update(files)
        for file in new:
            kept = self.read(file)
            if kept is not None:
                yield kept

    def idle(self, seconds: float) -> Iterator[Kept]:
        """The sessions that rest for so long."""
        before = time.time() - seconds
        for file in self.folder.glob(f"*{_SUFFIX}"):
            try:
                changed_at = file.stat().st_mtime
            except OSError:
                continue  # stored meanwhile
            if changed_at > before:
                continue
            kept = self.read(file)
            if kept is not None:
                yield kept

    def remove(self, namespace: str, id: str) -> None:
        """Forget a session, as it is stored. Storing it again later, if the file cannot be removed, changes nothing."""
        with contextlib.suppress(OSError):
            self.file(namespace, id).unlink(missing_ok=True)


class SessionFile:
    """The file of one session under way, and what of it this process wrote there. Threads may share it.

    Attributes:
        stamp: Of its last write by this process; None if it is not on disk.
        turns: Those that it holds.
        draws: What chance had decided of the session then.
        is_behind: Whether the last write failed, so that a crash would lose something.
    """

    def __init__(self, journal: Journal, namespace: str, id: str) -> None:
        self._journal = journal
        self._namespace = namespace
        self._id = id
        # Held while the file changes, until its stamp is known: another thread may ask meanwhile whether it `moved`.
        self._writing = Lock()
        self._aliases: set[str] = set()
        self._parts: frozenset[str] = frozenset()
        self.stamp: Stamp | None = None
        self.turns: tuple[Turn, ...] = ()
        self.draws = ("", "")
        self.is_behind = False

    def read(self) -> Kept | None:
        """What a crash left of the session; None if nothing."""
        kept = self._journal.find(self._namespace, self._id)
        if kept is None:
            # A crash may have left a file without a whole line: it is this session's, and no process goes on with it.
            self.stamp = self._journal.stamp(self._namespace, self._id)
        else:
            self.stamp, self.turns = kept.stamp, kept.run.turns
        return kept

    @property
    def moved(self) -> bool:
        """Whether another process went on with the session, or stored it."""
        with self._writing:
            return self._journal.stamp(self._namespace, self._id) != self.stamp

    def write(
        self,
        run: Trajectory,
        shown: Sequence[str],
        aliases: Sequence[str],
        parts: frozenset[str],
        draws: tuple[str, str],
        redactor: Callable[[Trajectory], Trajectory] | None,
    ) -> None:
        """Append what the file lacks of a session, without secrets; nothing where another process goes on with it."""
        on_disk = self._journal.stamp(self._namespace, self._id)
        if on_disk is not None and on_disk != self.stamp:
            return
        if on_disk is None:  # the whole session is written again
            self._aliases, self._parts = set(), frozenset()
        # A client may send a conversation that branches off: later turns are written again.
        first_new = 0 if on_disk is None else _common(run.turns, self.turns)
        is_new = len(run.turns) > first_new or len(self.turns) > len(run.turns)
        if not is_new and parts <= self._parts and draws == self.draws:
            return
        part = replace(run, turns=run.turns[first_new:])
        if redactor is not None:
            part = redactor(part)
        new_aliases = [alias for alias in aliases if alias not in self._aliases]
        new_parts = sorted(parts - self._parts)
        with self._writing:
            stamp = self._journal.write(
                part, first_new, shown, namespace=self._namespace, aliases=new_aliases, parts=new_parts
            )
            self.stamp = stamp or self._journal.stamp(self._namespace, self._id)  # perhaps a part of it is written
        self.is_behind = stamp is None
        if stamp is not None:
            self._aliases.update(new_aliases)
            self._parts |= parts
            self.turns, self.draws = run.turns, draws

    def remove(self) -> None:
        """Delete it: the session is stored, or not to be."""
        with self._writing:
            self._journal.remove(self._namespace, self._id)
            self.stamp = None


def _common(turns: Sequence[Turn], others: Sequence[Turn]) -> int:
    """How many turns both have at their beginning."""
    common = 0
    for turn, other in zip(turns, others, strict=False):
        if turn != other:
            break
        common += 1
    return common


@lru_cache(maxsize=4096)
def _name(namespace: str, id: str) -> str:
    # A hash, as ids may hold what no file's name can; with the length, so that no two pairs give one text.
    digest = blake2b(f"{len(namespace)} {namespace}{id}".encode("utf-8", "surrogatepass"), digest_size=16)
    return f"{digest.hexdigest()}{_SUFFIX}"


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_mtime_ns, found.st_size
