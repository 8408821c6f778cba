"""The scripts of `benchmarks/` and of the notebooks, which no other test runs as a whole."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

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
