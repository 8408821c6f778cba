"""A memory and its parts: what it holds of runs and sessions, and how it answers."""

from hepm.memory.memory import Memory
from hepm.memory.opened import DEFAULT_EMBEDDER, DEFAULT_STORE

__all__ = ["DEFAULT_EMBEDDER", "DEFAULT_STORE", "Memory"]
