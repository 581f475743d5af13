"""Verdicts as text, tables and data sets."""

from __future__ import annotations

import sys
import types
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kymograph._claims.claim import Claim, Measure, Side
from kymograph._claims.verdict import Checked, Outcome, Point, Verdict, Verdicts, decisive_p, effect_text, settings_text
from kymograph._errors import KymographError

SIDE = Side("a", Measure("x"))
CLAIM = Claim("c", "s", "t", SIDE, SIDE, "greater", 0.1, origin="o")
VERDICT = Verdict(CLAIM, Outcome.SUPPORTED, "beyond the margin of 0.1", "registered", p=0.004, p_zero=0.002)


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({}, "0.0040"),
        ({"outcome": Outcome.EQUIVALENT, "p": 1.0, "p_equivalence": 0.003}, "0.0030 (equivalence)"),
        ({"outcome": Outcome.INCONCLUSIVE, "p": 1.0, "p_margin": 1.0}, "1.0000"),
        ({"outcome": Outcome.INCONCLUSIVE, "p": 0.3, "p_margin": 0.3, "p_zero": 0.2}, "0.3000"),
        ({"outcome": Outcome.INVALID, "p": None, "p_zero": None}, ""),
    ],
)
def test_the_table_shows_the_p_value_that_the_verdict_rests_on(change: dict, shown: str) -> None:
    verdict = replace(VERDICT, **change)
    assert decisive_p(verdict) == shown
    header, (row,) = Verdicts((verdict,)).table()
    assert row[header.index("p")] == shown


def test_a_point_has_parts_only_in_an_interaction() -> None:
    assert Point(1, 2.0, 1.0, 1.0).row() == {"seed": 1, "left": 2.0, "right": 1.0, "value": 1.0}
    assert Point(1, 2.0, 1.0, 1.0, (3.0, 1.0, 2.0, 1.0)).row()["parts"] == (3.0, 1.0, 2.0, 1.0)


def test_what_could_not_be_decided_has_no_numbers_and_the_same_keys() -> None:
    invalid = Verdict(CLAIM, Outcome.INVALID, "why", "post hoc").row()
    assert list(invalid) == list(VERDICT.row())
    assert invalid["p_zero"] is None and invalid["failing_seeds"] is None and invalid["checks"] == []


@pytest.mark.parametrize(
    ("scale", "margin", "numbers", "shown"),
    [
        ("log ratio", 1.05, (0.977, 0.953, 0.9996), "×0.9770 [0.9530, 0.9996]"),
        ("log ratio", 1.05, (0.977, 0.953, 1.0021), "×0.9770 [0.9530, 1.002]"),
        ("log ratio", 1.1, (1.2, 1.1004, 1.3), "×1.2000 [1.1004, 1.3000]"),
        ("log ratio", 1.1, (0.85, 0.8, 0.90914), "×0.8500 [0.8000, 0.9091]"),
        ("difference", 0.1, (0.2, 0.10001, 0.3), "+0.20000 [+0.10001, +0.30000]"),
        ("difference", 0.1, (0.0, -0.0999, 0.1), "+0 [-0.0999, +0.100]"),
        ("difference", 0.0, (-0.21, -0.4, -1e-9), "-0.210 [-0.400, -1.00e-09]"),
    ],
)
def test_rounding_moves_no_number_across_no_effect_or_the_margin(
    scale: str, margin: float, numbers: tuple[float, float, float], shown: str
) -> None:
    """An interval that ended just below 1 used to be printed as ending at 1."""
    claim = replace(CLAIM, scale=scale, margin=margin)  # type: ignore[arg-type]
    verdict = replace(VERDICT, claim=claim, effect=numbers[0], interval=numbers[1:])
    assert effect_text(verdict) == shown


def test_settings_that_the_name_of_a_claim_states_are_not_repeated() -> None:
    verdict = replace(VERDICT, claim=replace(CLAIM, name="c (lr 0.03, depth 2)"), setup="own")
    verdict = replace(verdict, settings={"lr": 0.03, "steps": 60, "depth": 2})
    assert settings_text(verdict) == "own, steps 60"
    assert settings_text(replace(verdict, claim=CLAIM)) == "own, lr 0.03, steps 60, depth 2"


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
    assert repr(BOTH).splitlines()[0] == "<2 verdicts: 1 SUPPORTED, 1 INVALID>" and len(repr(BOTH).splitlines()) == 3
    assert BOTH._repr_html_().count("<tr>") == 3


def test_verdicts_say_how_many_are_interim_or_post_hoc() -> None:
    """A notebook used to show the outcome of three seeds like that of ten."""
    early = replace(DECIDED, registration="registered, interim: 3 of 10 registered seeds")
    late = replace(DECIDED, registration="post hoc: 1 planned run was abandoned (no time, interim: 2), look 1 of 2")
    both = replace(OTHER, registration="not logged, post hoc, interim: 1 of 10 registered seeds")
    assert [verdict.is_interim for verdict in (early, late, both, DECIDED)] == [True, False, True, False]
    title, first, *_ = repr(Verdicts((early, late, both, DECIDED))).splitlines()
    assert title == "<4 verdicts: 3 SUPPORTED, 1 INVALID; 2 interim, 2 post hoc>"
    assert first.endswith("; beyond the margin of 0.1; registered, interim: 3 of 10 registered seeds>")
    assert repr(Verdicts(())) == "<0 verdicts>"
