"""The public face: every name works, is typed, is documented, and has an example that runs."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import importlib
import inspect
import math
import re
import shutil
import subprocess
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kymograph
import kymograph_studies

ROOT = Path(__file__).parents[1]
PACKAGE, SCIENCE = (Path(package.__file__).parent for package in (kymograph, kymograph_studies))
EXTENSIONS = ("engines", "figures", "formats", "panels", "parts", "quantities", "studies", "verbs")
"""The modules that authors of parts import from, named after the kinds of parts."""
SLOW = {"audit"}
"""Names whose example trains a network."""
STUDY = '''
"""Does warm-up lower the final sharpness? Numbers as training might give them, made in no time."""

import kymograph as ky
import torch


@ky.study(
    question="Does warm-up lower the final sharpness?",
    arms={"constant": {}, "warmup": {"warmup_steps": 2}},
    claims=[ky.Claim.compare("sharpness", "warmup", "<", "constant", margin=1.1)],
)
def warmup_study(run: ky.ActiveRun, *, lr: float = 0.1, warmup_steps: int = 0, steps: int = 3):
    noise = 0.1 * torch.rand(4, generator=run.generator("noise", run.arm))
    size = 1.0 if warmup_steps else 2.0
    for step in run.steps(steps):
        run.log(loss=(size + noise[0]) / (step + 1), grad_norm={"layer 1": size + noise[1], "layer 2": size + noise[2]})
    return {"sharpness": size + noise[3]}
'''


def public_names(module: types.ModuleType) -> dict[str, Any]:
    """Returns what a module of public names offers."""
    if hasattr(module, "__all__"):
        return {name: getattr(module, name) for name in module.__all__}
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def extension(name: str) -> types.ModuleType:
    return importlib.import_module(f"kymograph.{name}")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as examples find it: a study in `warmup.py`, and its runs in `runs`."""
    directory = tmp_path_factory.mktemp("examples")
    (directory / "warmup.py").write_text(STUDY)
    kymograph.run(str(directory / "warmup.py"), out=directory / "runs", quiet=True, engine="serial")
    return directory


@pytest.fixture
def beside(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory of an example: a copy of that one."""
    here = tmp_path / "here"
    shutil.copytree(stored, here)
    monkeypatch.chdir(here)
    yield here
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", "")).startswith(str(here)):
            del sys.modules[name]


def execute(docstring: str, name: str, names: Mapping[str, Any] | None = None) -> int:
    """Executes the example of a docstring, where a user has only these imports; returns how many lines it has."""
    import torch

    offered = {"ky": kymograph, "np": np, "torch": torch, "Path": Path, "inf": math.inf, "dataclasses": dataclasses}
    typed = {"dataclass": dataclasses.dataclass, "field": dataclasses.field, "Annotated": typing.Annotated}
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(docstring, {**(names or {}), **offered, **typed}, name, None, 0)
    runner = doctest.DocTestRunner(verbose=False, optionflags=flags)
    failures: list[str] = []
    runner.run(test, out=failures.append)
    assert not runner.failures, "".join(failures)
    return runner.tries


def documented(name: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    """Yields the docstrings of a public name, and of its public methods, with what holds each."""
    yield name, inspect.getdoc(value) or "", value
    if inspect.isclass(value):
        for key, member in vars(value).items():
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if not key.startswith("_") and inspect.isfunction(function):
                yield f"{name}.{key}", inspect.getdoc(function) or "", function


NAMES = sorted(set(kymograph.__all__) - {"rules"})


@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.slow] * (one in SLOW)) for one in NAMES])
def test_the_example_of_every_public_name_holds(name: str, beside: Path) -> None:
    value = getattr(kymograph, name)
    shown = inspect.getdoc(value) or ""
    assert ">>> " in shown, f"{name} has no example"
    assert "Args:" not in shown.split(">>> ")[0], f"the example of {name} comes after its arguments"
    for label, docstring, _ in documented(name, value):
        if ">>> " in docstring:
            assert execute(docstring, label), label


@pytest.mark.parametrize("name", EXTENSIONS)
def test_the_example_of_every_module_for_authors_holds_and_uses_all_its_names(name: str, beside: Path) -> None:
    module = extension(name)
    shown = module.__doc__ or ""
    assert execute(shown, name)
    for key, value in public_names(module).items():
        own = "" if isinstance(value, tuple | list | str) else inspect.getdoc(value) or ""
        assert re.search(rf"\b{key}\b", shown), f"the example of kymograph.{name} leaves out {key}"
        for label, docstring, holder in documented(key, value) if own else ():
            if ">>> " in docstring and (inspect.isclass(value) or inspect.isfunction(value)):
                assert execute(docstring, label, vars(inspect.getmodule(holder))), label


def test_the_example_at_the_top_holds(beside: Path) -> None:
    assert execute(kymograph.__doc__ or "", "kymograph")


PUBLIC = {f"{value.__module__}.{value.__qualname__}" for value in map(kymograph.__getattr__, NAMES)}
WITH_EXAMPLES = sorted(path for home in (PACKAGE, SCIENCE) for path in home.rglob("*.py") if ">>> " in path.read_text())


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(PACKAGE.parent).as_posix())
def test_the_examples_inside_hold(path: Path) -> None:
    """Those of modules, functions and classes that are not public, with the names of their own module."""
    module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    if not any(part.startswith("_") for part in module.split(".")) and PACKAGE in path.parents:
        return  # a public module, which has a test of its own
    # Read from the source: the shape checks wrap functions.
    for label, docstring in inner_docstrings(ast.parse(path.read_text()), module):
        if ">>> " in docstring and not any(label == name or label.startswith(f"{name}.") for name in PUBLIC):
            assert execute(docstring, label, vars(importlib.import_module(module)))


def inner_docstrings(tree: ast.Module | ast.ClassDef, label: str) -> Iterator[tuple[str, str]]:
    """Yields the docstrings of a module or class, and of the functions and classes in it, with their full names."""
    yield label, ast.get_docstring(tree) or ""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from inner_docstrings(node, f"{label}.{node.name}")
        elif isinstance(node, ast.FunctionDef):
            yield f"{label}.{node.name}", ast.get_docstring(node) or ""


# Names
