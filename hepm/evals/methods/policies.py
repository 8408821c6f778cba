"""The policies of hepm as methods of the evaluation."""

from __future__ import annotations

from hepm.evals.methods.protocol import Method


def policies() -> list[Method]:
    """Each policy under the name that `hepm suggest --policy` knows it by."""
    return []
