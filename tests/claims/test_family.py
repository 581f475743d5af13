from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kymograph._claims.claim import Check, Claim, Measure, Side
from kymograph._claims.evidence import StudyEvidence, has_planned_runs
from kymograph._claims.judge import decide_claims
from kymograph._claims.verdict import Outcome, Verdict, setup_text
from kymograph._errors import KymographError
from kymograph._runs.declaration import Arm, Declaration
from kymograph._runs.directory import Damaged
from kymograph._runs.spec import RunSpec
from kymograph._statistics.intervals import t_interval


@dataclass(frozen=True)
class FakeRun:
    arm: str
    seed: int
    summary: dict
    config: dict = field(default_factory=dict)
    series: dict = field(default_factory=dict)


X = Measure("x")
CLAIM = Claim("a above b", "s", "t", Side("a", X), Side("b", X), "greater", 0.1, origin="o")


def planned(arm: str, seed: int, **settings: float) -> RunSpec:
    return RunSpec("s", arm, seed, settings, 1)


def runs(a: list[float], b: list[float], **config: object) -> list[FakeRun]:
    pairs = [("a", a), ("b", b)]
    return [FakeRun(arm, seed, {"x": value}, dict(config)) for arm, xs in pairs for seed, value in enumerate(xs)]


def about(**settings: str) -> Declaration:
    """Returns a declaration with one setting that each arm is about."""
    return Declaration("s", arms=tuple(Arm(arm, treatment={name: True}) for arm, name in settings.items()))


def told(evidence: StudyEvidence | list[FakeRun], *claims: Claim) -> list[Verdict]:
    evidence = evidence if isinstance(evidence, StudyEvidence) else StudyEvidence(evidence)
    return decide_claims(claims or [CLAIM], evidence, lambda claim: "registered")


LOW = [0.0, 0.1, 0.2, 0.3, 0.2, 0.1, 0.0, 0.1]
HIGH = [value + 1.0 + 0.01 * index for index, value in enumerate(LOW)]
NEAR = [value + 0.001 * (index - 3.5) for index, value in enumerate(LOW)]


def test_a_verdict_carries_its_evidence() -> None:
    (verdict,) = told(runs(HIGH, LOW))
    assert verdict.outcome is Outcome.SUPPORTED and verdict.n == 8
    differences = np.array(HIGH) - np.array(LOW)
    assert verdict.effect == pytest.approx(differences.mean())
    assert [point.seed for point in verdict.points] == list(range(8))
    assert verdict.interval[0] < verdict.effect < verdict.interval[1]  # type: ignore[index]
    assert verdict.superiority[0] == 1.0 and verdict.p == 2 * 2 / 2**9  # type: ignore[index]
    row = verdict.row()
    wanted = {"claim", "study", "setup", "origin", "verdict", "reason", "effect", "interval", "p", "n"}
    assert wanted <= set(row) and row["verdict"] == "SUPPORTED"


@given(st.randoms(use_true_random=False))
def test_the_order_of_runs_changes_nothing(random) -> None:
    shuffled = runs(HIGH, LOW)
    random.shuffle(shuffled)
    assert told(shuffled) == told(runs(HIGH, LOW))


def test_swapping_the_arms_flips_the_verdict() -> None:
    swapped = replace(CLAIM, left=CLAIM.right, right=CLAIM.left)
    assert told(runs(HIGH, LOW), swapped)[0].outcome is Outcome.REFUTED


