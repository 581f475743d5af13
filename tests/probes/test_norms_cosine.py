from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kymograph._probes.norms import cosine


@given(st.integers(1, 50), st.sampled_from([1e-30, 1e-9, 1.0, 1e30]))
def test_cosine_does_not_depend_on_length(seed: int, scale: float) -> None:
    draw = np.random.default_rng(seed)
    a, b = draw.normal(size=(2, 7))
    expected = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    found = cosine(torch.from_numpy(a * scale), torch.from_numpy(b / scale))
    assert float(found) == pytest.approx(expected, rel=1e-9)
    assert float(cosine(torch.from_numpy(a * scale), torch.from_numpy(a))) == pytest.approx(1.0)


def test_parallel_vectors_too_short_for_torchs_epsilon_have_cosine_one() -> None:
    tiny = torch.tensor([3e-30, 4e-30])
    assert float(cosine(tiny, torch.tensor([3.0, 4.0]))) == pytest.approx(1.0)
    for bad in ([0.0, 0.0], [math.inf, 1.0], [math.nan, 1.0]):
        assert math.isnan(cosine(torch.tensor(bad), torch.tensor([3.0, 4.0])))
