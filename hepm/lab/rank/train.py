"""Training on the memory's own successful runs, with the runs of a batch out of the graph that it is read from."""

# torch and PyTorch Geometric have few types.
# pyright: basic, reportGeneralTypeIssues=false, reportMissingTypeStubs=false

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import HeteroData

from hepm.embed import Embedder
from hepm.errors import InputError
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import Float32Array
from hepm.lab.rank.data import FEWEST_FAMILIES, graph_data, without
from hepm.lab.rank.encoders import Encoder, GatV2, Hetero, Sage
from hepm.lab.rank.scorer import Scorer, StateAttention
from hepm.rank.checkpoint import Checkpoint
from hepm.rank.ranker import MOST_READ
from hepm.rank.scoring import AttendedCalls
from hepm.rank.situations import Situations, situations_of

ENCODERS: Final[dict[str, type[Encoder]]] = {"sage": Sage, "gatv2": GatV2, "hetero": Hetero}
HIDDEN: Final = 64
"""Size H of the tools' vectors."""
RATE: Final = 1e-2
GROUPS: Final = 5
"""Parts of the families; the graph that a part is predicted from lacks it."""
MOST_CALLS: Final = 20_000
"""Calls of an epoch: drawn anew for each in a larger memory."""


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """How to train.

    Attributes:
        model: "sage", "gatv2" or "hetero".
        epochs: Maximum number; training ends `patience` epochs after the least loss on held-out families.
        device: "cpu" or "cuda"; None for a GPU if there is one.
    """

    model: str = "hetero"
    seed: int = 0
    epochs: int = 60
    patience: int = 8
    batch: int = 128
    device: str | None = None


@dataclass(frozen=True, slots=True)
class Epoch:
    """Mean negative log-likelihood in nats per call, on training and on held-out families."""

    number: int
    train_loss: float
    held_out_loss: float


class GraphRanker(nn.Module):
    """An encoder of tools and a scorer; the heterogeneous one also reads the remembered states.

    Attributes:
        loss: The least one, in nats a call, on the families that training stopped by.
    """

    loss = float("inf")

    def __init__(self, model: str, dimensions: int, hidden: int) -> None:
        super().__init__()
        self.encoder = ENCODERS[model](dimensions, hidden)
        self.scorer = Scorer(dimensions, hidden)
        self.attention: StateAttention | None = None
        if model == "hetero":  # the only one that reads states
            self.attention = StateAttention(dimensions)

    def forward(
        self, graph: HeteroData, batch: Situations, memory: AttendedCalls, hidden_QN: Tensor | None = None
    ) -> Tensor:
        """Scores of all tools, shape (Q, T); see `StateAttention` for `hidden_QN`."""
        scores = self.scorer(self.encoder(graph), batch)
        if self.attention is None:
            return scores
        return scores + self.attention(batch, memory, hidden_QN)