@settings(max_examples=40)
@given(st.floats(1e-6, 1e6), st.lists(st.floats(0.1, 10), min_size=12, max_size=12, unique=True))
def test_scaling_a_positive_quantity_changes_no_verdict_on_a_ratio(factor: float, values: list[float]) -> None:
    claim = replace(CLAIM, scale="log ratio", margin=1.5)
    a, b = values[:6], values[6:]
    one = told(runs(a, b), claim)[0]
    two = told(runs([factor * x for x in a], [factor * x for x in b]), claim)[0]
    assert one.outcome is two.outcome
    assert one.effect == (None if two.effect is None else pytest.approx(two.effect, rel=1e-6))


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (runs(HIGH[:5], LOW[:5]), "5 seeds, and fewer than 6"),
        (runs(HIGH, LOW[:7]), "seed 7 has a run in one arm only"),
        (runs([*HIGH[:7], math.inf], LOW), "diverged"),
        (runs([*HIGH[:7], math.nan], LOW), "is missing at seed 7"),
        (runs([1.7e308 - 1e300 * i for i in range(6)], [-1.7e308] * 6), "as large as 1.7e+308: its statistics would"),
        (runs([*HIGH[:7], -1.7e308], LOW), "a number at seed 7 is as large as 1.7e+308"),
        (StudyEvidence(runs(HIGH, LOW), [planned("a", 8)]), "1 of 9 planned runs of a are missing (seed 8)"),
        (
            StudyEvidence(runs(HIGH, LOW), invalid=[Damaged("s", "b", 3, "id", "it was edited")]),
            "b at seed 3 does not count",
        ),
        (StudyEvidence([*runs(HIGH, LOW, lr=1), *runs(HIGH, LOW, lr=2)]), "they differ in lr: choose with --where"),
        (StudyEvidence([*runs(HIGH, [], lr=1), *runs([], LOW, lr=2)], declaration=about(a="clip")), "differ in lr"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_invalid_with_the_reason(evidence: StudyEvidence | list[FakeRun], reason: str) -> None:
    (verdict,) = told(evidence)
    assert verdict.outcome is Outcome.INVALID and reason in verdict.reason
    assert verdict.p is None and verdict.row()["effect"] is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("claim", "size"), [(CLAIM, 1e302), (replace(CLAIM, scale="log ratio", margin=1.5), 1e308)])
def test_numbers_just_below_the_largest_are_judged(claim: Claim, size: float) -> None:
    (verdict,) = told(runs([size * value / 2 for value in HIGH], [value / size + 1e-300 for value in HIGH]), claim)
    assert verdict.outcome is Outcome.SUPPORTED and verdict.p == told(runs(HIGH, LOW))[0].p


def test_arms_may_differ_in_what_they_are_about() -> None:
    evidence = StudyEvidence([*runs(HIGH, [], clip=True), *runs([], LOW, clip=False)], declaration=about(a="clip"))
    assert told(evidence)[0].outcome is Outcome.SUPPORTED


def test_a_seed_that_was_planned_with_other_settings_is_not_missed() -> None:
    where = {"lr": 1}
    claim = replace(CLAIM, left=Side("a", X, where), right=Side("b", X, where))
    others = [planned("a", 99, lr=2), planned("a", 0, lr=1)]
    assert told(StudyEvidence(runs(HIGH, LOW, lr=1), others), claim)[0].outcome is Outcome.SUPPORTED


def test_declared_divergence_leaves_the_seed_out_and_says_so() -> None:
    (verdict,) = told(runs([*HIGH[:7], math.inf], LOW), replace(CLAIM, diverged="drop"))
    assert verdict.n == 7 and "seeds 7 diverged" in verdict.notes[0]


def test_a_ratio_needs_positive_numbers() -> None:
    claim = replace(CLAIM, scale="log ratio", margin=1.1)
    assert "needs positive numbers" in told(runs(HIGH, LOW), claim)[0].reason


def test_a_failed_check_is_the_reason_even_if_the_numbers_fail_too() -> None:
    check = Check("clipping fired", Side("a", Measure("fired")), least=0.0, strict=True)
    evidence = [replace(run, summary={**run.summary, "fired": 0.0}) for run in runs(HIGH, LOW[:7])]
    (verdict,) = told(evidence, replace(CLAIM, checks=(check,)))
    assert verdict.outcome is Outcome.INVALID
    assert verdict.reason == 'the check "clipping fired" failed: fired (a) is 0 at 8 of 8 seeds'
    assert verdict.checks[0].passed is False
    passing = [replace(run, summary={**run.summary, "fired": 0.5}) for run in runs(HIGH, LOW)]
    assert told(passing, replace(CLAIM, checks=(check,)))[0].checks[0].passed


@pytest.mark.parametrize(("value", "passed"), [(0.0, False), (1.0, True), (2.0, False), (math.nan, False)])
def test_a_check_holds_within_its_bounds(value: float, passed: bool) -> None:
    check = Check("in range", Side("a", Measure("y")), 0.5, 1.5)
    evidence = [replace(run, summary={**run.summary, "y": value}) for run in runs(HIGH, LOW)]
    assert told(evidence, replace(CLAIM, checks=(check,)))[0].checks[0].passed is passed


def test_a_claim_against_a_number_needs_one_arm() -> None:
    claim = replace(CLAIM, right=0.5)
    (verdict,) = told(runs(HIGH, []), claim)
    assert verdict.outcome is Outcome.SUPPORTED and {point.right for point in verdict.points} == {0.5}


