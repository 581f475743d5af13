"""Metrics, each against a second way of computing it."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import linregress, t

from kymograph_studies.analysis.metrics import (
    class_cross_entropy,
    class_probability,
    effective_dimension,
    gain,
    largest_effective_dimension,
    median_norm,
    recall,
    roughness,
    total_variance,
)


def test_class_cross_entropy_is_torchs_over_the_samples_of_a_class() -> None:
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 2, 4, 3, generator=draw)  # (probe, replica, token, class)
    counts = torch.randint(1, 6, (2, 3, 4), generator=draw)  # (replica, class, token)
    found = class_cross_entropy(logits, counts.float())
    for probe, replica, label in [(0, 0, 0), (4, 1, 2), (2, 1, 1)]:
        tokens = torch.arange(4).repeat_interleave(counts[replica, label])
        expected = torch.nn.functional.cross_entropy(logits[probe, replica, tokens], torch.full_like(tokens, label))
        assert float(found[probe, replica, label]) == pytest.approx(float(expected), rel=1e-5)


def test_a_predictor_of_frequencies_has_the_loss_of_the_frequency() -> None:
    logits = torch.tensor([0.99, 0.01]).log().expand(3, 2)  # the same answer to every token
    found = class_cross_entropy(logits, torch.tensor([[40.0, 30.0, 20.0], [1.0, 0.0, 0.0]]))
    assert found.tolist() == pytest.approx([-math.log(0.99), math.log(100)], rel=1e-5)


def test_an_absent_class_is_missing_and_a_hopeless_one_is_finite() -> None:
    found = class_cross_entropy(torch.tensor([[1000.0, 0.0]]), torch.tensor([[0.0], [1.0]]))
    assert found[0].isnan() and found[1] == 1000


def test_class_probability_is_that_of_the_samples_one_by_one_for_every_replica_and_probe() -> None:
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 2, 4, 3, generator=draw)  # (probe, replica, token, class)
    counts = torch.randint(1, 6, (2, 3, 4), generator=draw).float()  # (replica, class, token)
    found = class_probability(logits, counts)
    for probe, replica, label in [(0, 0, 0), (4, 1, 2), (2, 1, 1)]:
        samples = [token for token in range(4) for _ in range(int(counts[replica, label, token]))]
        each = []
        for token in samples:
            weights = [math.exp(float(logit)) for logit in logits[probe, replica, token]]
            each.append(weights[label] / sum(weights))
        assert float(found[probe, replica, label]) == pytest.approx(sum(each) / len(each), rel=1e-6)


def test_it_is_the_recall_of_a_network_that_is_certain_and_moves_where_recall_does_not() -> None:
    counts = torch.tensor([[3.0, 1.0], [1.0, 4.0]])
    certain = 100 * torch.eye(2)
    torch.testing.assert_close(class_probability(certain, counts), recall(certain.argmax(-1), counts).double())
    weak, strong = 0.1 * torch.eye(2), torch.eye(2)
    assert torch.equal(recall(weak.argmax(-1), counts), recall(strong.argmax(-1), counts))
    assert (class_probability(weak, counts) < class_probability(strong, counts)).all()


def test_an_absent_class_is_missing() -> None:
    found = class_probability(torch.zeros(2, 2), torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    assert found[0] == 0.5 and found[1].isnan()


def test_recall_counts_samples_and_leaves_absent_classes_missing() -> None:
    counts = torch.tensor([[3.0, 1.0, 0.0], [0.0, 1.0, 4.0], [0.0, 0.0, 0.0]])  # (class, token)
    found = recall(torch.tensor([0, 0, 1]), counts)
    assert found[:2].tolist() == pytest.approx([1.0, 0.8])
    assert math.isnan(found[2])


def test_recall_is_that_of_the_samples_one_by_one_for_every_replica_and_probe() -> None:
    draw = torch.Generator().manual_seed(0)
    predictions = torch.randint(0, 3, (5, 2, 4), generator=draw)  # (probe, replica, token)
    counts = torch.randint(1, 6, (2, 3, 4), generator=draw)  # (replica, class, token)
    found = recall(predictions, counts.float())
    for probe, replica, label in [(0, 0, 0), (4, 1, 2), (2, 1, 1)]:
        samples = [token for token in range(4) for _ in range(int(counts[replica, label, token]))]
        correct = sum(int(predictions[probe, replica, token]) == label for token in samples)
        assert float(found[probe, replica, label]) == pytest.approx(correct / len(samples))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_recall_is_in_double_precision_whatever_the_counts_are_in(dtype: torch.dtype) -> None:
    counts = torch.tensor([[1, 2], [4, 3]]).to(dtype)
    found = recall(torch.tensor([0, 1]), counts)
    assert found.dtype == torch.float64 and found.tolist() == [1 / 3, 3 / 7]
    large = torch.tensor([[2**24, 1], [0, 1]]).to(dtype)
    assert float(recall(torch.tensor([0, 1]), large)[0]) == 2**24 / (2**24 + 1), "float32 cannot count that far"


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


def test_total_variance_is_the_trace_of_the_covariance() -> None:
    points = torch.randn(20, 5, generator=torch.Generator().manual_seed(2))
    assert float(total_variance(points)) == pytest.approx(np.trace(np.cov(points.numpy().T)), rel=1e-6)


def test_gain_agrees_with_scipys_regression() -> None:
    draw = np.random.default_rng(0)
    norms = np.exp(0.3 * np.arange(12) + draw.normal(0, 0.1, 12))
    fit = linregress(np.arange(12), np.log(norms))
    half = t.ppf(0.975, 10) * fit.stderr
    assert [float(part) for part in gain(torch.from_numpy(norms))] == pytest.approx(
        [np.exp(fit.slope), np.exp(fit.slope - half), np.exp(fit.slope + half)], rel=1e-9
    )


def test_the_gain_of_a_doubling_stream_is_two_and_of_a_dead_one_missing() -> None:
    assert float(gain(2.0 ** torch.arange(10))[0]) == pytest.approx(2.0)
    assert math.isnan(gain(torch.tensor([1.0, 0.0, 1.0]))[0])
    assert math.isnan(gain(torch.tensor([1.0, math.inf, 1.0]))[0])
    assert math.isnan(gain(torch.tensor([1.0, 2.0]))[1]), "two points fix a slope but no interval"


@pytest.mark.parametrize("samples", [1, 4, 7])
def test_the_median_is_over_samples_for_every_replica(samples: int) -> None:
    vectors = torch.randn(3, samples, 5, generator=torch.Generator().manual_seed(0))
    expected = [statistics.median_low([math.hypot(*vector) for vector in replica]) for replica in vectors.tolist()]
    assert median_norm(vectors).tolist() == pytest.approx(expected, rel=1e-12)
    assert float(median_norm(vectors[0] * 1e-30)) == pytest.approx(1e-30 * expected[0], rel=1e-6)


def test_a_norm_that_is_not_a_number_makes_the_median_missing() -> None:
    assert math.isnan(median_norm(torch.tensor([[1.0], [math.nan], [3.0]])))


def test_roughness_is_blind_to_growth_and_sees_jitter() -> None:
    line = torch.linspace(0, 100, 1000)
    assert float(roughness(line)) == pytest.approx(0, abs=1e-4)
    jitter = torch.tensor([0.0, 1.0] * 500)
    assert float(roughness(line + jitter)) == pytest.approx(1.0, rel=1e-2)
    assert float(roughness(jitter)) == pytest.approx(float(jitter.double().diff().std(correction=0)))