def train(
    data: HeteroData,
    options: TrainOptions = TrainOptions(),
    *,
    on_epoch: Callable[[Epoch], None] = lambda _: None,
) -> GraphRanker:
    """The ranker with the least loss on families held out inside training.

    Loss: -log softmax over the tools that successful runs called, at each of their calls but the first of a run.

    Args:
        data: See `hepm.lab.rank.data.graph_data`.
    Raises:
        InputError: an unknown model, or too few families.
    """
    if options.model not in ENCODERS:
        raise InputError(f"no ranker is called {options.model!r}; there are {', '.join(sorted(ENCODERS))}")
    torch.manual_seed(options.seed)
    device = torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    examples = _Examples(data, options, device)
    model = GraphRanker(options.model, data["tool"].x.shape[1], HIDDEN).to(device)
    optimizer = _optimizer(model)
    best, best_epoch = copy.deepcopy(model.state_dict()), -1
    for number in range(options.epochs):
        model.train()
        losses: list[float] = []
        for graph, *asked, target in examples.batches(number):
            scores = model(graph, *asked) + examples.closed_T
            loss = functional.cross_entropy(scores, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses += [loss.item()] * len(target)
        epoch = Epoch(number, float(np.mean(losses)), examples.held_out_loss(model))
        on_epoch(epoch)
        if epoch.held_out_loss < model.loss - 1e-4:
            best, best_epoch, model.loss = copy.deepcopy(model.state_dict()), number, epoch.held_out_loss
        elif number - best_epoch >= options.patience:
            break
    model.load_state_dict(best)
    return model.eval().cpu()


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """AdamW. Temperatures, gains and weights of a few numbers have far to go: they learn faster, without decay."""
    small: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for parameter in model.parameters():
        is_small = parameter.dim() == 0 or len(parameter) <= 3
        (small if is_small else others).append(parameter)
    groups = [{"params": others}, {"params": small, "lr": 5 * RATE, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=RATE, weight_decay=1e-2)


class _Examples:
    """The calls to learn from, by groups of families, and those that early stopping looks at."""

    def __init__(self, data: HeteroData, options: TrainOptions, device: torch.device) -> None:
        self._data = data
        self._options = options
        self._device = device
        call, run = data["call"], data["run"]
        self._calls = {name: values.numpy() for name, values in call.items() if name != "num_nodes"}
        self._tools = len(data["tool"].x)
        run_N = self._calls["run"]
        family_R = run["family"].numpy()
        self._family_N = family_R[run_N]
        families = np.random.default_rng(options.seed).permutation(np.unique(family_R))
        if len(families) < FEWEST_FAMILIES:
            raise InputError(
                f"these runs are of {len(families)} tasks, and a ranker is trained on {FEWEST_FAMILIES} or more: "
                "some are held out, to see when to stop. Store more runs first."
            )
        # 0 is held out for early stopping, 1 to GROUPS are predicted from each other.
        group_F = np.zeros(family_R.max() + 1, dtype=np.int64)
        stop = max(1, len(families) // (GROUPS + 1))
        group_F[families[stop:]] = 1 + np.arange(len(families) - stop) % GROUPS
        self._group_R = group_F[family_R]
        self._group_N = group_F[self._family_N]
        success_N = run["success"].numpy()[run_N]
        rows = np.flatnonzero(success_N & (self._calls["position"] > 0))
        if not len(rows):
            raise InputError("no successful run calls two tools, so that there is nothing to learn")
        # Group 0 is held out: its loss says when to stop.
        self._learned = rows[self._group_N[rows] > 0]
        self._stopping = rows[self._group_N[rows] == 0]
        self._read = self._learned[self._calls["state"][self._learned] >= 0]
        # A tool that no successful run called is out of the softmax.
        closed_T = np.full(self._tools, -1e9, dtype=np.float32)
        closed_T[self._calls["next"][success_N]] = 0
        self.closed_T = self._tensor(closed_T)

    def _graph(self, group: int, number: int) -> HeteroData:
        # Without the runs that the batch predicts, and without those that stop the training.
        out_R = torch.from_numpy((self._group_R == group) | (self._group_R == 0))
        return without(self._data, out_R, seed=number).to(str(self._device))

    def _asked(
        self, rows: NDArray[np.intp], rng: np.random.Generator
    ) -> tuple[Situations, AttendedCalls, Tensor, Tensor]:
        """What a network is asked of some calls, as `GraphRanker.forward` takes it, and what was called."""
        now = situations_of(rows, self._calls, self._data["state"].x.numpy(), self._tools)
        memory, hidden = self._remembered(rows, rng)
        return Situations(*map(self._tensor, now)), memory, hidden, self._tensor(self._calls["next"][rows])

    def _remembered(self, asked: NDArray[np.intp], rng: np.random.Generator) -> tuple[AttendedCalls, Tensor]:
        """What attention reads, and which of it is hidden from each call asked for.

        As much as `hepm.rank.ranker` reads: calls after one of the last tools, and as many of all; drawn, not the
        latest, so that an epoch sees old ones too.
        """
        rows = self._read
        if len(rows) > MOST_READ:
            last = self._calls["before"][:, 0]
            after = rows[np.isin(last[rows], last[asked])]
            drawn = [rng.choice(some, min(MOST_READ, len(some)), replace=False) for some in (after, rows)]
            rows = np.union1d(*drawn)
        states = self._data["state"].x.numpy()[self._calls["state"][rows]]
        values = (states, self._calls["before"][rows], self._calls["flags"][rows], self._calls["next"][rows])
        # Calls of one family: what is predicted must not be read from its own task.
        hidden_QN = self._family_N[asked][:, None] == self._family_N[rows]
        return AttendedCalls(*map(self._tensor, values)), self._tensor(hidden_QN)

    def _tensor(self, values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(self._device)

    def batches(self, number: int) -> Iterator[tuple[HeteroData, Situations, AttendedCalls, Tensor, Tensor]]:
        """The batches of an epoch: each of one group, with the graph of the others and their calls."""
        rng = np.random.default_rng([self._options.seed, number])
        drawn = rng.permutation(self._learned)[:MOST_CALLS]
        size = max(self._options.batch, len(drawn) // 64 + 1)  # 64 batches, and a few more
        graphs = {group: self._graph(group, number) for group in range(1, GROUPS + 1)}
        parts = [(group, part) for group in graphs for part in _chunks(drawn[self._group_N[drawn] == group], size)]
        # Shuffled, as batches of one group come from one graph.
        for place in rng.permutation(len(parts)).tolist():
            group, part = parts[place]
            yield graphs[group], *self._asked(part, rng)

    @torch.no_grad()
    def held_out_loss(self, model: GraphRanker) -> float:
        """Of successful calls of the families that are held out, from all others."""
        model.eval()
        rng = np.random.default_rng(self._options.seed)
        rows = rng.permutation(self._stopping)[:4_096]
        graph, total = self._graph(0, 0), 0.0
        for part in _chunks(rows, self._options.batch):
            *asked, target = self._asked(part, rng)
            scores = model(graph, *asked) + self.closed_T
            total += functional.cross_entropy(scores, target, reduction="sum").item()
        return total / max(len(rows), 1)


def _chunks(rows: NDArray[np.intp], size: int) -> list[NDArray[np.intp]]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


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
    model = train(data, options, on_epoch=on_epoch)
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
        model.loss,
    )


@torch.no_grad()
def export(model: GraphRanker, data: HeteroData) -> dict[str, Float32Array]:
    """The weights that `hepm.rank.ranker.Ranker` takes, with the vectors of all tools of the graph."""
    graph = without(data, torch.zeros(len(data["run"].success), dtype=torch.bool))
    weights = {"tools": model.encoder(graph)}
    # In the place of the encoder: a ranker takes its vectors, and the parameters of what scores them.
    weights |= {name: value for name, value in model.state_dict().items() if not name.startswith("encoder.")}
    return {name: value.contiguous().numpy() for name, value in weights.items()}
