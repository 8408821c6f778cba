"""A stand-in of hepm's own, not ToolSandbox: see ../../../README.md."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Scenario:
    """A context to begin from, and how runs are judged."""

    starting_context: Any
    evaluation: Any
    categories: list[Any]
    max_messages: int = 30


@dataclass
class Frame:
    """Rows, as the databases give them."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def to_dicts(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self.rows]
