"""The model behind the user of an environment, asked at its own endpoint unless a bench answers for it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from hepm.agents.loop import ChatModel
from hepm.lab.environments import endpoint_of_user
from hepm.llm import Endpoint


class AskedUser:
    """A base, first in line, for environments whose user is a model: it is opened when it is first asked."""

    name: str
    does: str
    """What the environment needs the model for."""

    @property
    def user(self) -> Endpoint:
        """HEPM_USER_MODEL, at `Endpoint.of_user`."""
        return endpoint_of_user(self.name, self.does)

    @cached_property
    def chat(self) -> ChatModel:
        """The model at its endpoint."""
        return ChatModel(self.user)

    def close(self) -> None:
        """Close the connections, and what the environment itself started."""
        base: Any = super()
        base.close()
        # A cached property: in the instance once it was read.
        chat = self.__dict__.pop("chat", None)
        if chat:
            chat.__exit__()
