"""What rankers compute from all calls of a namespace: kept up to date, and of a large memory in files."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, TypeVar

from numpy.typing import NDArray

from hepm.graph.calls.artifacts import PARTS, Artifacts
from hepm.graph.calls.call_history import NEWEST, CallHistory
from hepm.graph.calls.call_matrix import CallMatrix, Reached
from hepm.graph.rows import RevisionChange
from hepm.graph.store import Store

T = TypeVar("T")

_log = logging.getLogger("hepm")

MISSED: Final = 0.05
"""Share of the latest runs that may be newer than what is taken from files."""
GROWN: Final = 1.25
"""By so much the store may grow until what was measured in it is measured again."""
MANY_RUNS: Final = 3_000
"""From here on processes that open a memory together wait for the one that computes."""
_FEW_CALLS: Final = 150  # an ingest waits until a memory of so many calls is fitted again; a larger one takes too long


class Fits:
    """Results of functions of all calls of a namespace; each is computed when it is first asked for, and kept."""

    def __init__(self, store: Store, namespace: str, folder: Path | None) -> None:
        self._store = store
        self._namespace = namespace
        self._artifacts = None if folder is None else Artifacts(folder, namespace)
        self._newest_kept = 0  # the newest run that a file knows
        self._parts = ""
        self._history = CallHistory(store, namespace)
        self._lock = threading.Lock()
        self._calls: CallMatrix | None = None
        self._made: dict[Callable[[CallMatrix, Any], object], object] = {}
        self._behind: bool | None = None  # whether calls were rewritten since they were read; None if nothing changed
        self._added = False  # whether calls were added to a former fit
        self._behind_lock = threading.Lock()

    def of(self, make: Callable[[CallMatrix, T | None], T]) -> T:
        """The result of `make` for all calls; kept, and made again by `update`.

        `make` also receives its result for fewer calls of the same memory, or None to start from nothing. Of a large
        memory it is kept in files, if `make` has `restored` and its result `to_keep`.
        """
        found = self._made.get(make)
        if found is None:
            with self._lock:
                if make not in self._made and not self._restore(make):
                    self._make_first(make)
                found = self._made[make]
        return found  # type: ignore[return-value]

    def remembered(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What `measure` found here or elsewhere while the store had nearly as many runs; else measured now."""
        latest = self._store.latest_runs(namespace=self._namespace, before=NEWEST, most=1)
        newest = latest[-1].seq if latest else 0
        known = None if self._artifacts is None else self._artifacts.read_note(name)
        if known is None or not self._still_holds(known, newest):
            found = measure()
            if latest and self._artifacts is not None:
                about = {"newest": newest, "newest_id": latest[-1].id, "embedder": self._store.header.embedder}
                self._artifacts.write_note(name, {**about, "found": found})
            return found
        return known["found"]

    def _still_holds(self, known: Mapping[str, Any], newest: int) -> bool:
        if known["embedder"] != self._store.header.embedder or newest > known["newest"] * GROWN:
            return False
        # Else it is of another store, or the run was removed.
        held = self._store.runs_at([known["newest"]], namespace=self._namespace)
        return [run.id for run in held] == [known["newest_id"]]

    def drop(self, make: Callable[[CallMatrix, Any], object]) -> None:
        """Keep the result of `make` no longer."""
        with self._lock:
            self._made.pop(make, None)

    def _make_first(self, make: Callable[[CallMatrix, Any], object]) -> None:
        def now() -> None:
            if self._calls is None:
                self._calls = self._history.latest()
            self._made[make] = make(self._calls, None)
            self._keep(make, self._calls)

        latest = self._store.latest_runs(namespace=self._namespace, before=NEWEST, most=1)
        if self._artifacts is None or not latest or latest[-1].seq < MANY_RUNS:
            now()
            return
        with self._artifacts.alone():
            if not self._restore(make):  # another process may have computed it meanwhile
                now()

    @property
    def kept(self) -> bool:
        """Whether files of this namespace are there."""
        return self._artifacts is not None and self._artifacts.read() is not None

    def read_anew(self) -> bool:
        """Read the calls and compute everything again; whether all calls were read."""
        with self._lock:
            self._history.restart()
            calls = self._history.latest()
            self._replace_calls(calls)
        return calls.reached is None

    def _read_kept(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """What another process kept, if it is of this store."""
        kept = None if self._artifacts is None else self._artifacts.read()
        if kept is None or self._artifacts is None:
            return None
        about, _ = kept
        held = self._store.runs_at([about["newest"]], namespace=self._namespace)
        if [run.id for run in held] != [about["newest_id"]]:  # of another store, or the run was removed
            self._artifacts.drop()
            return None
        return kept if about["embedder"] == self._store.header.embedder else None

    def _keep_parts(self, about: Mapping[str, Any], changes: Sequence[RevisionChange] | None) -> None:
        """Take the calls after tools from files of other processes, but for what `changes` removed; None: all."""
        if self._artifacts is None or not self._history.keep_in(self._artifacts.parts(about["parts"]), about["tools"]):
            return
        self._parts = about["parts"]
        removed = [None] if changes is None else [one.sources for one in changes if one.removed]
        if removed:
            self._history.forget(None if None in removed else {tool for of in removed for tool in of or ()})

    def _changes_since(self, revision: int) -> list[RevisionChange] | None:
        """Those of the namespace; None if the store does not know any more."""
        if self._store.header.revision == revision:
            return []
        changes = self._store.changes_since(revision)
        return None if changes is None else [one for one in changes if one.namespace == self._namespace]

    def _restore(self, make: Callable[[CallMatrix, Any], object]) -> bool:
        """Take what another process computed, if it lacks few runs."""
        restored = getattr(make, "restored", None)
        try:
            kept = self._read_kept() if restored is not None else None
            if kept is None or restored is None:
                return False
            about, arrays = kept
            changes = self._changes_since(about["revision"])
            now = self._store.latest_runs(namespace=self._namespace, before=NEWEST, most=1)
            missed = now[-1].seq - about["newest"] if now else 0
            if about["newest"] <= self._newest_kept or missed > about["runs"] * MISSED:
                self._keep_parts(about, changes)
                return False
            calls = self._history.restored(about["tools"], [arrays[name] for name in Reached.__slots__])
            self._made[make] = restored(calls, arrays)
            self._keep_parts(about, changes)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            _log.warning(
                "what was computed for the namespace %r is damaged, and is computed again: %r", self._namespace, error
            )
            return False
        self._calls, self._newest_kept = None, about["newest"]
        if changes is None or changes:
            self._mark_behind(rewritten=changes is None or any(one.removed for one in changes))
        return True

    def _keep(self, make: Callable[[CallMatrix, Any], object], calls: CallMatrix) -> None:
        """Let other processes take it, if it was computed from a part of a large memory, and knows many runs more."""
        to_keep = getattr(self._made[make], "to_keep", None)
        newest, reached = self._history.newest, calls.reached
        if to_keep is None or reached is None or self._artifacts is None:
            return
        if self._newest_kept and newest - self._newest_kept <= len(calls.run_ids) * MISSED / 2:
            return
        counts = {name: getattr(reached, name) for name in Reached.__slots__}
        tools, before = list(calls.names[1:]), self._artifacts.read()
        about = {
            "revision": self._history.revision,
            "newest": newest,
            "newest_id": calls.run_ids[-1],
            "runs": len(calls.run_ids),
            "embedder": self._store.header.embedder,
            "tools": tools,
        }
        # Files of processes that gave new tools other numbers are left to them.
        if (
            before is None
            or before[0]["parts"] != self._parts
            or tools[: len(before[0]["tools"])] != before[0]["tools"]
        ):
            self._parts = PARTS + token_hex(4)
        self._artifacts.write(self._history.revision, about, {**to_keep(), **counts}, self._parts)
        self._history.keep_in(self._artifacts.parts(self._parts), tools)
        self._newest_kept = newest

    def _replace_calls(self, calls: CallMatrix, *, anew: bool = True) -> None:
        before, self._calls = self._calls, calls
        if before is None or calls.run_ids[: len(before.run_ids)] != before.run_ids:
            anew = True
        for make, former in list(self._made.items()):
            self._made[make] = make(calls, None if anew else former)
            self._keep(make, calls)

    def follow(self, changes: Sequence[RevisionChange], *, read: bool) -> None:
        """Note what later revisions changed, for `update`.

        Args:
            read: The calls were read again meanwhile.
        """
        # In a large memory a text that replaced an almost equal one is not worth to read all anew.
        rewritten = [change for change in changes if change.removed or (self._history.whole and change.rewritten)]
        if rewritten:
            removed = [change.sources for change in rewritten]
            self._history.forget(None if None in removed else {tool for tools in removed for tool in tools or ()})
        # Lessons change no tool: what was computed stays valid.
        if not read and any(change.sources is None or change.sources or change.rewritten for change in changes):
            self._mark_behind(rewritten=bool(rewritten))

    @property
    def behind(self) -> bool:
        """Whether `update` has anything to do."""
        return self._behind is not None and bool(self._made)

    def update(self, *, anew: bool = True, defer: bool = False) -> None:
        """Make again what was computed, if something changed.

        Args:
            anew: Start from nothing; else only the new calls are added to the former fit.
            defer: Do nothing if it would take more than some milliseconds.
        """
        calls = self._calls
        if defer and (calls is None or len(calls.next_N) > _FEW_CALLS):
            return
        with self._lock:
            with self._behind_lock:
                behind, self._behind = self._behind, None
            if not self._made or (behind is None and not (anew and self._added)):
                return
            try:
                if behind:
                    self._history.restart()
                elif len(self._made) == 1 and self._restore(next(iter(self._made))):
                    return
                anew = anew or bool(behind)
                self._replace_calls(self._history.latest(), anew=anew)
                self._added = not anew
            except BaseException:
                self._mark_behind(rewritten=bool(behind))
                raise

    def _mark_behind(self, *, rewritten: bool) -> None:
        with self._behind_lock:
            self._behind = bool(self._behind) or rewritten
