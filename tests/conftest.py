"""Small stored runs that many tests read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.shape_checks import check_shapes, without_checks

SHAPES_CHECKED = check_shapes()  # before any module that it checks is imported

import kymograph  # noqa: E402
from kymograph._runs.store import Store  # noqa: E402

if "PYTEST_XDIST_WORKER" in os.environ:
    # Two processes with two threads each fight over two cores: far slower than one thread each.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("kymograph", deadline=None)  # how long an example takes says nothing on a busy machine
settings.load_profile("kymograph")

# Starting workers takes longer than training the runs of a test: they are computed in this process, unless a test names
# an engine. `tests/test_public_face.py` looks at the default itself.
kymograph.run.__kwdefaults__["engine"] = "serial"

QUICK_CLIPPING = {"n_samples": 120, "epochs": 2, "n_rare": 6, "probe_every": 20}
QUICK_DEPTH = {"layers": 4, "width": 8, "steps": 12, "n_samples": 32, "batch_size": 8, "probe_every": 5}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that need the science: the tool's own tests pass without it (`tests.without_studies`)."""
    folders = {Path(__file__).parent / name for name in ("science", "devices", "chaos", "fuzz", "benchmarks")}
    for item in items:
        if not folders.isdisjoint(item.path.parents) or {"clipping_store", "depth_store", "coin"} & {
            *item.fixturenames
        }:
            item.add_marker(pytest.mark.science)


@pytest.fixture(autouse=True)
def _same_start_for_every_test() -> None:
    """Seeds torch's own generator, if torch is there, so that no test depends on which ones ran before it."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture
def shapes_unchecked() -> Iterator[None]:
    """Lets shapes pass unchecked: for simulations, whose thousands of calls are all of one shape."""
    with without_checks():
        yield


@pytest.fixture(scope="session")
def clipping_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three seeds of the script's arms of `clipping`, cut short."""
    out = tmp_path_factory.mktemp("clipping")
    return kymograph.run("clipping", seeds=[42, 123, 456], out=out, quiet=True, engine="serial", **QUICK_CLIPPING)


@pytest.fixture(scope="session")
def depth_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three seeds of all wirings of `depth`, small."""
    out = tmp_path_factory.mktemp("depth")
    return kymograph.run("depth", seeds=[42, 123, 456], out=out, quiet=True, engine="serial", **QUICK_DEPTH)


@pytest.fixture
def golden() -> Path:
    """The directory of numbers measured from the research scripts."""
    return Path(__file__).parent / "golden"


def pytest_report_header() -> str:
    """Says whether shapes are checked, so that a run without the packages is not taken for one with them."""
    return "shapes: checked" if SHAPES_CHECKED else "shapes: not checked, jaxtyping and beartype are not installed"
