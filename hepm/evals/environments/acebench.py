"""ACEBench's agent tasks (Chen et al., 2025, arXiv:2501.12851): a phone and flights, whose attributes are compared.

https://github.com/chenchen0103/ACEBench, from its authors' checkout
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hepm.evals.environments.packages import Checkout
from hepm.evals.environments.worker import PlayedWorkerEnvironment, WorkerEnvironment

CHECKOUT: Final = Checkout("https://github.com/chenchen0103/ACEBench", "model_eval/checker.py")
PARTS: Final = ("multi_step", "multi_turn", "multi_turn-user")


def acebench(part: str, source: str = "") -> WorkerEnvironment:
    """The English agent tasks: in multi_step, and in multi_turn without "user", the first text holds all."""
    made = PlayedWorkerEnvironment if part.endswith("-user") else WorkerEnvironment
    return made(f"acebench-{part}", replace(CHECKOUT, source=source), side="acebench_side", part=part)
