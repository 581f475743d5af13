from __future__ import annotations

import math
from inspect import unwrap  # gives the function as users call it, without the shape checks of the tests

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kymograph.statistics.p_values import ALTERNATIVES, Alternative, check_alternative, t_test
from tests.statistics.drawn import exact_values, sample


@pytest.mark.parametrize("n", [2, 3, 6, 10, 40])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("against", [0.0, -0.7, 3.0])
def test_t_is_scipys(n: int, alternative: Alternative, against: float) -> None:
    values = sample(n, n)
    expected = stats.ttest_1samp(values, against, alternative=alternative)
    assert t_test(values, against, alternative) == pytest.approx(expected.pvalue, rel=1e-8, abs=1e-14)
    left, right = sample(n + 1, n), sample(n + 2, n)
    expected = stats.ttest_rel(left, right, alternative=alternative)
    assert t_test(left - right, alternative=alternative) == pytest.approx(expected.pvalue, rel=1e-8)


@given(exact_values, st.sampled_from([0.25, 3.0, 1000.0]), st.sampled_from([0.0, 0.5]), st.randoms())
def test_order_sign_and_scale(values: list[float], factor: float, against: float, random) -> None:
    shuffled = random.sample(values, len(values))
    array = np.array(values)
    for alternative, opposite in zip(ALTERNATIVES, ("less", "greater", "two-sided"), strict=True):
        p = t_test(values, against, alternative)
        assert p == t_test(shuffled, against, alternative)
        assert p == t_test(-array, -against, opposite)
        assert p == pytest.approx(t_test(factor * array, factor * against, alternative), rel=1e-9)
        assert 0 <= p <= 1


def test_equal_values_have_the_limiting_p_values() -> None:
    values = [0.1] * 7
    assert t_test(values) == t_test(values, alternative="greater") == 0.0
    assert t_test(values, alternative="less") == 1.0
    assert [t_test(values, 0.1, alternative) for alternative in ALTERNATIVES] == [1.0] * 3


def test_too_few_seeds_give_no_number() -> None:
    for values in ([], [1.0]):
        assert math.isnan(t_test(values))


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="no alternative 'larger'"):
        check_alternative("larger")
    with pytest.raises(ValueError, match="no alternative 'larger'"):
        unwrap(t_test)([1.0, 2.0], alternative="larger")
    with pytest.raises(ValueError, match="finite"):
        t_test([1.0, 2.0], against=math.nan)
