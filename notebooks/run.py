"""Execute notebooks from top to bottom and write their outputs: python notebooks/run.py [NOTEBOOK ...]."""

import os
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def run(notebook: Path) -> None:
    """Execute a notebook in its own folder, and write it with what it shows.

    Raises:
        CellExecutionError: a cell failed, with its traceback. Nothing is written.
    """
    found = nbformat.read(notebook, as_version=4)
    where = {"metadata": {"path": str(notebook.parent)}}
    NotebookClient(found, timeout=300, resources=where, record_timing=False, coalesce_streams=True).execute()
    found.metadata.pop("language_info", None)  # holds the version of Python, which differs between machines
    nbformat.write(found, notebook)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")  # those of libraries differ between versions, and hold paths
    for notebook in [Path(name) for name in sys.argv[1:]] or sorted(Path(__file__).parent.glob("*.ipynb")):
        began = time.perf_counter()
        run(notebook)
        print(f"{notebook.name}: {time.perf_counter() - began:.0f} s, {notebook.stat().st_size / 1024:.0f} KB")
