from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kymograph.probes import measures

CLOUDS = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, min_side=3, max_side=8), elements=st.floats(-10, 10)
)


def by_eigenvalues(points: np.ndarray) -> float:
    """The effective dimension a second way: eigenvalues of the covariance, without a floor."""
    values = np.linalg.eigvalsh(np.cov(points.T))
    p = values[values > values.max() * 1e-13]
    p = p / p.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


@settings(deadline=None)
@given(CLOUDS, st.sampled_from([1e-12, 1e-6, 1.0, 1e9]))
def test_effective_dimension_does_not_depend_on_scale_or_place(points: np.ndarray, scale: float) -> None:
    spread = np.ptp(points, axis=0).max()
    if spread < 1e-3:
        return
    value = float(measures.effective_dimension(torch.from_numpy(points)))
    assert value == pytest.approx(by_eigenvalues(points), rel=1e-6)
    assert value == pytest.approx(float(measures.effective_dimension(torch.from_numpy(points * scale))), rel=1e-9)
    assert 1 - 1e-9 <= value <= measures.largest_effective_dimension(*points.shape) + 1e-9


def test_a_collapsed_embedding_keeps_its_dimension_where_the_script_reads_16() -> None:
    table = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    assert 2 < float(measures.effective_dimension(table)) < 3
    assert float(measures.effective_dimension(table * 1e-6)) == pytest.approx(
        float(measures.effective_dimension(table)), rel=1e-6
    )
    assert float(measures.effective_dimension(torch.tensor([[1.0, 0], [2, 0], [5, 0]]))) == pytest.approx(1.0)
    assert math.isnan(measures.effective_dimension(torch.ones(4, 3)))


def test_total_variance_is_the_trace_of_the_covariance() -> None:
    points = torch.randn(20, 5, generator=torch.Generator().manual_seed(2))
    assert float(measures.total_variance(points)) == pytest.approx(np.trace(np.cov(points.numpy().T)), rel=1e-6)


def test_recall_counts_samples_and_leaves_absent_classes_missing() -> None:
    counts = torch.tensor([[3.0, 1.0, 0.0], [0.0, 1.0, 4.0], [0.0, 0.0, 0.0]])  # (class, token)
    recall = measures.recall_per_class(torch.tensor([0, 0, 1]), counts)
    assert recall[:2].tolist() == pytest.approx([1.0, 0.8])
    assert math.isnan(recall[2])


def test_roughness_is_blind_to_growth_and_sees_jitter() -> None:
    line = torch.linspace(0, 100, 1000)
    assert float(measures.roughness(line)) == pytest.approx(0, abs=1e-4)
    jitter = torch.tensor([0.0, 1.0] * 500)
    assert float(measures.roughness(line + jitter)) == pytest.approx(1.0, rel=1e-2)


def test_wilson_interval_agrees_with_scipy() -> None:
    from scipy.stats import binomtest

    for successes, trials in ((0, 10), (3, 10), (10, 10), (81, 263)):
        expected = binomtest(successes, trials).proportion_ci(method="wilson")
        assert measures.wilson_interval(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert all(map(math.isnan, measures.wilson_interval(0, 0)))


def test_log_slope_agrees_with_scipys_regression() -> None:
    from scipy.stats import linregress, t

    draw = np.random.default_rng(0)
    norms = np.exp(0.3 * np.arange(12) + draw.normal(0, 0.1, 12))
    fit = linregress(np.arange(12), np.log(norms))
    half = t.ppf(0.975, 10) * fit.stderr
    gain, low, high = (float(v) for v in measures.log_slope(torch.from_numpy(norms)))
    assert (gain, low, high) == pytest.approx(
        (np.exp(fit.slope), np.exp(fit.slope - half), np.exp(fit.slope + half)), rel=1e-9
    )


def test_the_gain_of_a_doubling_stream_is_two_and_of_a_dead_one_missing() -> None:
    assert float(measures.log_slope(2.0 ** torch.arange(10))[0]) == pytest.approx(2.0)
    assert math.isnan(measures.log_slope(torch.tensor([1.0, 0.0, 1.0]))[0])
    assert math.isnan(measures.log_slope(torch.tensor([1.0, math.inf, 1.0]))[0])
    assert math.isnan(measures.log_slope(torch.tensor([1.0, 2.0]))[1]), "two points fix a slope but no interval"


@given(st.integers(1, 50), st.sampled_from([1e-30, 1e-9, 1.0, 1e30]))
def test_cosine_does_not_depend_on_length(seed: int, scale: float) -> None:
    draw = np.random.default_rng(seed)
    a, b = draw.normal(size=(2, 7))
    expected = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    found = measures.cosine(torch.from_numpy(a * scale), torch.from_numpy(b / scale))
    assert float(found) == pytest.approx(expected, rel=1e-9)
    assert float(measures.cosine(torch.from_numpy(a * scale), torch.from_numpy(a))) == pytest.approx(1.0)


def test_parallel_vectors_too_short_for_torchs_epsilon_have_cosine_one() -> None:
    tiny = torch.tensor([3e-30, 4e-30])
    assert float(measures.cosine(tiny, torch.tensor([3.0, 4.0]))) == pytest.approx(1.0)
    for bad in ([0.0, 0.0], [math.inf, 1.0], [math.nan, 1.0]):
        assert math.isnan(measures.cosine(torch.tensor(bad), torch.tensor([3.0, 4.0])))