def test_claims_of_one_study_share_alpha_in_whatever_set_up() -> None:
    claims = [replace(CLAIM, name=str(number), setup="own" if number < 4 else "script") for number in range(7)]
    crowded = told(runs(HIGH, LOW), *claims)
    assert {verdict.outcome for verdict in crowded} == {Outcome.INCONCLUSIVE}
    assert {verdict.family_size for verdict in crowded} == {7}
    fewer = told(runs(HIGH, LOW), *claims[:6])
    assert {verdict.outcome for verdict in fewer} == {Outcome.SUPPORTED}
    assert replace(CLAIM, setup="a label of its own").family == CLAIM.family, "a label makes no family"


def test_claims_that_are_registered_and_not_judged_share_alpha() -> None:
    (alone,) = told(runs(HIGH, LOW))
    (verdict,) = told(StudyEvidence(runs(HIGH, LOW), unjudged_claims=5))
    assert verdict.p == 6 * alone.p and verdict.family_size == 6  # type: ignore[operator]


def test_too_few_seeds_for_the_family_are_the_reason_and_not_uncertainty() -> None:
    (verdict,) = told(StudyEvidence(runs(HIGH, LOW), unjudged_claims=6))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.reason == "8 seeds cannot reach 0.05 in a family of 7; 9 seeds needed for 80 % power to support it"
    (sure,) = told(StudyEvidence(runs([1.5 + 1e-9 * seed for seed in range(6)], [0.5] * 6), unjudged_claims=1))
    few = "6 seeds cannot reach 0.05 in a family of 2; 7 seeds needed for 80 % power to support it"
    assert sure.reason == few, "with hardly any variance"
    (same,) = told(StudyEvidence(runs(NEAR, LOW), unjudged_claims=8))
    assert same.outcome is Outcome.EQUIVALENT, "equivalence is one-sided, and 9 / 2^8 is below 0.05"
    assert "8 seeds could not have shown an effect at 0.05 in a family of 9" in same.notes


def test_an_uncertain_claim_says_how_many_seeds_it_needs() -> None:
    (verdict,) = told(runs([0.6, 0.9, -0.4, 1.1, 0.2, 0.7], [0.0] * 6))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.seeds_needed is not None
    assert verdict.reason.endswith(f"; {verdict.seeds_needed} seeds needed for 80 % power to support it")


def test_a_note_on_one_claim_says_so_of_one() -> None:
    (verdict,) = told(StudyEvidence(runs(HIGH, LOW), unjudged_claims=1))
    assert "1 more registered claim shares the level and is not judged here" in verdict.notes


def test_a_claim_whose_arms_were_never_asked_for_is_not_asked() -> None:
    assert has_planned_runs(CLAIM, StudyEvidence(runs(HIGH, LOW)))
    assert not has_planned_runs(CLAIM, StudyEvidence(runs(HIGH, [])))
    assert has_planned_runs(CLAIM, StudyEvidence(runs(HIGH, []), [planned("b", 0)])), (
        "deleting an arm does not hide the claim"
    )


def test_a_number_that_no_run_has_is_named() -> None:
    claim = replace(CLAIM, left=Side("a", Measure("y")))
    assert "no summary 'y'" in told(runs(HIGH, LOW), claim)[0].reason


def test_a_real_effect_below_the_margin_is_reported_as_that() -> None:
    small = [value + 0.06 + 0.03 * (index % 3) for index, value in enumerate(LOW)]
    (verdict,) = told(runs(small, LOW))
    assert verdict.outcome is Outcome.INCONCLUSIVE and verdict.p == verdict.p_margin == 1.0
    assert verdict.p_zero == 2 / 2**8
    wanted = (
        "the effect is real but smaller than the margin of 0.1 (p = 0.0078 against zero, 1.0000 against the margin)"
    )
    assert verdict.reason.startswith(wanted)
    wide = replace(CLAIM, margin=10.0, scale="log ratio")
    (within,) = told(runs([2.03 + 0.01 * value for value in LOW], [1.0] * 8), wide)
    assert within.outcome is Outcome.EQUIVALENT
    assert within.reason == "the effect is real but smaller than the margin of ×10 (p = 0.0078 against zero)"
    (apart,) = told(runs([2.03 + 0.01 * value for value in LOW], [1.0] * 8), replace(wide, equivalence_margin=1.1))
    assert apart.outcome is Outcome.INCONCLUSIVE and "the effect is real" in apart.reason
    assert apart.seeds_needed is None and "no number of seeds" in apart.reason
    (none,) = told(runs([value + 0.001 * (-1) ** index for index, value in enumerate(LOW)], LOW))
    assert none.outcome is Outcome.EQUIVALENT and none.reason == "within the margin of 0.1 by both tests"


