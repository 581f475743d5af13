from __future__ import annotations

import pytest
from benchmarks.compare import Comparison, Timing, render


def timing(**limits: float) -> Timing:
    comparison = Comparison("work", "s", lambda: 1.0, lambda: 1.0, products=lambda: 1.0, **limits)  # type: ignore[arg-type]
    return Timing("x", comparison, (10.0, 12.0, 30.0), (1.0, 2.0, 3.0), (0.5, 1.0, 1.0))


def test_ratios_are_repeat_by_repeat_and_shown_with_their_spread() -> None:
    row = timing(faster=5, most_products=3)
    assert row.ratios == [10, 6, 10]
    table = render([row])
    limit = "at least 5x faster; at most 3x the products"
    assert f"| work | 12 s | 2 s | 10x (6-10) | 20x (12-30) | 2x (2-3) | {limit} |" in table and "3 repeats" in table


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({}, ""),
        ({"faster": 10, "most": 1, "most_products": 2}, ""),
        ({"faster": 10.5}, "x is 10 times faster, below the limit of 10.5"),
        ({"most": 0.9}, "x takes 1 s, above the limit of 0.9 s"),
        ({"most_products": 1.9}, "x takes 2 times its products, above the limit of 1.9"),
    ],
)
def test_the_best_repeat_counts_for_a_limit(limits: dict[str, float], sentence: str) -> None:
    assert timing(**limits).over_limit() == sentence
