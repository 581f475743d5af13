from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kymograph.pictures.report.charts import ARMS_PER_PANEL, ArmGroup, group_arms
from kymograph.pictures.report.sections import group_settings
from kymograph.runs.declaration import Declaration, SeriesDisplay, displays_of
from kymograph.runs.record import RunResult, write_record
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from tests.pictures.report.pages import make_runs

ARMS = st.lists(st.text("abc", min_size=1), unique=True, max_size=30)


@given(ARMS, st.dictionaries(st.text("abc", min_size=1), st.sampled_from(["", "left", "right"])))
def test_every_arm_is_in_one_panel_with_arms_of_its_declared_panel_only(arms: list[str], declared: dict) -> None:
    groups = group_arms(arms, declared)
    assert sorted(arm for group in groups for arm in group.arms) == sorted(arms)
    for group in groups:
        assert 1 <= len(group.arms) <= ARMS_PER_PANEL
        assert len({declared.get(arm, "") for arm in group.arms}) == 1
        assert list(group.arms) == [arm for arm in arms if arm in group.arms], "in the order of the arms"


def test_panels_are_titled_by_their_declared_name_or_counted() -> None:
    many = [str(index) for index in range(14)]
    assert [len(group.arms) for group in group_arms(many)] == [5, 5, 4]
    assert [group.title for group in group_arms(many)] == [
        "arms 1 to 5 of 14",
        "arms 6 to 10 of 14",
        "arms 11 to 14 of 14",
    ]
    assert group_arms(["x", "y"]) == [ArmGroup("", ("x", "y"))] and group_arms([]) == []
    assert group_arms(["x", "z", "y"], {"x": "pair", "y": "pair"}) == [
        ArmGroup("pair", ("x", "y")),
        ArmGroup("other arms", ("z",)),
    ]


def test_declared_series_are_shown_in_their_order_and_undeclared_ones_if_none_is_declared() -> None:
    first, second, absent = (SeriesDisplay(name, name.title(), "u") for name in ("b", "a", "gone"))
    declared = Declaration("s", series=(first, absent, second))
    assert displays_of(declared, ["a", "b", "c"], []) == [first, second]
    names = ["deep", "loss", "null_x", "p_x"]
    assert [(one.series, one.forms) for one in displays_of(Declaration("s"), names, ["deep"])] == [
        ("deep", ("kymograph", "profile")),
        ("loss", ("curves",)),
    ]


def test_runs_are_kept_apart_by_settings_that_vary_within_an_arm(tmp_path: Path) -> None:
    make_runs(tmp_path, arms=["calm"], config={"task": "a"})
    store = make_runs(tmp_path, arms=["calm", "wild"], config={"task": "b", "lr": 0.3})
    groups = group_settings(store, {})
    assert [(group.title, sorted(group.store.arms)) for group in groups] == [
        ("lr: 0.1, task: a", ["calm"]),
        ("lr: 0.3, task: b", ["calm", "wild"]),
    ]
    assert [group.title for group in group_settings(store.select(arms=["wild"]), {})] == [""]


@pytest.mark.parametrize(
    ("old", "title"),
    [((1, "new"), "study version: 1"), ((2, "old"), "study source: old"), ((2, None), "study version: 2")],
)
def test_superseded_runs_come_last_and_say_so(tmp_path: Path, old: tuple, title: str) -> None:
    for version, source in (old, (2, "new")):
        spec = RunSpec("own", "arm", 1, {}, version, source)
        write_record(tmp_path, spec, RunResult({}, {}), {}, 0.1)
    groups = group_settings(Store.open(tmp_path), {"own": Declaration("own", version=2, source="new", stored=True)})
    assert [len(group.store) for group in groups] == [1, 1] and groups[0].title == ""
    assert groups[1].title.startswith("superseded, ") and title in groups[1].title
