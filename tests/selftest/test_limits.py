from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from kymograph.claims.evidence import StudyEvidence
from kymograph.claims.family import decide_claims
from kymograph.selftest.rates import failing_rate_bounds
from kymograph.selftest.worlds import claim


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
