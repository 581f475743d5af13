"""The kinds of panel: what each draws from a series, and that a new kind is one file."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from kymograph import _registry as registry
from kymograph._claims.verdict import Verdicts
from kymograph._pictures.report_page.charts import Chart, ChartRequest
from kymograph._pictures.report_page.page import build_page
from kymograph._pictures.report_page.sections import PANELS
from kymograph._runs.declaration import Declaration, SeriesDisplay
from kymograph._runs.store import Store
from tests.pictures.report.pages import NOW, Outline, arm_in, declaring, make_runs, store_of


def draw(form: str, store: Store, log: bool | None = None, series: str = "x", **facts: object) -> Chart | None:
    """Returns one chart of a series."""
    return PANELS.load(form)(ChartRequest("c", store, SeriesDisplay(series, series, series, log=log, **facts)))  # type: ignore[arg-type]


def test_what_was_measured_as_zero_is_not_shown_as_missing(tmp_path: Path) -> None:
    store_of(tmp_path, {1: np.zeros(4), 2: np.zeros(4)})
    store = store_of(tmp_path, {1: np.ones(4)}, arm="other")
    chart = draw("curves", store, log=True)
    assert chart is not None and "exactly 0" in chart.caption
    arm = arm_in(chart.data, "arm")
    assert arm["values"] == [[0, 0, 0, 0], [0, 0, 0, 0]] and arm["n"] == [2, 2, 2, 2]
    store = store_of(tmp_path / "map", {1: np.concatenate([np.zeros((4, 2)), np.ones((4, 2))])})
    heat = draw("kymograph", store, log=True)
    assert heat is not None and "exactly 0" in str(heat.legend) and "not measured" not in str(heat.legend)
    assert heat.data["panels"][0]["values"][0][:4] == [0, 0, 0, 0]


def test_n_falls_where_seeds_drop_out(tmp_path: Path) -> None:
    gone = np.array([1.0, 2.0, np.nan, np.nan])
    chart = draw("curves", store_of(tmp_path, {1: gone, 2: gone, 3: np.arange(1.0, 5.0)}), log=False)
    assert chart is not None and chart.data["arms"][0]["n"] == [3, 3, 1, 1]
    assert "left out from that point on" in chart.caption and "arm (1 of 3 left)" in chart.caption


@pytest.mark.parametrize("form", ["kymograph", "profile"])
def test_an_arm_without_any_value_is_no_obstacle_to_the_others(tmp_path: Path, form: str) -> None:
    store_of(tmp_path, {1: np.full((3, 2), np.nan)}, arm="empty")
    chart = draw(form, store_of(tmp_path, {1: np.ones((3, 2)), 2: np.ones((3, 2))}))
    assert chart is not None and "over 2 seeds per arm" in chart.caption


@pytest.mark.parametrize("values", [[1e305, 1e-305, 1.0], [1.7e308, -1.7e308, 0.0], [5e-324, 1.0, 2.0], [5e-324] * 3])
@pytest.mark.parametrize("log", [True, False])
def test_the_largest_and_smallest_floats_are_drawn(tmp_path: Path, values: list[float], log: bool) -> None:
    chart = draw("curves", store_of(tmp_path, {1: np.array(values), 2: np.array(values)}), log=log)
    assert chart is None or "nan" not in str(chart.panels[0].picture)


def test_a_profile_has_each_arms_last_values_along_its_sites(tmp_path: Path) -> None:
    store = make_runs(tmp_path)
    chart = draw("profile", store, series="stream")
    assert chart is not None and chart.data["names"] == ["h_0", "h_1", "h_2", "h_3"]
    expected = store.series("stream").sel(arm="calm").values[:, -1]  # (seed, site)
    np.testing.assert_allclose(chart.data["arms"][0]["values"], expected, rtol=1e-4)
    assert draw("profile", store, series="loss") is None and draw("kymograph", store, series="loss") is None


STRIP = '''
"""Every seed's last value as a dot."""
from kymograph._pictures.report_page.charts import Chart, Key, Panel, table_data
from kymograph._pictures.report_page.svg import Frame, element, picture

PART = {"about": "every seed's last value as a dot", "order": 15}

def draw(request):
    array = request.array()
    rows = [(arm, seed, float(array.sel(arm=arm, seed=seed).values[-1]))
            for arm in array.labels["arm"] for seed in array.labels["seed"]]
    dots = [element("circle", class_="dot c0", data_tip=f"seed {seed}", cx=9.0, cy=9.0, r=2.0) for _, seed, _ in rows]
    panel = Panel("", picture(Frame(), request.display.title, *dots), (Key("dots", 0, f"n = {len(rows)}"),))
    return Chart(request.id, "Strip of " + request.display.title, (panel,), "From another package.",
                 table_data(("arm", "seed", "value"), rows))
'''


def test_a_panel_of_another_package_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    (site / "my_lab_panels-1.0.dist-info").mkdir(parents=True)
    (site / "my_lab_strip.py").write_text(STRIP)
    (site / "my_lab_panels-1.0.dist-info" / "METADATA").write_text("Name: my-lab-panels\nVersion: 1.0\n")
    (site / "my_lab_panels-1.0.dist-info" / "entry_points.txt").write_text("[kymograph.panels]\nstrip = my_lab_strip\n")
    monkeypatch.syspath_prepend(str(site))
    registry._in_packages.cache_clear()
    try:
        assert [name for name in PANELS.names() if name in ("curves", "strip")] == ["strip", "curves"]
        assert "my_lab_strip" not in sys.modules
        display = SeriesDisplay("loss", "Loss", "nats", forms=("curves", "strip"))
        store = make_runs(tmp_path / "runs")
        page = build_page(declaring(store, {"own": Declaration("own", series=(display,))}), Verdicts(()), now=NOW)
    finally:
        registry._in_packages.cache_clear()
        sys.modules.pop("my_lab_strip", None)
    outline = Outline(page)
    figures = [attributes["id"] for tag, attributes in outline.elements if tag == "figure"]
    assert figures == ["study-own-loss-strip", "study-own-loss-curves"], "in the order that the kinds declare"
    assert "Strip of Loss" in outline.text and "From another package." in outline.text
    assert len(next(chart for chart in outline.charts() if chart["kind"] == "table")["rows"]) == 6
