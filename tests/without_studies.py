"""A pytest plugin that hides `kymograph_studies`: `pytest -p tests.without_studies -m "not science"`."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder

SCIENCE = "kymograph_studies"


def block() -> None:
    """Makes every way to find the science answer that it is not there, as where it is not installed."""
    find = PathFinder.find_spec

    def find_other(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return None if name.split(".")[0] == SCIENCE else find(name, path, target)  # type: ignore[arg-type]

    assert SCIENCE not in sys.modules, "too late to block it"
    PathFinder.find_spec = find_other  # type: ignore[method-assign]


block()
