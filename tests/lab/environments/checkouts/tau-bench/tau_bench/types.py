"""What the checkout's own types are, as far as they are read."""

from dataclasses import dataclass


@dataclass
class Action:
    name: str
    kwargs: dict


@dataclass
class Task:
    user_id: str
    actions: list
    instruction: str
    outputs: list
