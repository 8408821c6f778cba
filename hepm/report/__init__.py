"""Where agents go wrong, read off stored runs: forks, requests never solved, waste, tools, and what memory did.

It knows the evidence, the lessons and the store; `Memory.report` makes it, `hepm report` and the page show it.
"""
