from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import linregress, t

from kymograph_studies.analysis.metrics import gain


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
