"""Training on the memory's own successful runs, with the runs of a batch out of the graph that it is read from."""

# torch and PyTorch Geometric have few types.
# pyright: basic, reportGeneralTypeIssues=false, reportMissingTypeStubs=false

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import HeteroData

from hepm.errors import InputError
from hepm.graph.rows import FloatArray
from hepm.rank.data import FEWEST_FAMILIES
from hepm.rank.encoders import Encoder, GatV2, Sage
from hepm.rank.hetero import Hetero
from hepm.rank.leave_out import without
from hepm.rank.scorer import Batch, Remembered, Scorer, StateAttention
from hepm.rank.situations import situations_of

ENCODERS: Final[dict[str, type[Encoder]]] = {"sage": Sage, "gatv2": GatV2, "hetero": Hetero}
GROUPS: Final = 5
"""Parts of the families; the graph that a part is predicted from lacks it."""
MOST_CALLS: Final = 20_000
"""Calls of an epoch, and states of a graph and of what attention reads: drawn anew each epoch in a larger memory."""


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """How to train.

    Attributes:
        model: "sage", "gatv2" or "hetero".
        hidden: Size H of the tools' vectors.
        epochs: Maximum number; training ends `patience` epochs after the least loss on held-out families.
        device: "cpu" or "cuda"; None for a GPU if there is one.
        log: Folder of a TensorBoard log.
    """

    model: str = "hetero"
    seed: int = 0
    hidden: int = 64
    epochs: int = 60
    patience: int = 8
    batch: int = 128
    rate: float = 1e-2
    decay: float = 1e-2
    device: str | None = None
    log: Path | None = None


@dataclass(frozen=True, slots=True)
class Epoch:
    """Mean negative log-likelihood in nats per call, on training and on held-out families."""

    number: int
    train_loss: float
    held_out_loss: float


class GraphRanker(nn.Module):
    """An encoder of tools and a scorer; the heterogeneous one also reads the remembered states."""

    def __init__(self, model: str, dimensions: int, hidden: int) -> None:
        super().__init__()
        self.encoder = ENCODERS[model](dimensions, hidden)
        self.scorer = Scorer(dimensions, hidden)
        self.attention = StateAttention(dimensions) if model == "hetero" else None

    def forward(self, graph: HeteroData, batch: Batch, memory: Remembered, hidden_QN: Tensor | None = None) -> Tensor:
        """Scores of all tools, shape (Q, T); see `StateAttention` for `hidden_QN`."""
        scores = self.scorer(self.encoder(graph), batch)
        return scores if self.attention is None else scores + self.attention(batch, memory, hidden_QN)


