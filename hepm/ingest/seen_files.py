"""Files that were read whole, so that an ingest of thousands of transcripts costs only the new and the grown ones."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeAlias

from hepm.atomic_file import atomic_file
from hepm.errors import HepmError
from hepm.graph.delta import RunRecord
from hepm.ingest.files.sources import printable
from hepm.ingest.prepare import IngestOptions, Prepared, TrustByTags
from hepm.ingest.records import ReadOptions

_log = logging.getLogger("hepm")

_WITH_OTHERS: Final = frozenset({"atif", "bfcl", "tau2"})
"""Formats that read files beside the one with the runs: it may be the same, and they not."""
_MOST_RUNS: Final = 64
_RECENT_S: Final = 2.0
"""A file that changed so recently may change again without another time."""

Seen: TypeAlias = tuple[int, int, str, list[str]]
"""Of a file when it was read: its size in bytes, when it changed in nanoseconds, its format, and ids of its runs."""


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
        rules = redactor and redactor.rules
        own = (options.assume_success, trusted, options.own_states, options.outcome_by)
        settings = repr((__version__, namespace, astuple(reading), rules, *own))
        key = blake2b(settings.encode("utf-8", "replace"), digest_size=16).hexdigest()
        self._file = file
        self._lists: dict[str, dict[str, Seen]] = {}  # by the settings, then by path
        with suppress(OSError, ValueError, TypeError, AttributeError):
            for settings, listed in json.loads(file.read_text("utf-8")).items():
                self._lists[settings] = {path: (*stamp, name, ids) for path, (*stamp, name, ids) in listed.items()}
        self._seen = self._lists.setdefault(key, {})
        self._read: dict[
            str, tuple[str, Seen] | None
        ] = {}  # by name as sources have it; None for what is read each time

    def split(
        self, files: Sequence[Path], known: Callable[[Sequence[str]], Collection[str]]
    ) -> tuple[list[Path], Counter[str]]:
        """The files to read; and of those that are as they were, and whose runs are all `known`, the runs by format."""
        fresh: list[Path] = []
        same: list[tuple[Path, Seen]] = []
        for file in files if self._usable else ():
            path = str(file.absolute())
            with suppress(OSError):
                status = file.stat()
                stamp = (status.st_size, status.st_mtime_ns)
                seen = self._seen.get(path)
                if seen is not None and seen[:2] == stamp:
                    same.append((file, seen))
                    continue
                if time.time() - status.st_mtime > _RECENT_S:
                    self._read[printable(str(file))] = path, (*stamp, "", [])
            fresh.append(file)
        ids = [id for _, seen in same for id in seen[3]]
        stored: set[str] = set()
        for start in range(0, len(ids), 1_000):
            stored.update(known(ids[start : start + 1_000]))
        unchanged: Counter[str] = Counter()
        for file, (_, _, name, ids) in same:
            if stored.issuperset(ids):
                unchanged[name] += len(ids)
            else:  # some of its runs were forgotten since
                fresh.append(file)
        return fresh if self._usable else [*files], unchanged

    def watch(self, items: Iterable[Prepared]) -> Iterator[Prepared]:
        """The same items, noted by their files."""
        for format_name, item in items:
            source = item.source if isinstance(item, RunRecord) else item.file
            # "runs.tar!a.json" came out of the file "runs.tar".
            file = source if source in self._read else source.partition("!")[0]
            read = self._read.get(file)
            if read is not None:
                path, (size, changed, _, ids) = read
                is_alone = bool(format_name) and format_name not in _WITH_OTHERS and len(ids) < _MOST_RUNS
                self._read[file] = None
                if is_alone and isinstance(item, RunRecord):
                    self._read[file] = path, (size, changed, str(format_name), [*ids, item.id])
            yield format_name, item

    def keep(self) -> None:
        """Write the list down, once everything that was yielded is stored."""
        whole = {path: seen for path, seen in filter(None, self._read.values()) if seen[3]}
        if not whole:
            return
        self._seen.update(whole)
        try:
            with atomic_file(self._file, "the list of files read") as partial:
                partial.write_text(json.dumps(self._lists), "utf-8")
        except HepmError as error:
            _log.info("every file will be read again: %s", error)
