"""Readers of recorded runs: one file per format, from any source to trajectories."""

from hepm.ingest.hepm import parse_run, write_run
from hepm.ingest.prepare import shorten
from hepm.ingest.reading import READERS, read_runs
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
    "load_tools",
    "parse_run",
    "read_runs",
    "shorten",
    "write_run",
]
