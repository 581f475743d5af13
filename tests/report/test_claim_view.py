from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from kymograph.claims.claim import Measure, Quantity
from kymograph.report.claim_view import claim_view, comparison_text
from kymograph.report.dot_plot import dot_plot
from kymograph.runs.declaration import Arm, Declaration
from tests.report.pages import claim, make_verdicts

OWN = Declaration("own", arms=(Arm("wild", label="Wild one"), Arm("calm")), headlines={"final_loss": "final loss"})
SIDES = ("wild", "calm")


def test_the_dot_plot_has_dots_margin_and_intervals_on_one_scale() -> None:
    verdict = make_verdicts()[0]
    picture = str(dot_plot(verdict, SIDES))
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
    assert str(dot_plot(make_verdicts()[4], SIDES)) == "" and claim_view(verdict, OWN).columns[-1] == "difference"
    words = "final loss (Wild one) is greater than final loss (calm) by more than 0.1"
    assert comparison_text(claim("x"), OWN) == words


def test_every_form_of_claim_is_put_into_words() -> None:
    equal = replace(claim("x"), direction="equal")
    assert comparison_text(equal, OWN) == "final loss (Wild one) is equal to final loss (calm) within 0.1"
    four = replace(claim("x"), interaction=(claim("x").left, claim("x").left))
    words = "final loss (Wild one) minus final loss (calm) is greater than final loss (Wild one) minus final loss (Wild"
    assert comparison_text(four, OWN).startswith(words)
    verdict = replace(make_verdicts()[0], claim=equal)
    assert "claimed: between" in str(dot_plot(verdict, SIDES))
    strict = replace(
        make_verdicts()[0], claim=replace(claim("x"), alpha=0.01), equivalence_level=0.98, failing_seeds=(42,)
    )
    numbers = dict(claim_view(replace(strict, failing_rate_bound=0.4, p_zero=0.01, pairing_gain=2.0), OWN).numbers)
    assert "98 % interval, for equivalence" in numbers and numbers["failing seeds"] == "42"
    assert numbers["interval without pairing"] == "2× as wide" and numbers["p against zero, corrected"] == "0.0100"


def test_an_interaction_shows_all_four_numbers() -> None:
    verdict = make_verdicts()[0]
    points = tuple(replace(point, parts=(1.0, 2.0, 3.0, 4.0)) for point in verdict.points)
    others = Quantity("c", Measure("final_loss")), Quantity("d", Measure("final_loss"))
    view = claim_view(replace(verdict, claim=replace(verdict.claim, interaction=others), points=points), OWN)
    assert view.columns[:5] == ("seed", "Wild one", "calm", "c", "d") and view.rows[0][1:5] == ("1", "2", "3", "4")


def test_sides_are_called_by_their_arms_and_never_left_and_right() -> None:
    view = claim_view(make_verdicts()[0], OWN)
    assert view.columns == ("seed", "Wild one", "calm", "difference")
    assert "probability that Wild one exceeds calm" in dict(view.numbers)
    shown = f"{view.picture} {view.numbers} {view.columns} {view.data}"
    assert "left" not in shown and "right" not in shown and "Wild one − calm" in shown
    measure, arm = Measure("final_loss"), "wild"
    same = replace(claim("x"), left=Quantity(arm, Measure("first")), right=Quantity(arm, measure))
    assert claim_view(replace(make_verdicts()[0], claim=same), OWN).sides == ("first", "final loss")
    number = replace(claim("x"), right=0.25)
    assert claim_view(replace(make_verdicts()[0], claim=number), OWN).sides == ("Wild one", "0.25")
