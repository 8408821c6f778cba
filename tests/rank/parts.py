"""What the tests of rankers use of torch and PyTorch Geometric, in one import that takes seconds."""

import torch
from torch_geometric.data import HeteroData

from hepm.rank.data import AFTER, BEFORE, NEXT, families_of, graph_data
from hepm.rank.gnn4plan import Gnn4Plan, bpr_loss
from hepm.rank.leave_out import without
from hepm.rank.scorer import AttendedCalls, Batch
from hepm.rank.train import Epoch, TrainOptions, build, export, train

__all__ = [
    "AFTER",
    "BEFORE",
    "NEXT",
    "QUICK",
    "AttendedCalls",
    "Batch",
    "Epoch",
    "Gnn4Plan",
    "HeteroData",
    "TrainOptions",
    "bpr_loss",
    "build",
    "export",
    "families_of",
    "graph_data",
    "torch",
    "train",
    "without",
]  # fmt: skip

QUICK = TrainOptions("sage", epochs=20, batch=16, patience=20)
