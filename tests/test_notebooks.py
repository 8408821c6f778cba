"""The notebooks run from top to bottom, and show what running them gives."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from notebooks.sample_runs import bfcl

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
QUICK = ("5-lessons",)
HEAVY = ("2-cypher", "4-gnn", "6-ablations", "7-training")
"""They start a server or train networks. CI leaves them to `make test-all`."""


def marks_of(notebook: Path) -> list[pytest.MarkDecorator]:
    if notebook.stem in HEAVY:
        return [pytest.mark.soak]
    return [pytest.mark.notebook] if notebook.stem in QUICK else [pytest.mark.notebook, pytest.mark.soak]


MOST_BYTES = 600_000


def code_cells(notebook: Path) -> list[Any]:
    return [cell for cell in json.loads(notebook.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


def printed(notebook: Path) -> list[str]:
    """The texts that each code cell shows; of a cell tagged "varies", none."""
    return [
        "" if "varies" in cell["metadata"].get("tags", ()) else "".join(map(text_of, cell["outputs"]))
        for cell in code_cells(notebook)
    ]


def text_of(output: Any) -> str:
    """An output's text; a picture has none, and warnings on standard error do not count."""
    data = output.get("data", {})
    if "image/png" in data or output.get("name") == "stderr":
        return ""
    return "".join(output.get("text", data.get("text/plain", "")))


@pytest.mark.usefixtures("servers_end_with_us")
@pytest.mark.parametrize("notebook", [pytest.param(one, id=one.stem, marks=marks_of(one)) for one in NOTEBOOKS])
def test_a_notebook_runs_from_top_to_bottom_and_shows_what_it_gives(notebook: Path, tmp_path: Path):
    for file in (*FOLDER.glob("*.py"), notebook):
        shutil.copy(file, tmp_path)
    shutil.copytree(bfcl(), tmp_path / "data" / "bfcl")
    unset = ("HEPM_RUNS", "HEPM_STORE", "HEPM_LLM_MODEL", "OPENAI_", "NEO4J_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(unset)}
    env |= {name: str(tmp_path / name) for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR", "TMPDIR")}
    (tmp_path / "TMPDIR").mkdir()  # a server that a notebook left running is then one of ours
    command = [sys.executable, str(tmp_path / "run.py"), str(tmp_path / notebook.name)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert printed(tmp_path / notebook.name) == printed(notebook), "run `make notebooks`"


def test_three_processes_that_fetch_the_sample_runs_at_once_get_the_same_folder(tmp_path: Path):
    shutil.copy(FOLDER / "sample_runs.py", tmp_path)
    command = [sys.executable, "-c", "import sample_runs; print(sample_runs.bfcl())"]
    started = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert {process.communicate()[0].strip() for process in started} == {str(tmp_path / "data" / "bfcl")}
    assert [file.name for file in (tmp_path / "data").iterdir()] == ["bfcl"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_is_stored_light_with_the_outputs_of_one_run_and_no_path_of_a_machine(notebook: Path):
    text = notebook.read_text("utf-8")
    assert len(text) < MOST_BYTES
    assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users)/", text)
    counts = [cell["execution_count"] for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1)), "run `make notebooks`"
