"""The embedded store: one SQLite file, nothing to install and no server to start."""

from hepm.graph.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
