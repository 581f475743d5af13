"""P-values over seeds: Student's t, the exact sign-flip test, draws of a null, and Holm's correction.

The sign-flip test is exact over seeds and assumes no shape for the differences. If the two arms do not differ, each
seed's difference could as well have had the opposite sign. The statistic is the sum of the differences. Its null
distribution is that over all 2^n patterns of signs, so n seeds cannot give a two-sided p-value below 2/2^n.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import numpy as np

from kymograph._shapes import Float, Int, Shaped
from kymograph._statistics.intervals import Sample, finite, moments, vector_of

Alternative = Literal["greater", "less", "two-sided"]
ALTERNATIVES: tuple[Alternative, ...] = ("greater", "less", "two-sided")
Draws: TypeAlias = Shaped[np.ndarray, " draws"] | Sequence[float]
"""The values of a null, one per draw."""
LEAST_SEEDS = 6
"""Below this no exact two-sided test can reach 5 %: 2/2^5 is 0.0625."""
EXACT_UP_TO = 20
"""The largest number of seeds whose patterns are all counted."""
TIE = 1e-12
"""Sums closer than this, relative to the sum of sizes, are ties: the same numbers added in another order.

So are means, relative to the largest size.
"""
_ENTRIES = 2**20
"""How many numbers a block of patterns may hold."""
_WORTHWHILE = 2**24
"""Maps of up to this many numbers (patterns times columns) are enumerated even where drawing would be cheaper."""


def check_alternative(alternative: str) -> None:
    """Raises ValueError for an unknown alternative."""
    if alternative not in ALTERNATIVES:
        raise ValueError(f"a test has no alternative {alternative!r}; choose from {', '.join(ALTERNATIVES)}")


def t_test(values: Sample, against: float = 0.0, alternative: Alternative = "two-sided") -> float:
    """Returns the p-value of Student's test that the mean is ``against``; NaN below two seeds.

    If all values are equal, the statistic is infinite or 0/0; the p-value is the limit of a shrinking variance: 0 where
    the mean lies strictly beyond ``against`` in the alternative's direction, and 1 otherwise. A p-value of 0 is then
    not evidence of unlimited strength: the sign-flip test, which must agree, still gives no less than 1/2^n.

    >>> round(t_test([1.0, 2.0, 3.0]), 4)
    0.0742
    """
    from scipy.special import stdtr

    check_alternative(alternative)
    mean, sd, n = moments(vector_of(values) - against)
    if n < 2:
        return math.nan
    # Positive where the mean favours the alternative.
    toward = {"greater": mean, "less": -mean, "two-sided": abs(mean)}[alternative]
    if sd == 0:
        return 0.0 if toward > 0 else 1.0
    tail = float(stdtr(n - 1, -toward / sd * math.sqrt(n)))
    return min(1.0, 2 * tail) if alternative == "two-sided" else tail


def monte_carlo_p(observed: float, null: Draws, alternative: Literal["greater", "less"] = "greater") -> float:
    """Returns the p-value of ``observed`` against the draws of a null; a tie counts against it, and NaN stays NaN.

    >>> monte_carlo_p(2.0, [0.0, 1.0, 3.0])
    0.5
    """
    if math.isnan(observed):
        return math.nan
    values = np.asarray(null, dtype=np.float64)
    reached = values >= observed if alternative == "greater" else values <= observed
    return float(drawn_p(int(reached.sum()), len(values)))


def drawn_p(reached: int | Int[np.ndarray, "*shape"], draws: int) -> Float[np.ndarray, "*shape"]:
    """Returns (1 + b)/(1 + m) for b of m draws that reach the observed value: never 0 (Phipson and Smyth, 2010).

    >>> float(drawn_p(0, 99))
    0.01
    """
    return np.asarray(np.add(1, reached) / (1 + draws))


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns Holm's (1979) adjusted p-values, in the order given; a missing one stays missing and is not counted.

    >>> holm([0.04, 0.01, 0.03])
    [0.06, 0.03, 0.06]
    """
    known = sorted((p, index) for index, p in enumerate(p_values) if not math.isnan(p))
    adjusted = [math.nan] * len(p_values)
    running = 0.0
    for rank, (p, index) in enumerate(known):
        running = max(running, min(1.0, p * (len(known) - rank)))
        adjusted[index] = running
    return adjusted


