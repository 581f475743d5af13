"""Every kind of row fails if the judge is wrong in the way that the row is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from kymograph.selftest import rates as false_verdicts
from kymograph.selftest import rates as families
from kymograph.selftest import rates as limits
from kymograph.selftest import rates as looks
from kymograph.selftest import rates as power
from kymograph.selftest import worlds as many_decisions
from kymograph.selftest.worlds import Row, Simulation
from kymograph.statistics.power import ManySamples

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
    for group in (false_verdicts.no_effect, false_verdicts.at_the_margin, false_verdicts.equivalence):
        rows = list(group(Simulation(800)))
        assert all(not row.passed for row in rows if row.seeds == "20"), group
    assert "no effect, margin 1 sd" in {row.world for row in failed(false_verdicts.refutation)}
    assert failed(limits.skewed) and failed(limits.skewed_equivalence)


def test_families_without_a_correction_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_decisions, "holm_many", lambda p: p)
    for group in (
        families.no_effects,
        families.some_effects,
        families.family_at_the_margin,
        families.skewed_at_the_margin,
    ):
        assert not any(row.passed for row in group(Simulation(400))), group


def test_looks_that_each_spend_all_of_alpha_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = many_decisions.decide_many
    spendthrift = lambda claims, values, looks=(): honest(claims, values, [one._replace(share=1.0) for one in looks])  # noqa: E731
    monkeypatch.setattr(many_decisions, "decide_many", spendthrift)
    assert {row.seeds.split(" of ")[1] for row in failed(looks.sequential)} == {"10", "20"}


def test_looks_that_wait_for_the_last_one_fail_as_the_measure_of_peeking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "at_any_look", lambda found: found[-1].directed)
    assert len(failed(looks.peeking)) == 1, "5 % is less than peeking costs"


def test_a_judge_that_finds_nothing_fails_the_rows_about_power(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ManySamples.t_p
    monkeypatch.setattr(ManySamples, "t_p", lambda self, *where: np.minimum(1.0, 3 * honest(self, *where)))
    assert len(failed(power.power_fixed)) == 3 and len(failed(power.power_sequential)) == 2


def test_a_rate_of_failing_seeds_without_its_uncertainty_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "binomial_upper_bound", lambda count, n, level: count / n)
    assert len(failed(limits.rare_failures)) == 4
    monkeypatch.setattr(limits, "decide_alone", lambda claim, values: _all_supported(len(values)))
    assert len(failed(limits.rare_failures)) == 7


def _all_supported(worlds: int) -> many_decisions.ManyDecisions:
    yes = np.ones((worlds, 1), dtype=bool)
    return many_decisions.ManyDecisions(yes, ~yes, ~yes)
