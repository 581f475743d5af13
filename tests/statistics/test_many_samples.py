from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kymograph.statistics import p_values as sign_flips
from kymograph.statistics.p_values import holm, sign_flip_p, t_test
from kymograph.statistics.power import EXACT_UP_TO, ManySamples, holm_many

tables = st.tuples(st.integers(1, 3), st.integers(2, 8)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-20, 20).map(lambda k: k / 8))
)


@settings(max_examples=60)
@given(tables, st.sampled_from([0.0, 0.375, -1.0]), st.sampled_from(["greater", "less"]))
def test_every_sample_has_the_p_values_of_both_tests(table: np.ndarray, against: float, alternative) -> None:
    """Multiples of 1/8 have many ties, and sums of them are exact."""
    samples = ManySamples(table)
    for index, row in enumerate(table):
        flip, student = sign_flip_p(row, against, alternative), t_test(row, against, alternative)
        assert samples.sign_flip_p(against, alternative)[index] == pytest.approx(flip)
        assert samples.t_p(against, alternative)[index] == pytest.approx(student, abs=1e-12)
        assert samples.p(against, alternative)[index] == pytest.approx(max(flip, student))


@pytest.mark.parametrize("n", [EXACT_UP_TO, EXACT_UP_TO + 1, 17, sign_flips.EXACT_UP_TO])
@pytest.mark.parametrize("alternative", ["greater", "less"])
@pytest.mark.parametrize("ties", [False, True])
def test_the_p_value_is_exact_as_far_as_the_tests_own_is(n: int, alternative, ties: bool) -> None:
    """Effects of every size: where all numbers speak for the alternative, where none does, and in between."""
    draw = np.random.default_rng(n)
    table = draw.normal(size=(40, n)) + draw.uniform(-3, 3, (40, 1))
    table = np.round(2 * table) / 2 if ties else table
    for against in (0.0, -0.5, 1.25):
        exact = [sign_flip_p(row, against, alternative) for row in table]
        assert ManySamples(table).sign_flip_p(against, alternative).tolist() == exact


def test_drawn_subsets_agree_with_drawn_patterns() -> None:
    table = np.random.default_rng(1).normal(0.3, 1.0, (6, sign_flips.EXACT_UP_TO + 3))
    drawn = [sign_flip_p(row, 0.0, "greater") for row in table]
    np.testing.assert_allclose(ManySamples(table).sign_flip_p(0.0, "greater"), drawn, atol=0.02)


@pytest.mark.parametrize("n", [7, 15])
def test_an_infinite_bound_rules_out_everything_or_nothing(n: int) -> None:
    samples = ManySamples(np.random.default_rng(0).normal(size=(4, n)))
    assert (samples.p(np.inf, "greater") == 1).all() and (samples.p(np.inf, "less") == 1 / 2**n).all()
    assert (samples.p(-np.inf, "greater") == 1 / 2**n).all() and (samples.p(-np.inf, "less") == 1).all()


@pytest.mark.parametrize("value", [0.1, 0.0, -3e-7])
def test_equal_numbers_have_no_deviation_whatever_their_sum_rounds_to(value: float) -> None:
    samples = ManySamples(np.full((1, 7), value))
    for against in (0.0, 0.1):
        assert samples.t_p(against, "greater")[0] == t_test([value] * 7, against, "greater")


@given(
    arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=st.integers(0, 8).map(lambda k: k / 8))
)
def test_every_family_has_holms_p_values(table: np.ndarray) -> None:
    assert holm_many(table).tolist() == [holm(row.tolist()) for row in table]


def test_a_table_has_samples_and_seeds() -> None:
    with pytest.raises(ValueError, match="one row per sample"):
        ManySamples(np.zeros((3, 1)))
