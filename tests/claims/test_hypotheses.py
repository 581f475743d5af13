"""From p-values to outcomes, for one sample and for many."""

from __future__ import annotations

import itertools

import numpy as np

from kymograph.claims.decision import PValues, decided

ALPHA = 0.05
GRID = (0.0, 0.01, ALPHA, 0.06, 1.0)


def spelled_out(support: float, refute: float, equivalence: float) -> tuple[bool, bool, bool]:
    if min(support, refute) <= ALPHA:
        return support <= refute, support > refute, False
    return False, False, equivalence <= ALPHA


def test_a_direction_comes_before_equivalence_and_alpha_itself_decides() -> None:
    rows = list(itertools.product(GRID, GRID, GRID))
    support, refute, equivalence = np.array(rows).T
    p = PValues(support, refute, equivalence, np.ones(len(rows)))
    many = decided(p, p.direction, p.equivalence, ALPHA)
    for index, row in enumerate(rows):
        one = PValues(*row, 1.0)
        alone = decided(one, one.direction, one.equivalence, ALPHA)
        assert tuple(map(bool, alone)) == tuple(bool(mask[index]) for mask in many) == spelled_out(*row)


def test_corrected_p_values_decide_whether_and_the_claims_own_which_way() -> None:
    p = PValues(0.01, 0.02, 0.03, 1.0)
    assert not any(decided(p, 0.06, 0.06, ALPHA))
    assert tuple(map(bool, decided(p, 0.06, 0.05, ALPHA))) == (False, False, True)
    assert tuple(map(bool, decided(p, 0.05, 0.05, ALPHA))) == (True, False, False)
