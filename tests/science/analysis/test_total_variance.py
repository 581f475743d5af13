from __future__ import annotations

import numpy as np
import pytest
import torch

from kymograph_studies.analysis.metrics import total_variance


def test_total_variance_is_the_trace_of_the_covariance() -> None:
    points = torch.randn(20, 5, generator=torch.Generator().manual_seed(2))
    assert float(total_variance(points)) == pytest.approx(np.trace(np.cov(points.numpy().T)), rel=1e-6)
