from __future__ import annotations

import numpy as np

from kymograph.selftest.rates import at_any_look, seeds_text, stopped
from kymograph.selftest.worlds import ManyDecisions

NO = np.zeros((3, 1), dtype=bool)


def look(supported: list[bool], refuted: list[bool]) -> ManyDecisions:
    return ManyDecisions(np.array(supported)[:, None], np.array(refuted)[:, None], NO)


def test_a_world_stops_at_its_first_decision_and_what_follows_counts_only_at_any_look() -> None:
    looks = [look([True, False, False], [False] * 3), look([False] * 3, [True, True, False]), look([False] * 3, [False] * 3)]  # fmt: skip
    found = stopped(looks)
    assert found.supported[:, 0].tolist() == [True, False, False]
    assert found.refuted[:, 0].tolist() == [False, True, False]
    assert seeds_text(looks, (6, 8, 10)) == "8.0 of 10"
    assert at_any_look(looks)[:, 0].tolist() == [True, True, False]


def test_a_family_goes_on_until_all_its_claims_are_decided() -> None:
    first = ManyDecisions(np.array([[True, False]]), np.zeros((1, 2), dtype=bool), np.zeros((1, 2), dtype=bool))
    both = ManyDecisions(np.ones((1, 2), dtype=bool), np.zeros((1, 2), dtype=bool), np.zeros((1, 2), dtype=bool))
    assert seeds_text([first, both, both], (10, 15, 20)) == "15.0 of 20"
