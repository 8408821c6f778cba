"""Sessions under way on disk: a file each, so that a crash loses at most the turn under way."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import Final, TypeAlias

from hepm.errors import FormatError, InputError, StoreError
from hepm.types import Object, Trajectory, Turn

_log = logging.getLogger("hepm")

# The rest of the name is a hash (see `_name`).
_SUFFIX: Final = ".session"

_FORGOTTEN: Final = b"forgotten\n"
"""All that is left of a session for a week after it was forgotten, so that no process that has it stores it."""

NOWHERE: Final = Path(os.devnull)
"""The folder of a journal that keeps nothing: no file is in it."""

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
@dataclass
class Journal:
    """A folder of sessions under way. Several processes may share it; a session may move from one to another."""

    folder: Path = NOWHERE
    _warned: bool = False

    @property
    def keeps(self) -> bool:
        """Whether it has a folder; one without holds no session."""
        return self.folder is not NOWHERE

    def file(self, namespace: str, id: str) -> Path:
        """The file of a session."""
        return self.folder / _name(namespace, id)

    def append(self, line: str, file: Path) -> Stamp | None:
        """Add a line to a session's file; None if that fails."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with file.open("a", encoding="utf-8") as opened:
                opened.write(f"\n{line}\n")  # at once; after the end of a line that a crash tore
                opened.flush()
                return _stamp(os.fstat(opened.fileno()))
        except OSError as error:
            if not self._warned:
                self._warned = True
                _log.warning("sessions cannot be kept in %s, and a crash would lose them: %s", self.folder, error)
            with suppress(OSError):
                if not file.stat().st_size:
                    file.unlink()
            return None

    def why_not_kept(self) -> str:
        """Why no session can be kept now, as on a full disk; "" if one can. It writes a file without a name."""
        if not self.keeps:
            return ""
        # The folder is made with the first session.
        folder = self.folder
        if not folder.exists():
            folder = folder.parent
        try:
            with TemporaryFile(dir=folder) as probe:
                probe.write(bytes(64 << 10))  # as much as a turn with a long result takes
                probe.flush()
        except OSError as error:
            return f"runs under way cannot be kept in {self.folder.name}: {error.strerror}"
        return ""

    def find(self, namespace: str, id: str) -> Kept | None:
        """A session under way; None if there is none."""
        return _read(self.file(namespace, id))

    def changed(self, known: set[Stamp]) -> Iterator[Kept]:
        """The sessions that are not as known by their stamps. Those of all files are known then."""
        files = self._files()
        # All files are listed, and only those that changed are read.
        new = [file for stamp, file in files.items() if stamp not in known]
        known.clear()
        known.update(files)
        return filter(None, map(_read, new))

    def idle(self, seconds: float) -> Iterator[Kept]:
        """The sessions that rest for so long."""
        return filter(None, map(_read, self._resting(seconds)))

    def forget(self, session: Kept) -> None:
        """Replace what is on disk of a session by a mark; marks of a week ago are deleted.

        Raises:
            StoreError: the file cannot be written.
        """
        try:
            partial = session.file.with_suffix(".part")
            partial.write_bytes(_FORGOTTEN)
            partial.replace(session.file)
            for file in self._resting(7 * 86_400):
                if _is_forgotten(file):
                    file.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"the session {session.run.id!r} cannot be forgotten: {error}") from error

    def _resting(self, seconds: float) -> list[Path]:
        before_ns = (time.time() - seconds) * 1e9
        return [file for (_, changed_ns, _), file in self._files().items() if changed_ns <= before_ns]

    def _files(self) -> dict[Stamp, Path]:
        files: dict[Stamp, Path] = {}
        for file in self.folder.glob(f"*{_SUFFIX}"):
            stamp = _stamp_of(file)
            if stamp is not None:  # else it is stored meanwhile
                files[stamp] = file
        return files


