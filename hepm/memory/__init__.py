"""Memory: the object users hold. It connects the parts and computes nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hepm.memory.opened import DEFAULT_EMBEDDER, DEFAULT_STORE
from hepm.memory.recalling import POLICIES
from hepm.memory.recording import RecordingMemory
from hepm.types import DEFAULT_NAMESPACE, ToolName

if TYPE_CHECKING:
    from hepm.embed import Embedder
    from hepm.graph.examination.doctor import ExaminationProgress, Part
    from hepm.graph.examination.findings import Finding
    from hepm.ingest.copying import Copied
    from hepm.memory.obstacles import Obstacle

__all__ = ["DEFAULT_EMBEDDER", "DEFAULT_STORE", "POLICIES", "Memory"]


class Memory(RecordingMemory):
    """A tool memory: runs in, suggestions out. Open it with `Memory.open`. Threads may share it."""

    def add_alias(self, alias: ToolName, tool: ToolName, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Make `alias` another name of `tool`: all that was counted under it is counted under `tool`.

        Raises:
            InputError: there is no such tool, or the alias belongs to another one.
        """
        self._change_names(partial(self._store.add_alias, alias, tool), namespace)

    def rename_tool(self, tool: ToolName, name: ToolName, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Give a tool a new name; its former one becomes an alias. InputError if another tool has that name."""
        self._change_names(partial(self._store.add_alias, tool, name, rename=True), namespace)

    def remove_alias(self, alias: ToolName, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Make an alias a tool of its own again; InputError if it is none."""
        self._change_names(partial(self._store.remove_alias, alias), namespace)

    def _change_names(self, change: Callable[..., None], namespace: str) -> None:
        from hepm.ingest.pipeline import replay_with

        embedder = self._agreed_embedder()
        try:
            change(namespace=namespace, replay=replay_with(embedder), embedder=embedder.name)
        finally:
            self._mirror.catch_up()

    def retire_tool(self, tool: ToolName, *, retired: bool = True, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Never suggest a tool again, or with `retired=False` suggest it as before; InputError if it is unknown.

        What is known of it stays.
        """
        try:
            self._store.retire(tool, retired=retired, namespace=namespace)
        finally:
            self._mirror.catch_up()

    def examine(
        self,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        parts: Collection[Part] | None = None,
        on_progress: ExaminationProgress = lambda done, total: None,
    ) -> list[Finding]:
        """Compare derived data with the records, and the mirror with the store; vectors of a model only by size.

        Args:
            parts: What is compared; None for all of `hepm.graph.examination.doctor.PARTS`.
            on_progress: Called with how many runs and states were compared, and how many there are (see
                `hepm.graph.examination.doctor.examine`).
        """
        from hepm.graph.examination.doctor import PARTS, examine
        from hepm.ingest.pipeline import replay_with

        self._mirror.refresh()
        return examine(
            self._store,
            self._mirror.find(namespace),
            namespace=namespace,
            replay=replay_with(None),
            artifacts=self._mirror.artifacts(namespace),
            embedder=self._embedder.now if self._store.header.embedder.startswith("hepm/") else None,
            parts=PARTS if parts is None else parts,
            on_progress=on_progress,
        )

    def advice(self, *, namespace: str | None = None) -> list[Obstacle]:
        """What keeps memory from helping here, each with the command that mends it: at most ten, the costliest first.

        Reads the latest thousand runs of a namespace and some runs of its largest tasks, whatever it holds; some
        seconds.

        Args:
            namespace: Only this one; None for all.
        """
        from hepm.memory.obstacles import obstacles

        names = self.namespaces() if namespace is None else [namespace]
        return obstacles(self._store, {name: self.guard(namespace=name) for name in names})

    def copy_to(
        self,
        target: Memory,
        *,
        namespaces: Sequence[str] | None = None,
        on_progress: Callable[[int], object] | None = None,
    ) -> Iterator[Copied]:
        """Copy namespaces, all by default, into another memory, and compare the counts of each. Lazy."""
        from hepm.ingest.copying import copy_store

        names = self.namespaces() if namespaces is None else namespaces
        try:
            yield from copy_store(self._store, target._store, namespaces=names, on_progress=on_progress)
        finally:
            target._mirror.catch_up()

    def rebuild(self, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Recompute every count, state and vector from the stored runs and lessons, in one transaction.

        Raises:
            StoreDamagedError: the record of a run cannot be read, and nothing was changed.
        """
        from hepm.ingest.pipeline import replay_with

        embedder = self._agreed_embedder()
        try:
            self._store.rebuild(namespace=namespace, replay=replay_with(embedder), embedder=embedder)
        finally:
            self.drop_prepared(namespace=namespace)
            self._mirror.catch_up()

    def reembed(
        self, embedder: str | Embedder | None = None, *, on_progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Compute the vectors of all states, only missing ones if the embedder is the same; returns how many."""
        try:
            mine = self._agreed_embedder() if embedder is None else self._embedder.change(embedder)
            return self._store.reembed(mine, on_progress=on_progress)
        finally:
            self._mirror.catch_up()
