"""What every measure keeps to, however it was added."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch
from kymograph.probes.measures import MEASURES

from kymograph import registry
from kymograph.probes import measures

NAMES = MEASURES.names()


def test_the_measures_are_found_without_a_list() -> None:
    assert {"cosine", "effective-dimension", "gain", "median-norm", "recall", "roughness", "total-variance"} <= {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_measure_says_what_it_is_in_what_unit_and_of_which_shapes(name: str) -> None:
    facts, measure = MEASURES.part(name).facts, MEASURES.load(name)
    assert facts["about"] and facts["unit"]
    assert measure.__name__ == name.replace("-", "_") and measure.__doc__.startswith("Returns")
    assert "Tensor, " in str(measure.__annotations__["return"]), "a result without a shape"


@pytest.mark.parametrize("name", NAMES)
def test_a_measure_leaves_its_input_alone_and_has_no_graph(name: str) -> None:
    points = torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(0)).abs().requires_grad_()
    before = points.detach().clone()
    by_token = (points, points.detach().transpose(-1, -2))
    arguments = {
        "cosine": (points, points),
        "recall": (torch.zeros(3, 5, dtype=torch.long), points.detach()),
        "class-probability": by_token,
        "class-cross-entropy": by_token,
        "noise-scale": (points, points, 1, 4),
    }
    found = MEASURES.load(name)(*arguments.get(name, (points,)))
    for part in found if isinstance(found, tuple) else (found,):
        assert not part.requires_grad and part.is_floating_point()
    assert torch.equal(points.detach(), before)


def test_a_measure_is_added_by_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "largest_entry.py").write_text(
        'PART = {"about": "largest entry of each vector", "unit": "units of the vectors"}\n\n\n'
        'def largest_entry(vectors):\n    """Returns the largest entry."""\n    return vectors.amax(-1)\n'
    )
    monkeypatch.setattr(measures, "__path__", [*measures.__path__, str(tmp_path)])
    registry._in_tree.cache_clear()
    importlib.invalidate_caches()
    monkeypatch.setattr(measures.__spec__, "submodule_search_locations", list(measures.__path__))
    try:
        assert MEASURES.part("largest-entry").facts["unit"] == "units of the vectors"
        assert float(MEASURES.load("largest-entry")(torch.tensor([1.0, 3.0]))) == 3.0
    finally:
        sys.modules.pop("kymograph.probes.measures.largest_entry", None)
        registry._in_tree.cache_clear()
