from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kymograph._claims.verdict import Verdicts
from kymograph._pictures.report_page.page import build_page
from kymograph._pictures.report_page.sections import group_settings, section_of
from kymograph._pictures.report_page.tables import Cell
from kymograph._pictures.series import displays_of
from kymograph._runs.declaration import Arm, Declaration, SeriesDisplay
from kymograph._runs.record import RunResult
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from tests.pictures.report.pages import NOW, declaring, make_runs, store_of
from tests.records import write_record


def test_every_setting_in_which_arms_differ_is_shown_and_none_of_the_others(tmp_path: Path) -> None:
    make_runs(tmp_path, arms=["calm"], config={"lr": 0.1, "clip": 1.0})
    make_runs(tmp_path, arms=["wild"], config={"lr": 0.3, "clip": 1.0}, seeds=range(20))
    store = make_runs(tmp_path, arms=["odd"], config={"lr": 0.1, "clip": 1.0, "momentum": 0.9})
    own = Declaration("own")
    setting = section_of(store, own).settings[0]
    assert setting.differing.header == ("lr", "momentum") and setting.shared == (("clip", "1.0"),)
    assert dict(setting.differing.rows) == {
        "calm": (Cell("", "0.1"), Cell("", "–")),
        "odd": (Cell("", "0.1"), Cell("0.9")),
        "wild": (Cell("0.3"), Cell("", "–")),
    }, "what most arms have is grey; a setting that an arm does not have is no value"
    assert "How the arms differ" in build_page(store, Verdicts(()), now=NOW)
    pair = section_of(store.select(arms=["calm", "wild"]), own).settings[0].differing
    assert dict(pair.rows) == {"calm": (Cell("0.1"),), "wild": (Cell("0.3"),)}, "of two, neither is what most have"
    alone = store.select(arms=["calm"])
    assert section_of(alone, own).settings[0].differing.rows == ()
    assert "How the arms differ" not in build_page(alone, Verdicts(()), now=NOW)


def test_arms_come_in_the_declared_order_and_share_panels_as_declared(tmp_path: Path) -> None:
    store = make_runs(tmp_path, arms=["a", "b", "c", "d"])
    arms = (Arm("c", "third", panel="upper"), Arm("a", "first", panel="lower"), Arm("b", "second", panel="upper"))
    (setting,) = section_of(store, Declaration("own", arms=arms)).settings
    assert [(arm.name, arm.about) for arm in setting.arms] == [
        ("c", "third"), ("a", "first"), ("b", "second"), ("d", "")
    ]  # fmt: skip
    loss = next(chart for chart in setting.charts if chart.id == "study-own-loss-curves")
    assert [(panel["title"], panel["arms"]) for panel in loss.data["panels"]] == [
        ("upper", ["c", "b"]), ("lower", ["a"]), ("other arms", ["d"])
    ]  # fmt: skip


def test_series_titles_units_time_and_forms_are_those_declared(tmp_path: Path) -> None:
    series = (
        SeriesDisplay("stream", "The stream", "‖h‖", forms=("profile", "kymograph")),
        SeriesDisplay("cosine", "At one site", "cos", site="h_1"),
        SeriesDisplay("cosine", "At another", "cos", site="h_2"),
        SeriesDisplay("cosine", "Nowhere", "cos", site="h_99"),
    )
    store = make_runs(tmp_path)
    (setting,) = section_of(store, Declaration("own", series=series, time="epoch")).settings
    assert [(chart.id, chart.title) for chart in setting.charts] == [
        ("study-own-cosine-curves", "At one site"),
        ("study-own-cosine-curves-2", "At another"),
        ("study-own-stream-kymograph", "The stream over training"),
        ("study-own-stream-profile", "The stream, along depth at the last epoch"),
    ]
    assert setting.charts[0].data["time"] == "epoch" and setting.charts[2].data["unit"] == "‖h‖"
    values = store.series("cosine").sel(arm="calm", site="h_1").values
    np.testing.assert_allclose(setting.charts[0].data["arms"][0]["values"], values, rtol=1e-4)
    assert setting.undrawn == ("loss",) and setting.notes == ()


@pytest.mark.science
def test_a_panel_that_cannot_be_drawn_leaves_a_note_and_the_rest_of_the_page(tmp_path: Path) -> None:
    series = (
        SeriesDisplay("loss", "Loss", "nats", forms=("violin", "curves")),
        SeriesDisplay("stream", "Stream", "‖h‖", forms=("curves",)),
        SeriesDisplay("cosine", "Cosine", "cos", forms=("nulls",), options={"nulls": 3}),
    )
    store = make_runs(tmp_path)
    declaration = Declaration("own", series=series)
    (setting,) = section_of(store, declaration).settings
    assert [chart.title for chart in setting.charts] == ["Loss"] and setting.undrawn == ("cosine", "stream")
    page = build_page(declaring(store, {"own": declaration}), Verdicts(()), now=NOW)
    for reason in ("no panel &#39;violin&#39;", "must name one as `site`", "needs `options`"):
        assert reason in page, reason


def test_a_series_kymograph_and_profile_are_next_to_each_other(tmp_path: Path) -> None:
    """All kymographs used to come first, so that each stood next to the profile of another series."""
    store = make_runs(tmp_path)
    (setting,) = section_of(store, Declaration("own")).settings
    assert [[chart.id.removeprefix("study-own-") for chart in group] for group in setting.chart_groups] == [
        ["loss-curves"],
        ["cosine-kymograph", "cosine-profile"],
        ["stream-kymograph", "stream-profile"],
    ]


def test_an_arm_without_a_series_leaves_the_others_their_colours(tmp_path: Path) -> None:
    make_runs(tmp_path, arms=("a", "b", "c"))
    store = store_of(tmp_path, {1: np.ones(3), 2: np.ones(3)}, arm="aa")
    (setting,) = section_of(store, Declaration("own")).settings
    loss = next(chart for chart in setting.charts if chart.id == "study-own-loss-curves")
    assert {arm.name: arm.style.colour for arm in setting.arms} == {"a": 0, "aa": 1, "b": 2, "c": 3}
    assert [arm["colour"] for arm in loss.data["arms"]] == [0, 2, 3]


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
