from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from kymograph._claims.claim import Measure, Side
from kymograph._claims.verdict import Outcome, Verdict
from kymograph._pictures.report_page.verdicts import claim_view, claimed_range, comparison_text, dot_plot, ordered
from kymograph._runs.declaration import Arm, Declaration
from tests.pictures.report.pages import claim, make_verdicts

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
    low, high = (float(x) for x in re.findall(r'class="limit" x1="([\d.]+)"', picture))
    assert (low + high) / 2 == pytest.approx(zero, abs=0.02), "the margin is symmetric"
    per_unit = gaps.mean() / 0.01
    assert (dots[0] - zero) / per_unit == pytest.approx(0.5, rel=1e-2)
    assert str(dot_plot(make_verdicts()[4], SIDES)) == "" and claim_view(verdict, OWN).columns[-1] == "difference"
    words = "final loss (Wild one) is greater than final loss (calm) by more than 0.1"
    assert comparison_text(claim("x"), OWN) == words


@pytest.mark.parametrize(
    ("direction", "start", "end"),
    [
        ("greater", 0.1, None),
        ("less", None, -0.1),
        ("not less", -0.1, None),
        ("not greater", None, 0.1),
        ("equal", -0.1, 0.1),
    ],
)
def test_the_evidence_shades_what_the_forest_plot_shades(direction: str, start: float, end: float) -> None:
    """One grey meant the claimed range in one plot and the margin in the other."""
    verdict = make_verdicts()[0]
    verdict = replace(verdict, claim=replace(verdict.claim, direction=direction))  # type: ignore[arg-type]
    assert claimed_range(verdict.claim) == (start, end)
    picture = str(dot_plot(verdict, SIDES))
    low, high = (float(x) for x in re.findall(r'class="limit" x1="([\d.]+)"', picture))
    axis = re.search(r'class="axis" x1="([\d.]+)" x2="([\d.]+)"', picture)
    shaded = re.search(r'class="claimed" x="([\d.]+)"[^>]* width="([\d.]+)"', picture)
    assert axis is not None and shaded is not None and 'class="margin"' not in picture
    at = {0.1: high, -0.1: low}
    assert float(shaded[1]) == pytest.approx(float(axis[1]) if start is None else at[start], abs=0.02)
    assert float(shaded[1]) + float(shaded[2]) == pytest.approx(float(axis[2]) if end is None else at[end], abs=0.02)


def test_no_p_value_on_a_card_contradicts_another() -> None:
    """A claim of absence listed 1.0000 "against the margin", the p-value of the side that the effect is not on."""
    verdict = replace(make_verdicts()[0], p=0.1251, p_margin=1.0)
    assert dict(claim_view(verdict, OWN).numbers)["p against the margin, corrected"] == "1.0000"
    absence = replace(verdict, claim=replace(verdict.claim, direction="not less"))
    numbers = dict(claim_view(absence, OWN).numbers)
    assert "p against the margin, corrected" not in numbers and numbers["p, corrected (Holm)"] == "0.1251"


def test_the_margin_in_a_claims_text_is_written_like_the_effects() -> None:
    verdict = make_verdicts()[0]
    stated = replace(claim("r", scale="log ratio", margin=1.1), text="lower by more than x1.1, at x1")
    assert claim_view(replace(verdict, claim=stated), OWN).text == "lower by more than ×1.1, at x1"
    assert claim_view(replace(verdict, claim=replace(verdict.claim, text="x0.1")), OWN).text == "x0.1"


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
    others = Side("c", Measure("final_loss")), Side("d", Measure("final_loss"))
    view = claim_view(replace(verdict, claim=replace(verdict.claim, interaction=others), points=points), OWN)
    assert view.columns[:5] == ("seed", "Wild one", "calm", "c", "d") and view.rows[0][1:5] == ("1", "2", "3", "4")


def test_sides_are_called_by_their_arms_and_never_left_and_right() -> None:
    view = claim_view(make_verdicts()[0], OWN)
    assert view.columns == ("seed", "Wild one", "calm", "difference")
    assert "probability that Wild one exceeds calm" in dict(view.numbers)
    shown = f"{view.picture} {view.numbers} {view.columns} {view.data}"
    assert "left" not in shown and "right" not in shown and "Wild one − calm" in shown
    measure, arm = Measure("final_loss"), "wild"
    same = replace(claim("x"), left=Side(arm, Measure("first")), right=Side(arm, measure))
    assert claim_view(replace(make_verdicts()[0], claim=same), OWN).sides == ("first", "final loss")
    number = replace(claim("x"), right=0.25)
    assert claim_view(replace(make_verdicts()[0], claim=number), OWN).sides == ("Wild one", "0.25")


def verdict(name: str, setup: str, outcome: Outcome, origin: str = "", kind: str | None = None) -> Verdict:
    stated = replace(claim(name, setup), origin=origin or name, kind=kind)  # type: ignore[arg-type]
    return Verdict(stated, outcome, "why", "registered")


def names(verdicts: list[Verdict]) -> list[list[tuple[str, str]]]:
    return [[(one.claim.name, one.claim.setup) for one in group] for group in ordered(verdicts)]


def test_refuted_claims_come_first_and_twins_are_neighbours() -> None:
    found = names([
        verdict("calm", "script", Outcome.SUPPORTED),
        verdict("steady", "script", Outcome.SUPPORTED),
        verdict("check", "script", Outcome.REFUTED, kind="manipulation check"),
        verdict("steady", "repaired", Outcome.REFUTED),
        verdict("of the stack", "script", Outcome.INVALID, "line 4"),
        verdict("on the stream", "repaired", Outcome.EQUIVALENT, "line 4"),
    ])  # fmt: skip
    assert found == [
        [("steady", "repaired"), ("steady", "script")],
        [("calm", "script")],
        [("on the stream", "repaired"), ("of the stack", "script")],
        [("check", "script")],
    ]


def test_claims_of_ones_own_are_no_twins_though_they_share_their_origin() -> None:
    found = names([
        verdict("one", "own", Outcome.INCONCLUSIVE, "the author"), verdict("two", "own", Outcome.REFUTED, "the author")
    ])  # fmt: skip
    assert found == [[("two", "own")], [("one", "own")]]


def test_twins_with_any_labels_come_in_order_of_appearance_unless_their_outcomes_differ() -> None:
    labels = ("small", "large", "huge")
    assert names([verdict("x", label, Outcome.SUPPORTED) for label in labels]) == [[("x", label) for label in labels]]
    assert names([verdict("x", "small", Outcome.SUPPORTED), verdict("x", "large", Outcome.REFUTED)]) == [
        [("x", "large"), ("x", "small")]
    ]


def test_all_verdicts_are_listed_once() -> None:
    both = [verdict("x", setup, outcome) for setup in ("script", "repaired") for outcome in Outcome]
    assert sorted(map(id, both)) == sorted(id(one) for group in ordered(both) for one in group)