def smallest_p(n: int, alternative: Alternative = "two-sided") -> float:
    """Returns the smallest p-value that n seeds can give: 2/2^n two-sided, 1/2^n one-sided, and never above 1.

    >>> smallest_p(6)
    0.03125
    """
    check_alternative(alternative)
    return float(min(1.0, (2 if alternative == "two-sided" else 1) / 2**n))


def sign_flip_p(
    values: Sample,
    against: float = 0.0,
    alternative: Alternative = "two-sided",
    draws: int = 100_000,
    seed: int = 0,
) -> float:
    """Returns the p-value of the sign-flip test that the differences are symmetric about ``against``.

    Exact up to 20 seeds; above, (1 + b)/(1 + m) from m = ``draws`` patterns (Phipson and Smyth, 2010). Never zero. Ties
    count against the claim, so differences that are all exactly zero give 1.

    >>> sign_flip_p([1.0, 2.0, 3.0], alternative="greater")
    0.125
    """
    check_alternative(alternative)
    differences = vector_of(values) - against
    # Sorted after the change of sign, so that "less" is bit for bit "greater" of the negated values.
    differences = _scaled(finite(-differences if alternative == "less" else differences))
    observed, slack = float(differences.sum()), TIE * float(np.abs(differences).sum())
    if alternative == "two-sided":
        observed = abs(observed)
        if observed <= slack:
            return 1.0
    threshold = observed - slack
    n = len(differences)
    if n <= EXACT_UP_TO:
        share = float(_count_at_least(differences, threshold) / 2**n)
        return min(1.0, 2 * share) if alternative == "two-sided" else share
    sums = _drawn_sums(differences, draws, seed)
    reached = int(((np.abs(sums) if alternative == "two-sided" else sums) >= threshold).sum())
    return float(drawn_p(reached, draws))


