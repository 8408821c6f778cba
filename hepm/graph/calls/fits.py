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
from hepm.graph.rows import RevisionChange, RunRow
from hepm.graph.store import Store
from hepm.types import ToolName

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
        result = self._made.get(make)
        if result is None:
            with self._lock:
                if make not in self._made and not self._restore(make):
                    self._make_first(make)
                result = self._made[make]
        return result  # type: ignore[return-value]

    def remembered(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What `measure` found here or elsewhere while the store had nearly as many runs; else measured now."""
        newest = self._newest_run()
        if self._artifacts is None or newest is None:
            return measure()
        note = self._artifacts.read_note(name)
        if note is not None and self._still_holds(note, newest.seq):
            return note["found"]
        measured = measure()
        embedder = self._store.header.embedder
        self._artifacts.write_note(
            name, {"newest": newest.seq, "newest_id": newest.id, "embedder": embedder, "found": measured}
        )
        return measured

    def _newest_run(self) -> RunRow | None:
        """The labelled, counted run that was stored last."""
        latest = self._store.latest_runs(namespace=self._namespace, before=NEWEST, most=1)
        if not latest:
            return None
        return latest[-1]

    def _still_holds(self, note: Mapping[str, Any], newest: int) -> bool:
        if note["embedder"] != self._store.header.embedder or newest > note["newest"] * GROWN:
            return False
        return self._holds_run(note["newest"], note["newest_id"])

    def _holds_run(self, seq: int, run_id: str) -> bool:
        """Whether the store has this run; if not, what was kept is of another store, or the run was removed."""
        held = self._store.runs_at([seq], namespace=self._namespace)
        return bool(held) and held[0].id == run_id

    def drop(self, make: Callable[[CallMatrix, Any], object]) -> None:
        """Keep the result of `make` no longer."""
        with self._lock:
            self._made.pop(make, None)

    def _make_first(self, make: Callable[[CallMatrix, Any], object]) -> None:
        newest = self._newest_run()
        if self._artifacts is None or newest is None or newest.seq < MANY_RUNS:
            self._make_now(make)
            return
        with self._artifacts.alone():
            if not self._restore(make):  # another process may have computed it meanwhile
                self._make_now(make)

    def _make_now(self, make: Callable[[CallMatrix, Any], object]) -> None:
        if self._calls is None:
            self._calls = self._history.latest()
        self._made[make] = make(self._calls, None)
        self._keep(make, self._calls)

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
        if self._artifacts is None:
            return None
        kept = self._artifacts.read()
        if kept is None:
            return None
        about, _ = kept
        if not self._holds_run(about["newest"], about["newest_id"]):
            self._artifacts.drop()
            return None
        if about["embedder"] != self._store.header.embedder:
            return None
        return kept

    def _keep_parts(self, about: Mapping[str, Any], changes: Sequence[RevisionChange] | None) -> None:
        """Take the calls after tools from files of other processes, but for what `changes` removed; None: all."""
        if self._artifacts is None or not self._history.keep_in(self._artifacts.parts(about["parts"]), about["tools"]):
            return
        self._parts = about["parts"]
        if changes is None:
            self._history.forget(None)
        else:
            self._forget_after([change for change in changes if change.removed])

    def _forget_after(self, changes: Sequence[RevisionChange]) -> None:
        """Read the calls after the tools that these changes name again when they are next asked for."""
        if not changes:
            return
        tools: set[ToolName] = set()
        for change in changes:
            if change.sources is None:  # everything may have changed
                self._history.forget(None)
                return
            tools.update(change.sources)
        self._history.forget(tools)

    def _changes_since(self, revision: int) -> list[RevisionChange] | None:
        """Those of the namespace; None if the store does not know any more."""
        if self._store.header.revision == revision:
            return []
        changes = self._store.changes_since(revision)
        if changes is None:
            return None
        return [change for change in changes if change.namespace == self._namespace]

    def _restore(self, make: Callable[[CallMatrix, Any], object]) -> bool:
        """Take what another process computed, if it lacks few runs."""
        restored = getattr(make, "restored", None)
        if restored is None:
            return False
        try:
            kept = self._read_kept()
            if kept is None:
                return False
            about, arrays = kept
            changes = self._changes_since(about["revision"])
            newest = self._newest_run()
            missed = 0
            if newest is not None:
                missed = newest.seq - about["newest"]
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
        if changes is None:
            self._mark_behind(rewritten=True)
        elif changes:
            self._mark_behind(rewritten=any(change.removed for change in changes))
        return True

    def _keep(self, make: Callable[[CallMatrix, Any], object], calls: CallMatrix) -> None:
        """Let other processes take it, if it was computed from a part of a large memory, and knows many runs more."""
        to_keep = getattr(self._made[make], "to_keep", None)
        newest, reached = self._history.newest, calls.reached
        if to_keep is None or reached is None or self._artifacts is None:
            return
        # Few new runs are not worth writing everything again.
        if self._newest_kept and newest - self._newest_kept <= len(calls.run_ids) * MISSED / 2:
            return
        tools = list(calls.names[1:])  # without the start
        about = {
            "revision": self._history.revision,
            "newest": newest,
            "newest_id": calls.run_ids[-1],
            "runs": len(calls.run_ids),
            "embedder": self._store.header.embedder,
            "tools": tools,
        }
        if not self._continues(self._artifacts.read(), tools):
            self._parts = PARTS + token_hex(4)
        arrays = dict(to_keep())
        for name in Reached.__slots__:
            arrays[name] = getattr(reached, name)
        self._artifacts.write(self._history.revision, about, arrays, self._parts)
        self._history.keep_in(self._artifacts.parts(self._parts), tools)
        self._newest_kept = newest

    def _continues(self, kept: tuple[dict[str, Any], object] | None, tools: Sequence[ToolName]) -> bool:
        """Whether the files number tools as this process does; those of others are left to them."""
        if kept is None:
            return False
        about, _ = kept
        known: Sequence[ToolName] = about["tools"]
        return about["parts"] == self._parts and tools[: len(known)] == known

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
        self._forget_after(rewritten)
        if read:
            return
        for change in changes:
            # Lessons change no tool: what was computed stays valid.
            if change.sources is None or change.sources or change.rewritten:
                self._mark_behind(rewritten=bool(rewritten))
                return

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
                # Another process may have computed it from the same runs already.
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