def test_a_real_effect_that_may_exceed_the_margin_is_reported_as_that() -> None:
    (verdict,) = told(runs([0.05, 0.06, 0.5, 0.4, 0.1, 0.3, 0.2, 0.04], [0.0] * 8))
    assert verdict.outcome is Outcome.INCONCLUSIVE and verdict.p_zero == pytest.approx(0.0129, abs=1e-4)
    assert verdict.reason.startswith("the effect is real but uncertain against the margin of 0.1 (p = 0.0129 against")


def test_the_interval_of_equivalence_follows_alpha() -> None:
    strict = replace(CLAIM, alpha=0.01)
    small = [value + 0.02 * (-1) ** index for index, value in enumerate(LOW)]
    (verdict,), (other,) = told(runs(small, LOW)), told(runs(small, LOW), strict)
    values = np.array(small) - np.array(LOW)
    assert verdict.equivalence_interval == pytest.approx(t_interval(values, 0.90))
    assert other.equivalence_interval == pytest.approx(t_interval(values, 0.98))
    assert other.row()["equivalence_level"] == 0.98
    # A claim of equality is decided at alpha / 2 on each side; where nothing is tested, nothing is shown.
    (equal,) = told(runs(small, LOW), replace(CLAIM, direction="equal"))
    assert equal.equivalence_interval == pytest.approx(t_interval(values, 0.95)) and equal.equivalence_level == 0.95
    (untested,) = told(runs(small, LOW), replace(CLAIM, margin=0.0))
    assert untested.equivalence_interval is None and untested.row()["equivalence_level"] is None


def test_a_claim_of_absence_lists_the_seeds_that_fail() -> None:
    """One seed in ten loses 0.5 of accuracy; the mean alone does not show it."""
    claim = replace(CLAIM, direction="not less", margin=0.2)
    level = [0.9 + 0.001 * seed for seed in range(10)]
    once = [value - (0.5 if seed == 3 else 0.002 * (seed - 4.5)) for seed, value in enumerate(level)]
    (verdict,) = told(runs(once, level), claim)
    assert verdict.failing_seeds == (3,)
    assert verdict.failing_rate_bound == pytest.approx(stats.binomtest(1, 10).proportion_ci(0.90).high)
    assert verdict.notes[-1] == "1 of 10 seeds fail: 3 (rate at most 39 %)"
    (clean,) = told(runs([1.01 * value for value in level], level), claim)
    assert clean.outcome is Outcome.SUPPORTED and clean.failing_seeds == ()
    assert clean.notes[-1] == "0 of 10 seeds fail (rate at most 26 %)"
    assert clean.row()["failing_rate_bound"] == pytest.approx(1 - 0.05**0.1)
    (upward,) = told(runs(level, once), replace(claim, direction="not greater"))
    assert upward.failing_seeds == (3,)
    (either,) = told(runs(once, level), replace(claim, direction="equal"))
    assert either.failing_seeds == (3,)
    (all_fail,) = told(runs([0.01 * seed for seed in range(8)], [0.9] * 8), claim)
    assert all_fail.notes[-1] == "8 of 8 seeds fail"
    assert told(runs(HIGH, LOW))[0].failing_seeds is None


def test_equal_is_two_sided() -> None:
    level = replace(CLAIM, right=0.0, direction="equal", margin=0.1)
    for pair, outcome in (
        ([0.01, -0.02], Outcome.SUPPORTED),
        ([0.5, 0.51], Outcome.REFUTED),
        ([-0.5, -0.51], Outcome.REFUTED),
        ([0.09, 0.12], Outcome.INCONCLUSIVE),
    ):
        assert told(runs(pair * 4, []), level)[0].outcome is outcome
    assert told(runs([0.01, -0.02] * 4, []), level)[0].reason == "equal within 0.1"


INTERACTION = replace(CLAIM, interaction=(Side("c", X), Side("d", X)))


def four(a: list[float], b: list[float], c: list[float], d: list[float], **config: object) -> list[FakeRun]:
    arms = zip("abcd", (a, b, c, d), strict=True)
    return [FakeRun(arm, seed, {"x": value}, dict(config)) for arm, xs in arms for seed, value in enumerate(xs)]