def max_t(
    values: Shaped[np.ndarray, "seeds m"] | Sequence[Sequence[float]], draws: int = 9_999, seed: int = 0
) -> Float[np.ndarray, " m"]:
    """Returns two-sided p-values (m,) of a map over layers or steps, by the largest |t| under joint sign flips.

    ``values`` (seeds, m) holds one difference per seed and position of the map. A seed's sign is flipped at all
    positions at once, which keeps their correlation; a position's adjusted p-value is the share of patterns whose
    largest |t| anywhere reaches that position's (Westfall and Young, 1993, single step). Up to 20 seeds, all
    patterns are counted if they are no more than ``draws``, or if patterns times positions do not exceed 2^24.
    Otherwise the p-value is (1 + b)/(1 + draws).

    A column with a NaN stays NaN and takes no part. Columns without variance need no special case: a constant one has
    an infinite t, which only the patterns of equal signs reach, and one of zeros has p = 1.

    >>> max_t([[1.0, 0.1], [1.0, -0.1], [1.0, 0.1]])
    array([0.5, 1. ])
    """
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2:
        raise ValueError(f"a map has the axes (seeds, positions), not {matrix.ndim} axes")
    if np.isinf(matrix).any():
        raise ValueError("statistics over seeds need finite values; put NaN where a seed has no number at a position")
    adjusted = np.full(matrix.shape[1], np.nan)
    known = ~np.isnan(matrix).any(axis=0)
    if not known.any():
        return adjusted
    n, m = len(matrix), int(known.sum())
    # A column's sum of squares is the same under every pattern, so |t| = r sqrt((n-1)/(n-r^2)) rises with
    # r = |sum|/sqrt(sum of squares), by the same function in every column: the largest |t| belongs to the largest r.
    # Rows are sorted, so that Monte Carlo does not depend on the order of the seeds either.
    columns = _scaled(matrix[:, known])
    columns = columns[np.lexsort(columns.T[::-1])]
    lengths = np.sqrt((columns**2).sum(axis=0))
    units = np.divide(columns, lengths, out=np.zeros_like(columns), where=lengths > 0)
    thresholds = np.abs(units.sum(axis=0)) - TIE * np.sqrt(n)
    rows = max(1, _ENTRIES // max(m, n))
    exact = n <= EXACT_UP_TO and 2**n <= max(draws, _WORTHWHILE // m)
    patterns = _all_signs(n, rows) if exact else _drawn_signs(n, draws, seed, rows)
    largest = np.sort(np.concatenate([np.abs(signs @ units).max(axis=1) for signs in patterns]))
    reached = len(largest) - np.searchsorted(largest, thresholds, "left")
    adjusted[known] = reached / len(largest) if exact else drawn_p(reached, draws)
    return adjusted


def _scaled(values: np.ndarray) -> np.ndarray:
    """Returns every column (or the vector) divided by a power of two near its largest value, so no sum overflows."""
    _, exponents = np.frexp(np.abs(values).max(axis=0, initial=0.0))
    scaled: np.ndarray = np.ldexp(values, -exponents)
    return scaled


def _count_at_least(differences: np.ndarray, threshold: float) -> int:
    """Counts the patterns of signs whose sum is at least ``threshold``, all 2^n of them, in 2^(n/2) memory.

    Every sum is a sum over the first half of the seeds plus one over the second; with the second half's sums sorted,
    each sum of the first half needs one search.
    """
    half = len(differences) // 2
    first, second = _signed_sums(differences[:half]), np.sort(_signed_sums(differences[half:]))
    return int((len(second) - np.searchsorted(second, threshold - first, "left")).sum())


def _signed_sums(differences: np.ndarray) -> np.ndarray:
    """Returns the sums of the differences under all patterns of signs, (2^n,)."""
    sums = np.zeros(1)
    for difference in differences:
        sums = np.concatenate([sums + difference, sums - difference])
    return sums


def _all_signs(n: int, rows: int) -> Iterator[np.ndarray]:
    """Yields blocks of at most ``rows`` patterns, (k, n) of ±1, that together are all patterns up to a common sign."""
    free = max(n - 1, 0)  # the last sign stays +: |sum| is the same under a pattern and its opposite
    for start in range(0, 2**free, rows):
        codes = np.arange(start, min(start + rows, 2**free), dtype=np.int64)
        yield 1.0 - 2.0 * ((codes[:, None] >> np.arange(n)) & 1)


def _drawn_signs(n: int, draws: int, seed: int, rows: int) -> Iterator[np.ndarray]:
    """Yields blocks of at most ``rows`` random patterns, (k, n) of ±1, that together are ``draws``."""
    for bits in _drawn_bits(n, draws, seed, rows):
        yield 1.0 - 2.0 * bits


def _drawn_bits(n: int, draws: int, seed: int, rows: int) -> Iterator[np.ndarray]:
    draw = np.random.default_rng(seed)
    for start in range(0, draws, rows):
        yield draw.integers(0, 2, size=(min(rows, draws - start), n), dtype=np.int8)


def _drawn_sums(differences: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """Returns the sums of the differences under random patterns of signs, (draws,).

    A pattern is stored as one byte per eight seeds, and the sums over eight seeds are looked up. The half a dozen tests
    of a claim share their patterns, because with thousands of seeds drawing them is most of the work.
    """
    n = len(differences)
    sums = np.zeros(draws)
    for first, codes in zip(range(0, n, 8), _packed_patterns(n, draws, seed), strict=True):
        sums += _signed_sums_of_byte(differences[first : first + 8])[codes]
    return sums


@functools.lru_cache(maxsize=1)
def _packed_patterns(n: int, draws: int, seed: int) -> np.ndarray:
    """Returns random patterns of n signs, (n/8 rounded up, draws) bytes; a bit of 1 is a minus."""
    rows = max(1, _ENTRIES // n)
    blocks = [np.packbits(bits, axis=1, bitorder="little") for bits in _drawn_bits(n, draws, seed, rows)]
    return np.ascontiguousarray(np.concatenate(blocks).T)


def _signed_sums_of_byte(differences: np.ndarray) -> np.ndarray:
    """Returns the sums of up to eight differences under the signs that each byte encodes, (256,)."""
    bits = np.arange(256)[:, None] >> np.arange(len(differences)) & 1
    sums: np.ndarray = (1.0 - 2.0 * bits) @ differences
    return sums
