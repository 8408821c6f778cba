"""The scripts of `benchmarks/` and of the notebooks, which no other test runs as a whole."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "benchmarks/README.md").read_text("utf-8")
SCRIPTS = sorted([*ROOT.glob("benchmarks/**/*.py"), *ROOT.glob("notebooks/*.py")])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.xdist_group("torch")  # some names need it: it is loaded once
def test_every_name_that_a_script_imports_from_hepm_is_there() -> None:
    missing: list[str] = []
    for script in SCRIPTS:
        for module, name in names_from_hepm(script):
            if not hasattr(import_module(module), name) and find_spec(f"{module}.{name}") is None:
                missing.append(f"{script.relative_to(ROOT)}: {module}.{name}")
    assert missing == []


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
