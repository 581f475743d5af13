"""Why a claim has its outcome: the numbers that a reason prints agree with the verdict and with the interval."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from kymograph._claims.claim import Claim, Measure, Side
from kymograph._claims.decision import Decision, decide_family, margin_text, reason, weigh
from kymograph._claims.verdict import Outcome, p_text
from kymograph._statistics.intervals import t_interval
from kymograph._statistics.p_values import sign_flip_p, t_test

SIDE = Side("a", Measure("x"))
CLAIM = Claim("c", "s", "t", SIDE, SIDE, "greater", 0.1, origin="o")
RATIO = replace(CLAIM, direction="less", margin=1.05, scale="log ratio")
SPREAD = np.linspace(-1.0, 1.0, 10)


def told(claim: Claim, values: np.ndarray, family: int = 1) -> tuple[Decision, str]:
    """Returns the decision on the claim in a family of that size, and its reason."""
    evidence = weigh(claim, values)
    (decision,) = decide_family([claim], [evidence], family - 1)
    assert decision is not None
    return decision, reason(claim, decision, evidence, family)[0]


def test_an_undecided_claim_of_absence_prints_the_p_value_of_its_refutation() -> None:
    """A drop of 0.2 under a margin of 0.05 used to say "1.0000 against the margin", the p-value of support."""
    claim = replace(CLAIM, direction="not less", margin=0.05)
    values = -0.2 + 0.19 * SPREAD
    decision, words = told(claim, values, family=19)
    assert decision.outcome is Outcome.INCONCLUSIVE and decision.p_zero <= 0.05 < decision.p
    refuting = 2 * max(t_test(values, -0.05, "less"), sign_flip_p(values, -0.05, "less"))
    assert f"{p_text(19 * refuting)} against the margin" in words and "1.0000" not in words
    mirrored = replace(claim, direction="not greater")
    assert told(mirrored, -values, family=19)[1] == words


def test_a_refutation_by_an_effect_within_the_margin_says_so() -> None:
    slight = math.log(1.014) + 0.003 * SPREAD
    decision, words = told(RATIO, slight)
    assert decision.outcome is Outcome.REFUTED
    assert words == "the effect goes the other way, though within the margin of ×1.05"
    decision, words = told(RATIO, math.log(1.045) + 0.03 * SPREAD)
    assert decision.outcome is Outcome.REFUTED and decision.p_equivalence > 0.05
    assert words == "the effect goes the other way, though its estimate is within the margin of ×1.05"
    assert told(RATIO, math.log(1.2) + 0.03 * SPREAD)[1] == "the effect goes the other way"


def test_equivalence_whose_interval_excludes_zero_says_what_the_correction_did() -> None:
    values = math.log(1.011) + 0.015 * SPREAD
    assert t_interval(values, 0.95)[0] > 0
    decision, words = told(RATIO, values, family=20)
    assert decision.outcome is Outcome.EQUIVALENT and not decision.exists(0.05)
    before = 2 * max(t_test(values, 0.0, "greater"), sign_flip_p(values, 0.0, "greater"))
    numbers = f"p = {p_text(20 * before)} against zero, {p_text(before)} before correction for 20 claims"
    assert words == f"within the margin of ×1.05 by both tests; an effect of any size is not shown ({numbers})"


def test_an_interval_beyond_the_margin_that_decides_nothing_is_explained_by_the_correction() -> None:
    values = 0.5 + 0.7 * SPREAD
    assert t_interval(values, 0.95)[0] > 0.1
    decision, words = told(CLAIM, values, family=19)
    assert decision.outcome is Outcome.INCONCLUSIVE
    before = 2 * max(t_test(values, 0.1, "greater"), sign_flip_p(values, 0.1, "greater"))
    assert f"{p_text(19 * before)} against the margin, {p_text(before)} before correction for 19 claims)" in words
    assert "before correction" not in told(CLAIM, 0.2 + 0.7 * SPREAD, family=19)[1], "the interval includes the margin"


def test_an_effect_the_other_way_that_the_correction_leaves_undecided_is_not_compared_with_the_margin() -> None:
    values = -0.5 + 0.9 * SPREAD
    decision, words = told(CLAIM, values, family=19)
    assert decision.outcome is Outcome.INCONCLUSIVE and "for the other direction" in words
    assert "against the margin" not in words and "before correction for 19 claims" in words


def test_a_margin_is_written_like_an_effect() -> None:
    assert margin_text(RATIO) == "×1.05" and margin_text(RATIO, 2.0) == "×2" and margin_text(CLAIM) == "0.1"
