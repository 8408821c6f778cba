"""A store's content in this process. It follows the store by revision and reads again only what the journal names."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hepm.errors import HepmError, StoreError, StoreUnavailableError
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import Header, RevisionChange
from hepm.graph.store import Store

if TYPE_CHECKING:
    from hepm.graph.mirror.lesson_mirror import LessonMirror

T = TypeVar("T")

_log = logging.getLogger("hepm")

_switching = threading.Lock()
_switched: list[float] = []


class SwitchingOften(contextlib.ContextDecorator):
    """Let all threads of the process take turns after .1 ms, not 5, so that long work delays no event loop."""

    def __enter__(self) -> None:
        with _switching:
            _switched.append(sys.getswitchinterval())
            sys.setswitchinterval(min(0.0001, _switched[0]))

    def __exit__(self, *error: object) -> None:
        with _switching:
            before = _switched.pop()
            if not _switched:
                sys.setswitchinterval(before)


class Mirror:
    """The namespaces of a store that were used, kept fresh.

    Args:
        poll_s: How often a suggestion may start the thread that reads other processes' writes; it never waits for it.
        folder: For what is computed from a large memory; None keeps nothing.
        prepare: Called with each namespace when it was read.
    Attributes:
        embedder: Name of the embedder of the store's vectors, as of the revision read last.
        revision: Of the store, up to which it was read.
    """

    def __init__(
        self,
        store: Store,
        *,
        poll_s: float = 1.0,
        folder: Path | None = None,
        prepare: Callable[[NamespaceMirror], object] = lambda mirror: None,
    ) -> None:
        self._store = store
        self._poll_s = poll_s
        self._folder = folder
        self._prepare = prepare
        self._next_poll = time.monotonic() + poll_s
        header = store.header
        self.revision = header.revision
        self.embedder = header.embedder
        self._lost_since: float | None = None
        self._asked_at: float | None = None
        self._namespaces: dict[str, NamespaceMirror] = {}
        self._lessons: dict[str, LessonMirror] = {}
        self._lock = threading.Lock()
        self._polling = threading.Lock()
        self._closed = False
        self._last_warning: str | None = None
        self._paused_until = 0.0
        self._follower: ThreadPoolExecutor | None = None
        self._following: Future[None] | None = None

    def namespace(self, name: str) -> NamespaceMirror:
        """The graph of a namespace; read from the store on first use."""
        return self._fresh(self._namespaces, name, self._make)

    def _make(self, store: Store, name: str) -> NamespaceMirror:
        mirror = NamespaceMirror(store, name, self._folder)
        self._prepare(mirror)
        return mirror

    def lessons(self, name: str) -> LessonMirror:
        """The lessons of one namespace; read from the store on first use."""
        from hepm.graph.mirror.lesson_mirror import LessonMirror

        return self._fresh(self._lessons, name, LessonMirror)

    def _fresh(self, mirrors: dict[str, T], name: str, make: Callable[[Store, str], T]) -> T:
        if self._closed:
            raise StoreError("this memory is closed: use it before close(), or inside the with block that opens it.")
        self.poll()
        if name not in mirrors:
            with self._lock:
                if name not in mirrors:
                    mirrors[name] = make(self._store, name)
        return mirrors[name]

    @property
    def lost_since(self) -> float | None:
        """Since when the store has not answered, Unix seconds; None while it does, or took less than some seconds."""
        asked_at = self._asked_at
        # A server that stands still takes a question, and never answers it. The clock may be set back.
        if self._lost_since is None and asked_at is not None and time.time() - asked_at >= 5:
            return asked_at
        return self._lost_since

    def poll(self) -> None:
        """Let the thread read what other processes wrote, if it is time; wait for nothing."""
        if time.monotonic() > self._next_poll:
            self._next_poll = time.monotonic() + self._poll_s
            self._wake()

    def refresh(self, *, defer: bool = False) -> None:
        """Catch up with the store now.

        Args:
            defer: Leave what is fitted to all calls of a larger memory to the thread that follows the store.
        Raises:
            StoreUnavailableError: it does not answer; what was read before stays.
        """
        with self._lock:
            self._asked_at = time.time()
            try:
                header = self._store.header
            finally:
                self._asked_at = None
            self.embedder = header.embedder
            if header.revision != self.revision:
                self._follow_changes(header)
            namespaces = list(self._namespaces.values())
        for mirror in namespaces:
            mirror.update(defer=defer)
        if any(mirror.behind for mirror in namespaces):
            if time.monotonic() >= self._paused_until:
                self._wake()
            else:
                self._next_poll = min(self._next_poll, self._paused_until)  # a suggestion then wakes it

    def follow_now(self) -> None:
        """Do now what `refresh` left to the thread; if the store does not answer, the thread does it later."""
        for mirror in list(self._namespaces.values()):
            with contextlib.suppress(StoreUnavailableError):
                mirror.update(anew=False)

    def _follow_changes(self, header: Header) -> None:
        changes = self._store.changes_since(self.revision)
        for name, mirror in self._namespaces.items():
            if changes is None:  # the journal no longer reaches back
                mirror.follow([RevisionChange(header.revision, name, None, True, True)])
                continue
            in_namespace = [change for change in changes if change.namespace == name]
            if in_namespace:
                mirror.follow(in_namespace)
        for lessons in self._lessons.values():
            lessons.follow(header)
        # Not that of the last change, which may be later than the header that lessons were compared with.
        self.revision = header.revision

    def catch_up(self, *, defer: bool = False) -> None:
        """The same; if the store does not answer, suggestions go on from what was read before."""
        try:
            self.refresh(defer=defer)
            if self._lost_since is not None:
                _log.warning("the store answers again after %.0f s", time.time() - self._lost_since)
                self._lost_since = None
        except StoreUnavailableError as error:
            if self._lost_since is None:
                self._lost_since = time.time()
                _log.warning("suggestions go on from what was read before: %s", error)

    def _wake(self) -> None:
        """Let the thread follow the store now, unless it is running."""
        with self._polling:
            if self._closed or not (self._following is None or self._following.done()):
                return
            self._follower = self._follower or ThreadPoolExecutor(1, thread_name_prefix="hepm-mirror")
            with contextlib.suppress(RuntimeError):  # Python ends, and starts no thread; what waits for it goes on
                self._following = self._follower.submit(self._follow)

    @SwitchingOften()
    def _follow(self) -> None:
        began = time.monotonic()
        paused = began < self._paused_until
        try:
            self.catch_up(defer=True)
            if not paused:
                for mirror in list(self._namespaces.values()):
                    mirror.update(anew=False)
        except Exception as error:  # no caller waits for this thread: what it does not log is lost
            if str(error) != self._last_warning:
                self._last_warning = str(error)
                _log.warning(
                    "the store cannot be followed, and suggestions go on from what was read before: %s",
                    error,
                    exc_info=not isinstance(error, HepmError),
                )
            return
        self._last_warning = None
        if not paused:
            # Ten times as long as it took to read all calls.
            self._paused_until = time.monotonic() + 10 * (time.monotonic() - began)

    def close(self) -> None:
        """Stop following."""
        with self._polling:
            self._closed = True
        if self._follower is not None:
            self._follower.shutdown(wait=True)
