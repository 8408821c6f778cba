"""Bring a store that an older hepm counted up to today's rules, when it is opened."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hepm.errors import StoreDamagedError
from hepm.text import count_of

if TYPE_CHECKING:
    from hepm.embed.agreed import AgreedEmbedder
    from hepm.graph.mirror.mirror import Mirror
    from hepm.graph.store import Store

_log = logging.getLogger("hepm")


class Upgrade:
    """One store on opening: what was counted by older rules, or by another threshold, is counted again.

    Args:
        where: The store's path or address, for the line that says what changed.
    """

    def __init__(self, store: Store, mirror: Mirror, embedder: AgreedEmbedder, *, where: str) -> None:
        self._store = store
        self._mirror = mirror
        self._embedder = embedder
        self._where = where
        self._done: list[str] = []

    def run(self, success_from: float | None) -> None:
        """Count again what has to be, and log in one line what changed.

        Args:
            success_from: The reward from which on a run without a label is a success; None for the store's own.
        """
        header = self._store.header
        version_before = self._store.upgraded_from
        if version_before:
            self._done.append(f"upgraded from schema version {version_before} to {header.schema_version}")
            self._count_by_todays_rules()
        if success_from is not None and success_from != header.success_from:
            # After the counts are by today's rules: runs are taken out of the counts as today's rules count them.
            changed = self._read_rewards(success_from)
            if changed:
                runs = count_of(changed, "run was", "runs were")
                self._done.append(f"a reward of {success_from:g} or more is a success now, and {runs} counted again")
                self._drop_kept()
        if self._done:
            _log.warning("%s: %s", self._where, "; ".join(self._done))
        if version_before:
            self._store.settle_upgrade()

    def _count_by_todays_rules(self) -> None:
        """Count again the namespaces that today's rules count otherwise."""
        from hepm.ingest.pipeline import replay_with

        store = self._store
        counted: list[str] = []
        failed: list[str] = []
        for namespace in store.namespaces():
            if not store.differs_from_first_record(namespace=namespace, replay=replay_with(None)):
                continue
            embedder = self._embedder.agreed()
            try:
                store.rebuild(namespace=namespace, replay=replay_with(embedder), embedder=embedder)
                counted.append(namespace)
            except StoreDamagedError:
                failed.append(namespace)
        if counted:
            self._done.append(f"the runs of {', '.join(counted)} were counted again by today's rules")
        if failed:
            self._done.append(f"the runs of {', '.join(failed)} could not be counted again: `hepm doctor` names why")

    def _read_rewards(self, success_from: float) -> int:
        from hepm.ingest.pipeline import replay_with

        embedder = self._embedder.now if self._store.header.embedder else None
        return self._store.read_rewards(success_from, replay=replay_with(embedder))

    def _drop_kept(self) -> None:
        for namespace in self._store.namespaces():
            self._mirror.drop_kept(namespace)
