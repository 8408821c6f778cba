"""Files that were read whole, so that an ingest of thousands of transcripts costs only the new and the grown ones."""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from hepm.atomic_file import atomic_file
from hepm.errors import HepmError
from hepm.graph.delta import RunRecord
from hepm.ingest.prepare import IngestOptions, Prepared
from hepm.ingest.records import ReadOptions, without_surrogates

_log = logging.getLogger("hepm")


class _Seen(NamedTuple):
    """A file when it was read: its stamp (settings, size in bytes, time of change), its format, and ids of its runs."""

    stamp: str
    format: str
    ids: list[str]


class SeenFiles:
    """A list of files on disk.

    Args:
        file: Where it is kept; an unreadable one is an empty list.
        options: What else decides what a file gives. A hook of the user's may decide anything: then no file counts as
            seen.
    """

    def __init__(self, file: Path, namespace: str, reading: ReadOptions, options: IngestOptions) -> None:
        from hepm import __version__

        redactor = options.redactor
        self._usable = not (redactor and redactor.hook)
        # Whatever decides what a file gives: with other settings each file is read again.
        own = (options.assume_success, options.distrusted, options.own_states, options.outcome_by)
        settings = repr((__version__, namespace, reading, redactor and redactor.rules, *own))
        self._settings = blake2b(settings.encode("utf-8", "replace"), digest_size=16).hexdigest()
        self._file = file
        self._seen: dict[str, _Seen] = {}  # by path
        with suppress(OSError, ValueError, TypeError, AttributeError):
            self._seen = {path: _Seen(*seen) for path, seen in json.loads(file.read_text("utf-8")).items()}
        self._read: dict[str, _Seen] = {}  # by name as sources have it

    def split(
        self, files: Sequence[Path], known: Callable[[Sequence[str]], Collection[str]]
    ) -> tuple[list[Path], Counter[str]]:
        """The files to read; and of those that are as they were, and whose runs are all `known`, the runs by format."""
        fresh: list[Path] = []
        unchanged: Counter[str] = Counter()
        for file in files:
            with suppress(OSError):
                status = file.stat()
                stamp = f"{self._settings} {status.st_size} {status.st_mtime_ns}"
                seen = self._seen.get(str(file.absolute()))
                if self._usable and seen and seen.stamp == stamp and len(known(seen.ids)) == len(seen.ids):
                    unchanged[seen.format] += len(seen.ids)
                    continue
                self._read[without_surrogates(str(file))] = _Seen(stamp, "", [])
            fresh.append(file)
        return fresh, unchanged

    def watch(self, items: Iterable[Prepared]) -> Iterator[Prepared]:
        """The same items, noted by their files."""
        for format_name, item in items:
            source = item.source if isinstance(item, RunRecord) else item.file
            source = source.partition("!")[0]  # "runs.tar!a.json" came out of the file "runs.tar"
            seen = self._read.pop(source, None)
            # Some formats read files beside the one with the runs: it may be the same, and they not.
            is_alone = format_name not in ("atif", "bfcl", "tau2")
            # Else it is to be read each time.
            if seen and is_alone and isinstance(item, RunRecord) and len(seen.ids) < 64:
                if item.id not in seen.ids:
                    seen.ids.append(item.id)
                self._read[source] = seen._replace(format=str(format_name))
            yield format_name, item

    def keep(self) -> None:
        """Write the list down, once everything that was yielded is stored."""
        whole = {os.path.abspath(name): seen for name, seen in self._read.items() if seen.ids}
        if not whole or not self._usable:
            return
        self._seen.update(whole)
        try:
            with atomic_file(self._file, "the list of files read") as partial:
                partial.write_text(json.dumps(self._seen), "utf-8")
        except HepmError as error:
            _log.info("every file will be read again: %s", error)
