from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kymograph_studies.analysis.metrics import effective_dimension, largest_effective_dimension

CLOUDS = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, min_side=3, max_side=8), elements=st.floats(-10, 10)
)


def by_eigenvalues(points: np.ndarray) -> float:
    """The effective dimension a second way: eigenvalues of the covariance, without a floor."""
    values = np.linalg.eigvalsh(np.cov(points.T))
    p = values[values > values.max() * 1e-13]
    p = p / p.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


@given(CLOUDS, st.sampled_from([1e-12, 1e-6, 1.0, 1e9]))
def test_effective_dimension_does_not_depend_on_scale_or_position(points: np.ndarray, scale: float) -> None:
    spread = np.ptp(points, axis=0).max()
    if spread < 1e-3:
        return
    value = float(effective_dimension(torch.from_numpy(points)))
    assert value == pytest.approx(by_eigenvalues(points), rel=1e-6)
    assert value == pytest.approx(float(effective_dimension(torch.from_numpy(points * scale))), rel=1e-9)
    assert 1 - 1e-9 <= value <= largest_effective_dimension(*points.shape) + 1e-9


def test_a_collapsed_embedding_keeps_its_dimension_where_the_script_reads_16() -> None:
    table = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    assert 2 < float(effective_dimension(table)) < 3
    assert float(effective_dimension(table * 1e-6)) == pytest.approx(float(effective_dimension(table)), rel=1e-6)
    assert float(effective_dimension(torch.tensor([[1.0, 0], [2, 0], [5, 0]]))) == pytest.approx(1.0)
    assert math.isnan(effective_dimension(torch.ones(4, 3)))


def test_points_that_are_not_finite_have_no_dimension_and_take_no_others_down() -> None:
    cloud = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    both = torch.stack([cloud, cloud / 0.0, cloud])
    found = effective_dimension(both)
    assert found.isnan().tolist() == [False, True, False]
    assert float(found[0]) == float(effective_dimension(cloud))
