"""What `hepm papers` asks of a model, by role, and what it says before that it will ask."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hepm.lab import papers
from tests.faults.command import quick
from tests.lab.papers.played import played, role_of
from tests.loopback import Loopback, loopback  # noqa: F401

FILES = Path(papers.__file__).parent


def first_part(paper: str, folder: Path, **changes: str) -> Path:
    """A copy of a paper's file that ends behind the first part of its first table, with other words."""
    text = (FILES / f"{paper}.toml").read_text("utf-8")
    head, *parts = text.split("[[table.part]]")
    text = f"{head}[[table.part]]{parts[0]}"
    for before, after in changes.items():
        text = text.replace(before, after)
    file = folder / f"{paper}.toml"
    file.write_text(text, "utf-8")
    return file


def small(loopback: Loopback, folder: Path, paper: str, *options: str) -> Any:  # noqa: F811
    loopback.script = played
    known = ("--small", "--trials", "2", "--model", "small", "--user-model", "customer", "--json")
    place = ("--base-url", loopback.url, "--folder", str(folder / "papers"))
    env = {"OPENAI_BASE_URL": loopback.url, "COLUMNS": "200"}
    answer = quick("papers", paper, *options, *known, *place, env=env)
    assert answer.code == 0, answer.err
    return answer


def asked(loopback: Loopback) -> Counter[str]:  # noqa: F811
    return Counter(map(role_of, loopback.requests))
