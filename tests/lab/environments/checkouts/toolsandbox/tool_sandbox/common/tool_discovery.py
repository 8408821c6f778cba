"""A stand-in of hepm's own, not ToolSandbox: see ../../../README.md."""

from enum import StrEnum


class ToolBackend(StrEnum):
    DEFAULT = "default"
