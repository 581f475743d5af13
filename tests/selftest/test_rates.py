"""Rows of the selftest: each fails if the judge is wrong in the way that the row is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from kymograph._claims.decision import Decided
from kymograph._claims.evidence import StudyEvidence
from kymograph._claims.judge import decide_claims
from kymograph._selftest import rates, worlds
from kymograph._selftest.rates import at_any_look, failing_rate_bounds, seeds_text, stopped
from kymograph._selftest.worlds import Row, Simulation, claim
from kymograph._statistics.power import ManySamples, t_power

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
Group = Callable[[Simulation], Iterator[Row]]
SIMULATION = Simulation(1500)


def failed(group: Group) -> list[Row]:
    """Returns the rows that fail."""
    return [row for row in group(SIMULATION) if not row.passed]


def test_p_values_that_are_too_small_fail_every_row_about_one_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("t_p", "sign_flip_p"):
        honest = getattr(ManySamples, name)
        monkeypatch.setattr(ManySamples, name, lambda self, *where, honest=honest: honest(self, *where) / 3)
    for group in (rates.no_effect, rates.at_the_margin, rates.equivalence):
        rows = list(group(Simulation(800)))
        assert all(not row.passed for row in rows if row.seeds == "20"), group
    assert "no effect, margin 1 sd" in {row.world for row in failed(rates.refutation)}
    assert failed(rates.skewed) and failed(rates.skewed_equivalence)


def test_families_without_a_correction_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "holm_many", lambda p: p)
    for group in (
        rates.no_effects,
        rates.some_effects,
        rates.family_at_the_margin,
        rates.skewed_at_the_margin,
    ):
        assert not any(row.passed for row in group(Simulation(400))), group


def test_looks_that_each_spend_all_of_alpha_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = worlds.decide_many
    spendthrift = lambda claims, values, looks=(): honest(claims, values, [one._replace(share=1.0) for one in looks])  # noqa: E731
    monkeypatch.setattr(worlds, "decide_many", spendthrift)
    assert {row.seeds.split(" of ")[1] for row in failed(rates.sequential)} == {"10", "20"}


def test_looks_that_wait_for_the_last_one_fail_as_the_measure_of_peeking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "at_any_look", lambda found: found[-1].directed)
    assert len(failed(rates.peeking)) == 1, "5 % is less than peeking costs"


def test_a_judge_that_finds_nothing_fails_the_rows_about_power(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ManySamples.t_p
    monkeypatch.setattr(ManySamples, "t_p", lambda self, *where: np.minimum(1.0, 3 * honest(self, *where)))
    assert len(failed(rates.power_fixed)) == 3 and len(failed(rates.power_sequential)) == 2


def test_a_rate_of_failing_seeds_without_its_uncertainty_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "binomial_upper_bound", lambda count, n, level: count / n)
    assert len(failed(rates.rare_failures)) == 4
    monkeypatch.setattr(rates, "decide_alone", lambda claim, values: _all_supported(len(values)))
    assert len(failed(rates.rare_failures)) == 7


def _all_supported(count: int) -> Decided:
    yes = np.ones((count, 1), dtype=bool)
    return Decided(yes, ~yes, ~yes)


@pytest.mark.usefixtures("shapes_unchecked")
def test_power_is_that_of_the_t_test_or_somewhat_less() -> None:
    alone, _, in_family = rates.power_fixed(Simulation(2000))
    assert t_power(1.0, 10) - 0.04 < alone.rate < t_power(1.0, 10) + 0.02
    assert in_family.rate < t_power(1.0, 10, 0.05 / 6) + 0.02
    few, more = rates.power_sequential(Simulation(2000))
    assert few.rate < alone.rate, "the price of looking more than once"
    assert float(more.seeds.split(" of ")[0]) < 15, "and what it buys"


@dataclass(frozen=True)
class FakeRun:
    arm: str
    seed: int
    summary: dict
    config: dict = field(default_factory=dict)
    series: dict = field(default_factory=dict)


@pytest.mark.usefixtures("shapes_unchecked")
def test_the_bound_on_failing_seeds_is_the_judges_own() -> None:
    one = claim("not less", 0.05)
    table = np.random.default_rng(0).normal(0.0, 0.1, (12, 10))
    bounds = failing_rate_bounds(table < -one.margin, one.alpha)
    for values, bound in zip(table, bounds, strict=True):
        runs = [FakeRun("one", seed, {"x": float(value)}) for seed, value in enumerate(values)]
        runs += [FakeRun("other", seed, {"x": 0.0}) for seed in range(len(values))]
        (verdict,) = decide_claims([one], StudyEvidence(runs), lambda _: "registered")
        assert verdict.failing_rate_bound == pytest.approx(bound, rel=1e-12)


NO = np.zeros((3, 1), dtype=bool)


def look(supported: list[bool], refuted: list[bool]) -> Decided:
    return Decided(np.array(supported)[:, None], np.array(refuted)[:, None], NO)


def test_a_world_stops_at_its_first_decision_and_what_follows_counts_only_at_any_look() -> None:
    looks = [
        look([True, False, False], [False] * 3),
        look([False] * 3, [True, True, False]),
        look([False] * 3, [False] * 3),
    ]
    found = stopped(looks)
    assert found.supported[:, 0].tolist() == [True, False, False]
    assert found.refuted[:, 0].tolist() == [False, True, False]
    assert seeds_text(looks, (6, 8, 10)) == "8.0 of 10"
    assert at_any_look(looks)[:, 0].tolist() == [True, True, False]


def test_a_family_goes_on_until_all_its_claims_are_decided() -> None:
    first = Decided(np.array([[True, False]]), np.zeros((1, 2), dtype=bool), np.zeros((1, 2), dtype=bool))
    both = Decided(np.ones((1, 2), dtype=bool), np.zeros((1, 2), dtype=bool), np.zeros((1, 2), dtype=bool))
    assert seeds_text([first, both, both], (10, 15, 20)) == "15.0 of 20"