def test_an_interaction_is_a_difference_of_differences() -> None:
    (verdict,) = told(four(HIGH, LOW, [value + 0.2 for value in LOW], LOW), INTERACTION)
    assert verdict.outcome is Outcome.SUPPORTED
    assert verdict.effect == pytest.approx((np.array(HIGH) - np.array(LOW)).mean() - 0.2)
    point = verdict.points[0]
    assert point.parts == (1.0, 0.0, 0.2, 0.0) and (point.left, point.right) == (1.0, 0.2)
    assert verdict.row()["points"][0]["parts"] == [1.0, 0.0, 0.2, 0.0]
    assert verdict.superiority[0] == 1.0  # type: ignore[index]
    (nothing,) = told(four(NEAR, LOW, LOW, LOW), INTERACTION)
    assert nothing.effect == pytest.approx(0.0, abs=1e-12) and nothing.outcome is Outcome.EQUIVALENT
    swapped = replace(INTERACTION, left=Side("c", X), right=Side("d", X), interaction=(CLAIM.left, CLAIM.right))  # type: ignore[arg-type]
    assert told(four(HIGH, LOW, LOW, LOW), swapped)[0].outcome is Outcome.REFUTED


def test_an_interaction_on_the_log_scale_is_a_ratio_of_ratios() -> None:
    claim = replace(INTERACTION, scale="log ratio", margin=1.5)
    noise = [1.0 + 0.01 * index for index in range(8)]
    a, b, c, d = ([factor * value for value in noise] for factor in (12.0, 2.0, 3.0, 1.0))
    a = [value * (1 + 1e-9 * index**2) for index, value in enumerate(a)]  # or every seed would give the same number
    (verdict,) = told(four(a, b, c, d), claim)
    assert verdict.effect == pytest.approx(2.0) and verdict.points[0].left == pytest.approx(6.0)
    (huge,) = told(four([1e300 * one for one in noise], [1e-300] * 8, [1e-300] * 8, [1e300] * 8), claim)
    assert huge.outcome is Outcome.SUPPORTED and huge.row()["points"][0]["left"] == "Infinity"
    assert "needs positive numbers" in told(four(a, b, c, [0.0] * 8), claim)[0].reason


def test_pairing_and_checks_apply_to_all_four_quantities() -> None:
    whole = four(NEAR, LOW, LOW, LOW)
    assert not has_planned_runs(INTERACTION, StudyEvidence([run for run in whole if run.arm != "d"]))
    for arm in "abcd":
        evidence = StudyEvidence([run for run in whole if (run.arm, run.seed) != (arm, 7)])
        assert "seed 7 has a run in some arms only" in told(evidence, INTERACTION)[0].reason
        other = [replace(run, config={"lr": 2}) if run.arm == arm else replace(run, config={"lr": 1}) for run in whole]
        declared = dict.fromkeys("abcd", "clip")
        assert "differ in lr" in told(StudyEvidence(other, declaration=about(**declared)), INTERACTION)[0].reason
        varied = about(**{**declared, arm: "lr"})
        assert told(StudyEvidence(other, declaration=varied), INTERACTION)[0].outcome is Outcome.EQUIVALENT
    missing = StudyEvidence(whole, [planned("d", 8)])
    assert "1 of 9 planned runs of d are missing" in told(missing, INTERACTION)[0].reason
    gone = [replace(run, summary={"x": math.inf}) if (run.arm, run.seed) == ("c", 2) else run for run in whole]
    assert "x (c) is not finite at seed 2" in told(gone, INTERACTION)[0].reason


def test_a_row_holds_everything_a_verdict_was_decided_from() -> None:
    check = Check("it ran", Side("a", X), least=0.0)
    base = [0.1, 0.9, 0.4, 0.7, 0.2, 0.5, 0.8, 0.3, 0.6, 1.0]
    other = [value + 0.05 + 0.01 * index for index, value in enumerate(base)]
    (verdict,) = told(StudyEvidence(runs(other, base), unjudged_claims=2), replace(CLAIM, checks=(check,)))
    row = json.loads(json.dumps(verdict.row(), allow_nan=False))
    for name in ("p", "p_t", "p_flip", "p_zero", "p_margin", "p_equivalence", "tost_p", "tost_flip_p", "hedges_g",
                 "improvement", "pairing_gain"):  # fmt: skip
        assert isinstance(row[name], float), name
    for name in ("interval", "equivalence_interval", "bca"):
        assert len(row[name]) == 2 and row[name][0] < row[name][1]
    assert len(row["superiority"]) == 3 and row["family"] == "s" and row["family_size"] == 3
    assert row["checks"] == [{"text": "it ran", "passed": True, "found": "x (a) is 0.15 to 1.14"}]
    assert row["registration"] == "registered" and row["registered"] == {}
    assert row["pairing_gain"] > 5, "the seeds differ far more than the arms"
    assert replace(verdict, registered={"digest": "abc"}).row()["registered"] == {"digest": "abc"}
    (number,) = told(runs(other, []), replace(CLAIM, right=0.5))
    assert number.pairing_gain is None


