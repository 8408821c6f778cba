"""Training with memory: guided rollouts, rewards, masks, and runs of a memory as training data.

The neutral part needs no torch. `hepm.lab.rl.trl` needs `pip install 'hepm[rl]'`.
"""
