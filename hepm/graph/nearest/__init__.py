"""Which tool followed the most similar remembered state.

Two kinds of vectors come here:

- *Lexical* ones have some 60 of 512 coordinates that are not zero. They lie coordinate by coordinate, so a query reads
  only the eighth that it has.
- *Dense* ones, of a sentence model, lie state by state.

All states of a tool are compared, and exactly, while they are few. Of 20,000 and more a sketch is read first, and only
what may be among the best is compared: see `sketch`. That takes a compiled kernel (numba, of the extra `hepm[fast]`),
and begins when a program has asked some fifty times: one that asks once need not load it.

A graph index (usearch, HNSW) was tried and left out: at 100,000 lexical states it found .98 of the ten nearest in a
millisecond, took a minute to build and half as much memory again.
"""

from hepm.graph.nearest.block import Nearest, StateBlock

__all__ = ["Nearest", "StateBlock"]
