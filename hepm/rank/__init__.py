"""A ranker of next tools that is trained on the memory's own graph: optional, `pip install 'hepm[gnn]'`.

Importing `hepm.rank` loads neither torch nor PyTorch Geometric: a trained ranker answers from numpy alone
(`hepm.rank.ranker`). `hepm.rank.train` and the models need them.
"""
