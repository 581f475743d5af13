"""Executes the documentation's notebooks, each in an empty directory, so that it depends only on the package.

    python docs/_extensions/notebooks.py

stores the outputs of the cells in the notebooks, and the pages show these.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))


def execute(path: Path) -> Any:
    """Executes a notebook in a fresh directory, with this Python; returns it with the outputs of its cells."""
    import nbformat
    from jupyter_client.manager import KernelManager
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    manager = KernelManager()
    manager.kernel_spec.argv[0] = sys.executable
    with tempfile.TemporaryDirectory() as directory:
        client = NotebookClient(notebook, km=manager, timeout=600, resources={"metadata": {"path": directory}})
        client.execute(cleanup_kc=True, env={**os.environ, "PATH": programs, "OMP_NUM_THREADS": "1"})
    return notebook


def without_traces(notebook: Any) -> Any:
    """Returns a notebook without anything that differs between executions: times, ids and the machine."""
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata.pop("execution", None)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "pygments_lexer": "ipython3"},
    }
    return notebook


if __name__ == "__main__":
    import nbformat

    for path in NOTEBOOKS:
        nbformat.write(without_traces(execute(path)), path)
