"""The scripts of `benchmarks/` and of the notebooks, which no other test runs as a whole."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from benchmarks.papers import TABLES, TABLES_MADE, without_times
from notebooks.sample_runs import bfcl

ROOT = Path(__file__).parents[2]
README = (ROOT / "benchmarks/README.md").read_text("utf-8")
SCRIPTS = sorted([*ROOT.glob("benchmarks/**/*.py"), *ROOT.glob("notebooks/*.py")])


def test_every_name_that_a_script_imports_from_hepm_is_there() -> None:
    missing: list[str] = []
    for script in SCRIPTS:
        for module, name in names_from_hepm(script):
            if name not in names_of(module):
                missing.append(f"{script.relative_to(ROOT)}: {module}.{name}")
    assert missing == []
    assert "nothing_of_this_name" not in names_of("hepm.types")


@cache
def names_of(module: str) -> set[str]:
    """What can be imported from a module, read off its text: some modules take a minute to import."""
    place = ROOT / module.replace(".", "/")
    names = {file.stem for file in place.iterdir()} if place.is_dir() else set[str]()
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    # Also below conditions such as TYPE_CHECKING; names that are made when asked for stand in `__all__`, as texts.
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Constant) and file.name == "__init__.py":
            names.add(str(node.value))
    return names


def names_from_hepm(script: Path) -> Iterator[tuple[str, str]]:
    """The module and the name of each import from hepm."""
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith("hepm"):
            for alias in node.names:
                yield node.module or "", alias.name


def test_every_benchmark_stands_behind_a_claim_that_its_readme_names() -> None:
    for script in sorted(path.name for path in ROOT.glob("benchmarks/*.py")):
        [table] = re.findall(r"^\| script \| stands behind \|\n(?:\|.*\n)+", README, re.MULTILINE)
        assert f"`{script}`" in table


def test_every_benchmark_that_a_page_names_is_there() -> None:
    for page in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]:
        named = (
            set(re.findall(r"benchmarks/[\w/]+\.py", page.read_text("utf-8"))) if page.name != "CHANGELOG.md" else set()
        )
        assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


# On a machine without a GPU


@pytest.mark.soak
def test_it_trains_a_ranker_and_a_model_within_its_time_and_adds_a_row_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "LOG.md"
    log.write_text("# What was measured\n")
    command = [sys.executable, "benchmarks/gpu.py", bfcl(), "--toy", "--minutes", "2", "--log", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    *stages, row = done.stdout.splitlines()
    assert [json.loads(stage)["stage"] for stage in stages] == ["read", "ranker", "GRPO"]
    assert all(json.loads(stage)["seconds"] > 0 for stage in stages)
    assert 1 <= json.loads(stages[2])["steps"] <= 2  # a busy machine ends it after the first
    assert float(row.split("|")[-2]) < 120
    assert log.read_text().splitlines()[-1] == row


# The papers' tables


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
