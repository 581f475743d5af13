from __future__ import annotations

from dataclasses import replace

import pytest

from kymograph.claims.claim import Claim, Measure, Side
from kymograph.claims.verdict import Outcome, Point, Verdict, Verdicts, decisive_p, effect_text, settings_text

SIDE = Side("a", Measure("x"))
CLAIM = Claim("c", "s", "own", "t", "o", SIDE, SIDE, "greater", 0.1)
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
