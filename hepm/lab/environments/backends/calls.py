"""Calls of packages that evaluate the text of a call, and keep the objects of a run as globals of a module."""

from __future__ import annotations

from typing import Any


def written(tool: str, arguments: dict[str, Any]) -> str:
    """A call as Python text; "" if the name of an argument is none, as nothing else of an agent may be evaluated."""
    if not all(name.isidentifier() for name in arguments):
        return ""
    words = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return f"{tool}({words})"


def forget(module: Any, prefix: str) -> None:
    """Remove the objects of a run."""
    for name in dir(module):
        if name.startswith(prefix):
            delattr(module, name)
