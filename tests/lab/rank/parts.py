"""What the tests of rankers use of torch and PyTorch Geometric, in one import that takes seconds."""
# ruff: noqa: F401, as tests take them from here

import torch

from hepm.lab.rank.data import AFTER, BEFORE, NEXT, graph_data, without
from hepm.lab.rank.scorer import StateAttention
from hepm.lab.rank.train import TrainOptions, build, export, train

QUICK = TrainOptions("sage", epochs=20, batch=16, patience=20)
