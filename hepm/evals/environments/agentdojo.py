"""AgentDojo (Debenedetti et al., NeurIPS 2024): offices whose tools return what an attacker may have written.

https://github.com/ethz-spylab/agentdojo, as the PyPI package agentdojo
"""

from __future__ import annotations

from typing import Final

from hepm.evals.environments.packages import Package
from hepm.evals.environments.worker import WorkerEnvironment

PACKAGE: Final = Package(("agentdojo==0.1.35",), size="290 MB")
_SUITES: Final = ("workspace", "travel", "banking", "slack")
PARTS: Final = ("", *_SUITES, "attacked", *(f"{suite}-attacked" for suite in _SUITES))


def agentdojo(part: str) -> WorkerEnvironment:
    """The user tasks of one suite or of all. If attacked, each with each injection where the right way would see it."""
    return WorkerEnvironment("-".join(filter(None, ("agentdojo", part))), PACKAGE, side="agentdojo_side", part=part)
