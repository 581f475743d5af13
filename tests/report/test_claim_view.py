from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from kymograph.report.claim_view import claim_view, comparison_text, dot_plot
from tests.report.pages import claim, make_verdicts


def test_the_dot_plot_has_dots_margin_and_intervals_on_one_scale() -> None:
    verdict = make_verdicts()[0]
    picture = str(dot_plot(verdict))
    dots = [float(x) for x in re.findall(r'class="seed"[^>]* cx="([\d.]+)"', picture)]
    assert dots == sorted(dots) and len(dots) == 10
    gaps = np.diff(dots)
    np.testing.assert_allclose(gaps, gaps.mean(), atol=0.02)  # the values are equally spaced
    zero = float(re.search(r'class="none" x1="([\d.]+)"', picture)[1])  # type: ignore[index]
    margin = re.search(r'class="margin" x="([\d.]+)"[^>]* width="([\d.]+)"', picture)
    assert margin is not None
    assert float(margin[1]) + float(margin[2]) / 2 == pytest.approx(zero, abs=0.02), "the margin is symmetric"
    per_unit = gaps.mean() / 0.01
    assert (dots[0] - zero) / per_unit == pytest.approx(0.5, rel=1e-2)
    assert str(dot_plot(make_verdicts()[4])) == "" and claim_view(0, verdict).columns[-1] == "difference"
    assert comparison_text(claim("x")) == "final_loss (wild) is greater than final_loss (calm) by more than 0.1"


def test_every_form_of_claim_is_put_into_words() -> None:
    equal = replace(claim("x"), direction="equal")
    assert comparison_text(equal) == "final_loss (wild) is equal to final_loss (calm) within 0.1"
    four = replace(claim("x"), interaction=(claim("x").left, claim("x").left))
    words = "final_loss (wild) minus final_loss (calm) is greater than final_loss (wild) minus final_loss (wild) by"
    assert comparison_text(four).startswith(words)
    verdict = replace(make_verdicts()[0], claim=equal)
    assert "claimed: between" in str(dot_plot(verdict))
    strict = replace(make_verdicts()[0], claim=replace(claim("x"), alpha=0.01), failing_seeds=(42,))
    numbers = dict(claim_view(0, replace(strict, failing_rate_bound=0.4, p_zero=0.01, pairing_gain=2.0)).numbers)
    assert "98 % interval, for equivalence" in numbers and numbers["failing seeds"] == "42"
    assert numbers["interval without pairing"] == "2× as wide" and numbers["p against zero, corrected"] == "0.0100"


def test_an_interaction_shows_all_four_numbers() -> None:
    verdict = make_verdicts()[0]
    points = tuple(replace(point, parts=(1.0, 2.0, 3.0, 4.0)) for point in verdict.points)
    four = replace(verdict.claim, interaction=(verdict.claim.left, verdict.claim.left))
    view = claim_view(0, replace(verdict, claim=four, points=points))
    assert view.columns[:5] == ("seed", "a", "b", "c", "d") and view.rows[0][1:5] == ("1", "2", "3", "4")
