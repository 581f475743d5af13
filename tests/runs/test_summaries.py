"""Runs summarised by arm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph._runs.summaries import (
    arm_headlines,
    by_arm_and_settings,
    collected_notes,
    headline_number,
)
from tests.records import write_record


def test_a_headline_number_is_the_mean_over_seeds_with_students_interval() -> None:
    values = np.random.default_rng(0).lognormal(size=7)
    number = headline_number(values.tolist())
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (number.mean, number.low, number.high) == pytest.approx((values.mean(), *expected), rel=1e-12)
    assert number.values == tuple(values) and number.n == 7 and number.missing == 0 and number.true is None


@pytest.mark.parametrize("absent", [None, math.nan, math.inf, "Infinity", "text"])
def test_what_is_not_a_finite_number_is_missing(absent: object) -> None:
    number = headline_number([1.0, absent, 3])
    assert number.values == (1.0, None, 3.0) and number.mean == 2.0 and (number.n, number.missing) == (2, 1)
    assert math.isnan(headline_number([absent]).mean) and math.isnan(headline_number([]).mean)


def test_one_value_or_equal_values_have_no_spread() -> None:
    low, high = headline_number([2.0, 3.0]).interval
    assert low < 2.5 < high
    assert math.isnan(headline_number([2.0]).low) and headline_number([2.0, 2.0]).interval == (2.0, 2.0)


def test_truth_values_are_counted_unless_numbers_are_among_them() -> None:
    assert headline_number([True, False, True, None]).true == 2
    assert headline_number([True, 0.5]).true is None and headline_number([None]).true is None


def test_an_arms_numbers_are_missing_where_a_run_has_none() -> None:
    numbers = arm_headlines([{"loss": 1.0}, {"loss": None}, {}], ["loss", "absent"])
    assert numbers["loss"].values == (1.0, None, None) and numbers["absent"].n == 0


def write(root: Path, arm: str, seed: int, last: float, *notes: str, **summary: Any) -> None:
    series = {"loss": RunSeries(np.arange(2), np.array([1.0, last]))}
    write_record(root, RunSpec("noted", arm, seed, {"lr": 0.1}, 1), RunResult(series, summary, notes=notes), {}, 1.0)


def test_notes_are_collected_with_how_many_runs_carry_them(tmp_path: Path) -> None:
    write(tmp_path, "a", 1, 0.5, "this", "that")
    write(tmp_path, "a", 2, 0.5, "this")
    assert collected_notes(Store.open(tmp_path).runs) == ["this (all 2 runs)", "that (1 of 2 runs)"]
    assert collected_notes([]) == []


@dataclass(frozen=True)
class Run:
    arm: str
    spec: RunSpec | None


def run(arm: str, seed: int, source: str | None = None, **settings: float) -> Run:
    return Run(arm, RunSpec("s", arm, seed, settings, 1, source))


def test_settings_in_which_an_arm_s_runs_differ_make_groups_and_name_them() -> None:
    runs = [run(arm, seed, lr=lr, width=8) for lr in (0.1, 0.03) for arm in ("a", "b") for seed in (1, 2)]
    groups = by_arm_and_settings(runs)
    assert list(groups) == ["a (lr=0.1)", "b (lr=0.1)", "a (lr=0.03)", "b (lr=0.03)"]
    assert all(len(members) == 2 for members in groups.values())


def test_settings_in_which_only_the_arms_differ_are_not_named() -> None:
    assert list(by_arm_and_settings([run("a", 1, lr=0.1), run("b", 1, lr=0.2)])) == ["a", "b"]


def test_code_is_part_of_the_settings_and_an_unreadable_run_has_none() -> None:
    assert list(by_arm_and_settings([run("a", 1, "x"), run("a", 1, "y")])) == ["a (source=x)", "a (source=y)"]
    assert list(by_arm_and_settings([Run("a", None), Run("a", None)])) == ["a"]
