from __future__ import annotations

from dataclasses import replace

import pytest

from kymograph.claims.claim import Claim, Measure, Quantity
from kymograph.claims.verdict import Outcome, Point, Verdict, Verdicts, decisive_p

SIDE = Quantity("a", Measure("x"))
CLAIM = Claim("c", "s", "own", "t", "o", SIDE, SIDE, "greater", 0.1)
VERDICT = Verdict(CLAIM, Outcome.SUPPORTED, "beyond the margin of 0.1", "registered", p=0.004, p_zero=0.002)


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({}, "0.0040"),
        ({"outcome": Outcome.EQUIVALENT, "p": 1.0, "p_equivalence": 0.003}, "0.0030 (equivalence)"),
        ({"outcome": Outcome.INCONCLUSIVE, "p": 1.0, "p_margin": 1.0}, "0.0020 (zero)"),
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
