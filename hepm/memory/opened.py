"""A memory as it is opened: its store, its settings, its parts, and how it closes."""

from __future__ import annotations

import os
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias, cast

from hepm.embed.agreed import AgreedEmbedder
from hepm.errors import InputError
from hepm.graph.mirror.mirror import Mirror
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.open_store import DEFAULT_STORE, artifact_folder, embedded_file, open_store
from hepm.graph.rows import Counting, Header
from hepm.graph.store import Store
from hepm.memory.journal import NOWHERE, Journal
from hepm.memory.sessions import Sessions
from hepm.memory.tool_catalog import ToolCatalog
from hepm.types import Approval, Speak

if TYPE_CHECKING:
    from hepm.embed import Embedder
    from hepm.embed.embedder import Float32Array
    from hepm.experience.experiences import Experiences
    from hepm.experience.lesson_bank import LessonBank
    from hepm.experience.preferences import Preferences
    from hepm.experience.principles import Principles
    from hepm.memory.labels import Labels
    from hepm.memory.memory import Memory
    from hepm.rank.checkpoint import Rankers

StrPath: TypeAlias = str | PathLike[str]

# Lexical vectors of 512 coordinates: no download, no model.
DEFAULT_EMBEDDER: Final = "hepm/hash-512"


class Folders(NamedTuple):
    """What a memory keeps beside its store; None for what it keeps nowhere."""

    sessions: Path | None = None
    seen_files: Path | None = None
    rankers: Path | None = None
    artifacts: Path | None = None

    @classmethod
    def beside(cls, path: StrPath, sessions: StrPath | None, rankers: StrPath | None) -> Self:
        """`memory.hepm-sessions` beside `memory.hepm`, and so on; of a server only rankers, in the working folder."""
        file = embedded_file(path)
        own = seen = ranked = None
        if file is not None:
            own, seen, ranked = (file.with_name(f"{file.name}-{name}") for name in ("sessions", "files", "rank"))
        if sessions is not None:
            own = Path(sessions)
        return cls(own, seen, Path(rankers or ranked or "hepm-rank"), artifact_folder(path))


_NOWHERE: Final = Folders()


def _read_whole(mirror: NamespaceMirror) -> None:
    """Read the runs of a server's memory at once: after that suggestions need no server."""
    if mirror.store.remote:
        from hepm.evidence.upkeep import live_evidence

        live_evidence(mirror).runs()


