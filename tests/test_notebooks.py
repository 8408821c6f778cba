"""The notebooks run from top to bottom, and show what running them gives."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from notebooks.run import FOLDER, execute
from notebooks.sample_runs import bfcl

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
QUICK = ("1-quickstart", "3-agent", "5-lessons")
MOST_BYTES = 600_000


def name_of(notebook: Path) -> str:
    """The notebook as a test's id."""
    return notebook.stem


def printed(notebook: NotebookNode) -> list[str]:
    """The texts that each code cell shows; of a cell tagged "varies", none."""
    return [
        "" if "varies" in cell.metadata.get("tags", ()) else "".join(map(text_of, cell.outputs))
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def text_of(output: NotebookNode) -> str:
    """An output's text; a picture has none."""
    data = output.get("data", {})
    return "" if "image/png" in data else output.get("text", "") or data.get("text/plain", "")


@pytest.mark.usefixtures("servers_end_with_us")
@pytest.mark.parametrize(
    "notebook",
    [pytest.param(one, id=name_of(one), marks=() if one.stem in QUICK else pytest.mark.soak) for one in NOTEBOOKS],
)
def test_a_notebook_runs_from_top_to_bottom_and_shows_what_it_gives(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("HEPM_RUNS", "HEPM_STORE", "HEPM_LLM_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY", "NEO4J_URI"):
        monkeypatch.delenv(name, raising=False)
    for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for module in FOLDER.glob("*.py"):
        shutil.copy(module, tmp_path)
    (tmp_path / "data").mkdir()
    shutil.copy(bfcl(), tmp_path / "data")
    assert printed(execute(notebook, tmp_path)) == printed(nbformat.read(notebook, as_version=4))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name_of)
def test_a_notebook_is_stored_light_with_the_outputs_of_one_run_and_no_path_of_a_machine(notebook: Path):
    text = notebook.read_text("utf-8")
    assert len(text) < MOST_BYTES
    assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users)/", text)
    counts = [cell.execution_count for cell in nbformat.reads(text, as_version=4).cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1)), "run `make notebooks`"
