"""Moved to `hepm.graph.rows`."""

from __future__ import annotations

from hepm.graph.rows import FloatArray, from_bytes, of_size, to_bytes, to_floats

__all__ = ["FloatArray", "from_bytes", "of_size", "to_bytes", "to_floats"]