class OpenedMemory:
    """What a memory is made of and set to; `Memory` adds what it takes in and answers.

    Attributes:
        tools: The tools that runs called: list, rename, retire.
        store: Where everything is kept. What is written past the memory is seen after `refresh`.
        mirrors: The namespaces' graphs in this process.
        sessions: Sessions under way or left behind, the guard, and what held-out sessions show.
        speak: What suggestions and prompts name (see `open`).
        holdout: Share of sessions that get nothing from memory (see `open`).
        approve: Whether lessons wait for approval (see `open`).
        deny: Whether sessions deny calls that are known to fail (see `open`).
    """

    def __init__(
        self,
        store: Store,
        embedder: str | Embedder | None = None,
        *,
        poll_s: float = 1.0,
        endpoint: tuple[str | None, str | None] = (None, None),
        folders: Folders = _NOWHERE,
        speak: Speak | None = None,
        guard: bool = True,
        holdout: float = 0.0,
        deny: bool = False,
        approve: Approval = "review",
    ) -> None:
        self.speak: Speak | None = speak
        self.approve: Approval = approve
        self.holdout = checked_holdout(holdout)
        self.deny = deny
        self._folders = folders
        self.store = store
        self._embedder = AgreedEmbedder(store, embedder, default=DEFAULT_EMBEDDER, endpoint=endpoint)
        self.mirrors = Mirror(store, poll_s=poll_s, folder=folders.artifacts, prepare=_read_whole)
        self.tools = ToolCatalog(store, self.mirrors, self._embedder.agreed)
        self.sessions = Sessions(cast("Memory", self), journal=Journal(folders.sessions or NOWHERE), guard=guard)

    @classmethod
    def open(
        cls,
        path: StrPath = DEFAULT_STORE,
        *,
        embedder: str | Embedder | None = None,
        counting: Counting | None = None,
        poll_s: float = 1.0,
        endpoint: tuple[str | None, str | None] = (None, None),
        auth: tuple[str, str] | None = None,
        sessions: StrPath | None = None,
        rankers: StrPath | None = None,
        success_from: float | None = None,
        speak: Speak | None = None,
        guard: bool = True,
        holdout: float = 0.0,
        deny: bool = False,
        approve: Approval = "review",
    ) -> Self:
        """Open a memory; create it if it does not exist.

        Args:
            path: A file, a folder that contains `memory.hepm`, or an address such as "neo4j://host:7687/database".
            embedder: Name or object. Default: the store's own ("hepm/hash-512" for a new store).
            counting: "shortest" counts only the shortest success of each task (H-EPM, D). Default: the store's own.
            poll_s: Interval in seconds at which suggestions look for runs stored by other processes.
            endpoint: Base URL and key of an embeddings endpoint, for the embedder "openai/MODEL".
            auth: User and password for a server. Default: NEO4J_USERNAME and NEO4J_PASSWORD.
            sessions: Keeps sessions under way, for after a crash. Default: beside the file; none for a server.
            rankers: Folder of trained rankers (`hepm rank train`). Default: beside the file; `hepm-rank` for a server.
            success_from: The reward from which on a run without a label is a success, in (0, 1]; another one counts the
                runs again. Default: the store's own (.7 for a new one).
            speak: What suggestions and prompts name: "sure" what is right in nine of ten such cases, "weighed" also
                what is likely, with its chance, "all" the likeliest tools whatever their chance. Default: "sure", and
                in some sessions no tool (see `guard`).
            guard: Whether a few sessions get hints without a tool, by chance, and nearly all once those succeed more
                often (docs/use/session.md). With `speak`, there is no guard.
            holdout: Share of sessions, drawn by chance, that get nothing from memory, so that `memory.sessions.uplift`
                can say what memory does (docs/use/uplift.md). At 1 all is computed and nothing shown.
            deny: Whether doors that can refuse a call deny those that failed in nearly all like runs, where another
                tool worked (`Session.denial`).
            approve: "review": lessons that a model, an agent or an import writes wait for `lessons.revive`
                (`hepm lesson review`). "auto": agents read them at once.
        Raises:
            StoreError: the file cannot be read, or the server not reached (StoreUnavailableError, StoreAccessError).
            EmbedderMismatchError: the store holds another embedder's vectors.
        """
        from hepm.memory.upgrade import upgrade

        store = open_store(path, counting=counting, auth=auth)
        try:
            memory = cls(
                store,
                embedder,
                poll_s=poll_s,
                endpoint=endpoint,
                folders=Folders.beside(path, sessions, rankers),
                speak=speak,
                guard=guard,
                holdout=holdout,
                deny=deny,
                approve=approve,
            )
            # Before anybody reads: counts by older rules would be mixed with new ones.
            upgrade(store, memory._embedder, memory._drop_kept, success_from=success_from, where=os.fspath(path))
            return memory
        # Also an interruption: the store would stay open.
        except BaseException:
            store.close()
            raise

    def _drop_kept(self, namespace: str) -> None:
        """Remove the file with what a large namespace taught."""
        from hepm.evidence.kept import drop_kept, kept_file

        if self._folders.artifacts is not None:
            drop_kept(kept_file(self._folders.artifacts, namespace))

    def close(self) -> None:
        """Release the store after the lessons that are being distilled; safe to call twice."""
        self.sessions.close()
        self.mirrors.close()
        self.store.close()
        self._embedder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Parts

    @cached_property
    def lessons(self) -> LessonBank:
        """Lessons of all kinds: list, export, import, credit."""
        from hepm.experience.lesson_bank import LessonBank

        review = self.approve == "review"
        return LessonBank(self.store, self.mirrors, self._current_embedder, self._embedder.agreed, review=review)

    @cached_property
    def experiences(self) -> Experiences:
        """What each run taught (PRIME)."""
        from hepm.experience.experiences import Experiences

        return Experiences(self.lessons)

    @cached_property
    def principles(self) -> Principles:
        """Rules that many runs taught (EvolveR)."""
        from hepm.experience.principles import Principles

        return Principles(self.lessons)

    @cached_property
    def preferences(self) -> Preferences:
        """What each user wants of the agent (MultiSessionCollab)."""
        from hepm.experience.preferences import Preferences

        return Preferences(self.lessons)

    @cached_property
    def rankers(self) -> Rankers:
        """The trained rankers (`hepm.rank`).

        Raises:
            InputError: the memory was made from a store alone, without a folder for them.
        """
        from hepm.rank.checkpoint import Rankers

        if self._folders.rankers is None:
            raise InputError("this memory has no folder for trained rankers: open it with Memory.open(rankers=...)")
        return Rankers(self._folders.rankers)

    @cached_property
    def labels(self) -> Labels:
        """Outcomes of stored runs: which are unlabelled, and labels by rule or judge."""
        from hepm.memory.labels import Labels

        changed = partial(self.mirrors.catch_up, defer=True)
        return Labels(self.store, self._embedder.agreed, self.sessions.is_under_way, changed)

    @property
    def embedder(self) -> Embedder:
        """The embedder of the states."""
        return self._embedder.now

    def why_not_stored(self) -> str:
        """Why no run can be stored: the store can only be read, or has another embedder than the one named; "" else."""
        if self.store.read_only:
            return "the store can only be read: give its file and folder write permission, and start again"
        return str(self._embedder.refused(self.mirrors.embedder) or "")

    def _current_embedder(self) -> Embedder:
        return self._embedder.following(self.mirrors.embedder)

    def _embed(self, texts: list[str]) -> Float32Array:
        return self._current_embedder().embed(texts)

    # What is stored now

    @property
    def lost_since(self) -> float | None:
        """Since when the store has not answered, Unix seconds; None while it does. It is noticed within `poll_s`."""
        self.mirrors.poll()
        return self.mirrors.lost_since

    @property
    def header(self) -> Header:
        """The store's metadata: schema, embedder, revision."""
        return self.store.header

    def refresh(self, *, defer: bool = False) -> None:
        """See at once what other processes stored, and not only after about `poll_s`.

        Args:
            defer: Leave what is slow in a large memory, and what only suggestions need, to a background thread.
        """
        self.mirrors.refresh(defer=defer)

    def follow_now(self) -> None:
        """Wait until the next suggestion knows every run stored here: some milliseconds in a large memory."""
        self.mirrors.follow_now()


def checked_holdout(share: float) -> float:
    """A share of sessions to hold out.

    Raises:
        InputError: it is not in [0, 1].
    """
    if not 0 <= share <= 1:
        raise InputError(f"holdout is {share!r}: give the share of sessions to hold out, from 0 to 1")
    return float(share)
