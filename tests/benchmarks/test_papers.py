"""The papers' tables: what is committed, and the command that plays them with a model."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.papers import ROOT, TABLES, TABLES_MADE, without_times


def test_each_table_is_there_and_says_what_it_can_and_cannot_show() -> None:
    for table in TABLES_MADE:
        text = (TABLES / f"{table.name}.md").read_text("utf-8")
        assert "```text" in text
        assert f"**What this can show:** {table.shows}." in text
        assert f"**What it cannot show:** {table.hides}." in text
        # Rows that cannot differ are no rows.
        assert "got the same hints" not in text


def test_times_which_differ_run_by_run_are_in_no_table_that_is_committed() -> None:
    printed = [
        "     success   beside off",
        "off    0.333",
        "              memory",
        "     turns        ms",
        "off    3.0     0.450",
        "success: a reward; memory ms: median of a turn; more",
    ]
    table = ["     success   beside off", "off    0.333", "", "     turns", "off    3.0", "success: a reward; more"]
    assert without_times(printed) == table
    for known in TABLES_MADE:
        committed = (TABLES / f"{known.name}.md").read_text("utf-8").splitlines()
        assert not any(line.endswith(" memory") for line in committed)


def test_with_a_model_the_tables_are_those_of_hepm_papers() -> None:
    command = [sys.executable, "-m", "benchmarks.papers", "--model", "m", "--only", "evolver", "--table", "99"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "EvolveR has no table 99: there are 1, 1-trained, 2" in done.stderr
