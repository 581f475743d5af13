"""Norms, directions and inner products: right at every scale that float32 has, and of every kind of tensor."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kymograph._probes.norms import as_float64, directions, inner_product, norm, norms, norms_of


@given(exponent=st.integers(-37, 37), seed=st.integers(0, 99), size=st.integers(1, 300))
def test_norms_and_inner_products_neither_overflow_nor_underflow(exponent: int, seed: int, size: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    one, other = (torch.randn(size, generator=draw) * 10.0**exponent for _ in range(2))
    mine, its = one.double().numpy(), other.double().numpy()
    length = np.linalg.norm(mine)
    assert norm(one) == pytest.approx(length, rel=1e-6)
    assert inner_product(one, other) == pytest.approx(mine @ its, rel=1e-6, abs=1e-6 * length * np.linalg.norm(its))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
def test_every_type_and_every_layout_has_a_norm(dtype: torch.dtype) -> None:
    tensor = torch.arange(24.0).view(2, 3, 4).to(dtype)
    expected = float(np.linalg.norm(np.arange(24.0)))
    for value in (tensor, tensor.transpose(0, 2), tensor.flatten()[:]):
        assert norm(value) == pytest.approx(expected, rel=1e-6)
    assert norms_of([tensor, tensor[:1]])[0] == pytest.approx(expected, rel=1e-6) and norms_of([]) == []


def test_nothing_is_0_and_what_is_not_finite_says_so() -> None:
    assert norm(torch.zeros(3)) == norm(torch.zeros(0)) == 0.0
    assert norm(torch.tensor([1.0, torch.inf])) == np.inf and np.isnan(norm(torch.tensor([1.0, torch.nan])))


@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1.0, 1e10, 1e30])
@pytest.mark.parametrize("columns", [256, 257])
def test_the_norm_is_the_same_on_both_sides_of_the_size_at_which_its_reduction_changes(
    columns: int, scale: float
) -> None:
    matrix = torch.randn(128, columns, generator=torch.Generator().manual_seed(0)) * scale
    expected = float(np.linalg.norm(matrix.double().numpy()))
    for value in (matrix, matrix.T, matrix.flatten()):
        assert norm(value) == pytest.approx(expected, rel=1e-6)


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
