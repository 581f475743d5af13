from __future__ import annotations

import pytest

from kymograph.selftest import rates as power
from kymograph.selftest.worlds import Simulation
from kymograph.statistics.power import t_power


@pytest.mark.usefixtures("shapes_unchecked")
def test_power_is_that_of_the_t_test_or_somewhat_less() -> None:
    alone, _, in_family = power.power_fixed(Simulation(2000))
    assert t_power(1.0, 10) - 0.04 < alone.rate < t_power(1.0, 10) + 0.02
    assert in_family.rate < t_power(1.0, 10, 0.05 / 6) + 0.02
    few, more = power.power_sequential(Simulation(2000))
    assert few.rate < alone.rate, "the price of looking more than once"
    assert float(more.seeds.split(" of ")[0]) < 15, "and what it buys"
