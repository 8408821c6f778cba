"""A ranker of next tools that was trained on the memory's own graph: it answers from numpy alone.

`hepm.lab.rank` trains it.
"""
