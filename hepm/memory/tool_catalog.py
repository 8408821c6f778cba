"""The tools of a memory: listed, renamed, and retired."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hepm.types import DEFAULT_NAMESPACE, ToolName

if TYPE_CHECKING:
    from hepm.embed import Embedder
    from hepm.graph.mirror.mirror import Mirror
    from hepm.graph.rows import ToolRow
    from hepm.graph.store import Store


@dataclass(frozen=True)
class ToolCatalog:
    """The tools that runs of one store called. Threads may share it."""

    _store: Store
    _mirror: Mirror
    _embedder: Callable[[], Embedder]

    def list(self, *, namespace: str = DEFAULT_NAMESPACE) -> list[ToolRow]:
        """Tools with their counts, by name."""
        return self._store.tools(namespace=namespace)

    def add_alias(self, alias: ToolName, tool: ToolName, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Make `alias` another name of `tool`: all that was counted under it is counted under `tool`.

        Raises:
            InputError: there is no such tool, or the alias belongs to another one.
        """
        self._change_names(partial(self._store.add_alias, alias, tool), namespace)

    def rename(self, tool: ToolName, name: ToolName, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Give a tool a new name; its former one becomes an alias. InputError if another tool has that name."""
        self._change_names(partial(self._store.add_alias, tool, name, rename=True), namespace)

    def remove_alias(self, alias: ToolName, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Make an alias a tool of its own again; InputError if it is none."""
        self._change_names(partial(self._store.remove_alias, alias), namespace)

    def _change_names(self, change: Callable[..., None], namespace: str) -> None:
        from hepm.ingest.pipeline import replay_with

        # Runs are counted again under the other name, so that states are embedded again.
        embedder = self._embedder()
        try:
            # In one transaction: a crash leaves all under the old name or all under the new one.
            change(namespace=namespace, replay=replay_with(embedder), embedder=embedder.name)
        finally:
            self._mirror.catch_up()

    def retire(self, tool: ToolName, *, retired: bool = True, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Never suggest a tool again, or with `retired=False` suggest it as before; InputError if it is unknown.

        What is known of it stays.
        """
        # Also after an error: the store may have changed before it.
        try:
            self._store.retire(tool, retired=retired, namespace=namespace)
        finally:
            self._mirror.catch_up()
