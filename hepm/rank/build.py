"""From a memory to a checkpoint: train, measure the gate, export."""

from __future__ import annotations

from collections.abc import Callable

from hepm.embed import Embedder
from hepm.graph.namespace import NamespaceMirror
from hepm.rank.checkpoint import Checkpoint
from hepm.rank.data import graph_data
from hepm.rank.train import Epoch, TrainOptions, export, train


def build(
    mirror: NamespaceMirror,
    embedder: Embedder,
    options: TrainOptions = TrainOptions(),
    *,
    on_epoch: Callable[[Epoch], None] = lambda _: None,
) -> Checkpoint:
    """Train a ranker on a namespace."""
    header = mirror.store.header
    data = graph_data(mirror, embedder)
    losses: list[float] = []

    def seen(epoch: Epoch) -> None:
        losses.append(epoch.held_out_loss)
        on_epoch(epoch)

    model = train(data, options, on_epoch=seen)
    return Checkpoint(
        export(model, data),
        options.model,
        mirror.name,
        tuple(data["tool"].name),
        header.embedder,
        header.dimensions,
        header.revision,
        len(data["run"].id),
        options.seed,
        min(losses),
    )
