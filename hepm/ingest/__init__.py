"""Readers of recorded runs: one file per format, from any source to trajectories."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hepm.ingest.formats.hepm import parse_run, write_run
    from hepm.ingest.prepare import shorten
    from hepm.ingest.reading import READERS, from_messages, read_runs
    from hepm.ingest.records import ReadOptions, Rejection
    from hepm.ingest.redact import DEFAULT_RULES, Redactor, Rule
    from hepm.ingest.tools import load_tools

__all__ = [
    "DEFAULT_RULES",
    "READERS",
    "ReadOptions",
    "Redactor",
    "Rejection",
    "Rule",
    "from_messages",
    "load_tools",
    "parse_run",
    "read_runs",
    "shorten",
    "write_run",
]

# Each name is imported on first use: a suggestion needs no reader.
_MODULES = {
    "formats.hepm": ("parse_run", "write_run"),
    "prepare": ("shorten",),
    "reading": ("READERS", "from_messages", "read_runs"),
    "records": ("ReadOptions", "Rejection"),
    "redact": ("DEFAULT_RULES", "Redactor", "Rule"),
    "tools": ("load_tools",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"hepm.ingest.{module}"), name)
    raise AttributeError(f"module 'hepm.ingest' has no attribute {name!r}")
