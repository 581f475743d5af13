"""Verdicts on one claim at several settings."""

from __future__ import annotations

from dataclasses import replace

from kymograph.claims.claim import Claim
from kymograph.claims.grid import across_settings, claims_on_grid, point_text
from kymograph.claims.verdict import Outcome, Verdict
from tests.studies.tossing import claim


def verdict(one: Claim) -> Verdict:
    return Verdict(one, Outcome.INCONCLUSIVE, "", "registered")


def test_the_points_of_a_grid_are_one_claim_and_others_stay_apart() -> None:
    made = claims_on_grid([claim("one"), replace(claim("two"), margin=0.5)], {"shift": [0.0, 3.0], "faces": [2]})
    first, second = across_settings(map(verdict, made))
    assert (first.name, second.name) == ("one", "two") and first.settings == ("shift",), "faces has one value"
    assert [first.point(one) for one in first.verdicts] == [{"shift": 0.0}, {"shift": 3.0}]
    assert point_text(first.point(first.verdicts[1])) == "shift 3.0"


def test_a_claim_without_a_grid_is_alone() -> None:
    (alone,) = across_settings([verdict(claim("one"))])
    assert alone.name == "one" and alone.settings == () and alone.point(alone.verdicts[0]) == {}


def test_a_claim_that_compares_settings_is_not_taken_apart() -> None:
    """Its two sides differ in a setting, and that is what it is about."""
    base = claim("one")
    pair = [
        replace(base, name=f"{low}", left=replace(base.left, where={"shift": low}),
                right=replace(base.left, where={"shift": 0.0}))
        for low in (1.0, 2.0)
    ]  # fmt: skip
    (group,) = across_settings(map(verdict, pair))
    assert group.settings == ("shift",)
