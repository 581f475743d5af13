"""Verdicts for pandas and xarray."""

from __future__ import annotations

import sys
import types
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kymograph.claims.verdict import Checked, Outcome, Point, Verdicts
from kymograph.errors import KymographError
from tests.claims.test_verdict import CLAIM, VERDICT

DECIDED = replace(
    VERDICT,
    points=(Point(1, 2.0, 1.0, 1.0), Point(2, 4.0, 1.0, 3.0)),
    effect=2.0,
    interval=(1.0, float("inf")),
    superiority=(0.9, 0.5, 1.0),
    settings={"lr": 0.1},
    notes=("one", "two"),
    checks=(Checked("it fired", True, "least 3"),),
)
OTHER = replace(VERDICT, claim=replace(CLAIM, name="d"), outcome=Outcome.INVALID, p=None, points=(Point(3, 1, 1, 0),))
BOTH = Verdicts((DECIDED, OTHER))


def test_a_table_has_one_row_per_verdict() -> None:
    table = BOTH.to_pandas().set_index("claim")
    assert list(table.verdict) == ["SUPPORTED", "INVALID"] and list(table.n) == [2, 1]
    row = table.loc["c"]
    assert (row.effect, row.interval_low, row.interval_high) == (2.0, 1.0, np.inf)
    assert (row.superiority, row.superiority_low, row["setting/lr"], row.notes) == (0.9, 0.5, 0.1, "one; two")
    assert np.isnan(table.loc["d"].interval_low) and np.isnan(table.loc["d"].p)
    assert not any(isinstance(value, list | dict) for value in table.to_numpy().reshape(-1))
    assert len(Verdicts(()).to_pandas()) == 0


def test_xarray_gets_the_numbers_by_claim_and_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[dict[str, Any], dict[str, Any]]] = []
    fake = types.ModuleType("xarray")
    fake.Dataset = lambda variables, coords: calls.append((variables, coords))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "xarray", fake)
    BOTH.to_xarray()
    ((variables, coordinates),) = calls
    assert coordinates == {"claim": ["c", "d"], "seed": [1, 2, 3], "study": ("claim", ["s", "s"])}
    dimensions, values = variables["value"]
    assert dimensions == ("claim", "seed")
    np.testing.assert_array_equal(values, [[1.0, 3.0, np.nan], [np.nan, np.nan, 0.0]])
    assert variables["effect"][1][0] == 2.0 and np.isnan(variables["effect"][1][1])
    assert variables["verdict"] == ("claim", ["SUPPORTED", "INVALID"])


def test_xarray_itself_takes_them() -> None:
    pytest.importorskip("xarray")
    assert BOTH.to_xarray().value.sel(claim="c", seed=2).item() == 3.0


@pytest.mark.parametrize(("package", "extra"), [("pandas", "frame"), ("xarray", "xarray")])
def test_a_missing_package_is_one_sentence(package: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(KymographError, match=rf"kymograph\[{extra}\]"):
        getattr(BOTH, f"to_{package}")()


def test_verdicts_show_as_tables_and_as_a_line_each() -> None:
    page = DECIDED._repr_html_()
    assert "<table" in page and "SUPPORTED" in page and "it fired: passed, least 3" in page
    assert repr(DECIDED) == "<SUPPORTED: c; +2.00 [+1.00, +∞], p 0.0040, n 2; beyond the margin of 0.1>"
    assert repr(OTHER).startswith("<INVALID: d, n 1;")
    assert repr(BOTH).splitlines()[0] == "<2 verdicts>" and len(repr(BOTH).splitlines()) == 3
    assert BOTH._repr_html_().count("<tr>") == 3
