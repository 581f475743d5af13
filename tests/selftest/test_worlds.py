from __future__ import annotations

import numpy as np
import pytest

from kymograph.selftest.worlds import LAWS, Simulation, claim


@pytest.mark.parametrize("law", LAWS)
def test_worlds_of_a_name_are_the_same_whatever_else_is_drawn(law: str) -> None:
    one = Simulation(50, seed=3).draw(law, 2, 6, name="a")
    assert one.shape == (50, 2, 6)
    np.testing.assert_array_equal(one, Simulation(50, seed=3).draw(law, 2, 6, name="a"))
    assert not np.allclose(one, Simulation(50, seed=3).draw(law, 2, 6, name="b"))
    assert not np.allclose(one, Simulation(50, seed=4).draw(law, 2, 6, name="a"))


@pytest.mark.parametrize("law", ["normal", "lognormal"])
def test_every_law_has_the_mean_zero(law: str) -> None:
    values = Simulation(200_000).draw(law, 2, name="mean")
    assert abs(values.mean()) < 5 * values.std() / np.sqrt(values.size)


def test_a_claim_has_its_direction_and_margin() -> None:
    assert (claim("not less", 0.5).direction, claim("not less", 0.5).margin) == ("not less", 0.5)