def test_a_ratio_beyond_all_numbers_is_infinite_and_no_crash() -> None:
    claim = replace(CLAIM, scale="log ratio", margin=1.1)
    (verdict,) = told(runs([1e300, 1e-300] * 3, [1e-300, 1e300] * 3), claim)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.row()["interval"][1] == "Infinity"


def test_the_settings_that_a_reader_must_know_stand_with_the_verdict() -> None:
    (verdict,) = told(
        StudyEvidence(runs(HIGH, LOW, data="digits", lr=1), declaration=Declaration("s", qualifying=("data",)))
    )
    assert verdict.settings == {"data": "digits"} and verdict.row()["settings"] == {"data": "digits"}


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        ([0.9] * 10, [0.9] * 10, "every seed gives the same number (0.9 against 0.9)"),
        ([1.5] * 10, [0.5] * 10, "every seed gives the same number (1.5 against 0.5)"),
        ([0.9] * 7 + [0.8, 0.7, 0.6], [0.9] * 10, "7 of 10 seeds give the same number (0.9 against 0.9)"),
        ([0.1 * seed for seed in range(10)], [0.1 * seed for seed in range(10)], "every seed gives the same number:"),
        # The same sum in another order, and the same difference of decimal accuracies: equal but for rounding.
        (
            [1.3 * seed * (1 + 2e-16 * (seed % 3)) for seed in range(1, 11)],
            [1.3 * seed for seed in range(1, 11)],
            "every seed gives the same number:",
        ),
        (
            [0.01 * seed + 0.1 for seed in range(10)],
            [0.01 * seed for seed in range(10)],
            "every seed gives the same number:",
        ),
    ],
)
@pytest.mark.parametrize("direction", ["greater", "not less", "equal"])
def test_no_verdict_rests_on_a_ceiling_a_floor_or_an_identity(
    left: list[float], right: list[float], words: str, direction: str
) -> None:
    """ "Rare accuracy is not worse" was SUPPORTED with all twenty runs at 0.9."""
    (verdict,) = told(runs(left, right), replace(CLAIM, direction=direction, margin=0.05))  # type: ignore[arg-type]
    assert verdict.outcome is Outcome.INVALID and words in verdict.reason
    assert "a ceiling, a floor or an identity" in verdict.reason


def test_ties_in_half_of_the_seeds_are_no_ceiling() -> None:
    left = [0.9] * 5 + [0.91, 0.92, 0.93, 0.94, 0.95]
    assert told(runs(left, [0.9] * 10))[0].outcome is not Outcome.INVALID


def test_tiny_numbers_that_vary_with_the_seed_are_no_identity() -> None:
    """What rounding can do is relative to the numbers that are compared, whatever their size."""
    (verdict,) = told(
        runs([1e-14 * (seed + 2) for seed in range(10)], [1e-15 * seed**2 for seed in range(10)]),
        replace(CLAIM, margin=0.0),
    )
    assert verdict.outcome is not Outcome.INVALID


def test_a_manipulation_check_is_no_finding() -> None:
    check = replace(CLAIM, kind="manipulation check")
    assert check.hash != CLAIM.hash and "kind" not in CLAIM.content
    (verdict,) = told(runs(HIGH, LOW), check)
    assert verdict.row()["kind"] == "manipulation check" and "s, manipulation check, own" in setup_text(verdict)
    with pytest.raises(KymographError, match="kind must be"):
        replace(CLAIM, kind="something else")  # type: ignore[arg-type]


def test_an_arm_without_runs_is_named_with_what_it_lacks() -> None:
    (verdict,) = told([FakeRun("b", seed, {"x": value}) for seed, value in enumerate(LOW)])
    assert verdict.outcome is Outcome.INVALID and "no finished run of a has x" in verdict.reason
