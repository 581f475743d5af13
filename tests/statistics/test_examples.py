"""The worked examples in the docstrings of statistics and measures."""

from __future__ import annotations

import ast
import doctest
import importlib
from pathlib import Path

import pytest

import kymograph

PACKAGE = Path(kymograph.__file__).parent
MODULES = sorted(
    path
    for path in [*PACKAGE.glob("_statistics/*.py"), *PACKAGE.glob("_probes/**/*.py"), PACKAGE / "_runs" / "tables.py"]
    if ">>> " in path.read_text()
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_examples_in_docstrings_hold(path: Path) -> None:
    # Read from the source: doctest passes over functions that the shape checks have wrapped.
    name = ".".join(("kymograph", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    names = {**vars(importlib.import_module(name))}
    if "_probes" in name:
        names["torch"] = importlib.import_module("torch")
    runner = doctest.DocTestRunner(verbose=False)
    tree = ast.parse(path.read_text())
    for node in [tree, *(node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))]:
        text = ast.get_docstring(node) or ""
        runner.run(doctest.DocTestParser().get_doctest(text, names, getattr(node, "name", name), str(path), 0))
    assert runner.summarize(verbose=False).attempted and not runner.failures


def test_every_public_statistic_of_a_sample_has_an_example() -> None:
    assert len(MODULES) >= 14
