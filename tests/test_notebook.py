"""Kymograph in a stock notebook: an event loop that runs, IPython's display, and no widgets."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = '''
import asyncio, builtins, sys, types, warnings


class ZMQInteractiveShell:
    """By this name everybody recognises a notebook."""


class Handle:
    def update(self, shown):
        pages.append(getattr(shown, "_repr_html_", shown.__repr__)())


def display(shown, display_id=False):
    Handle().update(shown)
    return Handle()


pages = []
builtins.get_ipython = ZMQInteractiveShell
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].version_info = (9, 0)
sys.modules["IPython.display"] = types.ModuleType("IPython.display")
sys.modules["IPython.display"].display = display
sys.modules["ipywidgets"] = None  # not installed
import torch, scipy.stats, matplotlib.figure  # what they warn about is not ours


async def cell():
    import kymograph as ky

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        store = ky.run("depth", n_seeds=6, engine="ENGINE", layers=3, width=8, steps=6, out="runs")
        verdicts = store and ky.judge(store)
        shown = [store, store[0], store[:2], verdicts, verdicts[0]]
        texts = [one._repr_html_() for one in shown]
        ky.figure("depth-kymograph", store)
        store.to_pandas(), store.series("loss").to_pandas(), verdicts.to_pandas()
        assert isinstance(ky.list_studies(), list) and len(store.failed) == 0
    assert not caught, [str(one.message) for one in caught]
    assert all("<table" in text for text in texts)
    assert pages and "30/30 runs" in pages[-1] and "<progress" in pages[-1] and "100%" in pages[-1], pages[-1:]


asyncio.run(cell())
'''


def run_cell(directory: Path, engine: str) -> subprocess.CompletedProcess:
    code = NOTEBOOK.replace("ENGINE", engine)
    return subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=directory, timeout=300
    )


@pytest.mark.slow
def test_a_stock_notebook_shows_no_warning(tmp_path: Path) -> None:
    done = run_cell(tmp_path, "serial")
    assert done.returncode == 0, done.stderr
    assert "arning" not in done.stderr


@pytest.mark.slow
def test_nor_with_worker_processes(tmp_path: Path) -> None:
    done = run_cell(tmp_path, "processes")
    assert done.returncode == 0, done.stderr
    assert "arning" not in done.stderr


ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def shown(notebook: dict) -> list[str]:
    """Returns what the cells of a notebook printed, and the kinds of what they showed."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output["output_type"] == "error"]
    return ["".join(output.get("text", sorted(output.get("data", ())))) for output in outputs]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_of_the_docs_is_stored_with_its_outputs_and_with_no_trace_of_a_machine(path: Path) -> None:
    notebook = json.loads(path.read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1)), (
        "executed once, from top to bottom"
    )
    assert not re.search(r"/(home|root|work|tmp|Users)/", path.read_text())
    text = "".join(shown(notebook))
    assert "registered" in text and "SUPPORTED" in text and "image/png" in text


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_of_the_docs_shows_what_its_cells_compute(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_extensions"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    executed = importlib.import_module("notebooks").execute(path)

    def words(texts: list[str]) -> list[str]:
        return [re.sub(r"[\d.]+", "N", text).replace("\r", "") for text in texts]  # rounding differs between machines

    stored = [re.sub(r"[0-9a-f]{16}", "DIGEST", text) for text in shown(json.loads(path.read_text()))]
    now = [re.sub(r"[0-9a-f]{16}", "DIGEST", text) for text in shown(executed)]
    assert words(now) == words(stored)


STUDY_CELLS = (
    "import kymograph as ky\nimport torch\nimport scales",
    "def distance(x):\n    return x.abs() * scales.SCALE",
    """@ky.study(arms={"slow": {"lr": 0.1}, "fast": {"lr": 0.5}},
          claims=[ky.Claim.compare("distance", "fast", "<", "slow", margin=1.1)])
def descent(run: ky.ActiveRun, *, lr: float = 0.1, steps: int = 3):
    x = torch.randn((), generator=run.generator("start"))
    for step in run.steps(steps):
        x = x - lr * x
        run.log(distance=distance(x))
    return {"distance": distance(x)}""",
    "store = ky.run(descent, n_seeds=6)\nruns = sorted(run.written + run.id for run in store)",
    "print(len(store), len(store.failed), *runs)",
    "verdict, = descent.judge(store)\nprint(verdict.outcome)",
    "print(descent)",
)


@pytest.mark.slow
def test_a_study_defined_in_a_cell_is_run_with_the_default_engine_and_found_by_the_next_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    (tmp_path / "scales.py").write_text("SCALE = 2.0\n")

    def executed(cells: tuple[str, ...]) -> list[str]:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
        outputs = [output for cell in notebook["cells"][-3:] for output in cell["outputs"]]
        return "".join(output.get("text", "") for output in outputs if output.get("name") == "stdout").split()

    first = executed(STUDY_CELLS)
    assert first[:2] == ["12", "0"] and first[14:] == ["SUPPORTED", "<study", "descent>"]
    assert executed(STUDY_CELLS) == first, "nothing was computed again"
    (tmp_path / "scales.py").write_text("SCALE = 3.0\n")
    assert not set(executed(STUDY_CELLS)[2:14]) & set(first[2:14]), "a module that a cell imports is part of the code"
