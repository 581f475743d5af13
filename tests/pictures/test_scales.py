from __future__ import annotations

import numpy as np
import pytest

from kymograph._errors import KymographError
from kymograph._pictures.scales import (
    INTERVAL,
    SD,
    SPREADS,
    choose_spread,
    colour_values,
    is_log,
    is_log_colour,
    is_log_profile,
    relative_to_start,
)
from kymograph._runs.declaration import SeriesDisplay


def test_an_undeclared_scale_is_chosen_from_the_values_and_a_declared_one_is_kept() -> None:
    wide, narrow, signed = np.array([1.0, 51.0, np.nan]), np.array([1.0, 49.0]), np.array([-1.0, 60.0])
    undeclared = SeriesDisplay("x", "x", "x")
    assert [is_log(undeclared, values) for values in (wide, narrow, signed)] == [True, False, False]
    assert [is_log_colour(undeclared, values) for values in (wide, narrow, signed)] == [True, True, False]
    for log in (True, False):
        declared = SeriesDisplay("x", "x", "x", log=log)
        assert is_log(declared, narrow) is is_log_colour(declared, narrow) is is_log_profile(declared, narrow) is log


def test_zeros_among_values_that_span_decades_leave_a_profile_its_log_axis() -> None:
    undeclared = SeriesDisplay("x", "x", "x")
    values = (np.array([0.0, 1.0, 51.0]), np.array([0.0, 1.0, 49.0]), np.array([-1.0, 1.0, 60.0]), np.zeros(2))
    assert [is_log_profile(undeclared, some) for some in values] == [True, False, False, False]


def test_the_first_step_does_not_consume_the_colours() -> None:
    training = np.geomspace(1.0, 10.0, 12).reshape(6, 2)
    start = np.array([[1e6, 1e7]])
    panel = np.concatenate([start, training])
    assert colour_values([panel], log=True).max() == 10.0
    level = np.array([[1.0, 10.0], [1.5, 9.0], [1.1, 9.9]])
    assert len(colour_values([level], log=True)) == 6, "a start among the others is one of them"
    assert len(colour_values([np.ones((3, 2))], log=True)) == 6, "equal values have no range to consume"
    assert len(colour_values([np.full((3, 2), np.nan)], log=False)) == 0


def test_relative_values_start_at_one() -> None:
    panel = np.array([[np.nan, np.nan], [2.0, 0.0], [4.0, 3.0]])
    found = relative_to_start(panel)
    np.testing.assert_array_equal(found[1:, 0], [1.0, 2.0])
    assert np.isnan(found[:, 1]).all(), "there is no ratio to 0"


def test_missing_values_and_zeros_count_as_they_are() -> None:
    values = np.array([[1.0, np.nan, 0.0], [3.0, np.nan, 4.0]])
    mean, low, high = SD.of(values, True)
    np.testing.assert_allclose(mean, [2.0, np.nan, 2.0])
    np.testing.assert_allclose((low, high), [[1.0, np.nan, 0.0], [3.0, np.nan, 4.0]])
    assert SD.label(False) == SD.label(True) and INTERVAL.label(False) == "95 % interval of the mean (Student's t)"


def test_a_spread_is_chosen_by_name() -> None:
    assert choose_spread(None) is INTERVAL and list(SPREADS) == ["interval", "sd"]
    with pytest.raises(KymographError, match=r"there is no spread 'std'; did you mean 'sd'\?"):
        choose_spread("std")
