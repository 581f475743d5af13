"""Samples that several tests of statistics draw."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

# Multiples of 1/64: sums of them are exact, so properties hold to the last bit.
exact_values = st.lists(st.integers(-640, 640).map(lambda k: k / 64), min_size=2, max_size=12)


def sample(seed: int, n: int = 10, mean: float = 0.4) -> np.ndarray:
    """Returns n normal numbers of standard deviation 1."""
    return np.random.default_rng(seed).normal(mean, 1.0, n)
