from __future__ import annotations

import dataclasses

import pytest

from kymograph.selftest.whole_path import selftest, worst_limit
from kymograph.selftest.worlds import MOST_ROWS, RateBound, Row

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


def test_few_worlds_give_every_row_and_none_fails_by_chance() -> None:
    rows = list(selftest(100))
    assert [row for row in rows if not row.passed] == []
    assert {row.kind for row in rows} == {"error", "power", "limit", "cost"}
    labels = [(row.world, row.seeds.split(" of ")[-1], row.what) for row in rows]
    assert len(set(labels)) == len(labels), "every row is told apart from every other"
    assert 70 < len(rows) <= MOST_ROWS, "of which one in a thousand selftests fails by chance"
    for bound in (row.bound for row in rows):
        assert bound.most < 1 or bound.least > 0, "every row can fail"
    assert any(row.rate > 0 for row in rows if row.kind == "error"), "and the numbers are measured"


def test_the_worst_limit_is_the_highest_rate_among_the_known_limits() -> None:
    row = Row("a", "6", 100, 0.0, 0.0, 0.0, "SUPPORTED", 20, RateBound(most=0.3), "limit")
    others = [dataclasses.replace(row, count=90, kind=kind) for kind in ("power", "error", "cost")]
    worst = dataclasses.replace(row, world="b", count=30)
    assert worst_limit([row, worst, *others]) is worst


@pytest.mark.slow
def test_every_rate_is_within_its_bound() -> None:
    rows = list(selftest(10_000))
    assert [row for row in rows if not row.passed] == []
    assert worst_limit(rows).rate > 0.5, "what the documentation owns up to"
