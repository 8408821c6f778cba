"""`hepm rank`: train a ranker on the memory's graph, measure it, and say what it is."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from hepm.cli.commands import group, option
from hepm.cli.options import remark, tell, with_memory
from hepm.errors import InputError

if TYPE_CHECKING:
    from hepm.lab.rank.train import Epoch
    from hepm.memory import Memory

RankerName: TypeAlias = Literal["hetero", "sage", "gatv2"]

app = group("rank", "Train a ranker on the memory's graph (pip install 'hepm[gnn]'), and measure it.")


@app.command("train")
@option("--model", "States and tools, or a network over tools alone.", one_of=get_args(RankerName), default="hetero")
@with_memory
def train(memory: Memory, namespace: str, model: RankerName) -> None:
    """Train a ranker on the successful runs of a namespace, and measure whether the hybrid policy gains by it.

    Example: `hepm rank train --namespace retail`
    """
    from hepm.lab.rank import require

    require()
    import torch

    # Several threads wait for each other where the machine is busy.
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    from hepm.lab.rank.train import TrainOptions, build
    from hepm.lab.rank.trained import gate_of, measure

    options = TrainOptions(model)
    checkpoint = build(memory.mirror(namespace), memory.embedder, options, on_epoch=_print_epoch)
    try:
        gate = gate_of(measure(memory, namespace, options, on_fold=_print_fold))
        checkpoint = replace(checkpoint, gate=gate)
    except InputError as error:
        remark(f"not measured: {error}")
    memory.rankers.save(checkpoint)
    tell(checkpoint.sentence())
    tell(f"It is kept in {memory.rankers.file(namespace)}.")


def _print_epoch(epoch: Epoch) -> None:
    remark(f"epoch {epoch.number + 1}: loss {epoch.train_loss:.3f}, on held-out tasks {epoch.held_out_loss:.3f}")


def _print_fold(number: int) -> None:
    remark(f"measuring on held-out tasks: part {number}")