def train(
    data: HeteroData,
    options: TrainOptions = TrainOptions(),
    *,
    held_R: NDArray[np.bool_] | None = None,
    on_epoch: Callable[[Epoch], None] = lambda _: None,
) -> GraphRanker:
    """The ranker with the least loss on families held out inside training.

    Loss: -log softmax over the tools that successful runs called, at each of their calls but the first of a run.

    Args:
        data: See `hepm.rank.data.graph_data`.
        held_R: Runs to leave out of everything.
    Raises:
        InputError: an unknown model, or too few families.
    """
    if options.model not in ENCODERS:
        raise InputError(f"no ranker is called {options.model!r}; there are {', '.join(sorted(ENCODERS))}")
    torch.manual_seed(options.seed)
    device = torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    task = _Task(data, held_R, options, device)
    model = GraphRanker(options.model, data["tool"].x.shape[1], options.hidden).to(device)
    scalars = [p for p in model.parameters() if p.dim() == 0 or len(p) <= 3]
    others = [p for p in model.parameters() if not (p.dim() == 0 or len(p) <= 3)]
    groups = [{"params": others}, {"params": scalars, "lr": 5 * options.rate, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=options.rate, weight_decay=options.decay)
    best, best_loss, best_epoch = copy.deepcopy(model.state_dict()), np.inf, -1
    writer = _writer(options.log)
    on_gpu = device.type == "cuda"  # compiled, and in mixed precision
    scored: nn.Module = torch.compile(model, dynamic=True) if on_gpu else model  # type: ignore[assignment]
    for number in range(options.epochs):
        model.train()
        losses: list[float] = []
        for graph, batch, memory, hidden, target in task.batches(number):
            with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
                scores = scored(graph, batch, memory, hidden) + task.closed_T
            loss = functional.cross_entropy(scores.float(), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses += [loss.item()] * len(target)
        epoch = Epoch(number, float(np.mean(losses)), task.held_out_loss(model))
        on_epoch(epoch)
        if writer is not None:
            writer.add_scalar("loss/train", epoch.train_loss, number)
            writer.add_scalar("loss/held_out", epoch.held_out_loss, number)
        if epoch.held_out_loss < best_loss - 1e-4:
            best, best_loss, best_epoch = copy.deepcopy(model.state_dict()), epoch.held_out_loss, number
        elif number - best_epoch >= options.patience:
            break
    if writer is not None:
        writer.close()
    model.load_state_dict(best)
    return model.eval().cpu()


class _Task:
    """The calls to learn from, by groups of families, and those that early stopping looks at."""

    def __init__(
        self, data: HeteroData, held_R: NDArray[np.bool_] | None, options: TrainOptions, device: torch.device
    ) -> None:
        self._data, self._options, self._device = data, options, device
        call, run = data["call"], data["run"]
        self._arrays = {name: call[name].numpy() for name in ("next", "position", "flags", "state")}
        self._before_N2 = np.stack([call["last"].numpy(), call["second"].numpy()], axis=1)
        self._run_N = call["run"].numpy()
        self._family_R = run["family"].numpy()
        held = np.zeros(len(self._family_R), dtype=np.bool_) if held_R is None else held_R
        rng = np.random.default_rng(options.seed)
        families = rng.permutation(np.unique(self._family_R[~held]))
        if len(families) < FEWEST_FAMILIES:
            raise InputError(
                f"these runs are of {len(families)} tasks, and a ranker is trained on {FEWEST_FAMILIES} or more: "
                "some are held out, to see when to stop. Store more runs first."
            )
        # 0 is held out for early stopping, 1 to GROUPS are predicted from each other.
        group_F = np.zeros(self._family_R.max() + 1, dtype=np.int64)
        stop = max(1, len(families) // (GROUPS + 1))
        group_F[families[stop:]] = 1 + np.arange(len(families) - stop) % GROUPS
        self._group_R = np.where(held, -1, group_F[self._family_R])
        success_N = run["success"].numpy()[self._run_N]
        learned = success_N & (self._arrays["position"] > 0) & (self._group_R[self._run_N] >= 0)
        self._rows = np.flatnonzero(learned)
        if not len(self._rows):
            raise InputError("no successful run calls two tools, so that there is nothing to learn")
        called = np.unique(self._arrays["next"][success_N & (self._group_R[self._run_N] >= 0)])
        self.closed_T = torch.full((len(data["tool"].x),), -1e9)
        self.closed_T[called] = 0
        self.closed_T = self.closed_T.to(device)
        self._held_R = torch.from_numpy(held)

    def _graph(self, group: int, number: int) -> HeteroData:
        out_R = self._held_R | torch.from_numpy((self._group_R == group) | (self._group_R == 0))
        return without(self._data, out_R, most_states=MOST_CALLS, seed=number).to(str(self._device))

    def _batch(self, rows: NDArray[np.intp]) -> Batch:
        arrays, data = self._arrays, self._data
        found = situations_of(
            rows,
            before_N2=self._before_N2,
            next_N=arrays["next"],
            position_N=arrays["position"],
            flags_N=arrays["flags"],
            state_N=arrays["state"],
            states_SD=data["state"].x.numpy(),
            tools=len(data["tool"].x),
        )
        values = (found.state_QD, found.before_Q2, found.times_QT, found.distance_QT, found.flags_QF)
        return Batch(*(torch.from_numpy(value).to(self._device) for value in values))

    def _memory(self, rows: NDArray[np.intp]) -> Remembered:
        batch = self._batch(rows)
        return Remembered(batch.state_QD, batch.before_Q2, batch.flags_QF, self._target(rows))

    def _target(self, rows: NDArray[np.intp]) -> Tensor:
        return torch.from_numpy(self._arrays["next"][rows]).to(self._device)

    def batches(self, number: int) -> Iterator[tuple[HeteroData, Batch, Remembered, Tensor, Tensor]]:
        """The batches of an epoch: each of one group, with the graph of the others and their calls."""
        rng = np.random.default_rng([self._options.seed, number])
        rows = self._rows[self._group_R[self._run_N[self._rows]] > 0]
        rows = rng.permutation(rows)[:MOST_CALLS]
        group = self._group_R[self._run_N[rows]]
        size = self._options.batch
        parts = [(one, part) for one in range(1, GROUPS + 1) for part in _chunks(rows[group == one], size)]
        memory_rows = np.sort(rows)
        memory = self._memory(memory_rows)
        family_N = self._family_R[self._run_N[memory_rows]]
        graphs = {one: self._graph(one, number) for one in range(1, GROUPS + 1)}
        for at in rng.permutation(len(parts)).tolist():
            one, part = parts[at]
            hidden = self._family_R[self._run_N[part]][:, None] == family_N
            yield graphs[one], self._batch(part), memory, torch.from_numpy(hidden).to(self._device), self._target(part)

    @torch.no_grad()
    def held_out_loss(self, model: GraphRanker) -> float:
        """Of the families that are held out, from all others."""
        model.eval()
        group = self._group_R[self._run_N[self._rows]]
        graph, memory = self._graph(0, 0), self._memory(self._rows[group > 0][:MOST_CALLS])
        total, rows = 0.0, self._rows[group == 0][:MOST_CALLS]
        for part in _chunks(rows, 1024):
            scores = model(graph, self._batch(part), memory) + self.closed_T
            total += functional.cross_entropy(scores, self._target(part), reduction="sum").item()
        return total / max(len(rows), 1)


def _chunks(rows: NDArray[np.intp], size: int) -> list[NDArray[np.intp]]:
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def _writer(folder: Path | None):
    if folder is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder))


@torch.no_grad()
def export(model: GraphRanker, data: HeteroData, *, held_R: NDArray[np.bool_] | None = None) -> dict[str, FloatArray]:
    """The weights that `hepm.rank.ranker.Ranker` takes, with the vectors of all tools of the graph."""
    held = torch.zeros(len(data["run"].success), dtype=torch.bool) if held_R is None else torch.from_numpy(held_R)
    graph = without(data, held, most_states=MOST_CALLS)
    parts = {"scorer": model.scorer, **({} if model.attention is None else {"attention": model.attention})}
    found = {f"{part}.{name}": value for part, of in parts.items() for name, value in of.state_dict().items()}
    found |= model.encoder.export() | {"tools": model.encoder(graph)}
    return {name: value.contiguous().numpy() for name, value in found.items()}
