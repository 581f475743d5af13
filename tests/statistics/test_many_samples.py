from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kymograph.statistics.many_samples import EXACT_UP_TO, ManySamples
from kymograph.statistics.sign_flips import sign_flip_p
from kymograph.statistics.t_tests import t_test

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


def test_drawn_subsets_agree_with_all_patterns() -> None:
    table = np.random.default_rng(1).normal(0.5, 1.0, (6, EXACT_UP_TO + 3))
    exact = [sign_flip_p(row, 0.0, "greater") for row in table]
    np.testing.assert_allclose(ManySamples(table).sign_flip_p(0.0, "greater"), exact, atol=0.02)


def test_an_infinite_bound_rules_out_everything_or_nothing() -> None:
    samples = ManySamples(np.random.default_rng(0).normal(size=(4, 7)))
    assert (samples.p(np.inf, "greater") == 1).all() and (samples.p(np.inf, "less") == 1 / 2**7).all()


def test_a_table_has_samples_and_seeds() -> None:
    with pytest.raises(ValueError, match="one row per sample"):
        ManySamples(np.zeros((3, 1)))
