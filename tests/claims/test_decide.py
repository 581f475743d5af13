from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from kymograph.claims import decide
from kymograph.claims.claim import Claim, Measure, Quantity
from kymograph.claims.verdict import Outcome

SIDE = Quantity("a", Measure("x"))


def claim(direction: str = "greater", margin: float = 0.0, scale: str = "difference", alpha: float = 0.05) -> Claim:
    return Claim("c", "s", "own", "t", "o", SIDE, SIDE, direction, margin, scale, alpha)  # type: ignore[arg-type]


def told(one: Claim, values: np.ndarray, family: int = 1) -> Outcome:
    evidence = decide.weigh(one, values)
    p = decide.corrected([evidence.p] + [None] * (family - 1))[0]
    return decide.outcome(evidence, p, one.alpha)


differences = arrays(np.float64, st.integers(6, 14), elements=st.floats(-1e3, 1e3, width=32))
JITTER = np.array([0.1, -0.1, 0.05, -0.05, 0.02, -0.02, 0.07, -0.07])


@pytest.mark.parametrize(
    ("direction", "margin", "centre", "outcome"),
    [
        ("greater", 0.5, 1.0, Outcome.SUPPORTED),
        ("greater", 0.5, -1.0, Outcome.REFUTED),
        ("greater", 0.5, -0.2, Outcome.REFUTED),  # beyond zero in the other direction, though within the margin
        ("greater", 0.5, 0.0, Outcome.EQUIVALENT),
        ("greater", 0.5, 0.3, Outcome.EQUIVALENT),  # above zero and below what matters
        ("greater", 0.5, 0.5, Outcome.INCONCLUSIVE),
        ("greater", 0.0, 0.0, Outcome.INCONCLUSIVE),
        ("less", 0.5, -1.0, Outcome.SUPPORTED),
        ("less", 0.5, 1.0, Outcome.REFUTED),
        ("not less", 0.5, 0.0, Outcome.SUPPORTED),
        ("not less", 0.5, -0.2, Outcome.SUPPORTED),  # lower, but by less than what matters
        ("not less", 0.5, -1.0, Outcome.REFUTED),
        ("not less", 0.5, -0.5, Outcome.INCONCLUSIVE),
        ("not greater", 0.5, 0.2, Outcome.SUPPORTED),
        ("not greater", 0.5, 1.0, Outcome.REFUTED),
    ],
)
def test_the_outcome_follows_the_interval(direction: str, margin: float, centre: float, outcome: Outcome) -> None:
    assert told(claim(direction, margin), centre + JITTER) is outcome


def test_the_margin_of_a_ratio_is_a_ratio() -> None:
    assert told(claim("greater", 2.0, "log ratio"), math.log(3) + JITTER) is Outcome.SUPPORTED
    assert told(claim("greater", 4.0, "log ratio"), math.log(3) + JITTER) is Outcome.EQUIVALENT
    assert told(claim("greater", 2.0, "log ratio"), -math.log(3) + JITTER) is Outcome.REFUTED


@given(differences)
def test_swapping_the_arms_flips_supported_and_refuted(values: np.ndarray) -> None:
    swapped = {Outcome.SUPPORTED: Outcome.REFUTED, Outcome.REFUTED: Outcome.SUPPORTED}
    outcome, other = told(claim(), values), told(claim(), -values)
    assert other is swapped.get(outcome, outcome)


@given(differences, st.floats(0.01, 100))
def test_with_a_margin_swapping_the_arms_turns_supported_into_refuted(values: np.ndarray, margin: float) -> None:
    if told(claim("greater", margin), values) is Outcome.SUPPORTED:
        assert told(claim("greater", margin), -values) is Outcome.REFUTED


@given(differences, st.randoms(use_true_random=False), st.floats(0, 10))
def test_the_order_of_seeds_changes_nothing(values: np.ndarray, random: object, margin: float) -> None:
    shuffled = values.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, two = decide.weigh(claim("greater", margin), values), decide.weigh(claim("greater", margin), shuffled)
    assert one.p == pytest.approx(two.p, rel=1e-9)
    assert told(claim("greater", margin), values) is told(claim("greater", margin), shuffled)


@given(differences)
def test_both_tests_must_agree(values: np.ndarray) -> None:
    """Without a margin the p-values are the usual two-sided ones, and the larger counts."""
    evidence = decide.weigh(claim(), values)
    assert evidence.p == max(evidence.p_t, evidence.p_flip)
    if values.std() > 0:
        assert evidence.p_t == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue, abs=1e-8)
    if told(claim(), values) in (Outcome.SUPPORTED, Outcome.REFUTED):
        assert evidence.p_t <= 0.05 and evidence.p_flip <= 0.05


def test_ties_and_zero_variance_have_outcomes() -> None:
    nothing, same = np.zeros(8), np.full(8, 0.3)
    assert told(claim(), nothing) is Outcome.INCONCLUSIVE
    assert told(claim("greater", 0.1), nothing) is Outcome.EQUIVALENT
    assert told(claim("not less", 0.1), nothing) is Outcome.SUPPORTED
    assert told(claim("greater", 0.1), same) is Outcome.SUPPORTED
    assert told(claim("less", 0.1), same) is Outcome.REFUTED


def test_an_invalid_claim_still_counts_in_its_family() -> None:
    assert decide.corrected([0.01, None]) == [0.02, 1.0]
    values = 1.0 + JITTER
    assert told(claim(), values, family=6) is Outcome.SUPPORTED, "2 / 2^8 times 6 is 0.047"
    assert told(claim(), values, family=7) is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(("n", "largest"), [(6, 1), (8, 6), (10, 25)])
def test_planning_knows_how_large_a_family_seeds_can_carry(n: int, largest: int) -> None:
    assert decide.can_decide(n, largest, 0.05) and not decide.can_decide(n, largest + 1, 0.05)


def test_seeds_to_decide_reach_both_tests() -> None:
    evidence = decide.weigh(claim(), np.array([2.0, 1.0, -0.5, 1.5, 0.2, -0.4]))
    (alone, aim), (crowded, _) = decide.seeds_to_decide(evidence, 0.05, 1), decide.seeds_to_decide(evidence, 0.05, 20)
    assert aim is Outcome.SUPPORTED
    assert alone is not None and crowded is not None and 6 < alone < crowded
    assert decide.can_decide(crowded, 20, 0.05)


def test_an_effect_between_zero_and_the_margin_can_only_be_called_equivalent() -> None:
    values = np.array([0.9, -0.7, 0.6, 0.2, -0.4, 0.5, 0.1, -0.3])
    evidence = decide.weigh(claim("greater", 0.4), values)
    needed, aim = decide.seeds_to_decide(evidence, 0.05, 1)
    assert aim is Outcome.EQUIVALENT and needed is not None
    enough = np.tile(values, -(-4 * needed // len(values)))
    assert told(claim("greater", 0.4), enough) is Outcome.EQUIVALENT
