"""Labelled arrays for pandas and xarray."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

from kymograph.errors import KymographError
from kymograph.runs.store import LabelledArray

LABELS = {"arm": ("a", "b"), "seed": (1, 2, 3), "step": (0, 10)}
ARRAY = LabelledArray("loss", np.arange(12.0).reshape(2, 3, 2), tuple(LABELS), LABELS)


def test_a_table_has_a_column_per_axis_and_one_of_values() -> None:
    table = ARRAY.to_pandas()
    assert list(table.columns) == ["arm", "seed", "step", "loss"] and len(table) == 12
    for row in table.itertuples():
        assert row.loss == ARRAY.sel(arm=row.arm, seed=row.seed, step=row.step).values
    assert table.seed.dtype.kind == "i" and table.step.dtype.kind == "i"


def test_axes_that_were_fixed_are_gone() -> None:
    assert list(ARRAY.sel(arm="a").to_pandas().columns) == ["seed", "step", "loss"]
    single = ARRAY.sel(arm="b", seed=3, step=10).to_pandas()
    assert single.to_dict("list") == {"loss": [11.0]}
    named = LabelledArray("step", ARRAY.values, ARRAY.axes, LABELS).to_pandas()
    assert list(named.columns) == ["arm", "seed", "step", "value"]


def test_xarray_gets_dimensions_coordinates_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, dict]] = []
    fake = types.ModuleType("xarray")
    fake.DataArray = lambda values, **facts: calls.append((values, facts))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "xarray", fake)
    ARRAY.to_xarray()
    ((values, facts),) = calls
    assert values is ARRAY.values and facts["dims"] == ARRAY.axes and facts["name"] == "loss"
    assert facts["coords"] == {axis: list(labels) for axis, labels in LABELS.items()}


def test_xarray_itself_takes_it() -> None:
    pytest.importorskip("xarray")
    found = ARRAY.to_xarray()
    assert found.sel(arm="b", seed=3, step=10).item() == 11.0 and found.name == "loss"


@pytest.mark.parametrize(("package", "extra"), [("pandas", "frame"), ("xarray", "xarray")])
def test_a_missing_package_is_one_sentence_that_names_the_extra(
    package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(KymographError, match=rf"kymograph\[{extra}\]"):
        getattr(ARRAY, f"to_{package}")()
