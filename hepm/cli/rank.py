"""`hepm rank`: train a ranker on the memory's graph, measure it, and say what it is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from hepm.cli.commands import Group, Option
from hepm.cli.options import JsonOption, Place
from hepm.text import on_one_line

if TYPE_CHECKING:
    from hepm.rank.train import Epoch

MODELS: Final = ("hetero", "sage", "gatv2")
ModelName = Literal["hetero", "sage", "gatv2"]

app = Group("rank", "Train a ranker on the memory's graph (pip install 'hepm[gnn]'), and measure it.")


@app.takes
def train(
    place: Place,
    model: Annotated[ModelName, Option(help="Encoder: states and tools, or tools alone.")] = "hetero",
    seed: Annotated[int, Option(min=0, help="Seed; the same one gives the same file on a CPU.")] = 0,
    epochs: Annotated[int, Option(min=1, help="Maximum number of epochs.")] = 40,
    device: Annotated[str | None, Option(help="cpu or cuda. Default: a GPU if there is one.")] = None,
    log: Annotated[Path | None, Option(help="Folder of a TensorBoard log.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a ranker on the successful runs of a namespace, and measure whether the hybrid policy gains by it.
    Example: `hepm rank train --namespace retail`
    """
    from hepm.rank.build import build
    from hepm.rank.train import TrainOptions

    with place.open() as memory:
        options = TrainOptions(model, seed, epochs=epochs, device=device, log=log)
        checkpoint = build(memory.mirror(place.namespace), memory.embedder, options, on_epoch=_tell)
        memory.rankers.folder.mkdir(parents=True, exist_ok=True)
        checkpoint.save(memory.rankers.file(place.namespace))
        print(checkpoint.sentence())


@app.takes
def info(place: Place, as_json: JsonOption = False) -> None:
    """Say what the trained ranker of a namespace is, and whether the hybrid policy uses it.
    Example: `hepm rank info --namespace retail`
    """
    with place.open() as memory:
        found = memory.rankers.get(memory.mirror(place.namespace), memory.embedder).checkpoint
        print(found.sentence())


def _tell(epoch: Epoch) -> None:
    line = f"epoch {epoch.number + 1}: loss {epoch.train_loss:.3f}, on held-out tasks {epoch.held_out_loss:.3f}"
    print(on_one_line(line), file=sys.stderr)
