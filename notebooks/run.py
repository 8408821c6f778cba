"""Execute notebooks from top to bottom and write their outputs: python notebooks/run.py [NOTEBOOK ...]."""

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).parent


def execute(notebook: Path, folder: Path = FOLDER) -> NotebookNode:
    """The notebook with its outputs, executed in a folder.

    Raises:
        CellExecutionError: a cell failed, with its traceback.
    """
    found = nbformat.read(notebook, as_version=4)
    client = NotebookClient(found, timeout=300, resources={"metadata": {"path": str(folder)}}, record_timing=False)
    client.execute()
    found.metadata.pop("language_info", None)  # the version of Python: a change of every file with each machine
    return found


if __name__ == "__main__":
    for notebook in [Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")):
        began = time.perf_counter()
        nbformat.write(execute(notebook), notebook)
        print(f"{notebook.name}: {time.perf_counter() - began:.0f} s, {notebook.stat().st_size / 1024:.0f} KB")
