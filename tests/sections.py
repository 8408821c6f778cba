"""Files of plain lines that tests go through: sentences of users, commands of agents."""

from __future__ import annotations

from pathlib import Path


def sections(file: Path) -> dict[str, list[str]]:
    """The lines below each heading "## …" of a file, without blank ones."""
    found: dict[str, list[str]] = {}
    below: list[str] = []
    for line in file.read_text("utf-8").splitlines():
        if line.startswith("## "):
            below = found.setdefault(line.removeprefix("## "), [])
        elif line:
            below.append(line)
    return found
