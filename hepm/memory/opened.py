"""A memory that is open: its store, its mirror and its embedder."""

from __future__ import annotations

import logging
import os
from functools import cached_property
from os import PathLike
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from hepm.embed.agreed import AgreedEmbedder
from hepm.errors import HepmError, InputError, StoreDamagedError, StoreUnavailableError
from hepm.graph.mirror.mirror import Mirror
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.open_store import artifact_folder, embedded_file, open_store
from hepm.graph.rows import Counting, Header, RecordParser, ToolRow, Totals
from hepm.graph.store import Store
from hepm.memory.journal import Journal
from hepm.text import count_of
from hepm.types import DEFAULT_NAMESPACE, SUCCESS_FROM, ToolName

if TYPE_CHECKING:
    import networkx as nx

    from hepm.embed import Embedder
    from hepm.ingest.pipeline import Outbox
    from hepm.memory.levels import LevelDraws
    from hepm.memory.lots import Lots
    from hepm.types import Speak


_log = logging.getLogger("hepm")

DEFAULT_STORE: Final = "memory.hepm"
DEFAULT_EMBEDDER: Final = "hepm/hash-512"
DEFAULT_RANKERS: Final = "hepm-rank"


class OpenMemory:
    """What all parts of `hepm.Memory` share."""

    def __init__(
        self,
        store: Store,
        embedder: str | Embedder | None = None,
        *,
        poll_s: float = 1.0,
        endpoint: tuple[str | None, str | None] = (None, None),
        outbox: str | PathLike[str] | None = None,
        sessions: str | PathLike[str] | None = None,
        seen_files: str | PathLike[str] | None = None,
        rankers: str | PathLike[str] | None = None,
        artifacts: str | PathLike[str] | None = None,
        speak: Speak | None = None,
        guard: bool = True,
        holdout: float = 0.0,
        holdout_notes: bool = False,
    ) -> None:
        self.speak: Speak | None = speak
        self._guard = guard
        self.holdout = checked_holdout(holdout)
        self.holdout_notes = holdout_notes
        self._outbox = None if outbox is None else _outbox_in(Path(outbox))
        self._journal = None if sessions is None else Journal(Path(sessions))
        self._seen_files = None if seen_files is None else Path(seen_files)
        self._rankers = None if rankers is None else Path(rankers)
        self._store = store
        self._embedder = AgreedEmbedder(store, embedder, default=DEFAULT_EMBEDDER, endpoint=endpoint)
        self._making = Lock()
        on_contact = None if self._outbox is None else self._deliver
        folder = None if artifacts is None else Path(artifacts)
        self._mirror = Mirror(store, poll_s=poll_s, on_contact=on_contact, artifacts=folder)

    @classmethod
    def open(
        cls,
        path: str | PathLike[str] = DEFAULT_STORE,
        *,
        embedder: str | Embedder | None = None,
        counting: Counting | None = None,
        poll_s: float = 1.0,
        endpoint: tuple[str | None, str | None] = (None, None),
        auth: tuple[str, str] | None = None,
        outbox: str | PathLike[str] | None = None,
        sessions: str | PathLike[str] | None = None,
        rankers: str | PathLike[str] | None = None,
        success_from: float | None = None,
        speak: Speak | None = None,
        guard: bool = True,
        holdout: float = 0.0,
        holdout_notes: bool = False,
    ) -> Self:
        """Open a memory; create it if it does not exist.

        Args:
            path: A file, a folder that contains `memory.hepm`, or an address such as "neo4j://host:7687/database".
            embedder: Name or object. Default: the store's own ("hepm/hash-512" for a new store).
            counting: "shortest" counts only the shortest success of each task (H-EPM, D). Default: the store's own.
            poll_s: Interval in seconds at which suggestions look for runs stored by other processes.
            endpoint: Base URL and key of an embeddings endpoint, for the embedder "openai/MODEL".
            auth: User and password for a server. Default: NEO4J_USERNAME and NEO4J_PASSWORD.
            outbox: A folder where new runs wait while the server is down, to be stored once, in order, when it is back.
            sessions: A folder that keeps sessions under way, so that a crash loses at most the turn under way. Default:
                beside the file; none for a server.
            rankers: A folder of trained rankers (`hepm rank train`). Default: beside the file, and for a server
                `hepm-rank` in the working folder.
            success_from: The reward from which on a run without a label is a success, in (0, 1]. It is kept in the
                store, and another one counts its runs again. Default: the store's own (.7 for a new one).
            speak: What suggestions and prompts name: "sure" what is right in nine of ten such cases, "weighed" also
                what is likely, with its chance, "all" the likeliest tools whatever their chance. Default: "sure", and
                in sessions what the guard draws.
            guard: Whether sessions draw from which chance on their hints name tools, and outcomes decide which level
                is in force (docs/session.md). With `speak`, there is no guard.
            holdout: Share of sessions, drawn by chance, that are recorded and get nothing from memory, so that
                `uplift` can say what memory does (docs/uplift.md). At 1 all is computed and nothing shown.
            holdout_notes: Whether those sessions lack the notes on their user, too: what users stated themselves.
        Raises:
            StoreError: the file cannot be read, or the server not reached (StoreUnavailableError, StoreAccessError).
            EmbedderMismatchError: the store holds another embedder's vectors.
        """
        store = open_store(path, counting=counting, auth=auth)
        try:
            file = embedded_file(path)
            if sessions is None and file is not None:
                sessions = file.with_name(f"{file.name}-sessions")
            seen = None if file is None else file.with_name(f"{file.name}-files")
            if rankers is None:
                rankers = DEFAULT_RANKERS if file is None else file.with_name(f"{file.name}-rank")
            about: dict[str, Any] = {
                "outbox": outbox,
                "sessions": sessions,
                "seen_files": seen,
                "rankers": rankers,
                "speak": speak,
                "guard": guard,
                "holdout": holdout,
                "holdout_notes": holdout_notes,
            }
            about["artifacts"] = artifact_folder(path)
            memory = cls(store, embedder, poll_s=poll_s, endpoint=endpoint, **about)
            memory._bring_up_to_date(success_from, os.fspath(path))
            return memory
        except BaseException:
            store.close()
            raise

    def _bring_up_to_date(self, success_from: float | None, where: str) -> None:
        """Count again what was counted by an older hepm's rules or by another threshold; say in a line what changed."""
        store, header = self._store, self._store.header
        own = header.success_from if header.rewards_read else SUCCESS_FROM
        wanted = own if success_from is None else success_from
        before = store.upgraded_from
        done = [f"upgraded from schema version {before} to {header.schema_version}"] if before else []
        changed = 0
        if before:
            counted, failed, changed = self._count_by_todays_rules(wanted)
            if counted:
                done.append(f"the runs of {', '.join(counted)} were counted again by today's rules")
            if failed:
                done.append(f"the runs of {', '.join(failed)} could not be counted again: `hepm doctor` names why")
        if not header.rewards_read or wanted != own:
            # After it: runs are taken out of the counts as today's rules count them.
            changed += store.read_rewards(wanted, replay=self._replay())
        if changed:
            runs = count_of(changed, "run was", "runs were")
            done.append(f"a reward of {wanted:g} or more is a success now, and {runs} counted again")
            self._drop_artifacts()
        if done:
            _log.warning("%s: %s", where, "; ".join(done))
        if before:
            store.settle_upgrade()

    def _count_by_todays_rules(self, success_from: float) -> tuple[list[str], list[str], int]:
        """Namespaces that were counted again, those that could not be, and how many of the runs got another label."""
        from hepm.ingest.pipeline import replay_with

        store, counted, failed, changed = self._store, list[str](), list[str](), 0
        for name in store.namespaces():
            if store.differs_from_first_record(namespace=name, replay=replay_with(None)):
                embedder = self._embedder.agreed()
                replay = replay_with(embedder)
                try:
                    changed += store.rebuild_by(success_from, namespace=name, replay=replay, embedder=embedder)
                    counted.append(name)
                except StoreDamagedError:
                    failed.append(name)
        return counted, failed, changed

    def _replay(self) -> RecordParser:
        from hepm.ingest.pipeline import replay_with

        return replay_with(self._embedder.now if self._store.header.embedder else None)

    def _drop_artifacts(self) -> None:
        for name in self._store.namespaces():
            if (kept := self._mirror.artifacts(name)) is not None:
                kept.drop()

    def _deliver(self) -> None:
        from hepm.ingest.pipeline import deliver

        box = self._outbox
        if box is not None and len(box) and deliver(box, self._store, self._agreed_embedder()):
            self._mirror.catch_up(defer=True)

    @property
    def lost_since(self) -> float | None:
        """Since when the store has not answered, Unix seconds; None while it does. It is noticed within `poll_s`."""
        self._mirror.poll()
        return self._mirror.lost_since

    @property
    def header(self) -> Header:
        """The store's metadata: schema, embedder, revision."""
        return self._store.header

    def namespaces(self) -> list[str]:
        """Names of all namespaces that are not empty."""
        return self._store.namespaces()

    def totals(self, *, namespace: str = DEFAULT_NAMESPACE) -> Totals:
        """Counts of what a namespace holds."""
        return self._store.totals(namespace=namespace)

    def tools(self, *, namespace: str = DEFAULT_NAMESPACE) -> list[ToolRow]:
        """Tools with their counts, by name."""
        return self._store.tools(namespace=namespace)

    def graph(self, *, namespace: str = DEFAULT_NAMESPACE, c: float = 1.0) -> nx.DiGraph[ToolName]:
        """A copy of the tool graph as a NetworkX graph, yours to change (see `NamespaceMirror.graph`)."""
        return self._mirror.namespace(namespace).graph(c=c)

    @property
    def guarded(self) -> bool:
        """Whether sessions draw a level: not without the guard, and not where `speak` was chosen."""
        return self._guard and self.speak is None

    @cached_property
    def levels(self) -> LevelDraws:
        """The guard's draws for sessions, and the outcomes that they go by."""
        from hepm.memory.levels import LevelDraws

        return LevelDraws(self._store, self._mirror, self.lots)

    @cached_property
    def lots(self) -> Lots:
        """What chance decides of sessions."""
        from hepm.memory.lots import Lots

        return Lots(self._store)

    def mirror(self, namespace: str = DEFAULT_NAMESPACE) -> NamespaceMirror:
        """The namespace's graph as policies see it."""
        return self._mirror.namespace(namespace)

    @property
    def embedder(self) -> Embedder:
        """The embedder of the states."""
        return self._embedder.now

    def _current_embedder(self) -> Embedder:
        return self._embedder.following(self._mirror.embedder)

    def _agreed_embedder(self) -> Embedder:
        try:
            return self._embedder.agreed()
        except StoreUnavailableError:
            if self._outbox is None:
                raise
            return self._embedder.now  # checked again when the runs are delivered

    def refresh(self, *, defer: bool = False) -> None:
        """See at once what other processes stored, and not only after about `poll_s`.

        Args:
            defer: Leave what is slow in a large memory, and what only suggestions need, to a background thread.
        """
        self._mirror.refresh(defer=defer)

    def follow_now(self) -> None:
        """Wait until the next suggestion knows every run stored here: some milliseconds in a large memory."""
        self._mirror.follow_now()

    def close(self) -> None:
        """Release the store; safe to call twice."""
        self._mirror.close()
        self._store.close()
        self._embedder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, _UNEXPECTED) and not isinstance(error, HepmError) and _is_ours(trace):
                self._explain(error)
        finally:
            self.close()

    def _explain(self, error: Exception) -> None:
        """Raise StoreDamagedError if the store holds damaged values, one of which an unexpected error may be due to."""
        if damage := self._store.damage():
            more = f", and {len(damage) - 1} more" if len(damage) > 1 else ""
            raise StoreDamagedError(
                f"the memory holds damaged values: {damage[0][1]}{more}. Run `hepm doctor --repair`."
            ) from error


def checked_holdout(share: float) -> float:
    """A share of sessions to hold out.

    Raises:
        InputError: it is not in [0, 1].
    """
    if not 0 <= share <= 1:
        raise InputError(f"holdout is {share!r}: give the share of sessions to hold out, from 0 to 1")
    return float(share)


_UNEXPECTED: Final = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, AssertionError)


def _is_ours(trace: TracebackType | None) -> bool:
    """Whether an error passed through hepm, and is not of the caller's code alone."""
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).startswith("hepm."):
            return True
        trace = trace.tb_next
    return False


def _outbox_in(folder: Path) -> Outbox:
    from hepm.ingest.pipeline import Outbox

    return Outbox(folder)
