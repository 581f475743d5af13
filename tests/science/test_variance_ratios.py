"""Which numbers claims compare as ratios."""

from __future__ import annotations

from pathlib import Path

from kymograph.claims.claim import Claim, Measure, Side
from kymograph.claims.registration import register_claims
from kymograph_studies.variance import compared_as_ratios, registered_claims


def claim(name: str, measure: Measure, scale: str, study: str = "s") -> Claim:
    left, right = (Side(arm, measure) for arm in ("a", "b"))
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
    register_claims(tmp_path, made)
    assert compared_as_ratios(registered_claims(tmp_path, "s")) == {"norm"}
    assert compared_as_ratios(registered_claims(tmp_path, "t")) == {"elsewhere"}
    assert registered_claims(tmp_path, "u") == []
