"""What the tests of rankers use of torch and PyTorch Geometric, in one import that takes seconds."""

import torch
from torch_geometric.data import HeteroData

from benchmarks.parts.gnn4plan import Gnn4Plan, bpr_loss
from hepm.lab.rank.data import AFTER, BEFORE, NEXT, graph_data, without
from hepm.lab.rank.scorer import StateAttention
from hepm.lab.rank.train import Epoch, TrainOptions, build, export, train

__all__ = [
    "AFTER",
    "BEFORE",
    "NEXT",
    "QUICK",
    "Epoch",
    "Gnn4Plan",
    "HeteroData",
    "StateAttention",
    "TrainOptions",
    "bpr_loss",
    "build",
    "export",
    "graph_data",
    "torch",
    "train",
    "without",
]  # fmt: skip

QUICK = TrainOptions("sage", epochs=20, batch=16, patience=20)
