"""Which numbers claims compare as ratios."""

from __future__ import annotations

from pathlib import Path

from kymograph.claims import registration
from kymograph.claims.claim import Claim, Measure, Quantity
from kymograph.claims.ratios import compared_as_ratios, registered_claims


def claim(name: str, measure: Measure, scale: str, study: str = "s") -> Claim:
    left, right = (Quantity(arm, measure) for arm in ("a", "b"))
    return Claim(name, study, "own", name, "a test", left, right, "greater", 1.0, scale)  # type: ignore[arg-type]


def test_only_summary_numbers_on_the_ratio_scale_count_and_they_are_found_where_they_are_registered(
    tmp_path: Path,
) -> None:
    made = [
        claim("norms", Measure("norm"), "log ratio"),
        claim("accuracies", Measure("accuracy"), "difference"),
        claim("series", Measure("stream", "last"), "log ratio"),
        claim("others", Measure("elsewhere"), "log ratio", study="t"),
    ]
    assert compared_as_ratios(made[:3]) == {"norm"}
    registration.register(tmp_path, made, {})
    assert compared_as_ratios(registered_claims(tmp_path, "s")) == {"norm"}
    assert registered_claims(tmp_path / "empty", "s") == []
