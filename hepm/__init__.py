"""Tool memory for LLM agents: which tool worked next, in which situation, and why.

    from hepm import Memory

    with Memory.open("runs.hepm") as memory:
        memory.ingest("results/*.json", namespace="retail")
        print(memory.suggest(after="get_order_details", namespace="retail").prompt())

Importing hepm loads nothing heavy: `Memory` and its dependencies are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hepm.errors import HepmError
from hepm.types import (
    START,
    Evidence,
    FailedWay,
    Outcome,
    Recalled,
    StateSummary,
    Suggestion,
    Suggestions,
    Tool,
    ToolCall,
    Trajectory,
    Transition,
    Turn,
)

if TYPE_CHECKING:
    from hepm.ingest.reading import from_messages
    from hepm.memory import Memory
    from hepm.memory.session import Session

__all__ = ["START", "Evidence", "FailedWay", "HepmError", "Memory", "Outcome", "Recalled", "Session", "StateSummary"]
__all__ += ["Suggestion", "Suggestions", "Tool", "ToolCall", "Trajectory", "Transition", "Turn", "from_messages"]


def __getattr__(name: str) -> Any:
    if name == "Memory":
        return import_module("hepm.memory").Memory
    if name == "Session":
        return import_module("hepm.memory.session").Session
    if name == "from_messages":
        return import_module("hepm.ingest.reading").from_messages
    if name == "__version__":
        from importlib.metadata import version

        found = globals()[name] = version("hepm")  # read once: it takes milliseconds
        return found
    raise AttributeError(f"module 'hepm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
