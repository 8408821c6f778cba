"""Networks that were trained once: a benchmark that is cut off, or asks for more, does not train them again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from torch_geometric.data import HeteroData

from hepm.rank.train import TrainOptions, export, train


@dataclass(frozen=True)
class Kept:
    """A folder of trained weights; None trains anew each time. A folder is of one version of the training."""

    folder: Path | None = None

    def weights(self, data: HeteroData, options: TrainOptions) -> dict[str, np.ndarray]:
        """The weights of a network that was trained on these runs with these options."""
        if self.folder is None:
            return export(train(data, options), data)
        trained_on = [data["tool"].name, data["run"].id, data["run"].success.tolist(), data["call"]["next"].tolist()]
        file = self.folder / f"{options.model}-{sha256(repr((trained_on, options)).encode()).hexdigest()[:24]}.npz"
        if not file.exists():
            started = time.process_time()
            weights = export(train(data, options), data)
            self.folder.mkdir(parents=True, exist_ok=True)
            unfinished = file.with_suffix(".part.npz")
            np.savez(unfinished, cpu_s=time.process_time() - started, **weights)
            unfinished.replace(file)
        with np.load(file) as found:
            return {name: found[name] for name in found.files if name != "cpu_s"}
