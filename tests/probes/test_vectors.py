from __future__ import annotations

import numpy as np
import pytest
import torch

from kymograph.probes.norms import as_float64, directions, norms


def test_norms_and_directions_are_those_of_float64() -> None:
    vectors = torch.randn(4, 3, 7, generator=torch.Generator().manual_seed(0))
    expected = np.linalg.norm(vectors.numpy().astype(np.float64), axis=-1)
    assert norms(vectors).numpy() == pytest.approx(expected, rel=1e-14)
    assert norms(vectors).dtype == torch.float64
    assert (directions(vectors) * norms(vectors)[..., None]).numpy() == pytest.approx(vectors.numpy(), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e30])
def test_a_direction_does_not_depend_on_the_length(scale: float) -> None:
    vectors = torch.randn(5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert directions(vectors * scale).numpy() == pytest.approx(directions(vectors).numpy(), rel=1e-12)


def test_what_is_zero_or_not_finite_has_no_direction() -> None:
    bad = torch.tensor([[0.0, 0.0], [torch.inf, 1.0], [torch.nan, 1.0], [3.0, 4.0]])
    assert directions(bad).isnan().any(-1).tolist() == [True, True, True, False]


def test_a_measurement_has_no_graph() -> None:
    assert not as_float64(torch.ones(2, requires_grad=True) * 2).requires_grad
