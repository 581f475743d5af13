from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kymograph.claims.claim import Check, Claim, Measure, Quantity
from kymograph.claims.judge import decide_claims
from kymograph.claims.pairing import World, asked
from kymograph.claims.verdict import Outcome, Verdict
from kymograph.errors import KymographError
from kymograph.runs.archive import Damaged
from kymograph.runs.record import RunSeries
from kymograph.runs.spec import RunSpec


@dataclass(frozen=True)
class FakeRun:
    arm: str
    seed: int
    summary: dict
    config: dict = field(default_factory=dict)
    series: dict = field(default_factory=dict)


X = Measure("x")
CLAIM = Claim("a above b", "s", "own", "t", "o", Quantity("a", X), Quantity("b", X), "greater", 0.1)


def planned(arm: str, seed: int, **settings: float) -> RunSpec:
    return RunSpec("s", arm, seed, settings, 1)


def runs(a: list[float], b: list[float], **config: object) -> list[FakeRun]:
    pairs = [("a", a), ("b", b)]
    return [FakeRun(arm, seed, {"x": value}, dict(config)) for arm, xs in pairs for seed, value in enumerate(xs)]


def told(world: World | list[FakeRun], *claims: Claim) -> list[Verdict]:
    world = world if isinstance(world, World) else World(world)
    return decide_claims(claims or [CLAIM], world, lambda claim: "registered")


LOW = [0.0, 0.1, 0.2, 0.3, 0.2, 0.1, 0.0, 0.1]
HIGH = [value + 1.0 + 0.01 * place for place, value in enumerate(LOW)]


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


@given(st.floats(1e-6, 1e6), st.lists(st.floats(0.1, 10), min_size=12, max_size=12))
def test_scaling_a_positive_quantity_changes_no_verdict_on_a_ratio(factor: float, values: list[float]) -> None:
    claim = replace(CLAIM, scale="log ratio", margin=1.5)
    a, b = values[:6], values[6:]
    one = told(runs(a, b), claim)[0]
    two = told(runs([factor * x for x in a], [factor * x for x in b]), claim)[0]
    assert one.outcome is two.outcome
    assert one.effect == pytest.approx(two.effect, rel=1e-6)


