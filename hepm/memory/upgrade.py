"""Bring a store that an older hepm counted up to today's rules, when it is opened."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hepm.errors import StoreDamagedError
from hepm.text import count_of

if TYPE_CHECKING:
    from hepm.embed.agreed import AgreedEmbedder
    from hepm.graph.store import Store

_log = logging.getLogger("hepm")


def upgrade(
    store: Store,
    embedder: AgreedEmbedder,
    drop_kept: Callable[[str], None],
    *,
    success_from: float | None,
    where: str,
) -> None:
    """Count again what was counted by older rules, or by another threshold, and log in one line what changed.

    Args:
        drop_kept: Removes what was kept of what a namespace taught.
        success_from: The reward from which on a run without a label is a success; None for the store's own.
        where: The store's path or address, for the line.
    """
    header = store.header
    version_before = store.upgraded_from
    done: list[str] = []
    if version_before:
        done.append(f"upgraded from schema version {version_before} to {header.schema_version}")
        done += _counted_by_todays_rules(store, embedder)
    if success_from is not None and success_from != header.success_from:
        from hepm.ingest.pipeline import replay_with

        # After the counts are by today's rules: runs are taken out of the counts as today's rules count them.
        own = embedder.now if header.embedder else None
        changed = store.read_rewards(success_from, replay=replay_with(own))
        if changed:
            runs = count_of(changed, "run was", "runs were")
            done.append(f"a reward of {success_from:g} or more is a success now, and {runs} counted again")
            for namespace in store.namespaces():
                drop_kept(namespace)
    if done:
        _log.warning("%s: %s", where, "; ".join(done))
    if version_before:
        store.settle_upgrade()


def _counted_by_todays_rules(store: Store, embedder: AgreedEmbedder) -> Iterator[str]:
    """Count again the namespaces that today's rules count otherwise; what was done, in clauses."""
    from hepm.ingest.pipeline import replay_with

    for namespace in store.namespaces():
        _log.info("the runs of %s are read by today's rules", namespace)
        restated = store.restate(namespace=namespace, replay=replay_with(None))
        if restated == 0:
            continue
        if restated is None:
            agreed = embedder.agreed()
            try:
                store.rebuild(namespace=namespace, replay=replay_with(agreed), embedder=agreed)
            except StoreDamagedError:
                yield f"the runs of {namespace} could not be counted again: `hepm doctor` names why"
                continue
        yield f"the runs of {namespace} were counted again by today's rules"
