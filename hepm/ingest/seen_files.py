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
from typing import Any, Final, TypeVar

from hepm.atomic_file import atomic_file
from hepm.errors import HepmError
from hepm.graph.delta import RunRecord
from hepm.ingest.files.sources import printable
from hepm.ingest.prepare import IngestOptions, Prepared, TrustByTags
from hepm.ingest.records import ReadOptions

_log = logging.getLogger("hepm")
T = TypeVar("T")

_WITH_OTHERS: Final = frozenset({"atif", "bfcl", "tau2"})
"""Formats that read files beside the one with the runs: it may be the same, and they not."""
_MOST_RUNS: Final = 64
_RECENT_S: Final = 2.0
"""A file that changed so recently may change again without another time."""

FileStamp = tuple[int, int]
"""Size in bytes and time of the last change in nanoseconds."""


@dataclass(slots=True)
class SeenFile:
    """A file, its stamp when it was read, the format, and the ids of its runs."""

    path: str
    stamp: FileStamp
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
        self._usable = not (redactor and redactor.hook) and isinstance(trusted, TrustByTags | None)
        # Whatever decides what a file gives: with other settings each file is read again.
        settings = (
            __version__,
            namespace,
            astuple(reading),
            redactor and redactor.rules,
            options.assume_success,
            trusted,
            options.own_states,
            options.outcome_by,
        )
        self._key = blake2b(repr(settings).encode("utf-8", "replace"), digest_size=16).hexdigest()
        self._file = file
        self._lists: dict[str, dict[str, SeenFile]] = {}  # by the key of the settings, then by path
        with suppress(OSError, ValueError, TypeError, KeyError):
            for key, rows in json.loads(file.read_text("utf-8")).items():
                self._lists[key] = _seen_files(rows)
        self._seen = self._lists.setdefault(self._key, {})
        self._read: dict[str, SeenFile | None] = {}
        self._kept_at = time.monotonic()

    def split(
        self, files: Sequence[Path], known: Callable[[Sequence[str]], Collection[str]]
    ) -> tuple[list[Path], list[SeenFile]]:
        """The files to read, and those that are as they were and whose runs are all `known`."""
        fresh: list[Path] = []
        same: dict[Path, SeenFile] = {}
        for file in files:
            path, stamp = str(file.absolute()), _stamp(file)
            before = self._seen.get(path)
            if self._usable and before is not None and stamp == before.stamp:
                same[file] = before
                continue
            fresh.append(file)
            if self._usable and stamp is not None and time.time() - stamp[1] / 1e9 > _RECENT_S:
                self._read[printable(str(file))] = SeenFile(path, stamp, "", [])
        ids = [id for seen in same.values() for id in seen.ids]
        stored: set[str] = set()
        for start in range(0, len(ids), 1_000):
            stored.update(known(ids[start : start + 1_000]))
        # Of others some runs were forgotten since.
        unchanged = {file: seen for file, seen in same.items() if stored.issuperset(seen.ids)}
        fresh += [file for file in same if file not in unchanged]
        return fresh, list(unchanged.values())

    def watch(self, items: Iterable[Prepared]) -> Iterator[Prepared]:
        """The same items. Their files come in the order of `split`: those before the current one are done."""
        for format_name, item in items:
            source = item.source if isinstance(item, RunRecord) else item.file
            # "runs.tar!a.json" came out of the file "runs.tar".
            file = source if source in self._read else source.partition("!")[0]
            seen = self._read.get(file)
            if seen is not None:
                is_alone = bool(format_name) and format_name not in _WITH_OTHERS and len(seen.ids) < _MOST_RUNS
                if is_alone and isinstance(item, RunRecord):
                    seen.format = str(format_name)
                    seen.ids.append(item.id)
                else:
                    self._read[file] = None  # it is read each time
            yield format_name, item

    def keep_and(self, report: Callable[[T], object] | None) -> Callable[[T], None]:
        """What to call after each batch: it writes the list down, as `keep` does, and reports."""

        def stored(batch: T) -> None:
            self.keep(done=False)
            if report is not None:
                report(batch)

        return stored

    def keep(self, *, done: bool) -> None:
        """Write the list down, as everything that was yielded is stored; at most every few seconds until `done`."""
        # Seconds: the list is written whole each time, and grows.
        if not done and time.monotonic() - self._kept_at < 5:
            return
        self._kept_at = time.monotonic()
        whole = [seen for seen in self._read.values() if seen is not None and seen.ids]
        if not done and whole:
            whole.pop()  # more of it may come
        if not whole:
            return
        for seen in whole:
            self._seen[seen.path] = seen
        lists = {key: list(map(astuple, files.values())) for key, files in self._lists.items()}
        try:
            with atomic_file(self._file, "the list of files read") as partial:
                partial.write_text(json.dumps(lists), "utf-8")
        except HepmError as error:
            _log.info("every file will be read again: %s", error)


def _seen_files(rows: Sequence[Sequence[Any]]) -> dict[str, SeenFile]:
    """The files of a list as it was written, by path: ["/runs/a.jsonl", [120, 1764144000000000000], "chat", ["a"]]."""
    seen_files: dict[str, SeenFile] = {}
    for path, (size, changed_ns), format_name, ids in rows:
        seen_files[path] = SeenFile(path, (size, changed_ns), format_name, ids)
    return seen_files


def _stamp(file: Path) -> FileStamp | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