@pytest.mark.parametrize(
    ("world", "reason"),
    [
        (runs(HIGH[:5], LOW[:5]), "5 seeds, and fewer than 6"),
        (runs(HIGH, LOW[:7]), "seed 7 has a run in one arm only"),
        (runs([*HIGH[:7], math.inf], LOW), "diverged"),
        (runs([*HIGH[:7], math.nan], LOW), "is missing at seed 7"),
        (World(runs(HIGH, LOW), [planned("a", 8)]), "1 of 9 planned runs of a are missing (seed 8)"),
        (World(runs(HIGH, LOW), invalid=[Damaged("s", "b", 3, "id", "it was edited")]), "b at seed 3 does not count"),
        (World([*runs(HIGH, LOW, lr=1), *runs(HIGH, LOW, lr=2)]), "they differ in lr: choose with --where"),
        (World([*runs(HIGH, [], lr=1), *runs([], LOW, lr=2)], declared={"a": frozenset({"clip"})}), "differ in lr"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_invalid_with_the_reason(world: World | list[FakeRun], reason: str) -> None:
    (verdict,) = told(world)
    assert verdict.outcome is Outcome.INVALID and reason in verdict.reason
    assert verdict.p is None and verdict.row()["effect"] is None


def test_arms_may_differ_in_what_they_are_about() -> None:
    world = World(
        [*runs(HIGH, [], clip=True), *runs([], LOW, clip=False)], declared={"a": frozenset({"clip"}), "b": frozenset()}
    )
    assert told(world)[0].outcome is Outcome.SUPPORTED


def test_a_seed_that_was_planned_with_other_settings_is_not_missed() -> None:
    where = {"lr": 1}
    claim = replace(CLAIM, left=Quantity("a", X, where), right=Quantity("b", X, where))
    others = [planned("a", 99, lr=2), planned("a", 0, lr=1)]
    assert told(World(runs(HIGH, LOW, lr=1), others), claim)[0].outcome is Outcome.SUPPORTED


def test_declared_divergence_leaves_the_seed_out_and_says_so() -> None:
    (verdict,) = told(runs([*HIGH[:7], math.inf], LOW), replace(CLAIM, diverged="drop"))
    assert verdict.n == 7 and "seeds 7 diverged" in verdict.notes[0]


def test_a_ratio_needs_positive_numbers() -> None:
    claim = replace(CLAIM, scale="log ratio", margin=1.1)
    assert "needs positive numbers" in told(runs(HIGH, LOW), claim)[0].reason


def test_a_failed_check_is_the_reason_even_if_the_numbers_fail_too() -> None:
    check = Check("clipping fired", Quantity("a", Measure("fired")), least=0.0, strict=True)
    world = [replace(run, summary={**run.summary, "fired": 0.0}) for run in runs(HIGH, LOW[:7])]
    (verdict,) = told(world, replace(CLAIM, checks=(check,)))
    assert verdict.outcome is Outcome.INVALID
    assert verdict.reason == "it does not hold that clipping fired: fired (a) is 0 at 8 of 8 seeds"
    assert verdict.checks[0].passed is False
    passing = [replace(run, summary={**run.summary, "fired": 0.5}) for run in runs(HIGH, LOW)]
    assert told(passing, replace(CLAIM, checks=(check,)))[0].checks[0].passed


@pytest.mark.parametrize(("value", "passed"), [(0.0, False), (1.0, True), (2.0, False), (math.nan, False)])
def test_a_check_holds_within_its_bounds(value: float, passed: bool) -> None:
    check = Check("in range", Quantity("a", Measure("y")), 0.5, 1.5)
    world = [replace(run, summary={**run.summary, "y": value}) for run in runs(HIGH, LOW)]
    assert told(world, replace(CLAIM, checks=(check,)))[0].checks[0].passed is passed


def test_a_claim_against_a_number_needs_one_arm() -> None:
    claim = replace(CLAIM, right=0.5)
    (verdict,) = told(runs(HIGH, []), claim)
    assert verdict.outcome is Outcome.SUPPORTED and {point.right for point in verdict.points} == {0.5}


def test_claims_of_one_study_and_set_up_share_alpha() -> None:
    claims = [replace(CLAIM, name=str(number)) for number in range(7)]
    crowded = told(runs(HIGH, LOW), *claims)
    assert {verdict.outcome for verdict in crowded} == {Outcome.INCONCLUSIVE}
    assert all("cannot reach 0.05 in a family of 7" in verdict.notes[0] for verdict in crowded)
    apart = told(runs(HIGH, LOW), *claims[:4], *[replace(claim, setup="script") for claim in claims[4:]])
    assert {verdict.outcome for verdict in apart} == {Outcome.SUPPORTED}
    with pytest.raises(KymographError, match="names the family"):
        replace(CLAIM, setup="a family of its own")


def test_an_uncertain_claim_says_how_many_seeds_it_needs() -> None:
    (verdict,) = told(runs([0.6, 0.9, -0.4, 1.1, 0.2, 0.7], [0.0] * 6))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.seeds_needed is not None and f"{verdict.seeds_needed} seeds needed" in verdict.reason


def test_a_claim_whose_arms_were_never_asked_for_is_not_asked() -> None:
    assert asked(CLAIM, World(runs(HIGH, LOW)))
    assert not asked(CLAIM, World(runs(HIGH, [])))
    assert asked(CLAIM, World(runs(HIGH, []), [planned("b", 0)])), "deleting an arm does not hide the claim"


def test_a_number_that_no_run_has_is_named() -> None:
    claim = replace(CLAIM, left=Quantity("a", Measure("y")))
    assert "no summary 'y'" in told(runs(HIGH, LOW), claim)[0].reason


SERIES = RunSeries(np.arange(4), np.array([[1.0, 2.0], [2.0, 2.0], [3.0, 8.0], [2.0, 18.0]]), ("h_0", "h_1"))


@pytest.mark.parametrize(
    ("reduce", "site", "value"),
    [("last", "h_0", 2.0), ("first", "h_1", 2.0), ("growth", "last", 9.0), ("rises", "h_0", 2 / 3), ("max", "h_0", 3.0),
     ("min", "h_1", 2.0), ("mean", "h_0", 2.0), ("median", "h_1", 5.0), ("std", "h_0", math.sqrt(0.5)),
     ("depth slope", None, math.log(9.0))],
)  # fmt: skip
def test_a_series_becomes_one_number(reduce: str, site: str | None, value: float) -> None:
    from kymograph.claims.estimands import measure

    run = FakeRun("a", 0, {}, series={"h": SERIES})
    assert measure(run, Measure("h", reduce, site)) == pytest.approx(value)


def test_a_series_asked_for_wrongly_is_named() -> None:
    from kymograph.claims.estimands import measure

    run = FakeRun("a", 0, {"word": "x", "big": "Infinity", "none": None}, series={"h": SERIES})
    for what, words in ((Measure("h", "last"), "name one of them"), (Measure("h", "last", "h_9"), "no site 'h_9'"),
                        (Measure("g", "last"), "no series 'g'"), (Measure("word"), "a text")):  # fmt: skip
        with pytest.raises(KymographError, match=words):
            measure(run, what)
    assert measure(run, Measure("big")) == math.inf and math.isnan(measure(run, Measure("none")))
    with pytest.raises(KymographError, match="cannot be reduced by 'sum'"):
        Measure("h", "sum")


@pytest.mark.parametrize(
    ("change", "words"),
    [({"margin": -1.0}, "margin must be"), ({"scale": "log ratio", "margin": 0.5}, "ratio of at least 1"),
     ({"direction": "up"}, "direction must be"), ({"scale": "log"}, "scale must be"),
     ({"alpha": 0.9}, "alpha must lie")],
)  # fmt: skip
def test_a_claim_that_makes_no_sense_is_refused(change: dict, words: str) -> None:
    with pytest.raises(KymographError, match=words):
        replace(CLAIM, **change)


def test_the_hash_changes_with_anything_the_claim_says() -> None:
    assert CLAIM.hash == replace(CLAIM).hash
    for change in ({"margin": 0.2}, {"text": "u"}, {"direction": "less"}, {"alpha": 0.01}, {"right": 1.0}):
        assert replace(CLAIM, **change).hash != CLAIM.hash


def test_a_ratio_beyond_all_numbers_is_infinite_and_no_crash() -> None:
    claim = replace(CLAIM, scale="log ratio", margin=1.1)
    (verdict,) = told(runs([1e300, 1e-300] * 3, [1e-300, 1e300] * 3), claim)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.row()["interval"][1] == "Infinity"


def test_the_settings_that_a_reader_must_know_stand_with_the_verdict() -> None:
    (verdict,) = told(World(runs(HIGH, LOW, data="digits", lr=1), qualifying=("data",)))
    assert verdict.settings == {"data": "digits"} and verdict.row()["settings"] == {"data": "digits"}
