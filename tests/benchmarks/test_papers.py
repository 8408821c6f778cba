"""The papers' tables: what is committed, and what a model would cost."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.papers import PAPERS, ROOT, TABLES
from tests.loopback import Loopback, loopback  # noqa: F401


def test_each_table_is_there_and_says_what_it_can_and_cannot_show() -> None:
    for table in PAPERS:
        text = (TABLES / f"{table.name}.md").read_text("utf-8")
        assert "```text" in text
        assert f"**What this can show:** {table.shows}." in text
        assert f"**What it cannot show:** {table.hides}." in text


def test_a_dry_run_says_calls_tokens_and_cost_and_asks_nothing(loopback: Loopback) -> None:  # noqa: F811
    options = ["--small", "--dry-run", "--only", "evolver-questions", "--prices", "10,20"]
    command = [sys.executable, "-m", "benchmarks.papers", *options, "--model", "m", "--base-url", loopback.url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    *_, last = done.stdout.splitlines()
    words = last.replace(",", "").split()
    assert words[:2] == ["all:", "about"]
    calls, tokens, dollars = int(words[2]), int(words[4]), float(words[6].strip("$"))
    assert calls > 100
    assert dollars == round(tokens * 10 / 1e6, 2) > 0
    assert not loopback.requests
