"""Claims at every point of a grid, and their verdicts taken together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import kymograph
from kymograph._claims.claim import Claim, Side
from kymograph._claims.grid import across_settings, claims_on_grid, grid_points, point_text
from kymograph._claims.verdict import Outcome, Verdict
from kymograph._errors import KymographError
from tests.cli.command import call
from tests.studies.tossing import REFERENCE, Tossing, claim


def test_every_claim_is_made_at_every_point() -> None:
    made = claims_on_grid([claim("one"), claim("two")], {"shift": [0.0, 3.0], "faces": [2]})
    assert [one.name for one in made] == [
        "one (shift 0.0, faces 2)", "one (shift 3.0, faces 2)", "two (shift 0.0, faces 2)", "two (shift 3.0, faces 2)",
    ]  # fmt: skip
    assert isinstance(made[1].right, Side) and made[1].right.where == {"shift": 3.0, "faces": 2}
    assert claims_on_grid([claim("one")], {}) == [claim("one")] and grid_points({}) == [{}]


def test_a_grid_is_one_family_with_a_verdict_per_point(tmp_path: Path) -> None:
    store = kymograph.run(REFERENCE, n_seeds=10, out=tmp_path, quiet=True, grid={"shift": [0.0, 3.0]})
    assert len(store.finished) == 40
    found = kymograph.judge(tmp_path, studies=[Tossing()])
    assert [(one.settings.get("shift"), one.registration, one.family_size) for one in found] == [
        (None, "registered", 2), (3.0, "registered", 2),
    ]  # fmt: skip
    assert found[1].outcome == "SUPPORTED" and found[0].outcome != "SUPPORTED"
    assert [one.claim.name for one in found] == ["tails is larger (shift 0.0)", "tails is larger (shift 3.0)"]
    without_code = kymograph.judge(tmp_path)
    assert [one.claim.name for one in without_code] == [one.claim.name for one in found]


def test_a_grid_that_makes_no_sense_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KymographError, match="shift is both set and varied"):
        kymograph.run(REFERENCE, seeds=[1], out=tmp_path, quiet=True, shift=1.0, grid={"shift": [0.0, 3.0]})
    with pytest.raises(KymographError, match="different values of shift"):
        kymograph.run(REFERENCE, seeds=[1], out=tmp_path, quiet=True, grid={"shift": [3.0, 3.0]})
    with pytest.raises(KymographError, match="has no setting 'shfit'"):
        kymograph.run(REFERENCE, seeds=[1], out=tmp_path, quiet=True, grid={"shfit": [3.0, 1.0]})
    assert call("run", REFERENCE, "--seeds", "1", "--grid", "shift", "--dir", str(tmp_path)) == 2
    assert "--grid takes FIELD=VALUE" in capsys.readouterr().err
    assert call("run", REFERENCE, "--seeds", "1", "--grid", "shift=0,1", "faces=2,3", "--dir", str(tmp_path)) == 0
    assert len(kymograph.Store.open(tmp_path).finished) == 8


def test_a_grid_of_two_settings_is_judged_in_the_order_in_which_it_was_registered(tmp_path: Path) -> None:
    """The log sorts keys, so claims used to be renamed, and registered and judged ones counted twice."""
    grid = {"shift": [0.0, 3.0], "faces": [2, 6]}
    kymograph.run(REFERENCE, n_seeds=10, out=tmp_path, quiet=True, grid=grid)
    found = kymograph.judge(tmp_path, studies=[Tossing()])
    assert {one.family_size for one in found} == {4} and {one.registration for one in found} == {"registered"}


def verdict(one: Claim) -> Verdict:
    return Verdict(one, Outcome.INCONCLUSIVE, "", "registered")


def test_the_points_of_a_grid_are_one_claim_and_others_stay_apart() -> None:
    made = claims_on_grid([claim("one"), replace(claim("two"), margin=0.5)], {"shift": [0.0, 3.0], "faces": [2]})
    first, second = across_settings(map(verdict, made))
    assert (first.name, second.name) == ("one", "two") and first.settings == ("shift",), "faces has one value"
    assert [first.point(one) for one in first.verdicts] == [{"shift": 0.0}, {"shift": 3.0}]
    assert point_text(first.point(first.verdicts[1])) == "shift 3.0"


def test_a_claim_without_a_grid_is_alone() -> None:
    (alone,) = across_settings([verdict(claim("one"))])
    assert alone.name == "one" and alone.settings == () and alone.point(alone.verdicts[0]) == {}


def test_a_claim_that_compares_settings_is_not_taken_apart() -> None:
    """Its two sides differ in a setting, and that is what it is about."""
    base = claim("one")
    pair = [
        replace(base, name=f"{low}", left=replace(base.left, where={"shift": low}),
                right=replace(base.left, where={"shift": 0.0}))
        for low in (1.0, 2.0)
    ]  # fmt: skip
    (group,) = across_settings(map(verdict, pair))
    assert group.settings == ("shift",)
