"""A memory and its parts: what it holds of runs and sessions, and how it answers."""

from hepm.memory.memory import DEFAULT_EMBEDDER, DEFAULT_STORE, Memory

__all__ = ["DEFAULT_EMBEDDER", "DEFAULT_STORE", "Memory"]
