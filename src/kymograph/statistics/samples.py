"""Samples: one number per seed, and their mean and standard deviation.

A sample is the vector of differences left - right (or of log ratios) with one entry per seed: whatever varies within a
seed was reduced to one number before. Values that are not finite raise a ``ValueError``, because a seed without a
number is for the judge to report, not for a formula to drop. No statistic depends on the order of the seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from kymograph.shapes import Float, Shaped

Sample: TypeAlias = Shaped[np.ndarray, " seeds"] | Sequence[float]
"""One number per seed."""


def finite(values: Sample) -> Float[np.ndarray, " seeds"]:
    """Returns ``values`` in float64 and ascending order; raises ValueError if one is not finite.

    >>> finite([2, 1])
    array([1., 2.])
    """
    vector = np.sort(vector_of(values))
    if not np.isfinite(vector).all():
        raise ValueError("statistics over seeds need finite values; leave out the seeds that have none, and say so")
    return vector


def vector_of(values: Sample) -> Float[np.ndarray, " seeds"]:
    """Returns ``values`` as a float64 vector, in the order given; raises ValueError if it has other axes."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise ValueError(f"a sample has one number per seed, not {vector.ndim} axes; reduce each seed to one number")
    return vector


def moments(values: Sample) -> tuple[float, float, int]:
    """Returns mean, standard deviation (n - 1) and n; the deviation is exactly 0 where all values are equal.

    Sums are exact (fsum) and taken on values scaled by a power of two, so that neither tiny gradients nor huge norms
    lose their variance when squared. The mean of no values is NaN, and so is the deviation of fewer than two.

    >>> moments([1.0, 2.0, 3.0])
    (2.0, 1.0, 3)
    """
    vector = finite(values)
    n = len(vector)
    if n == 0:
        return math.nan, math.nan, 0
    if vector[0] == vector[-1]:
        return float(vector[0]), 0.0 if n > 1 else math.nan, n
    _, exponent = np.frexp(np.abs(vector).max())
    scaled = np.ldexp(vector, -exponent)
    mean = math.fsum(scaled) / n
    deviations = scaled - mean
    _, finer = np.frexp(np.abs(deviations).max())
    square = math.fsum(np.ldexp(deviations, -finer) ** 2) / (n - 1)
    with np.errstate(over="ignore"):  # the deviation of the largest numbers is infinite
        return float(np.ldexp(mean, exponent)), float(np.ldexp(math.sqrt(square), exponent + finer)), n
