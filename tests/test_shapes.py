"""Shapes are checked while the tests run, and cost nothing otherwise."""

from __future__ import annotations

import importlib.util
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor

from kymograph import _shapes as shapes
from kymograph._probes.norms import cosine, norms
from kymograph._statistics.effects import auc, superiority
from kymograph._statistics.intervals import mean_interval, t_interval
from kymograph._statistics.p_values import max_t, monte_carlo_p
from kymograph_studies.analysis.metrics import effective_dimension, gain, recall
from kymograph_studies.rules.backprop import unit_rms
from kymograph_studies.rules.losses import output_error
from tests.shape_checks import CHECKED

checked = pytest.mark.skipif(
    "jaxtyping" not in sys.modules or "beartype" not in sys.modules, reason="needs jaxtyping and beartype"
)


def wrong_calls() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yields a call with a wrong shape, or a wrong kind of number, for rules, metrics and statistics."""
    whole, labels = torch.zeros(4, 3), torch.zeros(4, dtype=torch.long)
    yield "rule: as many labels as samples", lambda: output_error(whole, labels[:3])
    yield "rule: labels are whole numbers", lambda: output_error(whole, torch.zeros(4))
    yield "rule: credit is one vector per sample", lambda: unit_rms(torch.zeros(3))
    yield "metric: vectors of one length", lambda: cosine(whole, torch.zeros(4, 2))
    yield "metric: as many vectors", lambda: cosine(whole, torch.zeros(2, 3))
    yield "metric: a cloud has points and dimensions", lambda: effective_dimension(torch.zeros(3))
    yield "metric: a tensor, not an array", lambda: gain(np.ones(4))  # type: ignore[arg-type]
    yield "metric: predictions are classes", lambda: recall(torch.zeros(3), torch.zeros(2, 3))
    yield "metric: counts of the same tokens", lambda: recall(labels[:3], torch.zeros(2, 4))
    yield "metric: norms of floating-point vectors", lambda: norms(labels)
    yield "statistic: one number per seed", lambda: t_interval(np.zeros((3, 2)))
    yield "statistic: paired seeds", lambda: superiority(np.zeros(3), np.zeros(2))
    yield "statistic: a map has seeds and positions", lambda: max_t(np.zeros(3))
    yield "statistic: curves have seeds and x", lambda: mean_interval(np.zeros((2, 3, 4)))
    yield "statistic: two vectors", lambda: auc(np.zeros((2, 2)), np.zeros(2))
    yield "statistic: an array, not a tensor", lambda: monte_carlo_p(0.0, torch.zeros(3))  # type: ignore[arg-type]


CALLS = dict(wrong_calls())


@checked
@pytest.mark.parametrize("what", CALLS)
def test_a_wrong_shape_is_refused(what: str) -> None:
    from jaxtyping import TypeCheckError

    with pytest.raises(TypeCheckError, match="Type-check error"):
        CALLS[what]()


@checked
@pytest.mark.parametrize("package", CHECKED)
def test_every_function_is_checked(package: str) -> None:
    functions = [
        member
        for module in modules_of(package)
        for name, member in inspect.getmembers(module, inspect.isfunction)
        if member.__module__ == module.__name__ and not name.startswith("_")
    ]
    assert len(functions) >= 3
    assert [one.__qualname__ for one in functions if not hasattr(one, "__wrapped__")] == []


def modules_of(package: str) -> list[ModuleType]:
    """Imports a package with all that is in it."""
    top = importlib.import_module(package)
    inside = pkgutil.walk_packages(getattr(top, "__path__", []), f"{package}.")
    return [top, *(importlib.import_module(module.name) for module in inside)]


def test_without_jaxtyping_a_shape_is_its_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jaxtyping", raising=False)
    spec = importlib.util.spec_from_file_location("shapes_alone", shapes.__file__)
    assert spec is not None and spec.loader is not None
    alone = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(alone)
    for name in shapes.__all__:
        assert getattr(alone, name)[np.ndarray, "seeds x"] is np.ndarray
        assert getattr(alone, name)[Tensor, "batch width"] is Tensor


def test_statistics_do_not_wait_for_jaxtyping() -> None:
    code = "import sys, kymograph._statistics.power; sys.exit('jaxtyping' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
