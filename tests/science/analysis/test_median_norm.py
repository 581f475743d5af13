from __future__ import annotations

import math
import statistics

import pytest
import torch

from kymograph_studies.analysis.metrics import median_norm


@pytest.mark.parametrize("samples", [1, 4, 7])
def test_the_median_is_over_samples_for_every_replica(samples: int) -> None:
    vectors = torch.randn(3, samples, 5, generator=torch.Generator().manual_seed(0))
    expected = [statistics.median_low([math.hypot(*vector) for vector in replica]) for replica in vectors.tolist()]
    assert median_norm(vectors).tolist() == pytest.approx(expected, rel=1e-12)
    assert float(median_norm(vectors[0] * 1e-30)) == pytest.approx(1e-30 * expected[0], rel=1e-6)


def test_a_norm_that_is_not_a_number_makes_the_median_missing() -> None:
    assert math.isnan(median_norm(torch.tensor([[1.0], [math.nan], [3.0]])))
