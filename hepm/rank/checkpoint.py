"""Trained rankers as files: weights as safetensors and what they were trained on, one file a namespace."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

from hepm.atomic_file import atomic_file
from hepm.errors import HepmError, InputError, MissingExtraError
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import Float32Array
from hepm.rank.ranker import Ranker
from hepm.types import START, ToolName

_log = logging.getLogger("hepm")

SCHEMA: Final = 1
_KEY: Final = "hepm"  # one key: the order of several is not kept
FEWEST_DIVERGENCES: Final = 10


@dataclass(frozen=True, slots=True)
class Gate:
    """The hybrid policy with the ranker against without, on families of the memory held out from training.

    Pairs are without and with the ranker.

    Attributes:
        calls, families: What was predicted.
        hit2: Share of calls among the first two tools.
        mrr: Mean reciprocal rank of the call.
        interval: Of the difference in MRR, 95 %, from resampling families.
        divergences: Points where a failed run left the way of a successful one, at which `gain` is measured: shares of
            hints that name the better tool alone, less those that name the worse one alone.
    """

    calls: int
    families: int
    hit2: tuple[float, float]
    mrr: tuple[float, float]
    interval: tuple[float, float]
    divergences: int
    gain: tuple[float, float]

    @property
    def against(self) -> str:
        """Why the ranker is not used, "" if it is: it has to predict better beyond chance, and not to gain less.

        Divergences are few: its gain is compared as it is measured. What may be chance does not speak for it.
        """
        if self.interval[0] <= 0 or self.hit2[1] < self.hit2[0]:
            return "it did not predict better beyond chance"
        if self.divergences >= FEWEST_DIVERGENCES and self.gain[1] < self.gain[0]:
            return "it predicts better, but its hints gained less where failed runs diverged"
        return ""

    @property
    def passed(self) -> bool:
        """Whether the hybrid policy uses the ranker."""
        return not self.against

    def sentence(self) -> str:
        """What was measured, and what follows."""
        use = f"does not use it: {self.against}" if self.against else "uses it"
        gain = ""
        if self.divergences >= FEWEST_DIVERGENCES:
            gain = ", gain at {} divergences {:+.3f} → {:+.3f}".format(self.divergences, *self.gain)
        figures = "MRR {:.3f} → {:.3f} (difference {:+.3f} to {:+.3f}), hit@2 {:.3f} → {:.3f}{}.".format(
            *self.mrr, *self.interval, *self.hit2, gain
        )
        tested = f"On {self.calls:,} calls of {self.families} held-out families, without → with it"
        return f"The hybrid policy {use}. {tested}: {figures}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A trained ranker and its origin.

    Attributes:
        weights: See `hepm.rank.ranker.Ranker`.
        model: "sage", "gatv2" or "hetero".
        tools: The tools it was trained on.
        embedder, dimensions: Of the vectors it reads.
        revision: Of the store, when it was trained.
        loss: In nats a call, on the families that training stopped by.
        gate: None if it was not measured.
    """

    weights: Mapping[str, Float32Array]
    model: str
    namespace: str
    tools: tuple[ToolName, ...]
    embedder: str
    dimensions: int
    revision: int
    runs: int
    seed: int
    loss: float
    gate: Gate | None = None

    def save(self, target: Path) -> None:
        """Write the file atomically. Equal checkpoints are equal in every byte."""
        safetensors = _safetensors()
        about = asdict(replace(self, weights={})) | {"schema": SCHEMA}
        with atomic_file(target, "the ranker") as file:
            text = json.dumps(about, ensure_ascii=False, sort_keys=True)
            safetensors.numpy.save_file(dict(sorted(self.weights.items())), file, metadata={_KEY: text})

    @classmethod
    def load(cls, source: Path) -> Self:
        """Read a file.

        Raises:
            InputError: it is missing, no ranker, or of a newer hepm.
        """
        safetensors = _safetensors()
        try:
            with safetensors.safe_open(str(source), "numpy") as file:
                about = json.loads(file.metadata()[_KEY])
                weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if about["gate"] is not None:
                about["gate"] = Gate(**about["gate"])
        except FileNotFoundError as error:
            raise InputError(f"there is no ranker at {source}: train one with `hepm rank train`") from error
        except Exception as error:  # safetensors has an error of its own, and a damaged header many
            raise InputError(f"{source} is no ranker of hepm, or it is damaged: train another one") from error
        schema = about.pop("schema")
        if schema != SCHEMA:
            raise InputError(f"{source} has schema {schema}, and this hepm reads {SCHEMA}: train it again")
        return cls(**about | {"weights": weights, "tools": tuple(about["tools"])})

    def sentence(self) -> str:
        """What it is, and whether the hybrid policy uses it."""
        tools = len(set(self.tools) - {START})  # START is the beginning of a run
        trained = f"A {self.model} ranker of {tools} tools, trained on {self.runs:,} runs of {self.namespace!r}"
        if self.gate is None:
            return f"{trained}. The hybrid policy does not use it: whether it gains by it was not measured."
        return f"{trained}. {self.gate.sentence()}"


class Rankers:
    """A folder of trained rankers; a file that is written again is read again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._loaded: dict[str, tuple[tuple[int, int], Ranker | None]] = {}

    def file(self, namespace: str) -> Path:
        """The file of a namespace, existing or not."""
        return self.folder / f"{quote(namespace, safe='')}.safetensors"

    def save(self, checkpoint: Checkpoint) -> None:
        """Keep a ranker as that of its namespace."""
        self.folder.mkdir(parents=True, exist_ok=True)
        checkpoint.save(self.file(checkpoint.namespace))

    def find_used(self, mirror: NamespaceMirror) -> Ranker | None:
        """The ranker that the hybrid policy listens to; None without one that fits and passed its gate."""
        file = self.file(mirror.name)
        try:
            stat = file.stat()
        except OSError:
            return None
        key = stat.st_mtime_ns, stat.st_size
        if self._loaded.get(mirror.name, (None, None))[0] != key:
            self._loaded[mirror.name] = key, self._load(file, mirror)
        return self._loaded[mirror.name][1]

    def _load(self, file: Path, mirror: NamespaceMirror) -> Ranker | None:
        header = mirror.store.header
        try:
            checkpoint = Checkpoint.load(file)
            if (checkpoint.embedder, checkpoint.dimensions) != (header.embedder, header.dimensions):
                raise InputError(
                    f"the ranker in {file} reads vectors of {checkpoint.embedder!r} ({checkpoint.dimensions} numbers), "
                    f"and this memory holds those of {header.embedder!r} ({header.dimensions}): train it again with "
                    "`hepm rank train`"
                )
        except HepmError as error:
            # Once: a file is not read again before it changes.
            _log.warning("the hybrid policy goes on without its trained ranker: %s", error)
            return None
        if checkpoint.gate is None or not checkpoint.gate.passed:
            return None
        return Ranker(checkpoint.weights, checkpoint.tools)


def _safetensors() -> Any:
    try:
        import safetensors
        import safetensors.numpy  # pyright: ignore[reportUnusedImport]  # makes `safetensors.numpy` an attribute
    except ImportError as error:
        raise MissingExtraError("a trained ranker is kept as safetensors: pip install 'hepm[gnn]'") from error
    return safetensors
