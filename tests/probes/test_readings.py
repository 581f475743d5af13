from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kymograph._probes.readings import ReadingTable, combine, combine_columns

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5)


@given(
    rows=st.lists(st.dictionaries(st.sampled_from("abc"), st.tuples(st.integers(0, 3), st.floats(-9, 9))), max_size=12),
    block=st.integers(1, 5),
)
def test_readings_come_back_whatever_their_types_and_however_they_fall_into_blocks(
    rows: list[dict[str, tuple[int, float]]], block: int
) -> None:
    kinds = [
        float,
        torch.tensor,
        lambda value: torch.tensor(value, dtype=torch.float64),
        lambda value: torch.tensor(int(value)),
    ]
    table = ReadingTable(block)
    for step, row in enumerate(rows):
        table.add(step, {("q", site): kinds[kind](value) for site, (kind, value) in row.items()})
    columns = table.columns()
    assert table.steps == list(range(len(rows)))
    assert {site for _, site in columns} == {site for row in rows for site in row}
    for (_, site), (values, read) in columns.items():
        for index, row in enumerate(rows):
            assert read[index] == (site in row)
            if site in row:
                kind, value = row[site]
                assert values[index] == pytest.approx(float(kinds[kind](value)), rel=1e-6)
            else:
                assert math.isnan(values[index])


@given(values=VALUES, how=st.sampled_from(["norm", "sum", "mean", "max"]))
def test_several_readings_are_put_together_alike_on_the_device_and_afterwards(values: list[float], how: str) -> None:
    expected = {
        "norm": math.hypot(*values),
        "sum": math.fsum(values),
        "mean": math.fsum(values) / len(values),
        "max": max(values),
    }
    read = np.array([True])
    after = combine_columns([(np.array([value]), read) for value in values], how)
    on_device = combine([torch.tensor(value, dtype=torch.float64) for value in values], how)
    assert float(after[0]) == pytest.approx(expected[how], rel=1e-9, abs=1e-6)
    assert float(on_device) == pytest.approx(expected[how], rel=1e-9, abs=1e-6)
    assert combine(values, how) == pytest.approx(expected[how], rel=1e-9, abs=1e-6)


def test_a_reading_that_is_nan_is_not_a_missing_one() -> None:
    here, gone = np.array([True]), np.array([False])
    assert np.isnan(combine_columns([(np.array([np.nan]), here), (np.array([1.0]), here)], "norm"))
    assert combine_columns([(np.array([np.nan]), gone), (np.array([1.0]), here)], "norm") == 1.0
    assert np.isnan(combine_columns([(np.array([np.nan]), gone)], "sum"))
