"""Files that were read whole, so that an ingest of thousands of transcripts costs only the new and the grown ones."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeVar

from hepm.atomic_file import atomic_file
from hepm.errors import HepmError
from hepm.graph.delta import Run
from hepm.ingest.prepare import IngestOptions, Prepared, TrustByTags
from hepm.ingest.records import ReadOptions
from hepm.ingest.sources import printable

_log = logging.getLogger("hepm")
T = TypeVar("T")

_WITH_OTHERS: Final = frozenset({"atif", "bfcl", "tau2"})
"""Formats that read files beside the one with the runs: it may be the same, and they not."""
_MOST_RUNS: Final = 64
_RECENT_S: Final = 2.0
"""A file that changed so recently may change again without another time."""

Stamp = tuple[int, int]
"""Size in bytes and time of the last change in nanoseconds."""


@dataclass(slots=True)
class SeenFile:
    """A file, its stamp when it was read, the format, and the ids of its runs."""

    path: str
    stamp: Stamp
    format: str
    ids: list[str]


class SeenFiles:
    """A list of files on disk.

    Args:
        file: Where it is kept; an unreadable one is an empty list.
        options: What else decides what a file gives. A hook or a function of the user's may decide anything: then no
            file counts as seen.
    """

    def __init__(self, file: Path, namespace: str, reading: ReadOptions, options: IngestOptions) -> None:
        from hepm import __version__

        redactor, trusted = options.redactor, options.trusted
        self._usable = not (redactor is not None and redactor.hook) and isinstance(trusted, TrustByTags | None)
        rules = None if redactor is None else redactor.rules
        about = (__version__, namespace, astuple(reading), rules, options.assume_success, trusted, options.own_states)
        about += (options.outcome_by,)
        self._key = blake2b(repr(about).encode("utf-8", "replace"), digest_size=16).hexdigest()
        self._file = file
        self._lists: dict[str, dict[str, SeenFile]] = {}
        with suppress(OSError, ValueError, TypeError, KeyError):
            for key, rows in json.loads(file.read_text("utf-8")).items():
                self._lists[key] = {row[0]: SeenFile(row[0], (row[1][0], row[1][1]), row[2], row[3]) for row in rows}
        self._seen = self._lists.setdefault(self._key, {})
        self._read: dict[str, SeenFile | None] = {}
        self._kept_at = time.monotonic()

    def split(
        self, files: Sequence[Path], known: Callable[[Sequence[str]], Collection[str]]
    ) -> tuple[list[Path], list[SeenFile]]:
        """The files to read, and those that are as they were and whose runs are all `known`."""
        fresh: list[Path] = []
        same: list[tuple[Path, SeenFile]] = []
        for file in files:
            path, stamp = str(file.absolute()), _stamp(file)
            before = self._seen.get(path) if self._usable else None
            if before is not None and stamp is not None and before.stamp == stamp:
                same.append((file, before))
            else:
                fresh.append(file)
                if stamp is not None and self._usable and time.time() - stamp[1] / 1e9 > _RECENT_S:
                    self._read[printable(str(file))] = SeenFile(path, stamp, "", [])
        ids = [id for _, one in same for id in one.ids]
        stored = {id for at in range(0, len(ids), 1_000) for id in known(ids[at : at + 1_000])}
        gone = [file for file, one in same if not all(id in stored for id in one.ids)]
        fresh += gone
        return fresh, [one for file, one in same if file not in set(gone)]

    def watch(self, items: Iterable[Prepared]) -> Iterator[Prepared]:
        """The same items. Their files come in the order of `split`: those before the current one are done."""
        for name, item in items:
            source = item.source if isinstance(item, Run) else item.file
            file = source if source in self._read else source.partition("!")[0]
            one = self._read.get(file)
            if one is not None:
                if not isinstance(item, Run) or name is None or name in _WITH_OTHERS or len(one.ids) == _MOST_RUNS:
                    self._read[file] = None
                else:
                    one.format = name
                    one.ids.append(item.id)
            yield name, item

    def keep_and(self, report: Callable[[T], object] | None) -> Callable[[T], None]:
        """What to call after each batch: it writes the list down, as `keep` does, and reports."""

        def stored(found: T) -> None:
            self.keep(done=False)
            if report is not None:
                report(found)

        return stored

    def keep(self, *, done: bool) -> None:
        """Write the list down, as everything that was yielded is stored; at most every few seconds until `done`."""
        if not done and time.monotonic() - self._kept_at < 5:
            return
        self._kept_at = time.monotonic()
        whole = [one for one in self._read.values() if one is not None and one.ids]
        if not done and whole:
            whole.pop()  # more of it may come
        if not whole:
            return
        self._seen |= {one.path: one for one in whole}
        text = json.dumps({key: [astuple(one) for one in rows.values()] for key, rows in self._lists.items()})
        try:
            with atomic_file(self._file, "the list of files read") as place:
                place.write_text(text, "utf-8")
        except HepmError as error:
            _log.info("every file will be read again: %s", error)


def _stamp(file: Path) -> Stamp | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
