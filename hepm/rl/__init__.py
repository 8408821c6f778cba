"""Training with memory: guided rollouts, rewards, masks, and runs of a memory as training data.

The neutral part needs no torch. `hepm.rl.trl` needs `pip install 'hepm[rl]'`; `hepm.rl.verl` runs inside verl.
"""