def _is_forgotten(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(len(_FORGOTTEN) + 1) == _FORGOTTEN
    except OSError:
        return False


def _read(file: Path) -> Kept | None:
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
            # Lines build on each other: the file is the run's history.
            before = kept or Kept(file, stamp, content["namespace"], replace(part, turns=()), (), {})
            at = content["at"]
            if at > len(before.run.turns):
                continue  # the lines before it are gone
            turns = before.run.turns[:at] + part.turns
            new_aliases = dict.fromkeys(content.get("aliases", []), len(turns))
            kept = replace(
                before,
                run=replace(part, turns=turns),
                shown=tuple(dict.fromkeys((*before.shown, *content["shown"]))),
                aliases={**new_aliases, **before.aliases},  # an alias keeps the place where it was first seen
                parts=before.parts.union(content.get("parts", ())),
            )
        except (ValueError, KeyError, TypeError, FormatError, InputError):
            continue  # a torn line: the last one before a crash
    return kept


class SessionFile:
    """The file of one session under way, and what of it this process wrote there. Threads may share it.

    Attributes:
        stamp: Of its last write by this process; None if it is not on disk.
        turns: Those that it holds.
        is_behind: Whether the last write failed, so that a crash would lose something.
        lacks_draw: Whether chance decided something since the last write.
    """

    def __init__(self, journal: Journal, namespace: str, id: str) -> None:
        self._journal = journal
        self._namespace = namespace
        self._file = journal.file(namespace, id)
        # Held while the file changes, until its stamp is known: another thread may ask meanwhile whether it `moved`.
        self._writing = Lock()
        self._parts: frozenset[str] = frozenset()
        self._forgotten = False
        self.stamp: Stamp | None = None
        self.turns: tuple[Turn, ...] = ()
        self.is_behind = False
        self.lacks_draw = False

    def read(self) -> Kept | None:
        """What a crash left of the session; None if nothing."""
        kept = _read(self._file)
        if kept is None:
            # A crash may have left a file without a whole line: it is this session's, and no process goes on with it.
            self.stamp = _stamp_of(self._file)
        else:
            self.stamp = kept.stamp
            self.turns = kept.run.turns
        return kept

    @property
    def moved(self) -> bool:
        """Whether another process went on with the session, or stored it."""
        with self._writing:
            return _stamp_of(self._file) != self.stamp

    @property
    def forgotten(self) -> bool:
        """Whether the session was forgotten while this process had it under way."""
        if not self._forgotten and self.moved:
            self._forgotten = _is_forgotten(self._file)
        return self._forgotten

    def write(
        self,
        run: Trajectory,
        shown: Iterable[str],
        aliases: Sequence[str],
        parts: frozenset[str],
        redactor: Callable[[Trajectory], Trajectory] | None,
    ) -> None:
        """Append what the file lacks of a session, without secrets; nothing where another process goes on with it.

        A long session costs each turn no more than a short one.
        """
        from hepm.ingest.formats.hepm import write_run

        if self._forgotten:
            return
        on_disk = _stamp_of(self._file)
        if on_disk is not None and on_disk != self.stamp:
            self._forgotten = _is_forgotten(self._file)
            return
        if on_disk is None:  # the whole session is written again
            self._parts = frozenset()
            self.turns = ()
        # A client may send a conversation that branches off: later turns are written again.
        at = common(run.turns, self.turns)
        same_turns = at == len(run.turns) == len(self.turns)
        if same_turns and parts <= self._parts and not self.lacks_draw:
            return
        part = replace(run, turns=run.turns[at:])
        if redactor is not None:
            part = redactor(part)
        content: Object = {"namespace": self._namespace, "aliases": aliases}
        if not parts <= self._parts:
            content["parts"] = sorted(parts - self._parts)
        line = json.dumps({**content, "at": at, "shown": list(shown), "run": write_run(part)})
        with self._writing:
            stamp = self._journal.append(line, self._file)
            self.stamp = stamp or _stamp_of(self._file)  # perhaps a part of it is written
        self.is_behind = stamp is None
        if stamp is not None:
            self._parts |= parts
            self.turns = run.turns
            self.lacks_draw = False

    def remove(self) -> None:
        """Delete it: the session is stored, or not to be. Storing it again, if that fails, changes nothing."""
        with self._writing:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)
            self.stamp = None


def common(first: Sequence[object], second: Sequence[object]) -> int:
    """How many members both have at their beginning."""
    count = 0
    for member, other in zip(first, second, strict=False):
        if member is not other and member != other:  # most are the same objects
            break
        count += 1
    return count


@lru_cache(maxsize=4096)
def _name(namespace: str, id: str) -> str:
    # A hash, as ids may hold what no file's name can; with the length, so that no two pairs give one text.
    digest = blake2b(f"{len(namespace)} {namespace}{id}".encode("utf-8", "surrogatepass"), digest_size=16)
    return f"{digest.hexdigest()}{_SUFFIX}"


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_mtime_ns, found.st_size


def _stamp_of(file: Path) -> Stamp | None:
    """Of a file as it is now; None if there is none: another process may have stored its session, as it rested."""
    try:
        return _stamp(file.stat())
    except OSError:
        return None
