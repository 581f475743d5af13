"""A pytest plugin that hides `kymograph_studies`: `pytest -p tests.without_studies -m "not science"`."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

SCIENCE = "kymograph_studies"
TESTS = Path(__file__).parent


def block() -> None:
    """Makes every way to find the science answer that it is not there, as where it is not installed."""
    find = PathFinder.find_spec

    def find_other(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return None if name.split(".")[0] == SCIENCE else find(name, path, target)  # type: ignore[arg-type]

    assert SCIENCE not in sys.modules, "too late to block it"
    PathFinder.find_spec = find_other  # type: ignore[method-assign]


block()


OWN_TESTS = {
    "io", "statistics", "runs", "probes", "sweep", "studies", "claims", "experiments", "selftest", "pictures",
    "sharing",
    "cli", "test_rounding.py", "test_wording.py", "test_streams.py",
}  # fmt: skip
"""The tool's own tests; the others are about the science, or about both packages together."""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves out the tests that are not the tool's own, without importing them."""
    return True if collection_path.parent == TESTS and collection_path.name not in OWN_TESTS else None
